"""Feeds of sequences: which dimension their rows and their lengths have, and rows to spare."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np

from graphopt.ir.program import LENGTHS, Program
from graphopt.passes.padding.masked import LONGEST
from graphopt.runtime.feeds.buckets import OTHER_ROWS, ROWS, Buckets
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


def fit_sizes(buckets: Buckets, found: Mapping[str, int], links: Links) -> dict[str, int]:
    """The sizes with padding of dimensions with so many rows.

    `links` are the dimensions of the rows and of the sequences of feeds with lengths: rows that
    are added need a sequence that is added, and each of those a row.
    """
    fit = buckets.fit
    sizes = {dim: fit(dim, size) for dim, size in found.items()}
    for name, (rows, sequences) in links.items():
        if rows is None or sequences is None:
            continue
        if rows == sequences:
            raise ValueError(
                f"feed '{name}' and its lengths have the same axis '{rows}', but there are "
                "more rows than sequences"
            )
        if sizes[rows] > found[rows] and sizes[sequences] == found[sequences]:
            sizes[sequences] = fit(sequences, found[sequences] + 1)
    for rows, sequences in links.values():
        if rows is not None and sequences is not None:
            extra = sizes[sequences] - found[sequences]
            sizes[rows] = fit(rows, found[rows] + extra) if extra else found[rows]
    return sizes


def with_headroom(buckets: Buckets, rows: Rows, links: Links, feeds: Mapping[str, Array]) -> Rows:
    """The sizes with room for more rows, by the headroom of the buckets."""
    found = {dim: real for dim, (real, _) in rows.items() if not dim.startswith(LONGEST)}
    for name, (dim, _) in links.items():
        if dim is not None:
            lengths = np.asarray(feeds[lengths_of(name)])
            spread = float(np.std(lengths)) * len(lengths) ** 0.5
            found[dim] = max(found[dim], rows[dim][0] + int(buckets.headroom * spread))
    sizes = fit_sizes(buckets, found, links)
    return {dim: (real, sizes.get(dim, size)) for dim, (real, size) in rows.items()}


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
