"""Losses. `reduction` is 'mean', 'sum' or 'none'; another word raises ValueError."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.sizes import size_of
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import relu
from graphopt.nn.functional.input import embedding, one_hot
from graphopt.tensor.creation import full, full_like
from graphopt.tensor.logic import equal, not_equal
from graphopt.tensor.manipulation import cast, squeeze, unsqueeze
from graphopt.tensor.math import abs, add, divide, multiply, scale, square, subtract, sum
from graphopt.tensor.stat import mean


def reduce_loss(loss: Variable, reduction: str, function: str, name: str | None = None) -> Variable:
    """Reduce a loss to its mean or sum; return it unchanged for 'none'."""
    arguments.choice(reduction, "reduction", function, ("mean", "sum", "none"))
    if reduction == "none":
        return loss
    return mean(loss, name=name) if reduction == "mean" else sum(loss, name=name)


@one_layer("square_error_cost", 1)
def square_error_cost(input: Variable, label: Variable) -> Variable:
    """Compute (input - label)² (paddle.nn.functional.square_error_cost)."""
    arguments.variable(input, "input", "square_error_cost")
    return square(subtract(input, arguments.variable(label, "label", "square_error_cost")))


def mse_loss(
    input: Variable, label: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """Compute the squared error (paddle.nn.functional.mse_loss)."""
    arguments.choice(reduction, "reduction", "mse_loss", ("mean", "sum", "none"))
    return reduce_loss(square_error_cost(input, label), reduction, "mse_loss", name)


def l1_loss(
    input: Variable, label: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """Compute the absolute error (paddle.nn.functional.l1_loss)."""
    arguments.variable(input, "input", "l1_loss")
    error = abs(subtract(input, arguments.variable(label, "label", "l1_loss")))
    return reduce_loss(error, reduction, "l1_loss", name)


def margin_ranking_loss(
    input: Variable,
    other: Variable,
    label: Variable,
    margin: float = 0.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Compute max(0, -label * (input - other) + margin) (nn.functional.margin_ranking_loss)."""
    arguments.variable(input, "input", "margin_ranking_loss")
    wrong = multiply(label, subtract(other, input))
    margin = arguments.number(margin, "margin", "margin_ranking_loss")
    return reduce_loss(relu(scale(wrong, 1.0, margin)), reduction, "margin_ranking_loss", name)


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Variable | tuple[Variable, Variable]:
    """Compute the cross entropy of softmax(logits) along `axis`, with size 1 there.

    Labels are integers with size 1 at the axis (or without it), or distributions with
    `soft_label`. With `return_softmax` the softmax comes second. The loss has the dtype of the
    logits. The stable formula is always used. Paddle page:
    paddle.nn.functional.softmax_with_cross_entropy.
    """
    function = "softmax_with_cross_entropy"
    arguments.variable(logits, "logits", function)
    if len(arguments.variable(label, "label", function).shape) == len(logits.shape) - 1:
        label = unsqueeze(label, axis)
    softmax, loss = _entropy(logits, label, soft_label, ignore_index, axis, use_softmax=True)
    return (loss, softmax) if return_softmax else loss


def _entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool,
    ignore_index: int,
    axis: int,
    *,
    use_softmax: bool,
) -> list[Variable]:
    attrs = {
        "soft_label": arguments.flag(soft_label, "soft_label", "cross_entropy"),
        "ignore_index": arguments.integer(ignore_index, "ignore_index", "cross_entropy"),
        "numeric_stable_mode": True,
        "axis": arguments.integer(axis, "axis", "cross_entropy"),
        "use_softmax": arguments.flag(use_softmax, "use_softmax", "cross_entropy"),
    }
    inputs = {"Logits": logits, "Label": label}
    helper = LayerHelper("softmax_with_cross_entropy")
    return helper.emit_all(helper.layer_type, inputs, attrs, ("Softmax", "Loss"))


