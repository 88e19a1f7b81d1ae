"""Samples of decompositions of matrices."""

from __future__ import annotations

import math

import numpy as np

from graphopt.ir.dialect.ops.linalg.decompositions import (
    CholeskySolve,
    Det,
    Eig,
    Eigh,
    Eigvals,
    Eigvalsh,
    Lu,
    LuUnpack,
    MatrixExp,
    MatrixPower,
    MatrixRank,
    MultiDot,
    Qr,
    Slogdet,
    Solve,
    Svd,
    TriangularSolve,
)
from graphopt_tests.ops.base import f32, f64, i32, sample

SQUARE = [[4.0, 1.0], [1.0, 3.0]]
UPPER = [[2.0, 1.0], [0.0, 4.0]]


SAMPLES = {
    Det: [
        sample(f64(SQUARE)).gives(np.linalg.det),
        sample(f32([SQUARE, UPPER])).gives(np.linalg.det),
    ],
    Slogdet: [
        sample(f64([SQUARE, UPPER])).gives(lambda x: np.stack(np.linalg.slogdet(x))),
        sample(f32([[0.0, 1.0], [1.0, 0.0]])).gives(lambda x: [-1, 0]),
    ],
    Qr: [
        sample(f64([[3.0, 1.0], [4.0, 2.0], [0.0, 1.0]])).gives(np.linalg.qr),
        sample(f32([[3.0, 1.0], [4.0, 2.0]]), mode="complete").gives(np.linalg.qr),
        sample(f64(3, 2), mode="r")
        .gives(lambda x: (np.zeros(0), np.linalg.qr(x, "r")))
        .gradient_through(1),
    ],
    Svd: [
        sample(f64([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
        .gives(lambda x: (np.eye(3, 2), [3, 1], np.eye(2)))
        .gradient_through(1),
        sample(f64(3, 2), full_matrices=True).kinked(),
    ],
    Eigh: [
        sample(f64([[4.0, 0.0], [0.0, 5.0]])).gives(lambda x: ([4, 5], np.eye(2))).kinked(),
        sample(f64([[1.0, 9.0], [0.0, 2.0]])).gives(lambda x: ([1, 2], np.eye(2))).kinked(),
    ],
    Eigvalsh: [
        sample(f32(SQUARE)).gives(np.linalg.eigvalsh).kinked(),
        sample(f64([[1.0, 0.0], [9.0, 2.0]]), UPLO="U").gives(lambda x: [1, 2]).kinked(),
    ],
    Eig: [sample(f64(UPPER)).gives(np.linalg.eig), sample(f64(3, 2, 2))],
    Eigvals: [sample(f64([[0.0, -1.0], [1.0, 0.0]])).gives(np.linalg.eigvals)],
    Lu: [
        sample(f64([[1.0, 2.0], [4.0, 2.0]])).gives(lambda x: ([[4, 2], [0.25, 1.5]], [2, 2], 0)),
        sample(f32([[[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]]])).kinked(),
    ],
    LuUnpack: [
        sample(f64([[4.0, 2.0], [0.25, 1.5]]), i32([2, 2])).gives(
            lambda x, y: ([[0, 1], [1, 0]], [[1, 0], [0.25, 1]], [[4, 2], [0, 1.5]])
        ),
        sample(f32(3, 2), i32([3, 3]), unpack_ludata=False).gives(
            lambda x, y: ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], np.zeros(0), np.zeros(0))
        ),
    ],
    Solve: [
        sample(f64(SQUARE), f64(2, 3)).gives(np.linalg.solve),
        sample(f32([SQUARE, UPPER]), f32(2, 2))
        .gives(lambda x, y: np.linalg.solve(x, y[..., None])[..., 0])
        .known_sizes(),
        sample(f64(SQUARE), f64(2)).gives(np.linalg.solve),
    ],
    TriangularSolve: [
        sample(f64(UPPER), f64(2, 3)).gives(np.linalg.solve),
        sample(f64(SQUARE), f64(3, 2, 1), upper=False, transpose=True, unitriangular=True).gives(
            lambda x, y: np.linalg.solve(np.array([[1, 1], [0, 1]]), y)
        ),
    ],
    CholeskySolve: [
        sample(f64(2, 3), f64(UPPER), upper=True).gives(lambda x, y: np.linalg.solve(y.T @ y, x)),
        sample(f32(2, 1), f32([[2.0, 0.0], [1.0, 4.0]])).gives(
            lambda x, y: np.linalg.solve(y @ y.T, x)
        ),
    ],
    MatrixPower: [
        sample(f64(SQUARE), n=3).gives(lambda x: x @ x @ x),
        sample(f32([SQUARE]), n=-1).gives(np.linalg.inv),
        sample(f64(SQUARE), n=0).gives(lambda x: np.eye(2)),
    ],
    MatrixExp: [
        sample(f64([[0.0, 1.0], [-1.0, 0.0]])).gives(
            lambda x: [[math.cos(1), math.sin(1)], [-math.sin(1), math.cos(1)]]
        ),
        sample(f32(3, 2, 2)),
    ],
    MatrixRank: [
        sample(f64([[1.0, 2.0], [2.0, 4.0]])).gives(lambda x: 1),
        sample(f32([SQUARE]), None, tol=3.0, use_default_tol=False).gives(lambda x, tol: [1]),
        sample(f64(SQUARE), f64([1.0, 9.0]), hermitian=True).gives(lambda x, tol: [2, 0]),
    ],
    MultiDot: [
        sample([f64(2, 3), f64(3, 4), f64(4, 1)]).gives(np.linalg.multi_dot),
        sample([f32(3), f32(3, 2)]).gives(lambda x: x[0] @ x[1]),
    ],
}
