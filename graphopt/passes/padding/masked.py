"""The additional feeds of a masked module, and the padded axes of its fetches.

Nothing here imports the dialect: a step whose executable is on disk is fed by this alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphopt.passes.padding.dims import Axes, Dim, Extent

LONGEST = "longest of "
"""The dimension of the steps of padded sequences: so many as the longest of these rows has."""


def mask_name(dim: Dim) -> str:
    """The feed that says which rows of a dimension count, bool [rows]."""
    return "*".join(map(str, dim)) + "@real"


def count_name(dim: Dim) -> str:
    """The feed that says how many rows of a dimension count, int64 []."""
    return "*".join(map(str, dim)) + "@count"


@dataclass(frozen=True)
class Masked:
    """A module's additional inputs: dimensions by mask and by count; its fetches' axes.

    The extents must be positive, and those in `equal` pairs of one size: then the results are those
    of the feeds without padding.
    """

    masks: tuple[Dim, ...]
    counts: tuple[Dim, ...]
    fetches: Mapping[str, Axes]
    extents: frozenset[Extent] = frozenset()
    equal: frozenset[tuple[Dim, Dim]] = frozenset()