def cross_entropy(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Variable:
    """Compute the cross entropy of softmax(input) along `axis` (nn.functional.cross_entropy).

    Labels are integers, with size 1 at the axis or without it, or distributions with
    `soft_label`. `weight` [classes] weighs the classes, and the mean then divides by the sum of
    the weights. Ignored labels have a loss of 0; they count in the mean when `ignore_index` is
    negative. With `use_softmax=False` the input has probabilities.
    """
    arguments.choice(reduction, "reduction", "cross_entropy", ("mean", "sum", "none"))
    rank = len(arguments.variable(input, "input", "cross_entropy").shape)
    label_rank = len(arguments.variable(label, "label", "cross_entropy").shape)
    if label_rank not in (rank, rank - 1) or not rank:
        raise ValueError(
            f"cross_entropy(): 'label' should have the rank {rank} of 'input' or one less, "
            f"found {label_rank}"
        )
    if soft_label and ignore_index > 0:
        raise ValueError("cross_entropy(): 'ignore_index' does not go with soft labels")
    if label_rank < rank:
        label = unsqueeze(label, axis)
    if label_smoothing:
        label, soft_label = _smooth(input, label, soft_label, axis, label_smoothing), True
    _, loss = _entropy(input, label, soft_label, ignore_index, axis, use_softmax=use_softmax)
    share = (
        None
        if weight is None
        else _class_weights(weight, label, soft_label, ignore_index, axis, loss, input.shape[axis])
    )
    loss = loss if share is None else multiply(loss, share)
    if reduction == "mean":
        counted = None if soft_label or ignore_index < 0 else not_equal(label, ignore_index)
        return _mean(loss, share, counted, name)
    if reduction == "none" and label_rank < rank:
        loss = squeeze(loss, axis)
    return reduce_loss(loss, reduction, "cross_entropy", name)


def _smooth(
    input: Variable, label: Variable, soft_label: bool, axis: int, smoothing: float
) -> Variable:
    """Mix labels with an equal share of `smoothing` for every class; integers become one-hot."""
    classes = size_of(input, axis)
    if not soft_label:
        if axis not in (-1, len(input.shape) - 1):
            raise ValueError("cross_entropy(): label smoothing of integers needs the last axis")
        label = cast(one_hot(squeeze(label, axis), classes), input.dtype)
    return smooth_label(label, smoothing, classes)


def smooth_label(label: Variable, smoothing: float, classes: Any) -> Variable:
    """Compute (1 - smoothing) * label + smoothing / classes; `classes` may be a Variable."""
    if not isinstance(classes, Variable):
        return scale(label, 1.0 - smoothing, smoothing / classes)
    each = divide(full([], smoothing, label.dtype), cast(classes, label.dtype))
    return add(scale(label, 1.0 - smoothing), each)


def _class_weights(
    weight: Variable,
    label: Variable,
    soft_label: bool,
    ignore_index: int,
    axis: int,
    loss: Variable,
    classes: int,
) -> Variable:
    """Compute the weight of each sample, shaped like the loss; 0 for ignored labels."""
    size = arguments.variable(weight, "weight", "cross_entropy").shape[-1]
    if -1 not in (size, classes) and size != classes:
        raise ValueError(
            f"cross_entropy(): 'weight' {list(weight.shape)} should have an element for each of "
            f"the {classes} classes"
        )
    if soft_label:
        rank = len(label.shape)
        trailing = list(range(1, rank - axis % rank))
        along = unsqueeze(weight, trailing) if trailing else weight
        return sum(multiply(cast(label, weight.dtype), along), axis, keepdim=True)
    kept = not_equal(label, ignore_index)
    rows = embedding(multiply(label, cast(kept, label.dtype)), unsqueeze(weight, 1))
    return multiply(squeeze(rows, -1), cast(kept, loss.dtype))


def _mean(
    loss: Variable, share: Variable | None, counted: Variable | None, name: str | None
) -> Variable:
    """Average over the weights, or over the samples that count; 0 when there are none."""
    if share is None:
        if counted is None:
            return mean(loss, name=name)
        share = cast(counted, loss.dtype)
    total = sum(share)
    one_if_empty = cast(equal(total, full_like(total, 0.0)), loss.dtype)
    return divide(sum(loss), add(total, one_if_empty), name)


lazy.join_package(globals())
