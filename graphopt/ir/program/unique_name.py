"""Automatic names in Paddle's form, `fc_0`, `fc_0.w_0`, `fc_0.tmp_1` (utils.unique_name)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager

from graphopt.ir.program import undo


class UniqueNameGenerator:
    """Counts from zero for each key, and prefixes the names it generates."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self._counters: defaultdict[str, int] = defaultdict(int)

    def __call__(self, key: str) -> str:
        """Generate the next name with this key."""
        number = self._counters[key]
        undo.note(self._counters.__setitem__, key, number)
        self._counters[key] += 1
        return f"{self.prefix}{key}_{number}"


_generator = UniqueNameGenerator()


def generate(key: str) -> str:
    """Generate the next name with this key: `fc_0`, `fc_1`, …"""
    return _generator(key)


def generate_with_ignorable_key(key: str) -> str:
    """Generate a name; Paddle's dynamic mode counts them under one key (base.unique_name)."""
    return generate(key)


def switch(new_generator: UniqueNameGenerator | None = None) -> UniqueNameGenerator:
    """Count with another generator, or a new one; return the previous (unique_name.switch)."""
    global _generator
    before, _generator = _generator, new_generator or UniqueNameGenerator()
    return before


@contextmanager
def guard(new_generator: UniqueNameGenerator | str | bytes | None = None) -> Generator[None]:
    """Count from zero inside the block and restore the counters afterwards.

    A text is a prefix of each name generated inside: `guard("A")` gives `Afc_0`. Paddle page:
    paddle.utils.unique_name.guard.
    """
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = UniqueNameGenerator(new_generator)
    before = switch(new_generator)
    try:
        yield
    finally:
        switch(before)


class _Inside(UniqueNameGenerator):
    """Adds the prefix to keys that do not have it, so that names have it once."""

    def __call__(self, key: str) -> str:
        made = super().__call__(key)
        return made.removeprefix(self.prefix) if key.startswith(self.prefix) else made


@contextmanager
def inside(name: str) -> Generator[str]:
    """Generate separate names for the parts of one layer, without changing any counter.

    They begin with the name of the layer and a slash, which the context manager yields.
    """
    with guard(_Inside(f"{name}/")):
        yield f"{name}/"
