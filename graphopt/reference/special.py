"""Special functions: of float64 arrays element by element by Python's own, others by series."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _each(function: Callable[[float], float]) -> Callable[[Any], Array]:
    def whole(x: Any) -> Array:
        x = np.asarray(x, np.float64)
        flat = [function(v) for v in x.ravel().tolist()]
        return np.array(flat, np.float64).reshape(x.shape)

    return whole


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == int(x)):
        return math.inf
    return math.lgamma(x)


def _digamma(x: float) -> float:
    """Compute digamma by recurrence up to 10, then by series (Abramowitz and Stegun, 6.3)."""
    if x == math.inf or math.isnan(x):
        return x
    if x == 0:
        return math.copysign(math.inf, -x)
    if x == -math.inf or (x <= 0 and x == int(x)):
        return math.nan
    if x < 0:
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    below = 0.0
    while x < 10:
        below -= 1 / x
        x += 1
    square = 1 / (x * x)
    series = 0.0
    for term in (691 / 32760, 1 / 132, 1 / 240, 1 / 252, 1 / 120, 1 / 12):
        series = term - square * series
    return below + math.log(x) - 0.5 / x - square * series


def _erfinv(y: float) -> float:
    """Compute the inverse of erf by Newton's method on erf, or on erfc near 1."""
    if math.isnan(y) or abs(y) > 1:
        return math.nan
    if abs(y) == 1:
        return math.copysign(math.inf, y)
    rest = math.log1p(-y * y)
    first = 2 / (math.pi * 0.147) + rest / 2
    x = math.sqrt(max(math.sqrt(first * first - rest / 0.147) - first, 0.0))
    target = abs(y)
    for _ in range(40):
        slope = 2 / math.sqrt(math.pi) * math.exp(-x * x)
        if slope == 0:
            break
        error = (1 - target) - math.erfc(x) if target > 0.5 else math.erf(x) - target
        moved = x - error / slope
        if moved == x:
            break
        x = moved
    return math.copysign(x, y)


erf = _each(math.erf)
erfc = _each(math.erfc)
erfinv = _each(_erfinv)
lgamma = _each(_lgamma)
digamma = _each(_digamma)


def scaled_bessel(order: int, x: Array) -> Array:
    """Compute exp(-|x|) times the modified Bessel function of the first kind and order 0 or 1.

    Up to 30 this takes the power series, which has no negative term, then the asymptotic one
    (Abramowitz and Stegun, 9.6.10 and 9.7.1).
    """
    size = np.abs(x)
    near, far = np.minimum(size, 30), np.maximum(size, 30)
    term = near / 2 if order else np.ones_like(near)
    total = term
    for k in range(1, 80):
        term = term * (near * near / (4 * k * (k + order)))
        total = total + term
    tail = np.ones_like(far)
    ending = tail
    for k in range(1, 20):
        tail = tail * (((2 * k - 1) ** 2 - 4 * order * order) / (8 * k * far))
        ending = ending + tail
    found = np.where(
        size <= 30, total * np.exp(-near), ending / (math.sqrt(2 * math.pi) * np.sqrt(far))
    )
    return np.where(np.signbit(x), -found, found) if order else found
