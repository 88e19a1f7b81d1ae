"""Rows of which some are padding: their masks, their counts, and fetches without them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from graphopt.passes.padding.dims import Axes, Dim
from graphopt.runtime.arrays import HostArray

# the number of rows of each dimension: those of the data and those with padding
Rows = Mapping[str, tuple[int, int]]


def mask_of(dim: Dim, rows: Rows) -> HostArray:
    """The mask of the rows of a dimension that are data."""
    mask = np.ones((), np.bool_)
    for factor in dim:
        if isinstance(factor, int):
            part = np.ones(factor, np.bool_)
        else:
            real, size = rows[factor]
            part = np.arange(size) < real
        mask = np.logical_and.outer(mask, part)
    return mask.reshape(-1)


def count_of(dim: Dim, rows: Rows) -> int:
    """The number of rows of a dimension that are data."""
    return prod(factor if isinstance(factor, int) else rows[factor][0] for factor in dim)


def cut(array: Any, axes: Axes, rows: Rows) -> Any:
    """A fetch without the rows that stem from padding."""
    for at, dim in enumerate(axes):
        if dim is None:
            continue
        if len(dim) == 1:
            (name,) = dim
            assert isinstance(name, str)
            real, size = rows[name]
            if real != size:
                array = array[(slice(None),) * at + (slice(real),)]
        else:
            array = array[(slice(None),) * at + (mask_of(dim, rows),)]
    return array
