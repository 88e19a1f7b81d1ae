"""The sizes that a program's open feeds have had, and the sizes that run unpadded.

Padding to a larger size is rent and a compilation buys, as in `steps/costs.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from graphopt.runtime.feeds.buckets import BATCH, Buckets, automatic, sparing
from graphopt.runtime.feeds.sequence_rows import Dimensions
from graphopt.runtime.settings.flags import FULL
from graphopt.runtime.state.arrays import Array
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.steps.costs import OFTEN
from graphopt.runtime.steps.policy import PATIENCE

if TYPE_CHECKING:
    from graphopt.runtime.steps.executable import Executables

Axis = tuple[str, int]
FIRST_EXACT = 2
"""The number of a program's first feed sizes that run unpadded."""
MOST_AT_ONCE = 32
"""The most sizes that run unpadded for good. A runner keeps 64 executables, which leaves room for
later sizes to run unpadded."""
SHARED = 2.0
"""NumPy computes the sizes that one program would serve until it has taken this multiple of the
price of compiling that program. It takes about twice as long as the program, so it has then cost as
much more as the program costs."""
PADDED = 4
"""A size is compiled without padding once its padded runs have taken this multiple of the price of
compiling: padding and masks take a sixth to a half of a run's time."""
MOST_PADDED = 256
"""The most sizes whose padded runs are counted, the latest ones."""


class Group(NamedTuple):
    """Sizes that one compiled program would serve, and NumPy's seconds for each without padding."""

    largest: Mapping[str, int]
    seconds: defaultdict[Hashable, float]


