"""Samples of the ops on tags of sequences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.sequence.tagging import (
    ChunkEval,
    CrfDecoding,
    LinearChainCrf,
    ViterbiDecode,
)
from graphopt_tests.ops.base import Array, f32, f64, i32, i64, sample

LENGTHS = [2, 0, 3]
SCALE = np.float32(1.37)  # the numbers of samples have equal distances, and paths so equal scores


def score(rows: Array, path: tuple[int, ...], transition: Array) -> Any:
    """Score one path through one sequence."""
    steps = sum(transition[2 + a, b] for a, b in itertools.pairwise(path))
    own = sum(row[tag] for row, tag in zip(rows, path, strict=True))
    return transition[0, path[0]] + own + steps + transition[1, path[-1]]


def ways(rows: Array, transition: Array) -> dict[tuple[int, ...], Any]:
    paths = itertools.product(range(rows.shape[1]), repeat=len(rows))
    return {path: score(rows, path, transition) for path in paths}


def unlikely(rows: Array, tags: Array, transition: Array) -> Any:
    """Compute the negative log-likelihood of the tags of one sequence, over all paths."""
    if not len(rows):
        return 0.0
    whole = np.log(np.sum(np.exp(list(ways(rows, transition).values()))))
    return whole - score(rows, tuple(tags.ravel().tolist()), transition)


def best(rows: Array, transition: Array) -> list[int]:
    found = ways(rows, transition)
    return list(max(found, key=lambda path: found[path])) if len(rows) else []


def framed(transition: Array) -> Array:
    """Add rows for start and end to the transitions, as `score` takes them."""
    return np.concatenate([transition[-1:], transition[-2:-1], transition])


def unframed(transition: Array) -> Array:
    return np.concatenate([np.zeros_like(transition[:2]), transition])


TAGS = [[1], [0], [2], [2], [1]]


SAMPLES = {
    LinearChainCrf: [
        sample(f32(5, 3), f32(5, 3), i64(TAGS), i64(LENGTHS)).gives(
            lambda x, w, y, n: [
                [unlikely(x[:2], y[:2], w)],
                [0.0],
                [unlikely(x[2:], y[2:], w)],
            ]
        ),
        sample(f64(2, 3, 2), f64(4, 2), i64([[1, 0, 1], [0, 1, 1]]), i64([1, 3])).gives(
            lambda x, w, y, n: [[unlikely(x[0, :1], y[0, :1], w)], [unlikely(x[1], y[1], w)]]
        ),
    ],
    CrfDecoding: [
        sample(f32(5, 3) * SCALE, f32(5, 3), i64(LENGTHS), None).gives(
            lambda x, w, n, y: [[tag] for tag in best(x[:2], w) + best(x[2:], w)]
        ),
        sample(f64(2, 3, 2), f64(4, 2), i32([1, 3])).gives(
            lambda x, w, n: [[*best(x[0, :1], w), 0, 0], best(x[1], w)]
        ),
        sample(f32(5, 3) * SCALE, f32(5, 3), i64(LENGTHS), i64(TAGS)).gives(
            lambda x, w, n, y: np.array(best(x[:2], w) + best(x[2:], w))[:, None] == y
        ),
    ],
    ViterbiDecode: [
        sample(f32(2, 3, 3) * SCALE, f32(3, 3), i64([2, 1])).gives(
            lambda x, w, n: (
                [max(ways(x[0, :2], framed(w)).values()), max(ways(x[1, :1], framed(w)).values())],
                [best(x[0, :2], framed(w)), [*best(x[1, :1], framed(w)), 0]],
            )
        ),
        sample(f64(2, 2, 3) * SCALE, f64(3, 3), i32([0, 2]), include_bos_eos_tag=False).gives(
            lambda x, w, n: (
                [x[0, 0].max(), max(ways(x[1], unframed(w)).values())],
                [[0, 0], best(x[1], unframed(w))],
            )
        ),
    ],
    ChunkEval: [
        # found: B-0 I-0 | B-1, B-0, O; there: B-0 I-0 | B-1 I-1, B-0
        sample(
            i64([[0], [1], [2], [0], [4]]),
            i64([[0], [1], [2], [3], [0]]),
            i64([2, 0, 3]),
            num_chunk_types=2,
        ).gives(lambda x, y, n: ([1 / 3], [1 / 3], [1 / 3], [3], [3], [1])),
        sample(
            i64([[0, 0, 1], [1, 1, 2]]),
            i64([[0, 0, 1], [1, 0, 0]]),
            i64([3, 1]),
            num_chunk_types=2,
            chunk_scheme="plain",
            excluded_chunk_types=(0,),
            steps=1,
        ).gives(lambda x, y, n: ([1], [1], [1], [2], [2], [2])),
    ],
}
