"""Aspects of paddle.vision.ops that no recorded program has: categories, layers, errors."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt_tests.frontend.programs import fresh, run, start

ops = paddle.vision.ops
BOXES = [[0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30], [21, 20, 31, 30], [0, 0, 9, 9]]


@pytest.mark.exhaustive
def test_boxes_of_other_categories_do_not_cover_each_other() -> None:
    """The best boxes come first, of the listed categories only, and at most `top_k`."""
    with fresh():
        boxes = static.data("boxes", [5, 4], "float32")
        scores = static.data("scores", [5], "float32")
        own = static.data("own", [5], "int64")
        found = run(
            [
                ops.nms(boxes, 0.5, scores, own, [0, 1]),
                ops.nms(boxes, 0.5, scores, own, [0, 1], 2),
                ops.nms(boxes, 0.5, scores, own, [1]),
            ],
            boxes=np.array(BOXES, "float32"),
            scores=np.array([0.5, 0.6, 0.3, 0.9, 0.1], "float32"),
            own=np.array([0, 1, 0, 0, 0]),
        )
        with pytest.raises(ValueError, match="give 'categories'"):
            ops.nms(boxes, 0.5, scores, own)
    assert [value.tolist() for value in found] == [[3, 1, 0], [3, 1], [1]]


def test_layers() -> None:
    """Layers call the functions; a deformable convolution has its own parameters."""
    with fresh():
        x = static.data("x", [1, 4, 5, 5], "float32")
        boxes, count = static.data("b", [2, 4], "float32"), static.data("n", [1], "int32")
        offset = static.data("offset", [1, 18, 3, 3], "float32")
        layer = ops.DeformConv2D(4, 2, 3)
        assert {k: p.name for k, p in layer.state_dict().items()} == {
            "weight": "deform_conv2d_0.w_0",
            "bias": "deform_conv2d_0.b_0",
        }
        fetched = [layer(x, offset), ops.RoIPool(2)(x, boxes, count)]
        fetched += [ops.PSRoIPool(2)(x, boxes, count), ops.psroi_pool(x, boxes, count, 2)]
        start()
        arrays = run(
            fetched,
            x=np.arange(100, dtype="float32").reshape(1, 4, 5, 5),
            b=np.array([[0, 0, 4, 4], [1, 1, 3, 3]], "float32"),
            n=np.array([2], "int32"),
            offset=np.zeros((1, 18, 3, 3), "float32"),
        )
        with pytest.raises(ValueError, match=r"4 channels .* 9 cells"):
            ops.psroi_pool(x, boxes, count, 3)
    assert [a.shape for a in arrays] == [(1, 2, 3, 3), (2, 4, 2, 2), (2, 1, 2, 2), (2, 1, 2, 2)]
    assert np.array_equal(arrays[2], arrays[3])


@pytest.mark.parametrize("name", ["read_file", "decode_jpeg"])
def test_files_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"Instead: paddle\.vision\.image_load"):
        getattr(ops, name)("image.jpg")
