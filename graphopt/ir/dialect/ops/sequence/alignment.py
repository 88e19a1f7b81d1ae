"""Sequences against sequences: alignment losses, distances, decoding, masks of lengths."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import dtype as dtype_property
from graphopt.ir.dialect.attrs import flag, integer, number
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.ops.sequence.recurrent import expect, expect_lengths
from graphopt.ir.dialect.types import TENSOR, UNKNOWN, Tensor, agree, dtype_of, like, shape_of


@irdl_op_definition
class WarpCtc(OpaqueOp):
    """The CTC loss [batch, 1] of logits [time, batch, classes] for labels [batch, length].

    Logits and labels have a length for each sequence. A label that cannot be aligned gives 0.
    `norm_by_times` divides the gradient, not the loss, by the lengths of the logits. Paddle:
    warpctc.
    """

    name = "pd.warpctc"
    logits = operand_def(TENSOR)
    label = operand_def(TENSOR)
    logits_length = operand_def(TENSOR)
    labels_length = operand_def(TENSOR)
    loss = result_def(TENSOR)
    blank = integer(0)
    norm_by_times = flag(False)

    @staticmethod
    def infer(
        logits: Tensor, label: Tensor, logits_length: Tensor, labels_length: Tensor, blank: int
    ) -> Tensor:
        expect("logits [time, batch, classes] of warpctc", logits, [UNKNOWN] * 3)
        if not dtype_of(logits).is_floating:
            raise OperandError(f"warpctc needs floating-point logits, found {dtype_of(logits)}")
        _, batch, classes = shape_of(logits)
        check_integer("label", label)
        expect("label [batch, length] of warpctc", label, [batch, UNKNOWN])
        expect_lengths("logits_length of warpctc", logits_length, batch)
        expect_lengths("labels_length of warpctc", labels_length, batch)
        if blank < 0 or UNKNOWN != classes <= blank:
            raise ProgramError(f"the blank {blank} is none of {classes} classes")
        return like(logits, shape=(batch, 1))


@irdl_op_definition
class WarpRnnt(OpaqueOp):
    """The transducer's loss [batch] of log-probabilities [batch, time, length + 1, classes].

    It is minus the log-probability of the labels [batch, length] over all alignments; a step of an
    alignment emits a label, or emits a blank and advances in time. Inputs and labels have a length
    for each sequence. `fastemit_lambda` adds to the gradient of label emissions, not to the loss.
    Paddle: warprnnt.
    """

    name = "pd.warprnnt"
    input = operand_def(TENSOR)
    label = operand_def(TENSOR)
    input_lengths = operand_def(TENSOR)
    label_lengths = operand_def(TENSOR)
    loss = result_def(TENSOR)
    blank = integer(0)
    fastemit_lambda = number(0.0)

    @staticmethod
    def infer(
        input: Tensor, label: Tensor, input_lengths: Tensor, label_lengths: Tensor, blank: int
    ) -> Tensor:
        expect("input [batch, time, length + 1, classes] of warprnnt", input, [UNKNOWN] * 4)
        if not dtype_of(input).is_floating:
            raise OperandError(f"warprnnt needs floating-point input, found {dtype_of(input)}")
        batch, _, states, classes = shape_of(input)
        check_integer("label", label)
        length = UNKNOWN if states == UNKNOWN else states - 1
        expect("label [batch, length] of warprnnt", label, [batch, length])
        expect_lengths("input_lengths of warprnnt", input_lengths, batch)
        expect_lengths("label_lengths of warprnnt", label_lengths, batch)
        if blank < 0 or UNKNOWN != classes <= blank:
            raise ProgramError(f"the blank {blank} is none of {classes} classes")
        return like(input, shape=(batch,))


@irdl_op_definition
class CtcAlign(OpaqueOp):
    """Tokens [batch, time] without repetitions and blanks, moved to the front.

    The rest of a row is `padding_value`; the second result [batch, 1] counts the tokens. Paddle:
    ctc_align.
    """

    name = "pd.ctc_align"
    input = operand_def(TENSOR)
    input_length = operand_def(TENSOR)
    output = result_def(TENSOR)
    output_length = result_def(TENSOR)
    blank = integer(0)
    merge_repeated = flag(True)
    padding_value = integer(0)

    @staticmethod
    def infer(input: Tensor, input_length: Tensor) -> tuple[Tensor, Tensor]:
        check_integer("input", input)
        expect("the input [batch, time] of ctc_align", input, [UNKNOWN, UNKNOWN])
        batch = shape_of(input)[0]
        _lengths_column("input_length of ctc_align", input_length, batch)
        return input, like(input_length, shape=(batch, 1))


def _lengths_column(what: str, lengths: Tensor, batch: int) -> None:
    """Raise ProgramError unless lengths are integers [batch] or [batch, 1]."""
    check_integer(what, lengths)
    shape = shape_of(lengths)
    if not agree(shape, [batch]) and not agree(shape, [batch, 1]):
        raise ProgramError(f"{what} should be [{batch}] or [{batch}, 1], found {list(shape)}")


@irdl_op_definition
class EditDistance(OpaqueOp):
    """The insertions, deletions and changes that make refs of hyps; float32 [batch, 1].

    Both are tokens [batch, length], with lengths if rows are shorter. `normalized` divides by the
    length of the reference. The second result is the number of sequences [1]. Paddle:
    edit_distance.
    """

    name = "pd.edit_distance"
    hyps = operand_def(TENSOR)
    refs = operand_def(TENSOR)
    hyps_length = opt_operand_def(TENSOR)
    refs_length = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    sequence_num = result_def(TENSOR)
    normalized = flag(False)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        hyps: Tensor, refs: Tensor, hyps_length: Tensor | None, refs_length: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        check_integer("hyps", hyps)
        check_integer("refs", refs)
        expect("hyps [batch, length] of edit_distance", hyps, [UNKNOWN, UNKNOWN])
        batch = shape_of(hyps)[0]
        expect("refs [batch, length] of edit_distance", refs, [batch, UNKNOWN])
        for name, lengths in (("hyps_length", hyps_length), ("refs_length", refs_length)):
            if lengths is not None:
                _lengths_column(f"{name} of edit_distance", lengths, batch)
        return like(hyps, shape=(batch, 1), dtype="float32"), like(hyps, shape=(1,), dtype="int64")


@irdl_op_definition
class GatherTree(OpaqueOp):
    """The whole sequences of a beam search from each step's tokens and their parent beams.

    Both are [time, batch, beams]. Paddle: gather_tree.
    """

    name = "pd.gather_tree"
    ids = operand_def(TENSOR)
    parents = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(ids: Tensor, parents: Tensor) -> Tensor:
        check_integer("ids", ids)
        check_integer("parents", parents)
        expect("ids [time, batch, beams] of gather_tree", ids, [UNKNOWN] * 3)
        expect("parents of gather_tree", parents, shape_of(ids))
        return ids


@irdl_op_definition
class SequenceMask(OpaqueOp):
    """1 at the positions below each length, 0 from there to `max_len`, along a new last axis.

    Paddle: sequence_mask.
    """

    name = "pd.sequence_mask"
    x = operand_def(TENSOR)
    y = result_def(TENSOR)
    max_len = integer(-1)
    out_dtype = dtype_property("int64")

    @staticmethod
    def infer(x: Tensor, max_len: int, out_dtype: str) -> Tensor:
        if max_len < 0:
            raise ProgramError(
                f"sequence_mask needs a maxlen of at least 0, found {max_len}; without one the "
                "number of columns would depend on the run"
            )
        return like(x, shape=(*shape_of(x), max_len), dtype=out_dtype)

    @staticmethod
    def infer_partly(x: Tensor, out_dtype: str) -> Tensor:
        return like(x, shape=(*shape_of(x), UNKNOWN), dtype=out_dtype)
