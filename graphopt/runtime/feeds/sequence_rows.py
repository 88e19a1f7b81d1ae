"""Feeds of sequences: which dimension their rows and their lengths have, and rows to spare."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np

from graphopt.ir.program import LENGTHS, Program
from graphopt.runtime.feeds.buckets import OTHER_ROWS, ROWS
from graphopt.runtime.feeds.padded_rows import Rows
from graphopt.runtime.state.arrays import Array

# the dimension of each axis of each feed
Dimensions = Mapping[str, tuple[str | None, ...]]
# the dimensions of the rows and of the sequences of feeds with lengths
Links = Mapping[str, tuple[str | None, str | None]]


def links_of(axes: Dimensions, feeds: Mapping[str, Array]) -> Links:
    """The dimensions of the rows and of the sequences of each feed with lengths."""
    return {
        name: (axes[name][0], axes[lengths_of(name)][0])
        for name in feeds
        if lengths_of(name) in feeds
    }


def has_rows_to_spare(rows: Rows, links: Links) -> bool:
    """True when each sequence that is added has a row, and rows that are added a sequence."""
    for pair in links.values():
        if None in pair:
            continue
        (real, size), (sequences, more) = (rows[dim] for dim in pair if dim is not None)
        if size - real < more - sequences or (size > real and more == sequences):
            return False
    return True


# the version of a program for which it was found out
_TAKES_SEQUENCES: WeakKeyDictionary[Program, tuple[int, bool]] = WeakKeyDictionary()


def takes_sequences(program: Program) -> bool:
    """True for a program with feeds of sequences, whose lengths are fed with them."""
    known = _TAKES_SEQUENCES.get(program)
    if known is None or known[0] != program.version:
        names = program.global_block().vars
        known = program.version, any(map(_is_lengths, names))
        _TAKES_SEQUENCES[program] = known
    return known[1]


def rows_of_sequences(program: Program, feeds: Mapping[str, Array]) -> dict[str, str]:
    """The dimension of the rows of each feed of sequences.

    Feeds of the same lengths have one: an op may join them. Feeds without lengths, which the
    program does not need, have that of as many rows.
    """
    block = program.global_block()
    found: dict[str, str] = {}
    known: list[tuple[Array | None, int, str]] = []
    sequences = [
        name
        for name in feeds
        if lengths_of(name) in feeds or (block.has_var(name) and block.var(name).lod_level)
    ]
    for name in sorted(sequences, key=lambda name: lengths_of(name) not in feeds):
        lengths, count = feeds.get(lengths_of(name)), len(feeds[name])
        alike = (
            dim
            for other, rows, dim in known
            if rows == count and (lengths is None or np.array_equal(np.asarray(other), lengths))
        )
        found[name] = next(alike, f"{OTHER_ROWS}{name}" if known else ROWS)
        known.append((lengths, count, found[name]))
    return found


def _is_lengths(name: str) -> bool:
    return name.endswith(LENGTHS)


def lengths_of(name: str) -> str:
    """The feed that has the lengths of the sequences in a feed."""
    return name + LENGTHS


def lengthen(padded: Array, real: int, rows: int) -> Array:
    """Padded lengths: the sequences that were added have one row each, the last one the others."""
    lengths = np.array(padded)
    if len(lengths) > real:
        lengths[real:] = 1
        lengths[-1] += rows - lengths.sum()
    return lengths
