"""Images of any number of axes read at positions between their pixels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from graphopt.reference.tape import Array, value_of


def read_between(x: Array, at: Sequence[Array]) -> Array:
    """Read images [n, c, ...] at positions along each axis, arrays [n, ...]; [n, ..., c].

    Between pixels this interpolates linearly along each axis. Pixels outside are 0.
    """
    channels_last = np.moveaxis(x, 1, -1)
    lows = [np.floor(value_of(position)) for position in at]
    rest = [position - low for position, low in zip(at, lows, strict=True)]
    total: Array = 0.0
    for corner in itertools.product((0, 1), repeat=len(at)):
        weight: Array = 1.0
        for side, far in zip(corner, rest, strict=True):
            weight = weight * (far if side else 1.0 - far)
        pixels = [low + side for low, side in zip(lows, corner, strict=True)]
        total = total + weight[..., None] * pixels_at(channels_last, pixels)
    return total


def pixels_at(x: Array, at: Sequence[Array]) -> Array:
    """Read pixels of images [n, ..., c] at integer positions, 0 outside."""
    inside: Array = np.ones((), bool)
    places: list[Array] = [np.reshape(np.arange(x.shape[0]), (-1,) + (1,) * len(at))]
    for place, size in zip(at, x.shape[1:-1], strict=True):
        inside = inside & (place >= 0) & (place < size)
        places.append(np.where((place >= 0) & (place < size), place, 0).astype(np.int64))
    return np.where(inside[..., None], x[tuple(places)], 0.0)
