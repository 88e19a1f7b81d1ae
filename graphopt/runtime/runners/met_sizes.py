"""The sizes that a program's open feeds have had, and which of them run as they are."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from graphopt.runtime.feeds.buckets import Buckets, automatic
from graphopt.runtime.feeds.open_axes import OpenAxes, text_dimensions
from graphopt.runtime.feeds.sequence_rows import Dimensions
from graphopt.runtime.settings.flags import FULL
from graphopt.runtime.state.arrays import Array
from graphopt.runtime.steps.costs import FIRST_EXACT, ExactSizes

if TYPE_CHECKING:
    from graphopt.runtime.steps.executable import Executables


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
        self._exact = ExactSizes()

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
            self.buckets = automatic(0.25, reuse=1.0)
            self.dims = text_dimensions(by_position, feeds)
            padded = (
                (dim, size)
                for feed, dims in self.dims.items()
                for dim, size in zip(dims, feeds[feed].shape, strict=True)
                if dim is not None
            )
            return all(self.buckets.fit(dim, size) == size for dim, size in padded)
        self.buckets = automatic(0.25, patience=1.0) if self.trains else automatic()
        self.dims = self._axes.names(by_position)

        def find_price() -> float | None:
            """The seconds of compiling a size; None where no time may decide."""
            prices = [each.compiled.price for each in own]
            return None if repeats else max(prices, default=None)

        def find_seconds_in_numpy() -> float | None:
            """Those of sizes that nothing is compiled for; None before NumPy has computed any."""
            exact = [form for each in own if not each.compiled.masked for form in each.all()]
            seen = [form.forms.seen for form in exact]
            if not any(each.ended for each in seen):
                return None
            return sum(each.spent for each in seen if FULL not in each.ready)

        # the smaller batch at the end of an epoch is no reason to pad
        first = 1 if self.trains and self._axes.vary_beyond_rows else FIRST_EXACT
        return self._exact.has(sizes_of(feeds), find_price, find_seconds_in_numpy, first)

    def add_exact(self, feeds: Mapping[str, Array]) -> None:
        """Feeds of these sizes run as they are from now on."""
        self._exact.add(sizes_of(feeds))

    def ran_padded(self, feeds: Mapping[str, Array], seconds: float) -> None:
        """A run of feeds of these sizes with padding took so long."""
        self._exact.ran_padded(sizes_of(feeds), seconds)


def sizes_of(feeds: Mapping[str, Array]) -> Hashable:
    """The shape of each feed."""
    return tuple(array.shape for array in feeds.values())
