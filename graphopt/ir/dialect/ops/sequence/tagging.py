"""Tags of sequences: conditional random fields, paths and chunks.

Sequences are rows [n, ...] with lengths, or padded [sequences, steps, ...] with lengths.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, integers, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import DataSizedOp, OpaqueOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    dtype_of,
    element_count,
    like,
    rank_of,
    same_dtype,
    shape_of,
    show,
)

SCHEMES = ("IOB", "IOE", "IOBES", "plain")


def _check_scores(emission: Tensor, transition: Tensor, lengths: Tensor) -> None:
    """Raise ProgramError unless there is a score for each tag of each step, and between tags."""
    check_integer("lengths", lengths)
    same_dtype(emission, transition)
    if rank_of(emission) not in (2, 3) or rank_of(lengths) != 1:
        raise ProgramError(f"expected rows [n, tags] or [sequences, steps, tags], {show(emission)}")
    if not dtype_of(emission).is_floating or rank_of(transition) != 2:
        raise ProgramError(f"scores {show(emission)} with transitions {show(transition)}")
    tags, (rows, columns) = shape_of(emission)[-1], shape_of(transition)
    wanted = tags if columns == UNKNOWN else columns
    if (
        tags not in (UNKNOWN, wanted)
        or (UNKNOWN not in (rows, wanted) and rows != wanted + 2)
        or (rank_of(emission) == 3 and not _as_many(emission, lengths))
    ):
        raise ProgramError(f"scores {show(emission)} do not fit transitions {show(transition)}")


def _as_many(padded: Tensor, lengths: Tensor) -> bool:
    sizes = shape_of(padded)[0], shape_of(lengths)[0]
    return UNKNOWN in sizes or sizes[0] == sizes[1]


def _check_tags(what: str, tags: Tensor, steps: Tensor, rank: int) -> None:
    """Raise ProgramError unless each step has one tag; a last dimension of 1 may follow."""
    check_integer(what, tags)
    sizes = shape_of(tags)[:rank]
    both = list(zip(sizes, shape_of(steps), strict=False))
    if (
        shape_of(tags)[rank:] not in ((), (1,), (UNKNOWN,))
        or len(sizes) != rank
        or any(UNKNOWN not in pair and pair[0] != pair[1] for pair in both)
    ):
        raise ProgramError(f"{what} {show(tags)} has not one tag for each step of {show(steps)}")


@irdl_op_definition
class LinearChainCrf(OpaqueOp):
    """The negative log-likelihood of the tags: [sequences, 1]; 0 for an empty sequence.

    `transition` [tags + 2, tags] has the scores of the first tag, of the last, and between tags.
    Paddle: linear_chain_crf.
    """

    name = "pd.linear_chain_crf"
    emission = operand_def(TENSOR)
    transition = operand_def(TENSOR)
    label = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(emission: Tensor, transition: Tensor, label: Tensor, lengths: Tensor) -> Tensor:
        _check_scores(emission, transition, lengths)
        _check_tags("label", label, emission, rank_of(emission) - 1)
        return like(emission, shape=(shape_of(lengths)[0], 1))


@irdl_op_definition
class CrfDecoding(OpaqueOp):
    """The likeliest tags, int64: [n, 1], or [sequences, steps] with 0 after each end.

    With a label, 1 where the tags are equal, else 0. Paddle: crf_decoding.
    """

    name = "pd.crf_decoding"
    emission = operand_def(TENSOR)
    transition = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    label = opt_operand_def(TENSOR)
    out = result_def(TENSOR)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        emission: Tensor, transition: Tensor, lengths: Tensor, label: Tensor | None
    ) -> Tensor:
        _check_scores(emission, transition, lengths)
        rank = rank_of(emission) - 1
        if label is not None:
            _check_tags("label", label, emission, rank)
        sizes = shape_of(emission)[:rank]
        return like(emission, shape=sizes if rank == 2 else (*sizes, 1), dtype="int64")


@irdl_op_definition
class ViterbiDecode(DataSizedOp):
    """The likeliest tags, int64 [sequences, longest] with 0 after each end, and their score.

    `transition` [tags, tags] has the scores between tags. With `include_bos_eos_tag` the last tag
    precedes each sequence, and the second to last tag follows it. Paddle: viterbi_decode.
    """

    name = "pd.viterbi_decode"
    DECIDED_BY: ClassVar[str] = "lengths"
    potentials = operand_def(TENSOR)
    transition = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    scores = result_def(TENSOR)
    path = result_def(TENSOR)
    include_bos_eos_tag = flag(True)

    @staticmethod
    def infer(potentials: Tensor, transition: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        check_integer("lengths", lengths)
        same_dtype(potentials, transition)
        if rank_of(potentials) != 3 or rank_of(lengths) != 1 or rank_of(transition) != 2:
            raise ProgramError(
                "viterbi_decode needs [sequences, steps, tags] with transitions [tags, tags] and "
                f"lengths [sequences], found {show(potentials)}, {show(transition)} and "
                f"{show(lengths)}"
            )
        tags = {shape_of(potentials)[2], *shape_of(transition)} - {UNKNOWN}
        if not dtype_of(potentials).is_floating or not _as_many(potentials, lengths):
            raise ProgramError(f"lengths {show(lengths)} do not fit scores {show(potentials)}")
        if len(tags) > 1:
            raise ProgramError(
                f"transitions {show(transition)} do not fit scores {show(potentials)}"
            )
        sequences = shape_of(lengths)[0]
        path = like(potentials, shape=(sequences, UNKNOWN), dtype="int64")
        return like(potentials, shape=(sequences,)), path


@irdl_op_definition
class ChunkEval(OpaqueOp):
    """Precision, recall and F1 of chunks, and the number found, labeled and correct: each [1].

    Paddle: chunk_eval.
    """

    name = "pd.chunk_eval"
    inference = operand_def(TENSOR)
    label = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    precision = result_def(TENSOR)
    recall = result_def(TENSOR)
    f1_score = result_def(TENSOR)
    num_infer = result_def(TENSOR)
    num_label = result_def(TENSOR)
    num_correct = result_def(TENSOR)
    num_chunk_types = integer()
    chunk_scheme = string("IOB", of=SCHEMES)
    excluded_chunk_types = integers(())
    steps = integer(0)  # 0: rows, one sequence after the other; 1: padded [sequences, steps]

    @staticmethod
    def infer(
        inference: Tensor,
        label: Tensor,
        lengths: Tensor,
        num_chunk_types: int,
        chunk_scheme: str,
        steps: int,
    ) -> tuple[Tensor, ...]:
        check_integer("lengths", lengths)
        _check_tags("inference", inference, inference, 2 if steps else 1)
        _check_tags("label", label, inference, 2 if steps else 1)
        if chunk_scheme not in SCHEMES or num_chunk_types < 1 or steps not in (0, 1):
            raise ProgramError(f"chunk_scheme {chunk_scheme!r}: one of {', '.join(SCHEMES)}")
        counts = [element_count(shape_of(tags)) for tags in (inference, label)]
        if UNKNOWN not in counts and counts[0] != counts[1]:
            raise ProgramError(f"{show(inference)} and {show(label)} differ in size")
        share = like(inference, shape=(1,), dtype="float32")
        number = like(inference, shape=(1,), dtype="int64")
        return share, share, share, number, number, number
