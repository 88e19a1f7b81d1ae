"""Callbacks from the compiled program to Python: printing and checking."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from graphopt.errors import CheckError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.debug import Assert, Print, PrintGradient
from graphopt.lowering.host import called, received, sent
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


def _print(op: type[PdOp], x: Array, first_n: int, **how: Any) -> None:
    runs = itertools.count(1)

    def show(value: Any) -> None:
        if first_n < 0 or next(runs) <= first_n:
            print(described(value, **how), flush=True)

    key = (op.name, how["variable"])
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    jax.debug.callback(
        lambda value: called(key, lambda: show(received(value, like)), None), sent(x)
    )


@lowers(Print)
def print_(
    x: Array, variable: str, message: str, first_n: int, summarize: int, parts: Strings
) -> tuple[Array, ...]:
    how = {"variable": variable, "message": message, "summarize": summarize, "parts": parts}
    _print(Print, x, first_n, **how)
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
        _print(PrintGradient, gradient, first_n, **how)
        return (gradient,)

    same.defvjp(lambda x: (x, None), backward)
    return same(x)


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
            raise CheckError("\n".join([what, *shown]))

    key = (Assert.name, variables)
    likes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (condition, *data)]
    jax.debug.callback(
        lambda *given: called(key, lambda: check(*map(received, given, likes)), None),
        condition,
        *map(sent, data),
    )
    return ()
