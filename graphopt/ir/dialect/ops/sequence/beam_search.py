"""Beam search over sequences of different lengths: how many beams go on depends on their scores."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def, var_operand_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import TENSOR, UNKNOWN, Tensor, like, rank_of, shape_of, show, tensor


@irdl_op_definition
class BeamSearch(DataSizedOp):
    """One step of beam search: the best `beam_size` continuations of each sentence.

    A row is a beam, the beginning of a sentence: its last word in pre_ids, its score in pre_scores,
    and its candidates in scores [beams, k], which are the words `ids` (without them 0 to k - 1).
    `lengths` count the beams of each sentence, level by level. A beam that has ended with `end_id`
    has itself as its only candidate; a sentence all of whose beams have ended twice is left out.
    The results are words and scores [chosen, 1], the beam that each continues, and the lengths of
    the results: beams of each sentence, chosen rows of each beam.
    Paddle: beam_search.
    """

    name = "pd.beam_search"
    pre_ids = operand_def(TENSOR)
    pre_scores = operand_def(TENSOR)
    ids = opt_operand_def(TENSOR)
    scores = operand_def(TENSOR)
    lengths = var_operand_def(TENSOR)
    selected_ids = result_def(TENSOR)
    selected_scores = result_def(TENSOR)
    parent_idx = result_def(TENSOR)
    sentence_lengths = result_def(TENSOR)
    beam_lengths = result_def(TENSOR)
    beam_size = integer()
    end_id = integer()
    level = integer(0)
    is_accumulated = flag(True)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        pre_ids: Tensor,
        pre_scores: Tensor,
        ids: Tensor | None,
        scores: Tensor,
        lengths: Sequence[Tensor],
        beam_size: int,
        level: int,
    ) -> tuple[Tensor, ...]:
        for what, value in (("pre_ids", pre_ids), *((("ids", ids),) if ids is not None else ())):
            check_integer(what, value)
        if rank_of(scores) < 2 or (ids is not None and rank_of(ids) != rank_of(scores)):
            raise ProgramError(f"scores and ids need a row for each beam, found {show(scores)}")
        if any(rank_of(each) != 1 for each in lengths):
            raise ProgramError("lengths need one axis, found " + ", ".join(map(show, lengths)))
        if not 0 <= level < len(lengths) or beam_size < 1:
            raise ProgramError(
                f"beam_search needs level {level} of {len(lengths)} levels of lengths, and a "
                f"beam_size above 0, found {beam_size}"
            )
        return (
            tensor((UNKNOWN, 1), "int64"),
            like(pre_scores, shape=(UNKNOWN, 1)),
            tensor((UNKNOWN,), "int32"),
            tensor((shape_of(lengths[level])[0],), "int64"),
            tensor((shape_of(scores)[0],), "int64"),
        )


@irdl_op_definition
class BeamSearchDecode(DataSizedOp):
    """The sentences that the steps of a beam search encode, the best of each source first.

    The operands are tensor arrays with an element for each step: words, scores, and the lengths of
    both levels. The results are words and scores [words], and the lengths: sentences of each
    source, words of each sentence. Paddle: beam_search_decode.
    """

    name = "pd.beam_search_decode"
    ids = operand_def(TENSOR)
    scores = operand_def(TENSOR)
    sentence_lengths = operand_def(TENSOR)
    beam_lengths = operand_def(TENSOR)
    sentence_ids = result_def(TENSOR)
    sentence_scores = result_def(TENSOR)
    source_counts = result_def(TENSOR)
    word_counts = result_def(TENSOR)
    end_id = integer()

    @staticmethod
    def infer(
        ids: Tensor, scores: Tensor, sentence_lengths: Tensor, beam_lengths: Tensor
    ) -> tuple[Tensor, ...]:
        check_integer("ids", ids)
        for what, value in (("the sentences", sentence_lengths), ("the beams", beam_lengths)):
            if rank_of(value) != 2:
                raise ProgramError(f"{what} need lengths for each step, found {show(value)}")
        counts = tensor((UNKNOWN,), "int64")
        return tensor((UNKNOWN,), "int64"), like(scores, shape=(UNKNOWN,)), counts, counts
