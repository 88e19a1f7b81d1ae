"""The global random generator: a seed, and a counter that advances with every run."""

from __future__ import annotations

from collections.abc import Generator as Generator_
from contextlib import contextmanager

import numpy as np

from graphopt.runtime.state.arrays import HostArray


class Generator:
    """A generator of JAX threefry keys, one for each run, from the seed and the run's number.

    It is `seeded` when a script has chosen the seed.
    """

    def __init__(self, seed: int = 0) -> None:
        self.manual_seed(seed)
        self.seeded = False

    def manual_seed(self, seed: int) -> Generator:
        """Restart from this seed (an integer of up to 64 bits)."""
        self.seeded = True
        self._seed = int(seed)
        # mix the low and the high 32 bits
        self._word = (self._seed ^ (self._seed >> 32) * 0x9E3779B1) & 0xFFFFFFFF
        self._step = 0
        return self

    def initial_seed(self) -> int:
        """Return the seed."""
        return self._seed

    def next_key(self, runs: int = 1) -> HostArray:
        """Return two uint32 words, different at every call; the second one counts the runs.

        With `runs` the key is for the first of so many runs.
        """
        first = self._step + 1
        self._step += runs
        return np.array((self._word, first & 0xFFFFFFFF), dtype=np.uint32)

    @contextmanager
    def keep_position(self) -> Generator_[None]:
        """Let runs in the block draw the same numbers as the next run after it."""
        step = self._step
        try:
            yield
        finally:
            self._step = step


_default = Generator()


def default_generator() -> Generator:
    """Return the generator from which programs with seed 0 draw."""
    return _default


def seed(value: int) -> Generator:
    """Seed the global generator (paddle.seed)."""
    return _default.manual_seed(value)
