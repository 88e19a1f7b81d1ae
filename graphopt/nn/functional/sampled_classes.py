"""Losses over many classes that evaluate only some of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import log_softmax
from graphopt.nn.functional.common import linear
from graphopt.tensor.creation import full, zeros
from graphopt.tensor.logic import greater_equal, less_than, logical_and
from graphopt.tensor.manipulation import cast, gather, reshape, slice, squeeze, unsqueeze
from graphopt.tensor.math import add, clip, maximum, multiply, neg, scale, sum
from graphopt.tensor.positions import scatter, take_along_axis
from graphopt.tensor.random import rand
from graphopt.tensor.ranges import arange
from graphopt.tensor.search import argsort, where
from graphopt.tensor.stat import mean


def class_center_sample(
    label: Variable, num_classes: int, num_samples: int, group: Any = None
) -> tuple[Variable, Variable]:
    """Sample classes; map the labels [n] to indices among them, and return both.

    Every class in `label` is sampled, in ascending order; others are drawn after them until there
    are `num_samples` (Partial FC, arXiv:2010.05222). If `label` has more classes than that, their
    number is known only in a run. Paddle page: paddle.nn.functional.class_center_sample.
    Raises ValueError for more samples than classes, UnsupportedError for a group of processes.
    """
    function = "class_center_sample"
    shape = arguments.variable(label, "label", function).shape
    count = arguments.integer(num_classes, "num_classes", function)
    wanted = arguments.integer(num_samples, "num_samples", function)
    if group not in (None, False):
        raise UnsupportedError(f"{function}() samples the classes of one process: leave group out")
    if wanted > count or len(shape) != 1:
        raise ValueError(
            f"{function}(): needs labels [n] and at most {count} samples, found {list(shape)} and "
            f"{num_samples}"
        )
    # the labels' classes have negative keys, in order; other classes have random ones
    index = cast(label, "int64")
    present = cast(scatter(zeros([count]), index, _ones_like(index)), "bool")
    own = scale(arange(count, dtype="float32"), 1.0, -float(count))
    order = argsort(where(present, own, rand([count])))
    places = argsort(order)
    end: Any = wanted
    if not 0 <= shape[0] <= wanted:
        found = sum(cast(present, "int64"))
        end = maximum(full([1], wanted, "int64"), reshape(found, [1]))
    sampled = slice(order, [0], [0], [end])
    return cast(gather(places, index), label.dtype), cast(sampled, label.dtype)


def _ones_like(index: Variable) -> Variable:
    return scale(cast(index, "float32"), 0.0, 1.0)


def adaptive_log_softmax_with_loss(
    input: Variable,
    label: Variable,
    head_weight: Variable,
    tail_weights: Sequence[Sequence[Variable]],
    cutoffs: Sequence[int],
    head_bias: Variable | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Compute the log-probability of each label, and its negated mean (arXiv:1609.04309).

    The head has a column for each class below `cutoffs[0]`, then one for each cluster of classes
    between two cutoffs; the two matrices of a cluster's tail compute the probabilities inside it.
    `cutoffs` ends with the number of classes. Rows are [n, size], or one row [size] with a label
    []. Paddle page: paddle.nn.functional.adaptive_log_softmax_with_loss. Raises ValueError for
    labels of another rank.
    """
    function = "adaptive_log_softmax_with_loss"
    ranks = (
        len(arguments.variable(label, "label", function).shape),
        len(arguments.variable(input, "input", function).shape),
    )
    if ranks not in ((0, 1), (1, 2)):
        raise ValueError(
            f"{function}(): needs labels [n] for rows [n, size], or [] for [size], found "
            f"{list(label.shape)} and {list(input.shape)}"
        )
    rows, labels = (input, label) if ranks[0] else (unsqueeze(input, 0), unsqueeze(label, 0))
    labels = cast(labels, "int64")
    column, extra = labels, None
    for i, (low, high) in enumerate(pairwise(cutoffs)):
        inside = logical_and(
            greater_equal(labels, full([1], low, "int64")),
            less_than(labels, full([1], high, "int64")),
        )
        projected = linear(linear(rows, tail_weights[i][0]), tail_weights[i][1])
        number = clip(scale(labels, 1.0, -low), 0, high - low - 1)
        part = multiply(_at(log_softmax(projected, -1), number), cast(inside, input.dtype))
        extra = part if extra is None else add(extra, part)
        column = where(inside, full([1], cutoffs[0] + i, "int64"), column)
    out = _at(log_softmax(linear(rows, head_weight, head_bias), -1), column)
    out = out if extra is None else add(out, extra)
    return (out if ranks[0] else squeeze(out, 0)), mean(neg(out))


def _at(scores: Variable, column: Variable) -> Variable:
    """Gather the score of each row in its column."""
    return squeeze(take_along_axis(scores, unsqueeze(column, 1), 1), 1)
