"""Arrays in a table: shapes, dtypes and the range of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphopt.display.table import table
from graphopt.display.units import shape


def statistics(arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """Format a table of arrays: name, shape, dtype, and the range of the numbers."""
    return table(
        ("name", "shape", "dtype", "min", "mean", "max"),
        ((n, shape(a.shape), a.dtype, *_range(a)) for n, a in arrays.items()),
    )


def _range(array: np.ndarray[Any, Any]) -> tuple[str, str, str]:
    if not array.size or np.iscomplexobj(array):
        return "-", "-", "-"
    wide = array.astype(np.float64)
    return tuple(f"{value:.6g}" for value in (wide.min(), wide.mean(), wide.max()))  # pyright: ignore[reportReturnType]
