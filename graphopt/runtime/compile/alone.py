"""A program on one device, of which nothing is made, and JAX not imported, before it is traced."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable
from typing import Any

from graphopt.lowering.plan import Replicated, home_at, home_of
from graphopt.runtime.devices.places import Place, device_of


class LazyTrace:
    """The jitted function of a step, made when it is first traced."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._made = functools.cache(make)

    def trace(self, *arguments: Any) -> Any:
        """The function traced for these arguments or types, as by `jax.jit`."""
        return self._made().trace(*arguments)

    def lower(self, *arguments: Any) -> Any:
        """The function traced and lowered for them."""
        return self._made().lower(*arguments)


def alone_later(place: Place, make: Callable[[], Any], *, donates: bool) -> Replicated:
    """The step on the device of a place; `make` gives its jitted function when it is traced."""

    @functools.cache
    def sharding() -> Any:
        device = device_of(place)
        import jax

        return jax.sharding.SingleDeviceSharding(device)

    return Replicated(
        *("alone", LazyTrace(make), 1, lambda _: sharding(), _home(place)),
        donates=donates,
        mapped=False,
        why="there is one place",
    )


def _home(place: Place) -> Hashable:
    if place.platform == "cpu" and "jax" not in sys.modules:
        return home_at(("cpu", 0))  # other numbers are given in a job, which JAX is imported for
    return home_of(device_of(place))
