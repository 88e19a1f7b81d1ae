"""Alignment of sequences: the CTC loss, edit distances, decoding, masks of lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of
from graphopt.nn.functional.loss import reduce_loss
from graphopt.tensor.creation import zeros_like
from graphopt.tensor.logic import isinf
from graphopt.tensor.manipulation import cast, squeeze
from graphopt.tensor.math import divide
from graphopt.tensor.search import topk, where


def warpctc(
    input: Variable,
    label: Variable,
    blank: int = 0,
    norm_by_times: bool = False,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> Variable:
    """Compute the CTC loss [batch, 1] of logits [time, batch, classes] (fluid.layers.warpctc).

    As ctc_loss, without a reduction. Raises UnsupportedError without the lengths, because ragged
    rows are not supported.
    """
    if input_length is None or label_length is None:
        raise UnsupportedError(
            "warpctc(): needs 'input_length' and 'label_length'; ragged (LoD) inputs are not "
            "supported, pad them to [time, batch, classes] and [batch, length]"
        )
    inputs = {
        "Logits": arguments.variable(input, "input", "warpctc"),
        "Label": arguments.variable(label, "label", "warpctc"),
        "LogitsLength": arguments.variable(input_length, "input_length", "warpctc"),
        "LabelLength": arguments.variable(label_length, "label_length", "warpctc"),
    }
    attrs = {
        "blank": arguments.integer(blank, "blank", "warpctc"),
        "norm_by_times": arguments.flag(norm_by_times, "norm_by_times", "warpctc"),
    }
    helper = LayerHelper("warpctc")
    loss, gradient = helper.temporary(), helper.temporary(stop_gradient=True)
    # Paddle's kernel stores the gradient in a separate variable
    gradient.shape, gradient.dtype = input.shape, input.dtype
    helper.append_op("warpctc", inputs, {"Loss": loss, "WarpCTCGrad": gradient}, attrs)
    return loss


def ctc_loss(
    log_probs: Variable,
    labels: Variable,
    input_lengths: Variable,
    label_lengths: Variable,
    blank: int = 0,
    reduction: str = "mean",
    norm_by_times: bool = False,
    zero_infinity: bool = False,
) -> Variable:
    """Compute the negated log-probability of labels over all alignments (functional.ctc_loss).

    `log_probs` [time, batch, classes] are logits; a softmax is applied here. Labels are int32
    [batch, length], lengths int64 [batch]. Without reduction the result is [batch]; the mean first
    divides each loss by its label length. Labels too long for their inputs have a loss of 0.
    `norm_by_times` divides the gradient by the input lengths; `zero_infinity` sets infinite losses
    to 0.
    """
    arguments.choice(reduction, "reduction", "ctc_loss", ("mean", "sum", "none"))
    arguments.variable(label_lengths, "label_lengths", "ctc_loss")
    loss = warpctc(log_probs, labels, blank, norm_by_times, input_lengths, label_lengths)
    loss = squeeze(loss, [-1])
    if arguments.flag(zero_infinity, "zero_infinity", "ctc_loss"):
        loss = where(isinf(loss), zeros_like(loss), loss)
    if reduction == "mean":
        loss = divide(loss, cast(label_lengths, loss.dtype))
    return reduce_loss(loss, reduction, "ctc_loss")


def rnnt_loss(
    input: Variable,
    label: Variable,
    input_lengths: Variable,
    label_lengths: Variable,
    blank: int = 0,
    fastemit_lambda: float = 0.001,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Compute the transducer loss: minus the log-probability of labels over all alignments.

    `input` [batch, time, length + 1, classes] has log-probabilities: no softmax is applied here, as
    on a CPU in Paddle. Labels are int32 [batch, length], lengths int32 [batch]. Without reduction
    the result is [batch]. `fastemit_lambda` scales up the gradient of label emissions. Raises
    ValueError for another reduction. Paddle page: paddle.nn.functional.rnnt_loss.
    """
    function = "rnnt_loss"
    arguments.choice(reduction, "reduction", function, ("mean", "sum", "none"))
    inputs = {
        "input": arguments.variable(input, "input", function),
        "label": arguments.variable(label, "label", function),
        "input_lengths": arguments.variable(input_lengths, "input_lengths", function),
        "label_lengths": arguments.variable(label_lengths, "label_lengths", function),
    }
    attrs = {
        "blank": arguments.integer(blank, "blank", function),
        "fastemit_lambda": arguments.number(fastemit_lambda, "fastemit_lambda", function),
    }
    helper = LayerHelper("warprnnt", name)
    loss, gradient = helper.temporary(), helper.temporary(stop_gradient=True)
    # Paddle's kernel stores the gradient in a separate variable
    gradient.shape, gradient.dtype = input.shape, input.dtype
    helper.append_op("warprnnt", inputs, {"loss": loss, "warprnntgrad": gradient}, attrs)
    return reduce_loss(loss, reduction, function)


def gather_tree(ids: Variable, parents: Variable) -> Variable:
    """Trace whole sequences from a beam search's steps (paddle.nn.functional.gather_tree).

    `ids` are the tokens of each step and `parents` the beams they continue, both integers
    [time, batch, beams], as is the result.
    """
    inputs = {
        "Ids": arguments.variable(ids, "ids", "gather_tree"),
        "Parents": arguments.variable(parents, "parents", "gather_tree"),
    }
    if len(ids.shape) != 3 or len(parents.shape) != 3:
        raise ValueError(
            f"gather_tree(): ids and parents should be [time, batch, beams], found "
            f"{list(ids.shape)} and {list(parents.shape)}"
        )
    return emit("gather_tree", inputs, stop_gradient=True)


