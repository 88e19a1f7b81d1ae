"""Padded feeds: masks and counts of their real rows, and fetches without the padding."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from graphopt.passes.padding.dims import Axes, Dim, Extent, Factor, Grown
from graphopt.passes.padding.masked import Masked
from graphopt.runtime.state.arrays import HostArray

# the number of rows of each dimension, without and with padding
Rows = Mapping[str, tuple[int, int]]


def rows_of(factor: Factor, rows: Rows) -> tuple[int, int]:
    """Return the rows of a factor: the real ones, and those with padding."""
    if isinstance(factor, int):
        return factor, factor
    if isinstance(factor, Extent):
        real, size = rows[factor.name]
        return factor.of(real), factor.of(size)
    if isinstance(factor, Grown):
        real, size = rows[factor.name]
        return real + factor.by, size
    return rows[factor]


def misfit(masked: Masked, rows: Rows) -> str:
    """Return the reason not to pad these sizes, "" if padding keeps the results."""
    for extent in sorted(masked.extents, key=str):
        if extent.of(rows[extent.name][0]) < 1:
            return f"too-small: {extent} is {extent.of(rows[extent.name][0])}"
    for pair in sorted(masked.equal, key=str):
        for at in (0, 1):
            one, other = (prod(rows_of(factor, rows)[at] for factor in dim) for dim in pair)
            if one != other:
                names = " and ".join("*".join(map(str, dim)) for dim in pair)
                return f"sizes-disagree: {names} are {one} and {other}"
    return ""


def mask_of(dim: Dim, rows: Rows) -> HostArray:
    """Build the mask of the real rows of a dimension."""
    mask = np.ones((), np.bool_)
    for factor in dim:
        real, size = rows_of(factor, rows)
        mask = np.logical_and.outer(mask, np.arange(size) < real)
    return mask.reshape(-1)


def count_of(dim: Dim, rows: Rows) -> int:
    """Count the real rows of a dimension."""
    return prod(rows_of(factor, rows)[0] for factor in dim)


def cut(array: Any, axes: Axes, rows: Rows) -> Any:
    """Cut the rows of padding off a fetch."""
    for at, dim in enumerate(axes):
        if dim is None:
            continue
        if len(dim) == 1:
            real, size = rows_of(dim[0], rows)
            if real != size:
                array = array[(slice(None),) * at + (slice(real),)]
        elif array.shape[at] != count_of(dim, rows):
            array = array[(slice(None),) * at + (mask_of(dim, rows),)]
    return array
