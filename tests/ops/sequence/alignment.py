"""Samples of the ops that align two sequences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.sequence import alignment as ops
from graphopt_tests.ops.activation import softmax
from graphopt_tests.ops.base import Array, f32, f64, i32, i64, sample


def collapsed(path: tuple[int, ...], blank: int) -> list[int]:
    """Remove repetitions and blanks from a path."""
    return [token for token, _ in itertools.groupby(path) if token != blank]


def ctc(blank: int = 0) -> Any:
    """Sum the probabilities of all paths that give the labels, one by one."""

    def run(x: Array, labels: Array, times: Array, lengths: Array) -> Array:
        p = softmax(x)
        losses = []
        for row, (time, length) in enumerate(zip(times, lengths, strict=True)):
            wanted = list(labels[row, :length])
            paths = itertools.product(range(x.shape[2]), repeat=int(time))
            total = sum(
                np.prod([p[step, row, token] for step, token in enumerate(path)])
                for path in paths
                if collapsed(path, blank) == wanted
            )
            losses.append([-np.log(total) if total else 0])
        return np.array(losses)

    return run


def transduced(x: Array, labels: Array, times: Array, lengths: Array) -> Array:
    """Sum the probabilities of all orders of labels and blanks; the last is a blank."""
    losses = []
    for row, (time, length) in enumerate(zip(times, lengths, strict=True)):
        total = 0.0
        for places in itertools.combinations(range(time + length - 1), int(length)):
            at, state, path = 0, 0, 0.0
            for place in range(time + length):
                if place in places:
                    path += x[row, at, state, labels[row, state]]
                    state += 1
                else:
                    path += x[row, at, state, 0]
                    at += 1
            total += np.exp(path)
        losses.append(-np.log(total))
    return np.array(losses)


def aligned(x: Array, lengths: Array, merge: bool = True, padding: int = 0) -> tuple[Array, Array]:
    out, counts = np.full_like(x, padding), []
    for row, (tokens, length) in enumerate(zip(x, lengths.reshape(-1), strict=True)):
        path = tuple(tokens[:length])
        kept = collapsed(path, 0) if merge else [token for token in path if token]
        out[row, : len(kept)] = kept
        counts.append([len(kept)])
    return out, np.array(counts)


def distance(a: list[int], b: list[int]) -> int:
    if not a or not b:
        return len(a) + len(b)
    changed = distance(a[:-1], b[:-1]) + (a[-1] != b[-1])
    return min(changed, distance(a[:-1], b) + 1, distance(a, b[:-1]) + 1)


def distances(
    a: Array, b: Array, rows: Any = None, columns: Any = None, normalized: bool = False
) -> Any:
    result = []
    for at in range(len(a)):
        m = a.shape[1] if rows is None else rows.reshape(-1)[at]
        n = b.shape[1] if columns is None else columns.reshape(-1)[at]
        result.append([distance(list(a[at, :m]), list(b[at, :n])) / (n if normalized else 1)])
    return np.array(result), np.array([len(a)])


def followed(ids: Array, parents: Array) -> Array:
    out = np.array(ids)
    for batch, beam in np.ndindex(ids.shape[1:]):
        at = beam
        for step in reversed(range(len(ids))):
            out[step, batch, beam] = ids[step, batch, at]
            at = parents[step, batch, at]
    return out


SAMPLES = {
    ops.WarpCtc: [
        sample(f32(4, 2, 3), i32([[1, 2], [2, 2]]), i64([4, 4]), i64([2, 2])).gives(ctc()),
        sample(
            f64(4, 3, 3), i32([[0, 1], [1, 0], [1, 1]]), i64([4, 2, 3]), i64([2, 1, 0]), blank=2
        ).gives(ctc(2)),
        # the second needs a blank between its labels, for which there is no time
        sample(f64(3, 2, 3), i64([[1, 2], [1, 1]]), i64([1, 2]), i64([2, 2])).gives(ctc()),
        sample(f32(3, 1, 2), i32(1, 0), i64([3]), i64([0])).gives(ctc()),
    ],
    ops.WarpRnnt: [
        sample(f64(2, 4, 3, 4), i32([[1, 2], [3, 9]]), i32([4, 3]), i32([2, 1])).gives(transduced),
        sample(f32(1, 1, 1, 2), i32(1, 0), i32([1]), i32([0])).gives(transduced),
    ],
    ops.CtcAlign: [
        sample(i32([[0, 1, 1, 0, 2], [3, 3, 0, 3, 1]]), i32([[5], [4]])).gives(aligned),
        sample(i64([[1, 1, 0, 2]]), i64([3]), merge_repeated=False, padding_value=-1).gives(
            lambda x, n: aligned(x, n, False, -1)
        ),
        sample(i32(2, 0), i32([[0], [0]])).gives(aligned),
    ],
    ops.EditDistance: [
        sample(i64([[1, 2, 3, 4], [1, 2, 0, 0]]), i64([[1, 3, 3], [2, 1, 2]])).gives(distances),
        sample(
            i64([[5, 2, 3, 4], [1, 2, 0, 0], [7, 7, 7, 7]]),
            i64([[1, 3, 3], [2, 1, 2], [1, 2, 3]]),
            i64([[4], [2], [0]]),
            i64([[3], [2], [1]]),
            normalized=True,
        ).gives(lambda a, b, m, n: distances(a, b, m, n, True)),
        sample(i64(2, 0), i64(2, 3)).gives(distances),
    ],
    ops.GatherTree: [
        sample(i64(4, 1, 2), i64([[[0, 0]], [[1, 0]], [[0, 0]], [[0, 1]]])).gives(followed),
        sample(i32(2, 2, 2), i32([[[1, 0], [0, 0]], [[0, 1], [1, 1]]])).gives(followed),
        sample(i64(0, 1, 2), i64(0, 1, 2)).gives(followed),
    ],
    ops.SequenceMask: [
        sample(i64([1, 0, 3]), max_len=3).gives(lambda x: np.arange(3) < x[:, None]),
        sample(i32([[1], [5]]), max_len=2, out_dtype="float32").gives(
            lambda x: np.arange(2) < x[..., None]
        ),
        sample(i64([2]), max_len=0, out_dtype="bool"),
    ],
}
