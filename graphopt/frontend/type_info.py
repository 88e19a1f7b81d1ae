"""Limits of number types (paddle.finfo, paddle.iinfo)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from graphopt.frontend import arguments


class finfo:
    """Limits of a floating-point type: min, max, eps, tiny, resolution, bits (paddle.finfo).

    A complex type has the limits of its parts. Raises TypeError for other types.
    """

    def __init__(self, dtype: Any) -> None:
        given = arguments.dtype(dtype, "dtype", "finfo")
        parts = {"complex64": "float32", "complex128": "float64"}
        kind = parts.get(given, f"{given}")
        if not arguments.dtype(kind, "dtype", "finfo").is_floating:
            raise TypeError(f"finfo(): 'dtype' should be a floating-point type, not {given}")
        info: Any = ml_dtypes.finfo(ml_dtypes.bfloat16) if kind == "bfloat16" else np.finfo(kind)
        self.min, self.max, self.eps = float(info.min), float(info.max), float(info.eps)
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = float(info.resolution)
        self.bits: int = info.bits
        self.dtype = kind

    def __repr__(self) -> str:
        names = ("min", "max", "eps", "resolution", "smallest_normal", "tiny", "bits", "dtype")
        return f"paddle.finfo({', '.join(f'{n}={getattr(self, n)}' for n in names)})"


class iinfo:
    """Limits of an integer type: min, max, bits (paddle.iinfo); other types raise TypeError."""

    def __init__(self, dtype: Any) -> None:
        kind = f"{arguments.dtype(dtype, 'dtype', 'iinfo')}"
        if not kind.startswith(("int", "uint")):
            raise TypeError(f"iinfo(): 'dtype' should be an integer type, but received {kind}")
        info = np.iinfo(kind)
        self.min, self.max, self.bits = int(info.min), int(info.max), info.bits
        self.dtype = kind

    def __repr__(self) -> str:
        return f"paddle.iinfo(min={self.min}, max={self.max}, bits={self.bits}, dtype={self.dtype})"
