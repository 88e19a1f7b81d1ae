"""Samples of the pixels of objects in boxes, as Paddle 2.6.2 computes them."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.detection.masks import GenerateMaskLabels
from graphopt_tests.ops.base import f32, i32, i64, sample

# a quadrangle, a triangle in it, and another triangle
CORNERS = [
    *([2.2, 1.5], [11.7, 2.1], [9.3, 12.8], [1.1, 8.6], [4.0, 4.0], [7.0, 4.5], [5.0, 7.9]),
    *([20.0, 3.0], [30.5, 3.2], [25.0, 18.0]),
]
BOXES = [[2, 2, 22, 26], [0, 0, 5, 5], [8, 8, 15, 16], [3, 0, 33, 20], [5, 6, 9, 9]]
NONE = "." * 36
FIRST = "011110111111111111111111001110000010"
SECOND = "111000111110011100011000011000000000"


def _pixels(*rows: tuple[str, str, str]) -> np.ndarray:
    """Parse the pixels of three classes in each box; a dot is -1."""
    return np.array([[-1 if c == "." else int(c) for c in "".join(row)] for row in rows])


SAMPLES = {
    GenerateMaskLabels: [
        # the second image has no box with an object: its first one of the background stays
        sample(
            f32([[40, 40, 2], [30, 40, 1]]),
            *(i32([[1], [2], [1]]), i32([[0], [0], [0]]), f32(CORNERS)),
            *(f32(BOXES), i32([[1], [0], [2], [0], [0]])),
            *(i64([2, 1]), i64([1, 1, 1]), i64([4, 3, 3]), i64([3, 2])),
            num_classes=3,
            resolution=6,
        ).gives(
            lambda *_: (
                [BOXES[0], BOXES[2], BOXES[3]],
                [[0], [2], [0]],
                _pixels((NONE, FIRST, NONE), (NONE, NONE, SECOND), (NONE, NONE, NONE)),
                [2, 1],
            )
        ),
    ],
}
