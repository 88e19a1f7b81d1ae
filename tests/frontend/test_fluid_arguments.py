"""Arguments of fluid.layers that Paddle 1.8.5 refuses, and results written to `out`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from graphopt import fluid
from graphopt_tests.frontend.test_fluid import fresh

layers = fluid.layers
WRONG: Any = [0]


def image(dtype: str = "float32") -> Any:
    return fluid.data("image", [2, 4, 6, 6], dtype)


def rois() -> Any:
    return layers.data("rois", [4], lod_level=1)


REFUSED: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "conv2d": (ValueError, lambda: layers.conv2d(image(), 3, 3, use_cudnn=WRONG)),
    "pool2d": (TypeError, lambda: layers.pool2d(image(), 2, use_cudnn=WRONG)),
    "maxout": (ValueError, lambda: layers.maxout(image(), 2, axis=2)),
    "resize": (ValueError, lambda: layers.resize_nearest(image(), [4, 8], data_format="NDHWC")),
    "sizes": (ValueError, lambda: layers.resize_bilinear(image(), [4])),
    "expand": (ValueError, lambda: layers.expand(image("bool"), [1, 1, 1, 2])),
    "fc": (TypeError, lambda: layers.fc(image("int32"), 2)),
    "prroi_pool": (TypeError, lambda: layers.prroi_pool(image(), rois(), 2, 7, 7)),
    "meshgrid": (TypeError, lambda: layers.meshgrid(cast(Any, rois()))),
    "logsumexp": (TypeError, lambda: layers.logsumexp(image("float16"))),
    "logsumexp of None": (AssertionError, lambda: layers.logsumexp(None)),  # pyright: ignore
    "fill": (TypeError, lambda: layers.fill_constant([1], "float64", 5, out=image("int32"))),
    "fill an array": (
        TypeError,
        lambda: layers.fill_constant([1], "int32", 5, out=np.zeros(1, "int32")),  # pyright: ignore[reportArgumentType]
    ),
    "full": (AssertionError, lambda: layers.full([], 1.0)),
    "kron": (TypeError, lambda: layers.kron(image("uint8"), rois())),
    "randperm": (ValueError, lambda: layers.randperm(3, device="disk")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    error, call = REFUSED[name]
    with fresh(), pytest.raises(error):
        call()


def test_triangles_name_what_is_wrong() -> None:
    """The messages are Paddle's, which its tests match."""
    api: Any = layers
    with fresh():
        with pytest.raises(TypeError, match="diagonal in tril must be a python Int"):
            api.tril(image(), WRONG)
        with pytest.raises(ValueError, match="input shape in triu must be at least 2-D"):
            api.triu(fluid.data("x", [3]))


def test_results_go_to_out() -> None:
    with fresh():
        x = fluid.data("x", [2, 2])
        ways: list[Callable[..., Any]] = [
            lambda out: layers.full([2], 3.0, out, device="cpu"),
            lambda out: layers.full_like(x, 4.0, out),
            lambda out: layers.kron(x, x, out),
            lambda out: layers.logsumexp(x, 1, out=out),
        ]
        outs = [layers.create_tensor("float32") for _ in ways]
        for way, out in zip(ways, outs, strict=True):
            assert way(out) is out
        order = layers.create_tensor("int32")
        layers.randperm(4, order, "int32")
        ones = np.ones((2, 2), "float32")
        found = fluid.Executor(fluid.CPUPlace()).run(feed={"x": ones}, fetch_list=[*outs, order])
    wanted = [[3, 3], ones * 4, np.ones((4, 4)), np.log(2 * np.e) * np.ones(2)]
    for value, expected in zip(found, wanted, strict=False):
        np.testing.assert_allclose(value, expected, 1e-6)
    assert sorted(found[-1]) == [0, 1, 2, 3]


def test_roll_takes_a_number() -> None:
    space: Any = layers
    with fresh():
        assert space.roll(image(), 1, 0).shape == (2, 4, 6, 6)


def test_images_of_bytes() -> None:
    """Interpolated bytes lose their fractions."""
    with fresh():
        x = fluid.data("x", [1, 1, 1, 2], "uint8")
        near = layers.resize_nearest(x, [1, 4])
        far = x.block.create_var(name="far", dtype="uint8")
        attrs = {"out_h": 1, "out_w": 3}
        x.block.append_op("bilinear_interp", {"X": x}, {"Out": far}, attrs)
        pixels = np.array([[[[0, 255]]]], "uint8")
        found = fluid.Executor(fluid.CPUPlace()).run(feed={"x": pixels}, fetch_list=[near, far])
    assert [value.dtype.name for value in found] == ["uint8", "uint8"]
    assert [value.ravel().tolist() for value in found] == [[0, 0, 255, 255], [0, 127, 255]]
