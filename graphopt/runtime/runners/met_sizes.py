"""The sizes that a program's open feeds have had, and which of them run as they are.

Padding to a larger size is rent and a compilation buys, as in `steps/costs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from graphopt.runtime.feeds.buckets import Buckets, automatic, sparing
from graphopt.runtime.feeds.open_axes import OpenAxes, text_dimensions
from graphopt.runtime.feeds.sequence_rows import Dimensions
from graphopt.runtime.settings.flags import FULL
from graphopt.runtime.state.arrays import Array
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.steps.costs import OFTEN
from graphopt.runtime.steps.policy import PATIENCE

if TYPE_CHECKING:
    from graphopt.runtime.steps.executable import Executables

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
    """

    def __init__(self, *, trains: bool) -> None:
        self.trains = trains
        self.buckets: Buckets = automatic()
        self.dims: Dimensions = {}
        """The dimension of each axis of the feeds of this run."""
        self._axes = OpenAxes()
        self._exact: set[Hashable] = set()
        # of sizes that run with padding: the runs but the first, which may compile, and the least
        # seconds of one
        self._padded: Bounded[Hashable, tuple[int, float]] = Bounded(MOST_PADDED)

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
        self._axes.note(by_position, feeds)
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
            self.buckets = Buckets(rows, others=sparing(0.25))
            return all(self.buckets.fit(dim, size) == size for dim, size in sized.items())
        self.buckets = automatic(0.25, patience=1.0) if self.trains else automatic()
        self.dims = self._axes.names(by_position)
        sizes = sizes_of(feeds)
        if sizes in self._exact:
            return True
        # the smaller batch at the end of an epoch is no reason to pad
        first = 1 if self.trains and self._axes.vary_beyond_rows else FIRST_EXACT
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
