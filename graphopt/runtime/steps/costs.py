"""The costs of a program's runs in all its sizes; they decide which sizes are compiled.

It is the ski-rental problem: padding to a larger size, or NumPy, is rent, and a compilation buys.
To rent until that has cost as much as buying costs at most twice the optimum.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from math import inf, prod
from typing import TYPE_CHECKING
from weakref import WeakSet

from graphopt.runtime.state.prepare import Prepare

if TYPE_CHECKING:
    from graphopt.runtime.host.form import HostForm

Sizes = Mapping[str, int]
"""The size of each padded dimension."""
OFTEN = 64
"""The times that a size is wanted before it is compiled where no measured time may decide."""
PART_AHEAD = 0.25
"""The part of the time of NumPy that compiling several sizes for later processes may take."""


class ProgramCosts:
    """The costs of the runs of one program in all its sizes, and the objects that these share."""

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
        # of padded sizes: how often each came, and what padding has taken
        self._times: Counter[tuple[tuple[str, int], ...]] = Counter()
        self._wasted: defaultdict[tuple[tuple[str, int], ...], float] = defaultdict(float)

    def may_compile_ahead(self, price: float) -> bool:
        """Return whether to compile sizes for later processes, and count that as done.

        The first may always be compiled, others while all together cost a part of the runs in
        NumPy.
        """
        may = not self._ahead or self._ahead + price <= PART_AHEAD * self.host_seconds
        self._ahead += price if may else 0.0
        return may

    def ran(self, seconds: float, wanted: Sizes, used: Sizes) -> None:
        """Record the seconds of a step, and as waste the share of work beyond the wanted size."""
        self._times[_key(wanted)] += 1
        share = 1 - prod(wanted.values()) / prod(used.values())
        self._wasted[_key(wanted)] += seconds * share

    def pays(self, wanted: Sizes, patience: float, price: float, *, repeats: bool) -> bool:
        """Return whether a padded size, so far served by a larger one, is worth compiling.

        It is once more than `patience` times the `price` of a compilation were wasted. With
        `repeats`, where no time may decide, it is once the size was wanted more than `patience`
        times OFTEN.
        """
        if repeats:
            return self._times[_key(wanted)] > patience * OFTEN
        return self._wasted[_key(wanted)] > patience * price


def _key(sizes: Sizes) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(sizes.items()))
