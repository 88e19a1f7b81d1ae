"""The sizes that a program's open feeds have had, and which of them run as they are."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from graphopt.runtime.feeds.buckets import Buckets, automatic
from graphopt.runtime.feeds.open_axes import OpenAxes
from graphopt.runtime.feeds.sequence_rows import Dimensions
from graphopt.runtime.settings.flags import FULL
from graphopt.runtime.state.arrays import Array
from graphopt.runtime.steps.size_costs import FIRST_EXACT, ExactSizes

if TYPE_CHECKING:
    from graphopt.runtime.steps.executable import Executables


class MetSizes:
    """The sizes of one program's feeds, and how those are padded that do not run as they are.

    A training has few sizes with much padding, since each of its batches may have another one, and
    compiles a size of its own once padding it has cost as much.
    """

    def __init__(self, *, trains: bool) -> None:
        self.trains = trains
        self.buckets: Buckets = automatic(0.25, patience=1.0) if trains else automatic()
        self._axes = OpenAxes()
        self._exact = ExactSizes()

    def dimensions(self, by_position: Dimensions) -> Dimensions:
        """The dimension of each axis of the feeds, of which `by_position` are all open ones."""
        return self._axes.names(by_position)

    def run_exact(
        self, feeds: Mapping[str, Array], by_position: Dimensions, own: Sequence[Executables]
    ) -> bool:
        """True when these feeds run as they are; `own` is what was compiled for the program."""
        from graphopt.runtime.steps.facts import shall_repeat

        self._axes.note(by_position, feeds)
        repeats = any(shall_repeat(each.compiled) for each in own)
        if self.trains and repeats:
            return True  # a run that goes on from its middle has met other sizes

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
