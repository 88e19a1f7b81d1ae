"""Pools whose windows exceed the image, or lie outside of it, as in Paddle 2.6.2 and 3.3.1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import static
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.runtime.settings.flags import TIER

IMAGE = np.arange(32, dtype="float32").reshape(1, 2, 4, 4)
ONE = np.full((1, 2, 1, 1), 3, "float32")


@pytest.fixture(params=["host", "full"])
def tier(request: pytest.FixtureRequest) -> Iterator[str]:
    paddle.set_flags({TIER: request.param})
    yield request.param
    paddle.set_flags({TIER: "full"})


def pooled(pool: Callable[[Any], Any], image: Any) -> tuple[Any, Any]:
    """Pool an image of open sizes; return the result and the gradient of its sum."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 2, None, None], "float32")
        x.stop_gradient = False
        out = pool(x)
        (slope,) = static.gradients(paddle.sum(out), x)
        return tuple(static.Executor().run(main, {"x": image}, [out, slope]))


# the results of Paddle 2.6.2 and 3.3.1
CASES: list[tuple[str, Callable[[Any], Any], Any, list[float]]] = [
    ("average", lambda x: F.avg_pool2d(x, 7), IMAGE, [7.5, 23.5]),
    ("average of one pixel", lambda x: F.avg_pool2d(x, 7), ONE, [3, 3]),
    ("average with padding", lambda x: F.avg_pool2d(x, 7, padding=1), IMAGE, [7.5, 23.5]),
    ("maximum", lambda x: F.max_pool2d(x, 7), IMAGE, [15, 31]),
    ("maximum, a smaller stride", lambda x: F.max_pool2d(x, 5, 2), IMAGE, [15, 31]),
]


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_the_window_ends_with_the_image(case: tuple[str, Any, Any, list[float]]) -> None:
    _, pool, image, expected = case
    found, slope = pooled(pool, image)
    np.testing.assert_allclose(found.reshape(-1), expected, 1e-6)
    np.testing.assert_allclose(slope.sum(), 2.0, 1e-6)


@pytest.mark.usefixtures("tier")
def test_a_window_of_padding_alone_is_empty() -> None:
    """A maximum of no element is the least float32; so the first two and the last two are."""
    image = np.arange(1, 13, dtype="float32").reshape(1, 2, 1, 6)
    found, _ = pooled(lambda x: F.max_pool2d(x, 1, 1, [0, 2]), image)
    least = np.full((1, 2, 1, 2), np.finfo("float32").min)
    np.testing.assert_array_equal(found, np.concatenate([least, image, least], 3))


def test_a_window_that_misses_more_than_a_stride_is_refused() -> None:
    with pytest.raises(ProgramError, match="a window of 6 does not fit a dimension of 4"):
        pooled(lambda x: F.max_pool2d(x, 6, 2), IMAGE)


@pytest.mark.filterwarnings("ignore:no variable in your model")
def test_onnx_has_no_such_pool(tmp_path: Any) -> None:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [1, 2, 4, 4], "float32")
        out = F.avg_pool2d(x, 7)
        exe = static.Executor()
        static.save_inference_model(str(tmp_path / "m"), [x], [out], exe, program=main)
    model = paddle.import_model(tmp_path / "m")
    with pytest.raises(UnsupportedError, match="larger than the image"):
        model.export(tmp_path / "m.onnx")
