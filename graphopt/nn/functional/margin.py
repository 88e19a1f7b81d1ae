"""Losses that require a margin between classes or distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import log_sigmoid, softmax
from graphopt.nn.functional.input import one_hot
from graphopt.nn.functional.loss import reduce_loss, softmax_with_cross_entropy
from graphopt.tensor.creation import full
from graphopt.tensor.distances import norm
from graphopt.tensor.elementary import acos, cos
from graphopt.tensor.logic import greater_equal
from graphopt.tensor.manipulation import cast, gather, reshape, unsqueeze
from graphopt.tensor.math import (
    add,
    clip,
    cumprod,
    minimum,
    multiply,
    neg,
    pow,
    scale,
    subtract,
    sum,
)
from graphopt.tensor.positions import index_sample
from graphopt.tensor.search import where
from graphopt.tensor.stat import mean


def pairwise_distance(
    x: Variable,
    y: Variable,
    p: float = 2.0,
    epsilon: float = 1e-6,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """Compute the p-norm of x - y + epsilon along the last axis (pairwise_distance)."""
    arguments.variable(x, "x", "pairwise_distance")
    gap = subtract(x, arguments.variable(y, "y", "pairwise_distance"))
    gap = scale(gap, 1.0, arguments.number(epsilon, "epsilon", "pairwise_distance"))
    return norm(gap, arguments.number(p, "p", "pairwise_distance"), -1, keepdim, name)


def _triplet(
    input: Variable,
    positive: Variable,
    negative: Variable,
    distance: Callable[[Variable, Variable], Variable],
    given: tuple[float, bool, str],
    function: str,
    name: str | None,
) -> Variable:
    margin, swap, reduction = given
    if arguments.number(margin, "margin", function) < 0:
        raise ValueError(f"{function}(): 'margin' should not be negative, but received {margin}")
    arguments.one_shape(function, input=input, positive=positive, negative=negative)
    near, far = distance(input, positive), distance(input, negative)
    if arguments.flag(swap, "swap", function):
        far = minimum(far, distance(positive, negative))
    loss = clip(scale(subtract(near, far), 1.0, margin), min=0.0)
    return reduce_loss(loss, reduction, function, name)


def triplet_margin_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    margin: float = 1.0,
    p: float = 2,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Compute max(d(input, positive) - d(input, negative) + margin, 0) with p-norm distances.

    `swap` uses d(positive, negative) where that is smaller. Paddle page:
    paddle.nn.functional.triplet_margin_loss.
    """

    def distance(a: Variable, b: Variable) -> Variable:
        return pairwise_distance(a, b, p, epsilon)

    given = (margin, swap, reduction)
    return _triplet(input, positive, negative, distance, given, "triplet_margin_loss", name)


def triplet_margin_with_distance_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    distance_function: Callable[[Variable, Variable], Variable] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Compute `triplet_margin_loss` with another distance function (default: Euclidean).

    Paddle page: paddle.nn.functional.triplet_margin_with_distance_loss.
    """
    function = "triplet_margin_with_distance_loss"
    distance = distance_function or pairwise_distance
    given = (margin, swap, reduction)
    return _triplet(input, positive, negative, distance, given, function, name)


def multi_label_soft_margin_loss(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Average over the last axis the cross entropy of sigmoid(input) with labels 0 and 1.

    `weight` weighs the classes. Paddle page: paddle.nn.functional.multi_label_soft_margin_loss.
    """
    function = "multi_label_soft_margin_loss"
    shape = list(arguments.variable(input, "input", function).shape)
    if list(arguments.variable(label, "label", function).shape) != shape:
        raise ValueError(f"{function}(): 'label' {list(label.shape)} should have the shape {shape}")
    yes = multiply(label, log_sigmoid(input))
    no = multiply(scale(label, -1.0, 1.0), log_sigmoid(neg(input)))
    loss = neg(add(yes, no))
    loss = loss if weight is None else multiply(loss, weight)
    return reduce_loss(mean(loss, -1), reduction, function, name)