class MetSizes:
    """The sizes of one program's feeds, and the buckets for sizes that do not run unpadded.

    A training has few sizes with much padding, since each of its batches may have another size; it
    compiles a size of its own once the padding has cost as much. A training that must end with the
    same bits, also when it resumes halfway, has sizes that follow from each feed alone. Open axes
    at one position are one dimension until their sizes differ, such as the tokens and the labels of
    a text. Axes at several positions are one dimension if their sizes were equal in two runs and
    different in the second, such as tokens and a mask of tokens by tokens.
    """

    def __init__(self, *, trains: bool) -> None:
        self.trains = trains
        self._patience = PATIENCE if trains else SHARED
        self.dims: Dimensions = {}
        """The dimension of each axis of this run's feeds."""
        # this run's buckets, if no earlier run may decide
        self._of_lengths: Buckets | None = None
        # for each open axis, its dimension so far and its size in the latest run
        self._dims: dict[Axis, str] = {}
        self._last: dict[Axis, int] = {}
        self._varied: set[Axis] = set()
        self._exact: set[Hashable] = set()
        # for each padded size, its runs except the first, which may compile, and the least seconds
        # of a run
        self._padded: Bounded[Hashable, tuple[int, float]] = Bounded(MOST_PADDED)
        self._groups: list[Group] = []
        # the group and the sizes of the latest run, and NumPy's seconds before it
        self._latest: tuple[Group, Hashable] | None = None
        self._seconds = 0.0
        self.has_paid = False
        """True if NumPy has spent enough on the group of this run to compile its program."""

    @property
    def buckets(self) -> Buckets:
        """The buckets for the feeds of this run, if they do not run unpadded."""
        if self._of_lengths is not None:
            return self._of_lengths
        return automatic(0.25, patience=1.0) if self.trains else automatic()

    def run_exact(
        self,
        feeds: Mapping[str, Array],
        by_position: Dimensions,
        own: Sequence[Executables],
        *,
        repeats: bool,
    ) -> bool:
        """Decide whether these feeds run unpadded.

        `own` are the executables of the program. With `repeats` neither time nor an earlier run may
        decide.
        """
        self.note(by_position, feeds)
        if self.trains and repeats:
            self.dims, lengths = text_dimensions(by_position, feeds)
            sized = {
                dim: size
                for feed, dims in self.dims.items()
                for dim, size in zip(dims, feeds[feed].shape, strict=True)
                if dim is not None
            }
            # Rows have names, so that the program can match them with lengths. They are not padded.
            rows = dict.fromkeys(sized.keys() - lengths, _exact)
            buckets = self._of_lengths = Buckets(rows, others=sparing(0.25))
            return all(buckets.fit(dim, size) == size for dim, size in sized.items())
        self._of_lengths, self.dims = None, self.dims_by_sizes(by_position)
        self._count_seconds(own)
        self.has_paid, sizes = False, sizes_of(feeds)
        if sizes in self._exact:
            return True
        # A smaller last batch of an epoch is no reason to pad.
        varies_beyond_rows = any(at for _, at in self._varied)
        first = 1 if self.trains and varies_beyond_rows else FIRST_EXACT
        prices = [] if repeats else [each.compiled.price for each in own]
        price = max(prices, default=None)
        if self.trains or len(self._exact) < first:
            in_numpy = partial(seconds_in_numpy, own)
            is_exact = len(self._exact) < first or self.pays_exact(sizes, price, in_numpy)
            if is_exact:
                self._exact.add(sizes)
            return is_exact
        return self._runs_exact_in_group(sizes, price, self._find_group(feeds))

    def _runs_exact_in_group(self, sizes: Hashable, price: float | None, group: Group) -> bool:
        """Decide whether sizes run unpadded, by NumPy's seconds for all sizes of their group.

        Sizes that have taken most of the group's seconds are compiled by themselves.
        """
        spent = sum(group.seconds.values()) if self._seconds else None
        if self.pays_exact(sizes, price, lambda: spent):
            if self._padded.get(sizes) is None:
                self._latest = group, sizes
            else:
                self._exact.add(sizes)
            return True
        if price is None or spent is None or spent < self._patience * price:
            return False
        self.has_paid = group.seconds[sizes] <= spent / 2
        if not self.has_paid:
            del group.seconds[sizes]
            self._exact.add(sizes)
        return not self.has_paid

    def pays_exact(
        self, sizes: Hashable, price: float | None, in_numpy: Callable[[], float | None]
    ) -> bool:
        """Decide whether it pays to run more sizes unpadded.

        `price` is the seconds of a compilation, None where no time may decide. `in_numpy` returns
        NumPy's seconds for sizes without a compilation, None where it computes none. NumPy compiles
        nothing, so sizes have nothing to share until NumPy has cost part of that price.
        """
        if (padded := self._padded.use(sizes)) is not None:
            runs, seconds = padded
            return runs > PADDED * OFTEN if price is None else runs * seconds > PADDED * price
        if price is None or len(self._exact) >= MOST_AT_ONCE:
            return False
        spent = in_numpy()
        return spent is not None and spent < self._patience * price

    def add_exact(self, sizes: Hashable) -> None:
        """Run these sizes unpadded from now on."""
        self._exact.add(sizes)

    def ran_padded(self, sizes: Hashable, seconds: float) -> None:
        """Record the seconds of a padded run of these sizes."""
        runs, least = self._padded.get(sizes, (-1, seconds))
        self._padded.keep(sizes, (runs + 1, min(least, seconds)))

    def _count_seconds(self, own: Sequence[Executables]) -> None:
        """Add NumPy's seconds for the latest run in a group to that group."""
        before, exact = self._seconds, [each for each in own if not each.compiled.masked]
        self._seconds = sum(each.costs.host_seconds for each in exact)
        if self._latest is not None:
            group, sizes = self._latest
            group.seconds[sizes] += max(self._seconds - before, 0.0)
            self._latest = None

    def _find_group(self, feeds: Mapping[str, Array]) -> Group:
        """Find the group of these feeds, or begin one."""
        sizes = {
            dim: self.buckets.fit(dim, size)
            for feed, dims in self.dims.items()
            for dim, size in zip(dims, feeds[feed].shape, strict=True)
            if dim is not None
        }
        most = self.buckets.reuse * prod(sizes.values())
        for group in self._groups:
            largest = group.largest
            fits = largest.keys() == sizes.keys() and all(largest[d] >= n for d, n in sizes.items())
            if fits and prod(largest.values()) <= most:
                return group
        self._groups.append(Group(sizes, defaultdict(float)))
        del self._groups[:-MOST_PADDED]
        return self._groups[-1]

    def note(self, axes: Dimensions, feeds: Mapping[str, Array]) -> None:
        """Learn from the sizes of a run; `axes` are the dimensions by position."""
        sizes = _size_of_each(axes, feeds)
        self._dims = {**_by_axis(axes), **self._dims}
        self._split(sizes)
        if not self._varied:
            self._join(sizes)
        self._varied |= {axis for axis, size in sizes.items() if self._last.get(axis, size) != size}
        self._last |= sizes

    def _split(self, sizes: Mapping[Axis, int]) -> None:
        """Split a dimension whose axes have several sizes."""
        alike: defaultdict[str, defaultdict[int, list[Axis]]]
        alike = defaultdict(lambda: defaultdict(list))
        for axis, size in sizes.items():
            alike[self._dims[axis]][size].append(axis)
        for groups in alike.values():
            for first, *others in list(groups.values())[1:]:
                feed, at = first
                self._dims |= dict.fromkeys((first, *others), f"axis {at} of {feed}")

    def _join(self, sizes: Mapping[Axis, int]) -> None:
        """Join axes whose sizes made the same change into one dimension."""
        names: dict[tuple[int, int], str] = {}
        for axis, size in sizes.items():
            before = self._last.get(axis, size)
            if before != size:
                self._dims[axis] = names.setdefault((before, size), self._dims[axis])

    def dims_by_sizes(self, axes: Dimensions) -> dict[str, tuple[str | None, ...]]:
        """Map axes to dimensions; None for an axis of one size so far, unless it is the first."""
        return {
            feed: tuple(
                self._dims[feed, at] if dim and (at == 0 or (feed, at) in self._varied) else None
                for at, dim in enumerate(dims)
            )
            for feed, dims in axes.items()
        }


def seconds_in_numpy(own: Sequence[Executables]) -> float | None:
    """Sum NumPy's seconds for sizes without a compilation; None before NumPy has run."""
    exact = [form for each in own if not each.compiled.masked for form in each.all()]
    seen = [form.forms.seen for form in exact]
    if not any(each.ended for each in seen):
        return None
    return sum(each.spent for each in seen if FULL not in each.ready)


def _exact(rows: int) -> int:
    return rows


def sizes_of(feeds: Mapping[str, Array]) -> Hashable:
    """Return the shape of each feed."""
    return tuple(array.shape for array in feeds.values())


def text_dimensions(
    axes: Dimensions, feeds: Mapping[str, Array]
) -> tuple[Dimensions, frozenset[str]]:
    """Name the dimensions of texts by the sizes of one run, and mark the lengths among them.

    A length is the size of an axis, other than the first, of a feed of integers. Other open axes of
    equal size, such as a mask's, share its dimension. First axes of one size are one dimension.
    """
    sizes = _size_of_each(axes, feeds)
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


def _size_of_each(axes: Dimensions, feeds: Mapping[str, Array]) -> dict[Axis, int]:
    return {(feed, at): feeds[feed].shape[at] for feed, at in _by_axis(axes)}
