"""The parts of samples of ops: arrays of every dtype, and cases with their expected results.

A sample is read by tests/ir/test_ops.py. `sample(f32(2, 3), f32(3), axis=1).gives(numpy_function)`
calls the op with two operands and a property; the function gets the operands.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Operand = Array | list[Array] | None


@dataclass(frozen=True, eq=False)
class Sample:
    """One call of an op: operands in order (None: absent, a list: variadic) and properties.

    A sample equals only itself, so that results can be cached by it.
    """

    operands: tuple[Operand, ...]
    attrs: Mapping[str, Any]
    expected: Callable[..., Any] | None = None
    smooth: bool = True
    through: tuple[int, ...] | None = None
    any_size: bool = True

    def gives(self, expected: Callable[..., Any]) -> Sample:
        """Set the function from operands (absent ones are None) to the expected results."""
        return replace(self, expected=expected)

    def kinked(self) -> Sample:
        """Mark the sample as without a derivative to compare with finite differences."""
        return replace(self, smooth=False)

    def gradient_through(self, *results: int) -> Sample:
        """Pass gradients only through these results; the others count as constants."""
        return replace(self, through=results)

    def known_sizes(self) -> Sample:
        """Mark the sample's result type as dependent on known sizes."""
        return replace(self, any_size=False)


def sample(*operands: Operand, **attrs: Any) -> Sample:
    """Make a sample with these operands and properties."""
    return Sample(operands, attrs)


# Every array differs from those before it, so that no two operands are equal by accident.
_serial = itertools.count(1)


def _numbers(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Make numbers of both signs; floats differ from each other, 0 and whole numbers > 2."""
    at = np.arange(np.prod(shape, dtype=int)) + 7 * next(_serial)
    if dtype.kind == "b":
        return (at % 3 == 0).reshape(shape)
    if dtype.kind in "iu":
        return (at * 5 % 7 - (2 if dtype.kind == "i" else 0)).astype(dtype).reshape(shape)
    sizes = 0.2 + at * 0.6180339887 % 1 * 1.8
    signs = np.where(at * 0.7548776662 % 1 < 0.5, -1, 1)
    return (sizes * signs).astype(dtype).reshape(shape)


def _maker(name: Any) -> Callable[..., Array]:
    dtype = np.dtype(name)

    def make(*given: Any) -> Array:
        """Make a new array of a shape, `make(2, 3)`, or of values, `make([1, 2])`."""
        if given and isinstance(given[0], list):
            return np.array(given[0], dtype)
        return _numbers(given, dtype)

    return make


f16, bf16 = _maker("float16"), _maker(ml_dtypes.bfloat16)
f32, f64 = _maker("float32"), _maker("float64")
c64 = _maker("complex64")
u8, i32, i64 = _maker("uint8"), _maker("int32"), _maker("int64")
flags = _maker("bool")
