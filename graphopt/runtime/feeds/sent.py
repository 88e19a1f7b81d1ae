"""Arrays copied to a device ahead of the step that reads them, so that the step does not wait."""

from __future__ import annotations

import numpy as np

from graphopt.runtime.devices.places import Place, devices_of
from graphopt.runtime.state.arrays import Array, HostArray, keep_on_host


def send(array: HostArray, place: Place) -> Array:
    """Copy an array to the device of a place; return it unchanged if that is the host.

    The caller may change its own array afterwards.
    """
    if place.platform == "cpu" or place.index >= len(devices := devices_of(place.platform)):
        return array
    import jax

    copy = np.array(array)
    with jax.enable_x64(True):
        found = jax.device_put(copy, devices[place.index])
    keep_on_host(found, copy)
    return found
