"""A program on one device, of which nothing is made, and JAX not imported, before it is traced."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable
from typing import Any

from graphopt.lowering.plan import Replicated, home_at, home_of
from graphopt.runtime.devices.places import Place, device_of


def alone_later(place: Place, make: Callable[[], Any], *, donates: bool) -> Replicated:
    """The step on the device of a place; `make` gives its jitted function."""

    @functools.cache
    def sharding() -> Any:
        device = device_of(place)
        import jax

        return jax.sharding.SingleDeviceSharding(device)

    return Replicated(
        *("alone", make, 1, lambda _: sharding(), _home(place)),
        donates=donates,
        mapped=False,
        why="there is one place",
    )


def _home(place: Place) -> Hashable:
    if place.platform == "cpu" and "jax" not in sys.modules:
        return home_at(("cpu", 0))  # other numbers are given in a job, which JAX is imported for
    return home_of(device_of(place))
