"""Samples of linear algebra."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.linalg import matrices as ops
from graphopt_tests.ops.base import c64, f32, f64, i64, sample

SQUARE = [[4.0, 1.0], [1.0, 3.0]]


SAMPLES = {
    ops.Cholesky: [
        sample(f64(SQUARE)).gives(np.linalg.cholesky).kinked(),
        sample(f32(SQUARE), upper=True).gives(lambda x: np.linalg.cholesky(x).T).kinked(),
    ],
    ops.Inverse: [
        sample(c64([[1 + 2j, 1], [0, 1j]])).gives(np.linalg.inv),
        sample(f64(SQUARE)).gives(np.linalg.inv),
        sample(f32([SQUARE, [[1.0, 2.0], [0.0, 1.0]]])).gives(np.linalg.inv),
    ],
    ops.Cross: [
        sample(f32(2, 3), f32(2, 3)).gives(np.cross).known_sizes(),
        sample(f64(3, 2), f64(3, 2), axis=0).gives(lambda x, y: np.cross(x, y, axis=0)),
        sample(i64(3), i64(3), axis=-1).gives(np.cross),
        sample(f32([1.9, 1.7, 1.3]), f32([1.8, 1.6, 1.2])).gives(np.cross).known_sizes(),
    ],
    ops.Diagonal: [
        sample(f32(3, 4, 2), offset=1).gives(lambda x: np.diagonal(x, 1)),
        sample(i64(2, 3), offset=-1, axis1=1, axis2=0).gives(lambda x: np.diagonal(x, -1, 1, 0)),
        sample(f64(2, 3), offset=5).gives(lambda x: np.zeros(0)),
    ],
    ops.Trace: [
        sample(f32(3, 4, 2), offset=-1).gives(lambda x: np.trace(x, -1)),
        sample(i64(2, 2)).gives(np.trace),
        sample(f64(2, 2, 3), axis1=-1, axis2=1).gives(lambda x: np.trace(x, 0, -1, 1)),
    ],
    ops.Diag: [
        sample(f32(3), offset=1).gives(lambda x: np.diag(x, 1)),
        sample(f64(2), offset=-1, padding_value=7).gives(
            lambda x: np.where(np.eye(3, k=-1) > 0, np.diag(x, -1), 7)
        ),
        sample(i64(3, 2), offset=-1).gives(lambda x: np.diag(x, -1)),
        sample(f32(0), offset=-1, padding_value=2.0).gives(lambda x: [[2]]),
    ],
    ops.Einsum: [
        sample([f32(2, 3), f32(3, 4)], equation="ij,jk->ik").gives(lambda xs: xs[0] @ xs[1]),
        sample([f32(1, 2, 3), f32(4, 3, 1)], equation="bij,bjk->bik").gives(
            lambda xs: xs[0] @ xs[1]
        ),
        sample([f64(3, 3)], equation="ii->i").gives(lambda xs: np.diag(xs[0])),
        sample([f32(2, 2, 3), f32(3, 2)], equation="...ij,...jk->...ik").gives(
            lambda xs: xs[0] @ xs[1]
        ),
        sample([f64(2, 3), f64(3, 2), f64(2)], equation="ij,jk,k->ki").gives(
            lambda xs: (xs[0] @ xs[1] * xs[2]).T
        ),
        sample([f64(2, 3), f64(4)], equation="ij,k->i").gives(
            lambda xs: xs[0].sum(1) * xs[1].sum()
        ),
        # a size of 1 is repeated, also where it is summed over
        sample([f64(2, 1), f64(3, 2)], equation="ij,jk->ik").gives(lambda xs: xs[0] * xs[1].sum(0)),
        sample([f64(2, 1, 3), f64(4, 3)], equation="a...b,...b->...").gives(
            lambda xs: (xs[0].sum(0) * xs[1]).sum(1)
        ),
        sample([f64(1, 2), f64(1, 3)], equation="ij,ik->jik").gives(
            lambda xs: xs[0].T[:, None] * xs[1]
        ),
        sample([f64(3, 3, 2)], equation="iij->").gives(lambda xs: np.trace(xs[0]).sum()),
        sample([i64(2, 2), i64(2, 2)], equation="bi,bi->b").gives(
            lambda xs: (xs[0] * xs[1]).sum(1)
        ),
        sample([c64(2), c64(2)], equation="i,j->ji").gives(lambda xs: np.outer(xs[1], xs[0])),
        sample([f32(2, 0), f32(0, 3)], equation="ij,jk->ik").gives(lambda xs: np.zeros((2, 3))),
    ],
}
