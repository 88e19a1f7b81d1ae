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
"""The requests for a size before it is compiled, if no measured time may decide."""
PART_AHEAD = 0.25
"""The share of NumPy's time that compiling sizes for later processes may take."""


class ProgramCosts:
    """The costs of the runs of one program in all its sizes, and the objects that these share."""

    def __init__(self) -> None:
        self.trained = 0
        """The counted runs of a seeded training."""
        self.host: HostForm | None = None
        """The NumPy form, which is copied for each set of sizes."""
        self.slow_elements = inf
        """The number of fed elements from which on NumPy takes too long."""
        self.host_seconds = 0.0
        """The seconds of all runs in NumPy."""
        self.missed = 0.0
        """The seconds of NumPy for sizes with executables on disk."""
        self.prepares: WeakSet[Prepare] = WeakSet()
        """The prepared values of forms compiled for feed sizes."""
        # the seconds of compiling sizes whose runs in this process did not cost as much
        self._ahead = 0.0
        # for each padded size, the number of its runs, and the seconds spent on padding
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
