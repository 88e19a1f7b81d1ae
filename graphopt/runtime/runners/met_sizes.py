"""The sizes that a program's open feeds have had, and which of them run as they are.

Padding to a larger size is rent and a compilation buys, as in `steps/costs.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

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
"""The first sizes of a program's feeds, which run as they are."""
MOST_AT_ONCE = 32
"""The sizes that run as they are in all when NumPy computes them. A runner keeps the executables of
64, so that many others may come to run as they are."""
PADDED = 4
"""The runs of a size with padding have taken so many times the price of compiling when it is
compiled without: padding and masks take a sixth to a half of the time of a run."""
MOST_PADDED = 256
"""The sizes whose runs with padding are counted, those that came last."""


class MetSizes:
    """The sizes of one program's feeds, and how those are padded that do not run as they are.

    A training has few sizes with much padding, since each of its batches may have another one, and
    compiles a size of its own once padding it has cost as much. One that shall end with the same
    bits, also when it goes on from its middle, has sizes that follow from those of a feed alone.

    Open axes at one position are one dimension, as the tokens and the labels of a text have it,
    until their sizes differ. Those at several positions are one if their sizes were equal in two
    runs and others in the second, as the tokens and a mask of them by tokens have it.
    """

    def __init__(self, *, trains: bool) -> None:
        self.trains = trains
        self.dims: Dimensions = {}
        """The dimension of each axis of the feeds of this run."""
        # those of this run where no earlier one may decide
        self._of_lengths: Buckets | None = None
        # of each open axis its dimension so far, and its size in the latest run
        self._dims: dict[Axis, str] = {}
        self._last: dict[Axis, int] = {}
        self._varied: set[Axis] = set()
        self._exact: set[Hashable] = set()
        # of sizes that run with padding: the runs but the first, which may compile, and the least
        # seconds of one
        self._padded: Bounded[Hashable, tuple[int, float]] = Bounded(MOST_PADDED)

    @property
    def buckets(self) -> Buckets:
        """Those for the feeds of this run, where they do not run as they are."""
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
        """True when these feeds run as they are.

        `own` is what was compiled for the program, and `repeats` says that no time and no earlier
        run may decide.
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
            # rows have names, so that the program can join them with lengths, and are not padded
            rows = dict.fromkeys(sized.keys() - lengths, _exact)
            buckets = self._of_lengths = Buckets(rows, others=sparing(0.25))
            return all(buckets.fit(dim, size) == size for dim, size in sized.items())
        self._of_lengths, self.dims = None, self.dims_by_sizes(by_position)
        sizes = sizes_of(feeds)
        if sizes in self._exact:
            return True
        # the smaller batch at the end of an epoch is no reason to pad
        varies_beyond_rows = any(at for _, at in self._varied)
        first = 1 if self.trains and varies_beyond_rows else FIRST_EXACT
        is_exact = len(self._exact) < first
        if not is_exact:
            prices = [] if repeats else [each.compiled.price for each in own]
            price, in_numpy = max(prices, default=None), partial(seconds_in_numpy, own)
            is_exact = self.pays_exact(sizes, price, in_numpy)
        if is_exact:
            self._exact.add(sizes)
        return is_exact

    def pays_exact(
        self, sizes: Hashable, price: float | None, in_numpy: Callable[[], float | None]
    ) -> bool:
        """True when it pays to run more sizes as they are.

        `price` are the seconds of a compilation, None where no time may decide. `in_numpy` gives
        those of NumPy for sizes that nothing is compiled for, None where it computes none. NumPy
        compiles nothing, so there is nothing for sizes to share until it has cost a part of that.
        """
        if (padded := self._padded.use(sizes)) is not None:
            runs, seconds = padded
            return runs > PADDED * OFTEN if price is None else runs * seconds > PADDED * price
        if price is None or len(self._exact) >= MOST_AT_ONCE:
            return False
        spent = in_numpy()
        return spent is not None and spent < PATIENCE * price

    def add_exact(self, sizes: Hashable) -> None:
        """These sizes run as they are from now on."""
        self._exact.add(sizes)

    def ran_padded(self, sizes: Hashable, seconds: float) -> None:
        """A run of these sizes with padding took so long."""
        runs, least = self._padded.get(sizes, (-1, seconds))
        self._padded.keep(sizes, (runs + 1, min(least, seconds)))

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

    def dims_by_sizes(self, axes: Dimensions) -> dict[str, tuple[str | None, ...]]:
        """The dimension of each axis; None for one that had a single size and is not the first."""
        return {
            feed: tuple(
                self._dims[feed, at] if dim and (at == 0 or (feed, at) in self._varied) else None
                for at, dim in enumerate(dims)
            )
            for feed, dims in axes.items()
        }


def seconds_in_numpy(own: Sequence[Executables]) -> float | None:
    """Those of sizes that nothing is compiled for; None before NumPy has computed any."""
    exact = [form for each in own if not each.compiled.masked for form in each.all()]
    seen = [form.forms.seen for form in exact]
    if not any(each.ended for each in seen):
        return None
    return sum(each.spent for each in seen if FULL not in each.ready)


def _exact(rows: int) -> int:
    return rows


def sizes_of(feeds: Mapping[str, Array]) -> Hashable:
    """The shape of each feed."""
    return tuple(array.shape for array in feeds.values())


def text_dimensions(
    axes: Dimensions, feeds: Mapping[str, Array]
) -> tuple[Dimensions, frozenset[str]]:
    """The dimensions of texts, by the sizes of one run alone, and those of them that are lengths.

    The lengths are those of feeds of integers, which have them along another axis than the first.
    Other open axes of such a size belong to them, as those of masks do. First axes of one size are
    one dimension.
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
