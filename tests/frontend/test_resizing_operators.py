"""Resizing operators with several inputs for a size or a scale, and the one that Paddle takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt.ir.formats import read_program, write_program

LINE = np.array([[[1, 2, 4, 8]]], "float32")
SQUARE = np.array([[[[1, 2, 4], [8, 16, 32]]]], "float32")
SIZES = {
    "OutSize": [np.array([3], "int32")],
    "SizeTensor": [np.array([2], "int32")],
    "Scale": [np.array([2.0], "float32")],
}
SIZES_2 = {
    "OutSize": [np.array([2, 2], "int32")],
    "SizeTensor": [np.array([2], "int32"), np.array([4], "int32")],
    "Scale": [np.array([2.0], "float32")],
}


def resized(mode: str, x: Any, slots: str, **attrs: Any) -> Any:
    """Resize x by the operator with half-pixel centers and these slots filled."""
    given = SIZES if x.ndim == 3 else SIZES_2
    feed = {"x": x}
    program = paddle.static.Program()
    with paddle.static.program_guard(program):
        block = program.global_block()
        inputs = {"X": [paddle.static.data("x", x.shape, "float32")]}
        for slot in slots.split():
            inputs[slot] = []
            for number, value in enumerate(given[slot]):
                name = f"{slot}{number}"
                feed[name] = value
                inputs[slot].append(paddle.static.data(name, value.shape, value.dtype.name))
        out = block.create_var(name="out", dtype="float32")
        common = {"align_corners": False, "align_mode": 0, "interp_method": mode}
        block.append_op(f"{mode}_interp_v2", inputs, {"Out": [out]}, {**common, **attrs})
        (found,) = paddle.static.Executor().run(program, feed=feed, fetch_list=[out])
    return found


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("mode", "x", "slots", "attrs", "wanted"),
    [
        ("linear", LINE, "OutSize", {"scale": [1.5]}, [1, 1.5, 2.33333]),
        ("linear", LINE, "OutSize Scale", {"scale": [1.5]}, [1, 1.25, 1.75]),
        ("linear", LINE, "SizeTensor", {"scale": [1.5]}, [1.5, 6]),
        ("linear", LINE, "OutSize SizeTensor Scale", {"scale": [1.5]}, [1.5, 6]),
        ("linear", LINE, "Scale", {"out_w": 3}, [1, 1.25, 1.75, 2.5, 3.5, 5, 7, 8]),
        ("linear", LINE, "", {"scale": [1.5], "out_w": 3}, [1, 1.5, 2.33333, 3.66667, 6, 8]),
        ("linear", LINE, "OutSize", {"out_w": 6}, [1.16667, 3, 7.33333]),
        ("nearest", SQUARE, "OutSize", {"scale": [1.5, 1.5]}, [1, 1, 1, 1]),
        ("bilinear", SQUARE, "OutSize", {"scale": [1.5, 1.5]}, [1, 1.5, 4.5, 6.75]),
        ("bilinear", SQUARE, "OutSize Scale", {}, [1, 1.25, 2.75, 3.4375]),
        (
            *("bilinear", SQUARE, "SizeTensor Scale", {"scale": [1.5, 1.5]}),
            [1, 1.625, 2.75, 4, 8, 13, 22, 32],
        ),
        ("bicubic", SQUARE, "OutSize Scale", {}, [0.23412, 0.30261, 2.3132, 2.98999]),
    ],
)
def test_which_size_and_scale_count(
    mode: str, x: Any, slots: str, attrs: dict[str, Any], wanted: list[float]
) -> None:
    """The numbers are those of Paddle 3.3.1."""
    np.testing.assert_allclose(resized(mode, x, slots, **attrs).ravel(), wanted, 1e-5, 1e-5)


@pytest.mark.parametrize(("version", "size"), [(2006002, 7), (3003001, 6)])
def test_sizes_by_scales_of_files(version: int, size: int) -> None:
    """Files have float32 scales. Paddle 2.6.2 multiplies in float32, 3.3.1 does not."""
    program = paddle.static.Program()
    with paddle.static.program_guard(program):
        x = paddle.static.data("x", [1, 1, 10], "float32")
        functional = paddle.nn.functional
        functional.interpolate(x, scale_factor=0.7, mode="linear", data_format="NCW")
    program.saved = {"version": {"version": version}}
    read = read_program(write_program(program))
    fetched = read.global_block().ops[-1].output_arg_names
    (found,) = paddle.static.Executor().run(read, {"x": np.ones([1, 1, 10], "float32")}, fetched)
    assert found.shape == (1, 1, size)


def test_images_of_their_own_size_stay() -> None:
    """An image of the target size is unchanged, whatever the scale, as in Paddle."""
    found = resized("bilinear", np.ones((1, 1, 2, 2), "float32") * SQUARE[..., :2], "OutSize Scale")
    assert found.ravel().tolist() == [1, 2, 8, 16]


@pytest.mark.parametrize("several", [False, True])
def test_grids_of_sizes_that_the_run_decides(several: bool) -> None:
    """An image's sizes are one tensor, or a list of tensors."""
    functional = paddle.nn.functional
    program = paddle.static.Program()
    with paddle.static.program_guard(program):
        x = paddle.static.data("x", [None, 1, None, None], "float32")
        theta = paddle.static.data("theta", [None, 2, 3], "float32")
        sizes = paddle.shape(x)
        wanted = [sizes[0], 1, sizes[2], sizes[3]] if several else sizes
        grid = functional.affine_grid(theta, wanted)
        assert grid.shape == [-1, -1, -1, 2]
        out = functional.grid_sample(x, grid)
    same = np.array([[[1, 0, 0], [0, 1, 0]]], "float32")
    for shape in ((1, 1, 2, 3), (1, 1, 4, 2)):
        image = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        feed = {"x": image, "theta": same}
        (found,) = paddle.static.Executor().run(program, feed, [out])
        np.testing.assert_allclose(found, image, atol=1e-5)


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_paddings_that_the_run_decides(layout: str, mode: str) -> None:
    """The tensor has two numbers for width, then height, then depth, as the attribute has."""
    x = np.arange(36, dtype="float32").reshape(1, 1, 3, 3, 4)
    amounts = np.array([1, 2, 0, 1, 2, 0], "int32")
    if layout == "NDHWC":
        x = x.transpose(0, 2, 3, 4, 1)
    found = []
    for known in (True, False):
        program = paddle.static.Program()
        with paddle.static.program_guard(program):
            block = program.global_block()
            slots = {"X": paddle.static.data("x", x.shape, "float32")}
            attrs = {"mode": mode, "value": 7.0, "data_format": layout}
            if known:
                attrs["paddings"] = amounts.tolist()
            else:
                slots["Paddings"] = paddle.static.data("p", [6], "int32")
            out = block.create_var("out", dtype="float32")
            block.append_op("pad3d", slots, {"Out": out}, attrs)
        feed = {"x": x} if known else {"x": x, "p": amounts}
        found += paddle.static.Executor().run(program, feed, [out])
    np.testing.assert_array_equal(*found)
    assert sum(found[0].shape) == sum(x.shape) + 6