def multi_margin_loss(
    input: Variable,
    label: Variable,
    p: int = 1,
    margin: float = 1.0,
    weight: Variable | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Sum max(margin - input[label] + input, 0) ** p over the wrong classes of each row.

    `input` is [n, classes], `label` [n]; `weight` [classes] counts for the label's class. The sum
    is divided by the number of classes. Paddle page: paddle.nn.functional.multi_margin_loss.
    """
    shape = arguments.variable(input, "input", "multi_margin_loss").shape
    if len(shape) != 2 or shape[1] < 0:
        raise ValueError(f"multi_margin_loss(): 'input' should be [n, classes], not {list(shape)}")
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss(): 'p' should be 1 or 2, but received {p}")
    column = reshape(arguments.variable(label, "label", "multi_margin_loss"), [-1, 1])
    own = index_sample(input, column)
    gaps = scale(subtract(input, own), 1.0, margin)
    one = margin**p / shape[1]
    if weight is None:
        loss = scale(mean(pow(clip(gaps, min=0.0), p), 1), 1.0, -one)
    else:
        share = reshape(gather(weight, reshape(column, [-1])), [-1, 1])
        total = mean(multiply(share, pow(clip(gaps, min=0.0), p)), 1)
        loss = subtract(total, reshape(scale(share, one), [-1]))
    return reduce_loss(loss, reduction, "multi_margin_loss", name)


def margin_cross_entropy(
    logits: Variable,
    label: Variable,
    margin1: float = 1.0,
    margin2: float = 0.5,
    margin3: float = 0.0,
    scale: float = 64.0,
    group: Any = None,
    return_softmax: bool = False,
    reduction: str | None = "mean",
) -> Any:
    """Compute the cross entropy of scaled cosines [n, classes] with margins at the labels.

    The cosine of the label's class becomes cos(margin1 * angle + margin2) - margin3. Raises
    UnsupportedError for a `group` of processes. Paddle page:
    paddle.nn.functional.margin_cross_entropy.
    """
    if group not in (None, False):
        raise UnsupportedError("margin_cross_entropy() over a group of processes")
    classes = arguments.variable(logits, "logits", "margin_cross_entropy").shape[-1]
    numbers = reshape(arguments.variable(label, "label", "margin_cross_entropy"), [-1])
    chosen = cast(one_hot(numbers, classes), "bool")
    # the angles of other classes are unused, so use any cosine that has a derivative
    inner = where(chosen, clip(logits, -1.0, 1.0), full([], 0.5, logits.dtype))
    if (margin1, margin2) != (1.0, 0.0):
        inner = cos(_affine(acos(inner), margin1, margin2))
    moved = where(chosen, _affine(inner, 1.0, -margin3), logits)
    scaled = _affine(moved, scale, 0.0)
    loss = softmax_with_cross_entropy(scaled, unsqueeze(numbers, 1))
    assert isinstance(loss, Variable)
    loss = loss if reduction is None else reduce_loss(loss, reduction, "margin_cross_entropy")
    return (loss, softmax(scaled)) if return_softmax else loss


def _affine(x: Variable, factor: float, shift: float) -> Variable:
    return scale(x, factor, shift)


def multi_label_margin_loss(
    input: Variable, label: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """Sum max(0, 1 - score of a class + score of another) of a row's classes and all others.

    The classes of a row of `label` [n, c] end at the first -1; sums are divided by c. Paddle page:
    paddle.nn.functional.multi_label_margin_loss. Raises ValueError for another rank.
    """
    function = "multi_label_margin_loss"
    shape = arguments.variable(input, "input", function).shape
    labels = cast(arguments.variable(label, "label", function), "int64")
    if len(shape) != 2 or len(label.shape) != 2 or shape[1] < 1:
        raise ValueError(
            f"{function}(): 'input' and 'label' should be [n, classes], found {list(shape)} and "
            f"{list(label.shape)}"
        )
    classes = shape[1]
    given = cumprod(cast(greater_equal(labels, full([1], 0, "int64")), input.dtype), 1)
    columns = clip(labels, 0, classes - 1)
    own = multiply(one_hot(columns, classes), unsqueeze(given, -1))
    target = clip(sum(own, 1), max=1.0)
    scores = unsqueeze(index_sample(input, columns), -1)
    gaps = clip(scale(subtract(unsqueeze(input, 1), scores), 1.0, 1.0), min=0.0)
    weights = multiply(unsqueeze(given, -1), unsqueeze(scale(target, -1.0, 1.0), 1))
    loss = scale(sum(multiply(gaps, weights), [1, 2]), 1.0 / classes)
    return reduce_loss(loss, reduction, function, name)
