"""Callbacks from the compiled program to Python in JAX."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.errors import CheckError, UnsupportedError
from graphopt.ir.dialect import callables
from graphopt.ir.dialect.callers import Caller
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import callback as ops
from graphopt.ir.dtypes import as_dtype
from graphopt.lowering.host import call_or_instead, halves, join_halves, receive_array, send_array
from graphopt.lowering.ops.base import Array, is_floating
from graphopt.lowering.registry import lowers

Shape = jax.ShapeDtypeStruct


@lowers(ops.PyFunc)
def py_func(
    xs: tuple[Array, ...],
    function: int,
    sizes: Sequence[int],
    ranks: Sequence[int],
    dtypes: Sequence[str],
) -> tuple[Array, ...]:
    host = _function(function)
    constants = [lax.stop_gradient(x) for x in xs]
    if not ranks:

        def call(*given: Any) -> None:
            _call((ops.PyFunc.name, function), host, map(receive_array, given, xs), [])

        jax.debug.callback(call, *map(send_array, constants))
        return ()

    def known_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            next(x.shape[axis] for x in xs if x.ndim > axis) if size < 0 else size
            for axis, size in enumerate(shape)
        )

    wanted = [
        Shape(known_shape(shape), as_dtype(dtype).numpy)
        for shape, dtype in zip(ops.split_shapes(sizes, ranks), dtypes, strict=True)
    ]
    made = _from_host(
        lambda *given: _call((ops.PyFunc.name, function), host, given, wanted), wanted, constants
    )
    return tuple(made)


@lowers(ops.PyFuncBackward)
def py_func_backward(
    xs: tuple[Array, ...], outs: tuple[Array, ...], function: int, skipped: Sequence[int]
) -> tuple[Array, ...]:
    host = _function(function)

    @jax.custom_vjp
    def attach_gradient(xs: tuple[Array, ...], outs: tuple[Array, ...]) -> tuple[Array, ...]:
        return outs

    def forward(xs: tuple[Array, ...], outs: tuple[Array, ...]) -> Any:
        return outs, (xs, outs)

    def backward(kept: Any, cotangents: tuple[Array, ...]) -> Any:
        xs, outs = kept
        given = [value for i, value in enumerate((*xs, *outs)) if i not in skipped]
        smooth = [is_floating(out) for out in outs]
        grads = [g for g, ok in zip(cotangents, smooth, strict=True) if ok]
        wanted = [Shape(x.shape, x.dtype) for x in xs]

        def call(*values: Any) -> Any:
            rest = iter(values[len(given) :])
            # as in Paddle, the function gets None for a missing gradient
            with_none = [next(rest) if ok else None for ok in smooth]
            passed = (*values[: len(given)], *with_none)
            return _call(
                (ops.PyFuncBackward.name, function), host, passed, wanted, may_be_none=True
            )

        made = _from_host(call, wanted, [*given, *grads])
        to_xs = tuple(g if is_floating(x) else None for g, x in zip(made, xs, strict=True))
        return to_xs, tuple(jnp.zeros_like(out) if is_floating(out) else None for out in outs)

    attach_gradient.defvjp(forward, backward)
    return attach_gradient(xs, outs)


def _from_host(
    call: Callable[..., Sequence[Any]], wanted: Sequence[Shape], given: Sequence[Array]
) -> list[Array]:
    """Call a host function on arrays, with all bits of their elements."""
    likes = [Shape(x.shape, x.dtype) for x in given]
    made = jax.pure_callback(
        lambda *values: [halves(array) for array in call(*map(receive_array, values, likes))],
        [jax.eval_shape(send_array, want) for want in wanted],
        *map(send_array, given),
        vmap_method="sequential",
    )
    return [join_halves(array, want.dtype) for array, want in zip(made, wanted, strict=True)]


def _function(number: int) -> Callable[..., Any]:
    found = callables.find(number)
    if found is None:
        raise UnsupportedError(
            f"py_func: this process has no Python function number {number}; build the program "
            "here instead of loading it"
        )
    return found


def _call(
    key: Caller,
    host: Callable[..., Any],
    given: Iterable[Any],
    wanted: Sequence[Shape],
    *,
    may_be_none: bool = False,
) -> list[Any]:
    """Call the function; return zeros if it raises in a run that handles it."""
    return call_or_instead(
        key,
        lambda: _results(host, given, wanted, may_be_none=may_be_none),
        [np.zeros(want.shape, want.dtype) for want in wanted],
    )


def _results(
    host: Callable[..., Any],
    given: Iterable[Any],
    wanted: Sequence[Shape],
    *,
    may_be_none: bool = False,
) -> list[Any]:
    """Call the function and convert its results to the declared shapes and dtypes."""
    name = getattr(host, "__name__", repr(host))
    made = host(*(None if value is None else np.asarray(value) for value in given))
    results = list(made) if isinstance(made, (list, tuple)) else [made]
    if not wanted:
        return []
    if len(results) != len(wanted):
        raise ValueError(
            f"py_func: {name}() returned {len(results)} values where {len(wanted)} were declared"
        )
    checked: list[Any] = []
    for result, want in zip(results, wanted, strict=True):
        if result is None and may_be_none:
            checked.append(np.zeros(want.shape, want.dtype))
            continue
        value = np.asarray(result)
        if value.shape != want.shape or not np.can_cast(value.dtype, want.dtype, "same_kind"):
            raise ValueError(
                f"py_func: {name}() returned {list(value.shape)} {value.dtype} where "
                f"{list(want.shape)} {want.dtype} was declared"
            )
        checked.append(value.astype(want.dtype))
    return checked


Strings = tuple[str, ...]


def describe_tensor(
    x: Any, variable: str, message: str = "", summarize: int = 20, parts: Sequence[str] = ()
) -> str:
    """Format a tensor as Paddle prints it: a line for each part, then the elements."""
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
            print(describe_tensor(value, **how), flush=True)

    key = (op.name, how["variable"])
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    jax.debug.callback(
        lambda value: call_or_instead(key, lambda: show(receive_array(value, like)), None),
        send_array(x),
    )


@lowers(ops.Print)
def print_(
    x: Array, variable: str, message: str, first_n: int, summarize: int, parts: Strings
) -> tuple[Array, ...]:
    how = {"variable": variable, "message": message, "summarize": summarize, "parts": parts}
    _print(ops.Print, x, first_n, **how)
    return ()


@lowers(ops.PrintGradient)
def print_gradient(
    x: Array, variable: str, message: str, first_n: int, summarize: int, parts: Strings
) -> Array:
    how = {"variable": variable, "message": message, "summarize": summarize, "parts": parts}

    @jax.custom_vjp
    def same(x: Array) -> Array:
        return x

    def backward(_: None, gradient: Array) -> tuple[Array]:
        _print(ops.PrintGradient, gradient, first_n, **how)
        return (gradient,)

    same.defvjp(lambda x: (x, None), backward)
    return same(x)


@lowers(ops.Assert)
def assert_(
    condition: Array, data: tuple[Array, ...], variables: Strings, summarize: int, message: str
) -> tuple[Array, ...]:
    def check(holds: Any, *values: Any) -> None:
        if not bool(np.asarray(holds).reshape(())):
            if message:
                raise CheckError(message)
            shown = [
                describe_tensor(value, name, summarize=summarize, parts=("name", "shape", "dtype"))
                for value, name in zip(values, variables[1:], strict=True)
            ]
            what = f"the condition variable '{variables[0]}' of Assert must be true, but is false"
            raise CheckError("\n".join([what, *shown]))

    key = (ops.Assert.name, variables)
    likes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (condition, *data)]
    jax.debug.callback(
        lambda *given: call_or_instead(key, lambda: check(*map(receive_array, given, likes)), None),
        condition,
        *map(send_array, data),
    )
    return ()
