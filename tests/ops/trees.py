"""Samples of convolutions on trees."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.trees import TreeConv
from graphopt_tests.ops.base import Array, f32, f64, i32, sample


def chain(nodes: Array, _: Array, filter: Array) -> Array:
    """Convolve the tree 1 - 2 - (3, 4) in windows of three levels; the last node is absent."""
    right, left, top = np.moveaxis(filter, 1, 0)
    one, two, three, four, _ = np.moveaxis(nodes, 1, 0)
    third = 1 / 3

    def part(x: Array, down: float, to_right: float) -> Array:
        side = down * to_right
        mixed = right * side + left * down * (1 - side) + top * (1 - down)
        return np.einsum("bd,dof->bof", x, mixed)

    out = [
        part(one, 0, 0)
        + part(two, third, 0.5)
        + part(three, 2 * third, 0)
        + part(four, 2 * third, 1),
        part(two, 0, 0) + part(three, third, 0) + part(four, third, 1),
        part(three, 0, 0),
        part(four, 0, 0),
    ]
    return np.stack([*out, np.zeros_like(out[0])], 1)


SAMPLES = {
    TreeConv: [
        sample(
            *(f64(2, 5, 2), i32([[[1, 2], [2, 3], [2, 4], [0, 0]]] * 2), f64(2, 3, 2, 3)),
            max_depth=3,
        ).gives(chain),
        # as 1.8.5 computes it: each node by itself
        sample(f32(1, 2, 3), i32([[[1, 2]]]), f32(3, 3, 1, 1), max_depth=1).gives(
            lambda x, _, w: np.einsum("bnd,dof->bnof", x, w[:, 2])
        ),
    ],
}
