"""Mask R-CNN's masks of objects in scripts: the results of Paddle 2.6.2, and wrong uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.errors import ProgramError, UnsupportedError
from graphopt_tests.frontend.test_fluid import fresh
from graphopt_tests.ops.detection.masks import BOXES, CORNERS, FIRST

PLACE = fluid.CPUPlace()


def fed(values: Any, dtype: str, *levels: list[int]) -> Any:
    return fluid.create_lod_tensor(np.array(values, dtype), list(levels), PLACE)


def inputs(levels: int = 3) -> list[Any]:
    return [
        fluid.data("image", [None, 3]),
        fluid.data("classes", [None, 1], "int32", lod_level=1),
        fluid.data("crowd", [None, 1], "int32", lod_level=1),
        fluid.data("corners", [None, 2], lod_level=levels),
        fluid.data("boxes", [None, 4], lod_level=1),
        fluid.data("labels", [None, 1], "int32", lod_level=1),
    ]


def test_objects_of_several_polygons() -> None:
    """The second polygon of an object is inside the first, and adds nothing."""
    with fresh() as main:
        fetches = list(fluid.layers.generate_mask_labels(*inputs(), 3, 6))
        feed = {
            "image": np.array([[40, 40, 2], [30, 40, 1]], "float32"),
            "classes": fed([[1], [1]], "int32", [1, 1]),
            "crowd": fed([[0], [0]], "int32", [1, 1]),
            "corners": fed(CORNERS, "float32", [1, 1], [2, 1], [4, 3, 3]),
            "boxes": fed(BOXES, "float32", [3, 2]),
            "labels": fed([[1], [0], [2], [0], [0]], "int32", [3, 2]),
        }
        exe = fluid.Executor(PLACE)
        boxes, places, masks = exe.run(main, feed, fetches, return_numpy=False)
    assert boxes.recursive_sequence_lengths() == [[2, 1]]
    np.testing.assert_allclose(np.array(boxes), [BOXES[0], BOXES[2], BOXES[3]], 1e-6)
    assert np.array(places).ravel().tolist() == [0, 2, 0]
    found = np.array(masks).reshape(3, 3, 36)
    assert "".join(map(str, found[0, 1])) == FIRST
    assert (found[[0, 0, 1, 1, 2, 2, 2], [0, 2, 0, 1, 0, 1, 2]] == -1).all()
    assert (found[1, 2] == 1).all()


def test_labels_are_classes() -> None:
    with fresh() as main, pytest.raises(ProgramError, match="a label is 3, but 'num_classes' is 3"):
        fetches = list(fluid.layers.generate_mask_labels(*inputs(), 3, 6))
        feed = {
            "image": np.array([[40, 40, 2]], "float32"),
            "classes": fed([[1]], "int32", [1]),
            "crowd": fed([[0]], "int32", [1]),
            "corners": fed(CORNERS[:4], "float32", [1], [1], [4]),
            "boxes": fed(BOXES[:1], "float32", [1]),
            "labels": fed([[3]], "int32", [1]),
        }
        fluid.Executor(PLACE).run(main, feed, fetches, return_numpy=False)


def test_outlines_need_three_levels() -> None:
    with fresh(), pytest.raises(UnsupportedError, match="'corners' of 1 levels"):
        fluid.layers.generate_mask_labels(*inputs(1), 3, 6)
