"""Calls back to the host in JAX."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.errors import UnsupportedError
from graphopt.ir import callables
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.ops.callback import Print, PyFunc, PyFuncBackward, split_shapes
from graphopt.lowering.ops.base import Array, is_floating
from graphopt.lowering.registry import lowers

Shape = jax.ShapeDtypeStruct


@lowers(PyFunc)
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
            _call(host, given, [])

        jax.debug.callback(call, *constants)
        return ()

    def known(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            next(x.shape[axis] for x in xs if x.ndim > axis) if size < 0 else size
            for axis, size in enumerate(shape)
        )

    wanted = [
        Shape(known(shape), as_dtype(dtype).numpy)
        for shape, dtype in zip(split_shapes(sizes, ranks), dtypes, strict=True)
    ]
    called = jax.pure_callback(
        lambda *given: _call(host, given, wanted), wanted, *constants, vmap_method="sequential"
    )
    return tuple(called)


@lowers(PyFuncBackward)
def py_func_backward(
    xs: tuple[Array, ...], outs: tuple[Array, ...], function: int, skipped: Sequence[int]
) -> tuple[Array, ...]:
    host = _function(function)

    @jax.custom_vjp
    def attached(xs: tuple[Array, ...], outs: tuple[Array, ...]) -> tuple[Array, ...]:
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
            # as in Paddle, the function gets None for what has no gradient
            with_none = [next(rest) if ok else None for ok in smooth]
            return _call(host, (*values[: len(given)], *with_none), wanted, may_be_none=True)

        made = jax.pure_callback(call, wanted, *given, *grads, vmap_method="sequential")
        to_xs = tuple(g if is_floating(x) else None for g, x in zip(made, xs, strict=True))
        return to_xs, tuple(jnp.zeros_like(out) if is_floating(out) else None for out in outs)

    attached.defvjp(forward, backward)
    return attached(xs, outs)


def _function(number: int) -> Callable[..., Any]:
    found = callables.find(number)
    if found is None:
        raise UnsupportedError(
            f"py_func: this process has no Python function number {number}; build the program "
            "here instead of loading it"
        )
    return found


def _call(
    host: Callable[..., Any],
    given: Sequence[Any],
    wanted: Sequence[Shape],
    *,
    may_be_none: bool = False,
) -> list[Any]:
    """The function's results as arrays of the declared shapes and dtypes."""
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


_printed: Counter[tuple[str, str]] = Counter()
_lock = threading.Lock()


@lowers(Print)
def print_(
    x: Array,
    first_n: int,
    message: str,
    summarize: int,
    print_tensor_name: bool,
    print_tensor_type: bool,
    print_tensor_shape: bool,
    print_tensor_layout: bool,
    print_tensor_lod: bool,
    print_phase: str,
    input_name: str,
    output_name: str,
) -> Array:
    def write(name: str) -> Callable[[Any], None]:
        def host(value: Any) -> None:
            array = np.asarray(value)
            with _lock:
                _printed[name, message] += 1
                if 0 <= first_n < _printed[name, message]:
                    return
            shown = array.ravel() if summarize < 0 else array.ravel()[:summarize]
            lines = [
                f"Variable: {name}" if print_tensor_name else "",
                f"  - message: {message}" if message else "",
                "  - lod: {}" if print_tensor_lod else "",
                "  - place: Place(cpu)",
                f"  - shape: [{', '.join(map(str, array.shape))}]" if print_tensor_shape else "",
                "  - layout: NCHW" if print_tensor_layout else "",
                f"  - dtype: {array.dtype}" if print_tensor_type else "",
                f"  - data: [{' '.join(map(_digits, shown))}]",
            ]
            print("\n".join(filter(None, lines)), flush=True)

        return host

    @jax.custom_vjp
    def printed(x: Array) -> Array:
        if print_phase != "BACKWARD":
            jax.debug.callback(write(input_name), x)
        return x

    def backward(_: None, cotangent: Array) -> tuple[Array]:
        if print_phase != "FORWARD":
            jax.debug.callback(write(f"{output_name}@GRAD"), cotangent)
        return (cotangent,)

    # the forward rule does not print: the value is computed, and printed, by itself
    printed.defvjp(lambda x: (x, None), backward)
    return printed(x) if is_floating(x) else _without_gradient(x, write(input_name), print_phase)


def _without_gradient(x: Array, host: Callable[[Any], None], phase: str) -> Array:
    if phase != "BACKWARD":
        jax.debug.callback(host, x)
    return x


def _digits(value: Any) -> str:
    """A number as C++ streams write it, with six digits."""
    if isinstance(value, (np.bool_, np.integer)):
        return str(int(value))
    if isinstance(value, np.complexfloating):
        return f"({value.real:g},{value.imag:g})"
    return f"{float(value):g}"
