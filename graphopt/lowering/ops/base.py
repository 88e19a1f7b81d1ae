"""Helpers of several families of rules: dtypes of computation, constants, limits."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dtypes import DType, convert_as_x86

Array = jax.Array


def is_floating(x: Array) -> bool:
    """True when x holds real floating-point numbers."""
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def wide_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of computation: float32 for float16 and bfloat16, else the same."""
    half = jnp.issubdtype(dtype, jnp.floating) and np.dtype(dtype).itemsize < 4
    return np.dtype(np.float32 if half else dtype)


def wide(x: Array) -> Array:
    """Convert x to the dtype of computation."""
    return x.astype(wide_dtype(x.dtype))


def compute_wide(rule: Callable[..., Array]) -> Callable[..., Array]:
    """Let a rule of several steps compute on `wide(x)`, so that half types round only once."""

    @wraps(rule)
    def on_wide(x: Array, **attrs: Any) -> Array:
        return rule(wide(x), **attrs).astype(x.dtype)

    return on_wide


def constant(value: float, dtype: Any) -> np.ndarray[Any, Any]:
    """Convert a property to a number of this dtype."""
    return convert_as_x86(value, DType(np.dtype(dtype).name))


def limit(x: Array, low: float, high: float) -> Array:
    """Limit x to [low, high]; as in Paddle 2.6, no gradient at the bounds."""
    bottom, top = (constant(bound, x.dtype) for bound in _in_range(low, high, x.dtype))
    return jnp.where(x <= bottom, bottom, jnp.where(x >= top, top, x))


_in_kernel = ContextVar("_in_kernel", default=False)


@contextmanager
def in_kernel() -> Generator[None]:
    """Let rules in this block compute a part of a kernel, whose language has no barriers."""
    token = _in_kernel.set(True)
    try:
        yield
    finally:
        _in_kernel.reset(token)


def hide_value(value: float, dtype: Any) -> Array:
    """Make a constant whose value XLA does not know, so that it is not folded with another one.

    XLA would compute (x * 2) * 0.5 as x, where the product may overflow. A scalar after a barrier
    is an argument of the fused loop and costs nothing.
    """
    number = constant(value, dtype)
    return jnp.asarray(number) if _in_kernel.get() else lax.optimization_barrier(number)


def apart(x: Array) -> Array:
    """Hide from XLA how x was computed; a denormal number becomes 0.

    XLA would merge some functions with their arguments into one that differs where the inner
    function overflows or is undefined: log(exp(x)) into x, sqrt(x * x) into |x|, log(x ** 0.5) into
    log(|x|) / 2. The product costs less than a tenth of the instructions of such a function.
    """
    return x * hide_value(1.0, x.dtype) if is_floating(x) else x


def quotient(x: Array, y: Any) -> Array:
    """Divide floating-point numbers x by y, rounded once.

    XLA multiplies by the inverse of a divisor that is a constant or broadcast, so 41 / 41 may be
    below 1: floor, a comparison or a cast makes another integer of it. A select whose condition is
    always the same, for nan as well, hides the divisor at no measurable cost.
    """
    return x / jnp.where(x < x, lax.stop_gradient(x), y)


def _in_range(low: float, high: float, dtype: Any) -> Sequence[float]:
    """Limit the bounds of integers to the range of their dtype."""
    if not jnp.issubdtype(dtype, jnp.integer):
        return low, high
    limits = jnp.iinfo(dtype)
    return [int(min(max(bound, limits.min), limits.max)) for bound in (low, high)]
