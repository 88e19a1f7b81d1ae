"""Arrays on their way to a device: sent ahead of the step that reads them, which waits for none."""

from __future__ import annotations

import numpy as np

from graphopt.runtime.devices.places import Place, devices_of
from graphopt.runtime.state.arrays import Array, HostArray, keep_on_host


def send(array: HostArray, place: Place) -> Array:
    """The array on the device of a place, once it is there; unchanged where that is the host.

    The caller may change its own meanwhile.
    """
    if place.platform == "cpu" or place.index >= len(devices := devices_of(place.platform)):
        return array
    import jax

    copy = np.array(array)
    with jax.enable_x64(True):
        found = jax.device_put(copy, devices[place.index])
    keep_on_host(found, copy)
    return found
