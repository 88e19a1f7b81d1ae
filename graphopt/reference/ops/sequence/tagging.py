"""Conditional random fields, sequence by sequence and step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.sequence import tagging as ops
from graphopt.reference.ops.reduce import logsumexp
from graphopt.reference.ops.sequence.rows import rows_of
from graphopt.reference.registry import Unsupported, rule
from graphopt.reference.tape import Array, value_of


def _sequences(emission: Array, lengths: Array) -> list[list[Array]]:
    """List the scores of each step of each sequence."""
    if emission.ndim == 3:
        sizes = enumerate(lengths.tolist())
        return [[emission[i, t] for t in range(size)] for i, size in sizes]
    return [[emission[row] for row in rows] for rows in rows_of(lengths)]


def _tags(label: Array, lengths: Array, padded: bool) -> list[list[int]]:
    if padded:
        rows = np.reshape(label, (len(lengths), -1)).tolist()
        return [row[:size] for row, size in zip(rows, lengths.tolist(), strict=True)]
    flat = np.reshape(label, -1).tolist()
    return [[flat[row] for row in rows] for rows in rows_of(lengths)]


@rule(ops.LinearChainCrf)
def linear_chain_crf(emission: Array, transition: Array, label: Array, lengths: Array) -> Array:
    start, end, between = transition[0], transition[1], transition[2:]
    out: list[Any] = []
    tags = _tags(label, lengths, emission.ndim == 3)
    for scores, path in zip(_sequences(emission, lengths), tags, strict=True):
        if not path:
            out.append(np.zeros(()))
            continue
        ahead, own = start + scores[0], start[path[0]] + scores[0][path[0]]
        for row, old, new in zip(scores[1:], path[:-1], path[1:], strict=True):
            ahead = row + logsumexp(np.reshape(ahead, (-1, 1)) + between, (0,), False)
            own = own + row[new] + between[old, new]
        out.append(logsumexp(ahead + end, (0,), False) - own - end[path[-1]])
    return np.reshape(np.stack(out), (-1, 1)) if out else np.zeros((0, 1))


@rule(ops.CrfDecoding)
def crf_decoding(emission: Array, transition: Array, lengths: Array, label: Array | None) -> Array:
    padded = emission.ndim == 3
    start, end, between = transition[0], transition[1], transition[2:]
    found: list[list[int]] = []
    for scores in _sequences(emission, lengths):
        best = start + scores[0] if scores else end
        back: list[Array] = []
        for row in scores[1:]:
            ways = best[:, None] + between
            back.append(np.argmax(ways, 0))
            best = row + np.max(ways, 0)
        path = [int(np.argmax(best + end))] if scores else []
        for step in reversed(back):
            path.insert(0, int(step[path[0]]))
        found.append(path)
    if label is not None:
        pairs = zip(found, _tags(label, lengths, padded), strict=True)
        found = [[int(a == b) for a, b in zip(*pair, strict=True)] for pair in pairs]
    if not padded:
        return np.array([tag for path in found for tag in path], np.int64).reshape(-1, 1)
    steps = emission.shape[1]
    return np.array([path + [0] * (steps - len(path)) for path in found], np.int64)


@rule(ops.ViterbiDecode)
def viterbi_decode(
    potentials: Array, transition: Array, lengths: Array, include_bos_eos_tag: bool
) -> tuple[Array, Array]:
    longest = int(np.max(lengths, initial=0))
    if not 0 < longest <= potentials.shape[1] or np.any(lengths < 0):
        raise Unsupported("pd.viterbi_decode", "a length is out of range")
    scores: list[Array] = []
    path = np.zeros((len(lengths), longest), np.int64)
    for number, size in enumerate(lengths.tolist()):
        best = potentials[number, 0]
        if include_bos_eos_tag:
            best = best + transition[-1]
        back: list[Array] = []
        for row in potentials[number, 1:size]:
            ways = best[:, None] + transition
            back.append(np.argmax(value_of(ways), 0))
            best = row + np.max(ways, 0)
        if include_bos_eos_tag and size:
            best = best + transition[-2]
        tags = [int(np.argmax(value_of(best)))]
        for step in reversed(back):
            tags.insert(0, int(step[tags[0]]))
        path[number, :size] = tags[:size]
        scores.append(np.max(best))
    return np.stack(scores), path
