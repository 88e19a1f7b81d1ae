"""Plain tables and sizes for terminals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns as wide as their widest cell."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def size(count: int) -> str:
    """A number of bytes with a unit."""
    if count < 1000:
        return f"{count} bytes"
    amount = float(count)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 1000 or unit == "GB":
            return f"{amount:.1f} {unit}"
    raise AssertionError


def shape(dims: Sequence[int]) -> str:
    """A shape, with ? for an unknown dimension."""
    return f"[{', '.join('?' if dim < 0 else str(dim) for dim in dims)}]"


def statistics(arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """Name, shape, dtype, and the range of the numbers."""
    return table(
        ("name", "shape", "dtype", "min", "mean", "max"),
        ((n, shape(a.shape), a.dtype, *_range(a)) for n, a in arrays.items()),
    )


def _range(array: np.ndarray[Any, Any]) -> tuple[str, str, str]:
    if not array.size or np.iscomplexobj(array):
        return "-", "-", "-"
    wide = array.astype(np.float64)
    return tuple(f"{value:.6g}" for value in (wide.min(), wide.mean(), wide.max()))  # pyright: ignore[reportReturnType]