def sequence_mask(
    x: Variable, maxlen: Any = None, dtype: Any = "int64", name: str | None = None
) -> Variable:
    """Fill a new last axis with 1 below each length, then 0 (nn.functional.sequence_mask).

    x holds lengths in any shape; the new axis has `maxlen` columns, a number or a Variable. Without
    it (or with -1) it has as many as the largest length, and the program runs op by op.
    """
    inputs: dict[str, Any] = {"X": arguments.variable(x, "x", "sequence_mask")}
    attrs = {"out_dtype": arguments.dtype(dtype, "dtype", "sequence_mask").code, "maxlen": -1}
    if isinstance(maxlen, Variable):
        inputs["MaxLenTensor"] = maxlen
    elif maxlen is not None:
        attrs["maxlen"] = arguments.integer(maxlen, "maxlen", "sequence_mask")
        if attrs["maxlen"] < -1:
            raise ValueError(f"sequence_mask(): 'maxlen' must not be negative, found {maxlen}")
    return emit("sequence_mask", inputs, attrs, name=name, out="Y", stop_gradient=True)


def edit_distance(
    input: Variable,
    label: Variable,
    normalized: bool = True,
    ignored_tokens: Sequence[int] | None = None,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> tuple[Variable, Variable]:
    """Compute edit distances float32 [batch, 1], and their number [1] (fluid.layers.edit_distance).

    Input and label are int64 sequences of tokens [n, 1] (lod_level 1); or integers [batch, length],
    with lengths [batch] or [batch, 1] if rows are shorter. `normalized` divides by the length of
    the label. `ignored_tokens` are removed from sequences first.

    Raises UnsupportedError for a column of tokens without lengths, and for `ignored_tokens` in
    padded rows.
    """
    function = "edit_distance"
    arguments.variable(input, "input", function)
    arguments.variable(label, "label", function)
    helper = LayerHelper(function)
    inputs: dict[str, Any] = {"Hyps": input, "Refs": label}
    if input_length is not None or label_length is not None:
        inputs |= {"HypsLength": input_length, "RefsLength": label_length}
    elif levels_of(input) or levels_of(label) or input.shape[-1] == 1:
        pairs = [
            (x, of_one_level(x, function, what)) for what, x in (("input", input), ("label", label))
        ]
        if ignored_tokens:
            tokens = arguments.integers(list(ignored_tokens), "ignored_tokens", function)
            pairs = [_without(helper, x, lengths, tokens) for x, lengths in pairs]
        rows, lengths = zip(*pairs, strict=True)
        inputs = {"Hyps": rows[0], "Refs": rows[1], SLOT: list(lengths)}
    if ignored_tokens and SLOT not in inputs:
        raise UnsupportedError(
            f"{function}(): 'ignored_tokens' leaves rows of different lengths; feed sequences "
            "(lod_level=1), or take the tokens out before they are fed"
        )
    attrs = {"normalized": arguments.flag(normalized, "normalized", function)}
    outs = ("Out", "SequenceNum")
    distance, count = helper.emit_all(function, inputs, attrs, outs, stop_gradient=True)
    return distance, count


def _without(
    helper: LayerHelper, x: Variable, lengths: Variable, tokens: Sequence[int]
) -> tuple[Variable, Variable]:
    """Remove some tokens from sequences; return them and the remaining lengths."""
    erased = helper.temporary(stop_gradient=True)
    left = LayerHelper("sequence_erase").temporary(stop_gradient=True)
    outputs = {"Out": erased, "OutLengths": left}
    helper.append_op("sequence_erase", {"X": x, SLOT: lengths}, outputs, {"tokens": tokens})
    return erased, left


def ctc_greedy_decoder(
    input: Variable,
    blank: int,
    input_length: Variable | None = None,
    padding_value: int = 0,
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """Find the likeliest tokens without repetitions and blanks (fluid.layers.ctc_greedy_decoder).

    For sequences [n, classes + 1] (lod_level 1) the tokens are sequences int64 [m, 1], or one row
    of -1 if there are none. For `input` [batch, time, classes + 1] with lengths [batch, 1] they are
    [batch, time], padded with `padding_value`, and returned with their counts [batch, 1].

    Raises UnsupportedError when there are no lengths.
    """
    function = "ctc_greedy_decoder"
    arguments.variable(input, "input", function)
    own = of_one_level(input, function, "input") if input_length is None else None
    helper = LayerHelper(function, name)
    tokens = topk(input, 1)[1]
    attrs = {"merge_repeated": True, "blank": arguments.integer(blank, "blank", function)}
    if own is not None:
        made = helper.temporary(stop_gradient=True)
        left = LayerHelper("ctc_align").temporary(stop_gradient=True)
        outputs = {"Output": made, "OutLengths": left}
        helper.append_op("ctc_align", {"Input": tokens, SLOT: own}, outputs, attrs)
        return note(made, [left.name])
    attrs["padding_value"] = arguments.integer(padding_value, "padding_value", function)
    inputs = {"Input": squeeze(tokens, [2]), "InputLength": input_length}
    outs = ("Output", "OutputLength")
    decoded, lengths = helper.emit_all("ctc_align", inputs, attrs, outs, stop_gradient=True)
    return decoded, lengths
