"""The additional feeds of a masked module, and the padded axes of its fetches.

Nothing here imports the dialect: a step whose executable is on disk is fed by this alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphopt.passes.padding.dims import Axes, Dim, Extent, Grown

PAST = "past"
"""The dimension of the rows of a decoder's caches, of which all have equally many."""
LONGEST = "longest of "
"""Prefix of the dimension of padded steps: as many as the longest of these rows has."""


def mask_name(dim: Dim) -> str:
    """Name the feed that masks the data rows of a dimension, bool [rows]."""
    return "*".join(map(str, dim)) + "@real"


def count_name(dim: Dim) -> str:
    """Name the feed that counts the data rows of a dimension, int64 []."""
    return "*".join(map(str, dim)) + "@count"


@dataclass(frozen=True)
class FedCache:
    """A feed whose value is a fetch of the previous step, with `by` more rows along an axis.

    An `in_place` cache is state of the module, `buffer_name(feed)`: the step adds rows and changes
    none. The fetch of any other cache is a buffer of its own.
    """

    feed: str
    fetch: str
    axis: int
    by: int
    in_place: bool


def buffer_name(feed: str) -> str:
    """Name the state that holds a cache whose rows are added in place."""
    return f"{feed}@buffer"


@dataclass(frozen=True)
class Masked:
    """A module's additional feeds, as dimensions by mask and by count, and the axes of its fetches.

    The extents must be positive, and the dimensions of a pair in `equal` must have one size: then
    the results equal the results of the feeds without padding. With `caches` the axes of feeds are
    those in `feeds`, and no size in `limits` may be larger than the number paired with it.
    """

    masks: tuple[Dim, ...]
    counts: tuple[Dim, ...]
    fetches: Mapping[str, Axes]
    extents: frozenset[Extent] = frozenset()
    equal: frozenset[tuple[Dim, Dim]] = frozenset()
    caches: tuple[FedCache, ...] = ()
    feeds: Mapping[str, Axes] = field(default_factory=dict[str, Axes])
    limits: frozenset[tuple[Grown, int]] = frozenset()
