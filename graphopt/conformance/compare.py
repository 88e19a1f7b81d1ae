"""Comparison of a recorded result with ours: a complaint for each difference, or none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np


class Finding(NamedTuple):
    """Differences from a record, and the operators (Paddle's types) that the program had."""

    complaints: list[str]
    operators: frozenset[str] = frozenset()


# The default relative and absolute tolerance for float32.
TOLERANCE = (1e-5, 1e-6)
_HALF = (2e-3, 1e-3)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parts of a nested result with their paths, such as `0.1`."""
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        yield path, value
        return
    for key, item in items:
        yield from leaves(item, f"{path}.{key}".lstrip("."))


def differs(what: str, want: Any, got: Any, tolerance: tuple[float, float]) -> list[str]:
    """List complaints about an array: its shape, its dtype, its elements.

    float64 must agree a hundred times better than float32.
    """
    want, got = np.asarray(want), np.asarray(got)
    if want.shape != got.shape:
        return [f"{what} has shape {list(got.shape)}, recorded is {list(want.shape)}"]
    if want.dtype != got.dtype:
        return [f"{what} is {got.dtype}, recorded is {want.dtype}"]
    if want.dtype.kind not in "fc":
        return [] if np.array_equal(want, got) else [f"{what} has other values"]
    rtol, atol = tolerance
    if want.dtype in (np.float64, np.complex128):
        rtol, atol = rtol * 1e-2, atol * 1e-2
    elif want.dtype == np.float16:
        rtol, atol = _HALF
    if np.allclose(got, want, rtol, atol, equal_nan=True):
        return []
    with np.errstate(all="ignore"):
        worst = np.nanmax(np.abs(got.astype(complex) - want))
    return [f"{what} differs by up to {worst:g}"]


def differs_plainly(what: str, want: Any, got: Any) -> list[str]:
    """List complaints about a plain Python value, compared in its form in JSON."""
    same = json.loads(json.dumps(got, default=str)) == want
    return [] if same else [f"{what} is {got!r}, recorded is {want!r}"]


def facts_of(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Compute the facts that are recorded of random results."""
    numbers = array.astype("float64")
    filled = numbers.size > 0
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "mean": float(numbers.mean()) if filled else 0.0,
        "std": float(numbers.std()) if filled else 0.0,
        "min": float(numbers.min()) if filled else 0.0,
        "max": float(numbers.max()) if filled else 0.0,
        "zeros": float((numbers == 0).mean()) if filled else 0.0,
        "distinct": len(np.unique(numbers)),
    }


def violates(facts: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """List complaints about a random result's facts: bounds, values, values with a tolerance."""

    def holds(name: str, want: Any) -> bool:
        have = facts[name]
        if isinstance(want, list) and name != "shape":
            return abs(have - want[0]) <= want[1]
        return have >= want if name == "min" else have <= want if name == "max" else have == want

    return [
        f"{name} is {facts[name]}, recorded is {want}"
        for name, want in wanted.items()
        if not holds(name, want)
    ]
