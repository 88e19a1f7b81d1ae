"""Python functions that compiled programs call, and the exceptions they raise.

An exception in such a function must not reach XLA: there it would end one device's part of a step
while the others wait for it, and return as text. So it is kept for the calling run, the function's
results are zeros, and the run raises it when the step is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.callers import Caller
from graphopt.ir.dialect.op import PdOp


@dataclass(frozen=True)
class CallingRun:
    """A run of a program that calls Python, and the exceptions raised in it."""

    callers: Mapping[Caller, PdOp]
    raised: list[tuple[Caller, BaseException]] = field(default_factory=list)


# A list: a callback may run programs itself, and so may other threads.
_runs: list[CallingRun] = []


@contextmanager
def listening(callers: Mapping[Caller, PdOp]) -> Iterator[CallingRun]:
    """Open a run to which these ops report their exceptions inside the block."""
    run = CallingRun(callers)
    _runs.append(run)
    try:
        yield run
    finally:
        _runs.remove(run)


def send_array(x: Any) -> Any:
    """Encode an array as a callback argument: elements of 64 bits become uint32 words.

    JAX calls Python from threads without 64 bits.
    """
    return lax.bitcast_convert_type(x, jnp.uint32) if _is_wide(x.dtype) else x


def receive_array(value: Any, like: Any) -> Any:
    """Decode a NumPy array that `send_array` encoded; `like` has its dtype."""
    array = np.asarray(value)
    if not _is_wide(like.dtype):
        return array
    return np.ascontiguousarray(array).view(like.dtype).reshape(array.shape[:-1])


def halves(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Encode a callback's result as `send_array` encodes its arguments."""
    if not _is_wide(array.dtype):
        return array
    return np.ascontiguousarray(array).reshape(*array.shape, 1).view(np.uint32)


def join_halves(x: Any, dtype: Any) -> Any:
    """Decode, inside the program, an array that `halves` encoded."""
    return lax.bitcast_convert_type(x, dtype) if _is_wide(dtype) else x


def _is_wide(dtype: Any) -> bool:
    return np.dtype(dtype) in (np.float64, np.int64, np.uint64)


def call_or_instead(key: Caller, function: Callable[[], Any], instead: Any) -> Any:
    """Call a function; if it raises, report the exception to the run and return `instead`.

    Threads that run the same program share each other's exceptions: they must not store values
    computed from `instead`. After the first exception a run does not call the function again.
    """
    runs = [run for run in _runs if key in run.callers]
    if any(other == key for run in runs for other, _ in run.raised):
        return instead
    try:
        return function()
    except BaseException as error:
        for run in runs:
            run.raised.append((key, error))
        if not runs:
            raise
        return instead
