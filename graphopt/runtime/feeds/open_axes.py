"""The dimensions of the open axes of feeds, by the sizes that they have had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from graphopt.runtime.feeds.buckets import BATCH
from graphopt.runtime.feeds.sequence_rows import Dimensions
from graphopt.runtime.state.arrays import Array

Axis = tuple[str, int]


class OpenAxes:
    """The dimensions of the open axes of one program's feeds.

    Those at one position are one dimension, as the tokens and the labels of a text have it, until
    their sizes differ. Those at several positions are one if their sizes were equal in two runs and
    others in the second, as the tokens and a mask of them by tokens have it.
    """

    def __init__(self) -> None:
        self._dims: dict[Axis, str] = {}
        self._last: dict[Axis, int] = {}
        self._varied: set[Axis] = set()

    def note(self, axes: Dimensions, feeds: Mapping[str, Array]) -> None:
        """Learn from the sizes of a run; `axes` are the dimensions by position."""
        sizes = _sizes_of(axes, feeds)
        self._dims = {**_by_axis(axes), **self._dims}
        self._split(sizes)
        if not self._varied:
            self._join(sizes)
        self._varied |= {axis for axis, size in sizes.items() if self._last.get(axis, size) != size}
        self._last |= sizes

    def _split(self, sizes: Mapping[Axis, int]) -> None:
        """Axes of one dimension that have several sizes become several dimensions."""
        alike: defaultdict[str, defaultdict[int, list[Axis]]]
        alike = defaultdict(lambda: defaultdict(list))
        for axis, size in sizes.items():
            alike[self._dims[axis]][size].append(axis)
        for groups in alike.values():
            for first, *others in list(groups.values())[1:]:
                feed, at = first
                self._dims |= dict.fromkeys((first, *others), f"axis {at} of {feed}")

    def _join(self, sizes: Mapping[Axis, int]) -> None:
        """Axes whose size changed from one number to one other become one dimension."""
        names: dict[tuple[int, int], str] = {}
        for axis, size in sizes.items():
            before = self._last.get(axis, size)
            if before != size:
                self._dims[axis] = names.setdefault((before, size), self._dims[axis])

    @property
    def vary_beyond_rows(self) -> bool:
        """True once another axis than the first of a feed has had two sizes."""
        return any(at for _, at in self._varied)

    def names(self, axes: Dimensions) -> dict[str, tuple[str | None, ...]]:
        """The dimension of each axis; None for one that had a single size and is not the first."""
        return {
            feed: tuple(
                self._dims[feed, at] if dim and (at == 0 or (feed, at) in self._varied) else None
                for at, dim in enumerate(dims)
            )
            for feed, dims in axes.items()
        }


def text_dimensions(
    axes: Dimensions, feeds: Mapping[str, Array]
) -> tuple[Dimensions, frozenset[str]]:
    """The dimensions of texts, by the sizes of one run alone, and those of them that are lengths.

    The lengths are those of feeds of integers, which have them along another axis than the first.
    Other open axes of such a size belong to them, as those of masks do. First axes of one size are
    one dimension.
    """
    sizes = _sizes_of(axes, feeds)
    lengths: dict[int, str] = {}
    rows: dict[int, str] = {}
    for (feed, at), size in sizes.items():
        if at == 0:
            rows.setdefault(size, f"axis 0 of {feed}" if rows else BATCH)
        elif feeds[feed].dtype.kind in "iu":
            lengths.setdefault(size, f"axis {at} of {feed}")
    found = {
        feed: tuple(
            (lengths if at else rows).get(sizes[feed, at]) if dim is not None else None
            for at, dim in enumerate(dims)
        )
        for feed, dims in axes.items()
    }
    return found, frozenset(lengths.values())


def _by_axis(axes: Dimensions) -> dict[Axis, str]:
    return {
        (feed, at): dim
        for feed, dims in axes.items()
        for at, dim in enumerate(dims)
        if dim is not None
    }


def _sizes_of(axes: Dimensions, feeds: Mapping[str, Array]) -> dict[Axis, int]:
    return {(feed, at): feeds[feed].shape[at] for feed, at in _by_axis(axes)}
