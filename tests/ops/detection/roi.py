"""Samples of pools over boxes and of deformable convolutions."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.detection.roi import PrroiPool, PsroiPool, RoiAlign, RoiPool
from graphopt_tests.ops.base import f32, f64, i32, sample

# one box for each of two images, and two
ONE = f32([[0.0, 0.0, 2.0, 2.0], [1.0, 0.5, 3.0, 3.5]])
TWO = f64([[0.0, 1.0, 2.5, 2.0], [1.0, 0.5, 3.0, 3.5]])
FAR = f64([[-3.0, -2.0, 7.0, 2.5], [1.2, 1.7, 1.3, 1.8], [20.0, 20.0, 30.0, 30.0]])
CORNERS = [(0, 0), (0, 1), (1, 0), (1, 1)]
CELLS = {"pooled_height": 2, "pooled_width": 2}


def points_in(image: np.ndarray, box: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Average each of two by two cells of a box over as many points as it has pixels."""
    x, y, right, bottom = map(float, box)
    sides = (bottom - y) / 2, (right - x) / 2
    counts = [int(np.ceil(side)) for side in sides]
    found = np.zeros((2, 2))
    for i, j, k, m in np.ndindex(2, 2, *counts):
        row = y + sides[0] * (i + (k + 0.5) / counts[0])
        column = x + sides[1] * (j + (m + 0.5) / counts[1])
        found[i, j] += between(image, row, column) / np.prod(counts)
    return found


def between(image: np.ndarray, row: float, column: float) -> float:  # type: ignore[type-arg]
    """Interpolate the value at a point from its four pixels."""
    total = 0.0
    row, column = (
        min(max(at, 0.0), size - 1.0) for at, size in zip((row, column), image.shape, strict=True)
    )
    for i, j in np.ndindex(*image.shape):
        total += max(1 - abs(row - i), 0) * max(1 - abs(column - j), 0) * float(image[i, j])
    return total


SAMPLES = {
    RoiAlign: [
        sample(f32(1, 2, 4, 4), ONE[:1], i32([1]), sampling_ratio=1, **CELLS)
        .gives(lambda x, *_: np.mean([x[:, :, i : i + 2, j : j + 2] for i, j in CORNERS], 0))
        .kinked(),
        sample(f64(2, 1, 4, 4), TWO, i32([1, 1]), sampling_ratio=2, aligned=True, **CELLS).kinked(),
        sample(f32(2, 1, 4, 4), ONE, i32([0, 2]), sampling_ratio=1, spatial_scale=0.5).kinked(),
        # one point for each pixel: of the first box two in each cell, of the second one and two
        sample(
            f32(1, 1, 4, 4), f32([[0.0, 0.0, 4.0, 4.0], [1.0, 0.0, 2.0, 3.0]]), i32([2]), **CELLS
        )
        .gives(lambda x, boxes, _: np.stack([points_in(x[0, 0], box) for box in boxes])[:, None])
        .kinked(),
        # over the edges, and far away
        sample(
            f64(1, 2, 3, 5),
            FAR,
            i32([3]),
            **CELLS,
        ).kinked(),
        sample(f32(1, 2, 4, 4), f32(0, 4), i32([0]), **CELLS).kinked(),
    ],
    RoiPool: [
        sample(f32(1, 2, 4, 4), ONE[:1], i32([1]), pooled_height=1, pooled_width=1)
        .gives(lambda x, *_: x[:, :, :3, :3].max((2, 3), keepdims=True))
        .kinked(),
        sample(f32(2, 1, 4, 4), ONE, i32([1, 1]), **CELLS).kinked(),
        sample(
            f64(1, 2, 3, 5),
            FAR,
            i32([3]),
            pooled_height=3,
            pooled_width=2,
            spatial_scale=0.75,
        ).kinked(),
        sample(f32(1, 2, 4, 4), f32(0, 4), i32([0]), **CELLS).kinked(),
    ],
    PrroiPool: [
        sample(f64(1, 1, 4, 4), f64([[1.0, 1.0, 1.0, 2.0]]), i32([1]))
        .gives(lambda x, *_: np.zeros([1, 1, 1, 1]))
        .kinked(),
        # no corner on a pixel, where the derivative has a kink
        sample(f64(2, 2, 4, 4), TWO + 0.1, i32([1, 1]), spatial_scale=0.5, **CELLS),
        # over the edges, and far away
        sample(f64(1, 2, 3, 5), FAR, i32([3]), **CELLS).kinked(),
        sample(f32(1, 2, 4, 4), f32(0, 4), i32([0]), **CELLS).kinked(),
    ],
    PsroiPool: [
        sample(f32(1, 4, 4, 4), f32([[0.0, 0.0, 3.0, 3.0]]), i32([1]), output_channels=1, **CELLS)
        .gives(
            lambda x, *_: [
                [
                    [
                        [x[0, 2 * i + j, 2 * i :, 2 * j :][:2, :2].mean() for j in (0, 1)]
                        for i in (0, 1)
                    ]
                ]
            ]
        )
        .kinked(),
        sample(f32(2, 2, 4, 4), ONE, i32([1, 1]), output_channels=2).kinked(),
        sample(
            f64(1, 8, 3, 5), FAR, i32([3]), output_channels=2, spatial_scale=0.75, **CELLS
        ).kinked(),
        sample(f32(1, 4, 4, 4), f32(0, 4), i32([0]), output_channels=1, **CELLS).kinked(),
    ],
}
