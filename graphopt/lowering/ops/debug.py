"""Callbacks from the compiled program to Python: printing and checking."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from graphopt.errors import CheckError
from graphopt.ir.ops.debug import Assert, Print, PrintGradient
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers

Strings = tuple[str, ...]


def described(
    x: Any, variable: str, message: str = "", summarize: int = 20, parts: Sequence[str] = ()
) -> str:
    """A tensor as Paddle prints it: a line for each part, then the elements."""
    array = np.asarray(x)
    flat = array.ravel()
    kept = flat if summarize < 0 else flat[:summarize]
    if _is_real(array):
        elements = " ".join(f"{value:g}" for value in kept.astype("float64"))
    else:
        plain = kept.astype("int64") if array.dtype.kind == "b" else kept
        elements = " ".join(map(str, plain.tolist()))
    says = {
        "message": message,
        "lod": "{}",
        "place": "Place(cpu)",
        "shape": str(list(array.shape)),
        "layout": "NCHW",
        "dtype": array.dtype.name,
    }
    lines = [f"Variable: {variable}"] if "name" in parts else []
    lines += [f"  - {part}: {text}" for part, text in says.items() if part in parts and text]
    return "\n".join([*lines, f"  - data: [{elements}]"])


def _is_real(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def _print(x: Array, first_n: int, **how: Any) -> None:
    runs = itertools.count(1)

    def show(value: Any) -> None:
        if first_n < 0 or next(runs) <= first_n:
            print(described(value, **how), flush=True)

    jax.debug.callback(show, x)


@lowers(Print)
def print_(
    x: Array, variable: str, message: str, first_n: int, summarize: int, parts: Strings
) -> tuple[Array, ...]:
    _print(x, first_n, variable=variable, message=message, summarize=summarize, parts=parts)
    return ()


@lowers(PrintGradient)
def print_gradient(
    x: Array, variable: str, message: str, first_n: int, summarize: int, parts: Strings
) -> Array:
    how = {"variable": variable, "message": message, "summarize": summarize, "parts": parts}

    @jax.custom_vjp
    def same(x: Array) -> Array:
        return x

    def backward(_: None, gradient: Array) -> tuple[Array]:
        _print(gradient, first_n, **how)
        return (gradient,)

    same.defvjp(lambda x: (x, None), backward)
    return same(x)


# What asserts found wrong since `raise_failures` was called last.
_failures: list[str] = []


@lowers(Assert)
def assert_(
    condition: Array, data: tuple[Array, ...], variables: Strings, summarize: int
) -> tuple[Array, ...]:
    def check(holds: Any, *values: Any) -> None:
        if not bool(np.asarray(holds).reshape(())):
            shown = [
                described(value, name, summarize=summarize, parts=("name", "shape", "dtype"))
                for value, name in zip(values, variables[1:], strict=True)
            ]
            what = f"the condition variable '{variables[0]}' of Assert must be true, but is false"
            _failures.append("\n".join([what, *shown]))

    jax.debug.callback(check, condition, *data)
    return ()


def raise_failures(results: Any) -> None:
    """Wait for a step; CheckError when an assert in it failed."""
    jax.block_until_ready(results)
    jax.effects_barrier()
    found = _failures.copy()
    _failures.clear()
    if found:
        raise CheckError("\n".join(dict.fromkeys(found)))
