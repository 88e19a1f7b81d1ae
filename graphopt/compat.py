"""Conversions of text, bytes and numbers between Python 2 and 3 (paddle.compat of Paddle 1.8)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from graphopt.errors import AssertedError
from graphopt.frontend.calls import publish
from graphopt.frontend.missing import explain as _explain

long_type = int
int_type = int


def to_text(obj: Any, encoding: str = "utf-8", inplace: bool = False) -> Any:
    """Decode bytes to text, also in a list, set or dict, which `inplace` modifies."""

    def text(value: Any) -> Any:
        return value.decode(encoding) if isinstance(value, bytes) else value

    return _each(obj, text, inplace)


def to_bytes(obj: Any, encoding: str = "utf-8", inplace: bool = False) -> Any:
    """Encode text to bytes, also in a list, set or dict, which `inplace` modifies."""

    def raw(value: Any) -> Any:
        return value.encode(encoding) if isinstance(value, str) else value

    return _each(obj, raw, inplace)


def _each(obj: Any, change: Callable[[Any], Any], inplace: bool) -> Any:
    if isinstance(obj, dict):
        items = {change(key): change(value) for key, value in obj.items()}
        if not inplace:
            return items
        obj.clear()
        obj.update(items)
        return obj
    if not isinstance(obj, (list, set)):
        return change(obj)
    changed = [change(value) for value in obj]
    if not inplace:
        return type(obj)(changed)
    obj.clear()
    (obj.extend if isinstance(obj, list) else obj.update)(changed)
    return obj


def round(x: float, d: int = 0) -> float:
    """Round to the nearest number with d decimals; halves away from 0, as in Python 2."""
    if not math.isfinite(x) or not x:
        return x
    power = 10**d
    return math.copysign(math.floor(abs(x) * power + 0.5) / power, x)


def floor_division(x: float, y: float) -> float:
    """Compute x // y."""
    return x // y


def get_exception_message(exc: BaseException | None) -> str:
    """Return the message of an exception; AssertedError for None."""
    if exc is None:
        raise AssertedError("get_exception_message(): 'exc' is None; give an exception")
    return str(exc)


_explain(globals())
publish(globals(), __name__)
