"""The additional feeds of a masked module, and the padded axes of its fetches.

Nothing here imports the dialect: a step whose executable is on disk is fed by this alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphopt.passes.padding.dims import Axes, Dim, Extent, Grown

PAST = "past"
"""The dimension of the rows of the caches of a decoder, which hold equally many."""
LONGEST = "longest of "
"""The dimension of the steps of padded sequences: so many as the longest of these rows has."""


def mask_name(dim: Dim) -> str:
    """The feed that says which rows of a dimension count, bool [rows]."""
    return "*".join(map(str, dim)) + "@real"


def count_name(dim: Dim) -> str:
    """The feed that says how many rows of a dimension count, int64 []."""
    return "*".join(map(str, dim)) + "@count"


@dataclass(frozen=True)
class FedCache:
    """A feed that a fetch of the step before is, with `by` rows more along an axis.

    One `in_place` is state of the module, `buffer_name(feed)`: the step adds rows and changes none.
    Of any other one the fetch is a buffer of its own.
    """

    feed: str
    fetch: str
    axis: int
    by: int
    in_place: bool


def buffer_name(feed: str) -> str:
    """The state that a cache is where rows are added in place."""
    return f"{feed}@buffer"


@dataclass(frozen=True)
class Masked:
    """A module's additional inputs: dimensions by mask and by count; its fetches' axes.

    The extents must be positive, and those in `equal` pairs of one size: then the results are those
    of the feeds without padding. With `caches` the axes of feeds are those in `feeds`, and no size
    in `limits` may be larger than the number beside it.
    """

    masks: tuple[Dim, ...]
    counts: tuple[Dim, ...]
    fetches: Mapping[str, Axes]
    extents: frozenset[Extent] = frozenset()
    equal: frozenset[tuple[Dim, Dim]] = frozenset()
    caches: tuple[FedCache, ...] = ()
    feeds: Mapping[str, Axes] = field(default_factory=dict[str, Axes])
    limits: frozenset[tuple[Grown, int]] = frozenset()
