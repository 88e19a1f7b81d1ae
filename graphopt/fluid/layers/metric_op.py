"""Metrics as operators (paddle.fluid.layers.metric_op)."""

from __future__ import annotations

from graphopt import arguments
from graphopt.fluid.common import vector
from graphopt.ir.program import Variable
from graphopt.metric import accuracy as _accuracy
from graphopt.nn.functional.input import one_hot
from graphopt.tensor.creation import full_like
from graphopt.tensor.logic import equal, greater_than
from graphopt.tensor.manipulation import cast, reshape
from graphopt.tensor.math import add, divide, maximum, multiply, scale, subtract, sum


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
) -> Variable:
    """How often the label is among the k largest scores: float32 of shape [1] (layers.accuracy)."""
    return vector(_accuracy(input, label, k, correct, total))


def mean_iou(
    input: Variable, label: Variable, num_classes: int
) -> tuple[Variable, Variable, Variable]:
    """The mean over classes of how much of what is or is found to be one is both.

    `input` and `label` hold classes, integers of one shape. Returns the mean, float32 [1], over the
    classes that there are, and how many elements of each class were wrong and right, int32
    [classes].
    Paddle page: fluid.layers.mean_iou.
    """
    count = arguments.integer(num_classes, "num_classes", "mean_iou")
    found, wanted = (
        reshape(arguments.variable(value, name, "mean_iou"), [-1])
        for value, name in ((input, "input"), (label, "label"))
    )
    same = reshape(cast(equal(found, wanted), "float32"), [-1, 1])
    is_found, is_wanted = one_hot(found, count), one_hot(wanted, count)
    right = sum(multiply(is_found, same), 0)
    wrong = subtract(sum(add(is_found, is_wanted), 0), scale(right, 2.0))
    either = add(right, wrong)
    shares = divide(right, maximum(either, full_like(either, 1.0)))
    there = sum(cast(greater_than(either, full_like(either, 0.0)), "float32"))
    mean = vector(divide(sum(shares), there))
    return mean, cast(wrong, "int32"), cast(right, "int32")
