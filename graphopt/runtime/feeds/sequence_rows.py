"""Feeds of sequences: the dimensions of their rows and lengths, and their padding."""

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
# the row and sequence dimensions of each feed with lengths
Links = Mapping[str, tuple[str | None, str | None]]


def links_of(axes: Dimensions, feeds: Mapping[str, Array]) -> Links:
    """Map each feed with lengths to the dimensions of its rows and of its sequences."""
    return {
        name: (axes[name][0], axes[lengths_of(name)][0])
        for name in feeds
        if lengths_of(name) in feeds
    }


def has_rows_to_spare(rows: Rows, links: Links) -> bool:
    """Return whether each padding sequence has a row, and padding rows have a sequence."""
    for pair in links.values():
        if None in pair:
            continue
        (real, size), (sequences, more) = (rows[dim] for dim in pair if dim is not None)
        if size - real < more - sequences or (size > real and more == sequences):
            return False
    return True


def fit_sizes(buckets: Buckets, found: Mapping[str, int], links: Links) -> dict[str, int]:
    """Choose the padded sizes of dimensions with these numbers of rows.

    `links` are the dimensions of the rows and of the sequences of feeds with lengths: padding rows
    need a padding sequence, and each such sequence a row.
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
    """Enlarge the padded sizes by the headroom of the buckets."""
    found = {dim: real for dim, (real, _) in rows.items() if not dim.startswith(LONGEST)}
    for name, (dim, _) in links.items():
        if dim is not None:
            lengths = np.asarray(feeds[lengths_of(name)])
            spread = float(np.std(lengths)) * len(lengths) ** 0.5
            found[dim] = max(found[dim], rows[dim][0] + int(buckets.headroom * spread))
    sizes = fit_sizes(buckets, found, links)
    return {dim: (real, sizes.get(dim, size)) for dim, (real, size) in rows.items()}


# the answer for each program, and the program's version at that time
_TAKES_SEQUENCES: WeakKeyDictionary[Program, tuple[int, bool]] = WeakKeyDictionary()


def takes_sequences(program: Program) -> bool:
    """Return whether a program has feeds of sequences, whose lengths are fed with them."""
    known = _TAKES_SEQUENCES.get(program)
    if known is None or known[0] != program.version:
        names = program.global_block().vars
        known = program.version, any(map(_is_lengths, names))
        _TAKES_SEQUENCES[program] = known
    return known[1]


def rows_of_sequences(program: Program, feeds: Mapping[str, Array]) -> dict[str, str]:
    """Name the dimension of the rows of each feed of sequences.

    Feeds with equal lengths share one: an op may join them. A feed without lengths, which the
    program does not need, shares the dimension of a feed with as many rows.
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
    """Name the feed that holds the lengths of the sequences in a feed."""
    return name + LENGTHS


def lengthen(padded: Array, real: int, rows: int) -> Array:
    """Set padded lengths: each padding sequence has one row, the last one all the rest."""
    lengths = np.array(padded)
    if len(lengths) > real:
        lengths[real:] = 1
        lengths[-1] += rows - lengths.sum()
    return lengths
