"""Pairs of text sequences, and sequences with a tag, pair by pair."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.sequence import matching as ops
from graphopt.reference.ops.sequence.rows import rows_of
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(ops.MatchMatrixTensor)
def match_matrix_tensor(
    x: Array, x_lengths: Array, y: Array, y_lengths: Array, weight: Array
) -> tuple[Array, Array, Array]:
    channels, width = weight.shape[1:]
    products = np.reshape(np.einsum("nd,dce->nce", x, weight), (x.shape[0], channels * width))
    found: list[Array] = []
    for own, other in zip(rows_of(x_lengths), rows_of(y_lengths), strict=False):
        rows = np.array(own, np.int64), np.array(other, np.int64)
        left, right = (np.take(z, n, 0) for z, n in zip((products, y), rows, strict=True))
        pairs = np.einsum("kce,le->ckl", np.reshape(left, (-1, channels, width)), right)
        found.append(np.reshape(pairs, (-1, 1)))
    sizes = channels * np.reshape(x_lengths, -1) * np.reshape(y_lengths, -1)
    out = np.concatenate(found) if found else np.zeros((0, 1), x.dtype)
    return out, sizes, products


@rule(ops.FilterByInstag)
def filter_by_instag(
    x: Array,
    tags: Array,
    tag_lengths: Array,
    wanted: Array,
    lengths: Array | None,
    out_val_if_empty: float,
) -> tuple[Array, ...]:
    marks, sought = np.reshape(tags, -1).tolist(), set(np.reshape(wanted, -1).tolist())
    parts = [[row] for row in range(x.shape[0])] if lengths is None else rows_of(lengths)
    taken: list[int] = []
    index: list[list[int]] = []
    for rows, own in zip(parts, rows_of(tag_lengths), strict=False):
        if sought.intersection(marks[number] for number in own):
            # an empty sequence starts at the end of the sequence before it
            start = rows[0] if rows else sum(len(part) for part in parts[: parts.index(rows)])
            index.append([len(taken), start, len(rows)])
            taken += rows
    if not index:
        none = np.full((1, *x.shape[1:]), out_val_if_empty, x.dtype)
        return none, np.zeros((1, 1)), np.array([[0, 1, 1]]), np.array([1])
    sizes = np.array([size for _, _, size in index])
    out = np.take(x, np.array(taken, np.int64), 0)
    return out, np.ones((len(index), 1)), np.array(index), sizes
