"""Operands that Paddle does not broadcast, and arguments that it refuses, are refused here, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import ProgramError
from graphopt_tests.frontend.programs import fresh

F = paddle.nn.functional
Refused = Callable[[Any, Any], Any]

# of x [3, 4] and a row y [1, 4]
PAIRS: dict[str, Refused] = {
    "add_n": lambda x, y: paddle.add_n([x, y]),
    "allclose": paddle.allclose,
    "cosine_embedding_loss": lambda x, y: F.cosine_embedding_loss(x, y, paddle.ones([3], "int64")),
    "cross": lambda x, y: paddle.cross(x, y, 0),
    "dot": paddle.dot,
    "index_sample": lambda x, y: paddle.index_sample(x, paddle.cast(y, "int64")),
    "poisson_nll_loss": F.poisson_nll_loss,
    "scatter": lambda x, y: paddle.scatter(x, paddle.assign(np.array([0, 1])), y),
    "scatter_nd_add": lambda x, y: paddle.scatter_nd_add(x, paddle.assign(np.array([[0], [1]])), y),
    "smooth_l1_loss": F.smooth_l1_loss,
    "soft_margin_loss": F.soft_margin_loss,
    "triplet_margin_loss": lambda x, y: F.triplet_margin_loss(x, y, x),
}
OTHERS: dict[str, tuple[Refused, str]] = {
    "a loss of the whole batch for each": (
        lambda x, y: F.gaussian_nll_loss(x, x, paddle.ones([1, 3, 4])),
        "'variance' should have the shape",
    ),
    "classes of other rows": (
        lambda x, y: F.dice_loss(x, paddle.ones([1, 1], "int64")),
        "'label' should have the shape",
    ),
    "an axis turned twice": (lambda x, y: paddle.flip(x, [1, -1]), "more than once"),
    "an epsilon that is no small number": (
        lambda x, y: F.layer_norm(x, [4], epsilon=0.01),
        "epsilon from 0 to 0.001",
    ),
    "a term larger than the product": (
        lambda x, y: paddle.addmm(x, y, paddle.ones([4, 4])),
        "broadcast to their product",
    ),
    "a number as a term of a product": (
        lambda x, y: paddle.addmm(paddle.ones([]), x, paddle.ones([4, 4])),
        "of 1 or 2 axes",
    ),
    "no parts": (lambda x, y: paddle.split(x, 0), "'num_or_sections' must be 1 or more"),
    "a block outside": (lambda x, y: paddle.crop(x, [2, -1], [2, 0]), "reaches outside"),
    "a block before the first": (lambda x, y: paddle.crop(x, [2, 2], [-1, 0]), "reaches outside"),
    "a new axis without a size": (
        lambda x, y: paddle.broadcast_to(x, [-1, 3, 4]),
        "a new axis needs a size",
    ),
    "the axis of a scalar": (lambda x, y: F.softmax(x[0, 0], 1), "out of range"),
    "positions in a scalar": (lambda x, y: paddle.nonzero(x[0, 0]), "found a scalar"),
    "a negative padding": (
        lambda x, y: F.avg_pool2d(paddle.reshape(x, [1, 1, 3, 4]), 2, padding=-1),
        "'padding' must be 0 or more",
    ),
    "no windows": (
        lambda x, y: F.adaptive_avg_pool2d(paddle.reshape(x, [1, 1, 3, 4]), [0, 2]),
        "'output_size' must be 1 or more",
    ),
    "another align_mode": (
        lambda x, y: F.interpolate(paddle.reshape(x, [1, 1, 3, 4]), [2, 2], align_mode=2),
        "'align_mode' should be 0 or 1",
    ),
    "the maxima of single channels": (
        lambda x, y: F.maxout(paddle.reshape(x, [1, 4, 1, 3]), 1),
        "does not split into 1",
    ),
    "pixels without fractions": (
        lambda x, y: F.interpolate(
            paddle.cast(paddle.reshape(x, [1, 1, 3, 4]), "int32"), [2, 2], mode="bilinear"
        ),
        "is not for int32",
    ),
}


def refusal(call: Refused) -> str:
    """Return the error message for these operands."""
    with fresh():
        x, y = static.data("x", [3, 4], "float32"), static.data("y", [1, 4], "float32")
        with pytest.raises((ProgramError, ValueError)) as caught:
            call(x, y)
    return str(caught.value)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_other_shapes_are_refused(name: str) -> None:
    """A loss of operands that broadcast by mistake would be a wrong number."""
    message = refusal(PAIRS[name])
    assert "[3, 4]" in message or "the same number of rows" in message, message


@pytest.mark.parametrize("name", OTHERS)
def test_other_arguments_are_refused(name: str) -> None:
    call, message = OTHERS[name]
    assert message in refusal(call)


def test_sizes_of_a_run_agree() -> None:
    """A size that only the run knows is assumed to equal the other operand's."""
    with fresh():
        x, y = static.data("x", [None, 4], "float32"), static.data("y", [3, 4], "float32")
        losses = [F.soft_margin_loss(x, y), F.smooth_l1_loss(x, y), paddle.add_n([x, y])]
    assert [list(loss.shape) for loss in losses] == [[], [], [3, 4]]
