"""The costs of a program's runs, in all its sizes; they decide what is compiled.

It is the ski-rental problem: padding to a larger size, or NumPy, is rent, and a compilation buys.
Whoever rents until that has cost as much as buying pays at most twice what would have been best.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping
from math import inf, prod
from typing import TYPE_CHECKING
from weakref import WeakSet

from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.steps.policy import PATIENCE

if TYPE_CHECKING:
    from graphopt.runtime.host.form import HostForm

Sizes = Mapping[str, int]
"""The size of each padded dimension."""
OFTEN = 64
"""The times that a size is wanted before it is compiled where no measured time may decide."""
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
PART_AHEAD = 0.25
"""The part of the time of NumPy that compiling several sizes for later processes may take."""


class ProgramCosts:
    """The costs of the runs of one program in all its sizes, and what these share."""

    def __init__(self) -> None:
        self.trained = 0
        """The runs of a training from a seed that a policy has counted."""
        self.host: HostForm | None = None
        """The form in NumPy that those for all sizes are copies of."""
        self.slow_elements = inf
        """The elements of feeds for which NumPy took too long."""
        self.host_seconds = 0.0
        """The seconds of all runs in NumPy."""
        self.missed = 0.0
        """Those of NumPy for sizes whose executables are on disk."""
        self.prepares: WeakSet[Prepare] = WeakSet()
        """Those of the forms that were compiled for the sizes of feeds."""
        # the seconds for compiling sizes whose runs in this process did not cost as much
        self._ahead = 0.0
        # of padded sizes: the seconds of compiling one, how often each came, what padding has taken
        self._compiling = 0.0
        self._times: Counter[tuple[tuple[str, int], ...]] = Counter()
        self._wasted: defaultdict[tuple[tuple[str, int], ...], float] = defaultdict(float)

    def may_compile_ahead(self, price: float) -> bool:
        """True when sizes may be compiled for later processes, which then counts as done.

        One may, and others while all of them together cost a part of the runs in NumPy.
        """
        may = not self._ahead or self._ahead + price <= PART_AHEAD * self.host_seconds
        self._ahead += price if may else 0.0
        return may

    def note_compiled(self, seconds: float) -> None:
        """A first step of a size, which compiled it, took so long.

        The shortest counts: the first one of a process also imports what it needs.
        """
        self._compiling = min(self._compiling or seconds, seconds)

    def ran(self, seconds: float, wanted: Sizes, used: Sizes) -> None:
        """A step took so long; the share of the work that is beyond the wanted size was wasted."""
        self._times[_key(wanted)] += 1
        share = 1 - prod(wanted.values()) / prod(used.values())
        self._wasted[_key(wanted)] += seconds * share

    def pays(self, wanted: Sizes, patience: float) -> bool:
        """True once more than `patience` times the seconds of a compilation were wasted."""
        return self._wasted[_key(wanted)] > patience * self._compiling

    def came_often(self, wanted: Sizes, patience: float) -> bool:
        """True once the size was wanted more than `patience` times OFTEN: the same in every run."""
        return self._times[_key(wanted)] > patience * OFTEN


class ExactSizes:
    """The sizes of a program's feeds that run as they are; others run with padding."""

    def __init__(self) -> None:
        self._exact: set[Hashable] = set()
        # of sizes that run with padding: the runs but the first, which may compile, and the least
        # seconds of one
        self._padded: Bounded[Hashable, tuple[int, float]] = Bounded(MOST_PADDED)

    def add(self, sizes: Hashable) -> None:
        """These run as they are from now on."""
        self._exact.add(sizes)

    def has(
        self,
        sizes: Hashable,
        price: Callable[[], float | None],
        in_numpy: Callable[[], float | None],
        first: int = FIRST_EXACT,
    ) -> bool:
        """True when these sizes run as they are, which they do from then on, as the `first` ones.

        `price` gives the seconds of a compilation, None where no time may decide. `in_numpy` gives
        those of NumPy for sizes that nothing is compiled for, None where it computes none. NumPy
        compiles nothing, so there is nothing for sizes to share until it has cost a part of that.
        """
        if sizes in self._exact:
            return True
        padded = self._padded.use(sizes)
        if len(self._exact) < first:
            is_exact = True
        elif padded is not None:
            runs, seconds = padded
            cost = price()
            is_exact = runs > PADDED * OFTEN if cost is None else runs * seconds > PADDED * cost
        else:
            cost, spent = price(), in_numpy()
            is_exact = cost is not None and spent is not None and spent < PATIENCE * cost
            is_exact = is_exact and len(self._exact) < MOST_AT_ONCE
        if is_exact:
            self._exact.add(sizes)
        return is_exact

    def ran_padded(self, sizes: Hashable, seconds: float) -> None:
        """A run of these sizes with padding took so long."""
        runs, least = self._padded.get(sizes, (-1, seconds))
        self._padded.keep(sizes, (runs + 1, min(least, seconds)))


def _key(sizes: Sizes) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(sizes.items()))
