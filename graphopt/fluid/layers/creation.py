"""Functions of 1.8 with the arguments `out` and `device`, which 2.0 removed.

`device` is noted on the operators. `stop_gradient` is set on the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt.fluid.common import vector
from graphopt.fluid.layers.tensor import fill_constant
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit_into
from graphopt.frontend.mode import device_guard
from graphopt.frontend.one_layer import one_layer
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign
from graphopt.tensor.creation import full_like as _full_like
from graphopt.tensor.math import logsumexp as _logsumexp
from graphopt.tensor.random import integers_between as _randint
from graphopt.tensor.random import randn as _randn
from graphopt.tensor.rearrange import meshgrid as _meshgrid


def full(
    shape: Any,
    fill_value: Any,
    out: Variable | None = None,
    dtype: Any = None,
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """Create a tensor filled with one number (fluid.layers.full)."""
    if isinstance(shape, (list, tuple)) and not shape:
        raise AssertionError("full(): 'shape' must have one size at least, such as [1]")
    with device_guard(device):
        made = fill_constant(shape, dtype or "float32", fill_value, out=out, name=name)
    made.stop_gradient = arguments.flag(stop_gradient, "stop_gradient", "full")
    return made


def full_like(
    input: Variable,
    fill_value: Any,
    out: Variable | None = None,
    dtype: Any = None,
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """Create a tensor in the shape of another, filled with one number (fluid.layers.full_like)."""
    arguments.variable(input, "input", "full_like")
    with device_guard(device):
        made = _full_like(input, fill_value, dtype, name)
        made = made if out is None else assign(made, out)
    made.stop_gradient = arguments.flag(stop_gradient, "stop_gradient", "full_like")
    return made


@one_layer("randn")
def randn(
    shape: Any,
    out: Variable | None = None,
    dtype: Any = None,
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """Draw numbers of the standard normal distribution in this shape (fluid.layers.randn).

    They are float32 by default, or float64; TypeError for another `dtype`. They are written to
    `out`, if set.
    """
    element = arguments.dtype(dtype or "float32", "dtype", "randn")
    if element not in ("float32", "float64"):
        raise TypeError(f"randn(): 'dtype' should be float32 or float64, found {element}")
    made = _draw_on("randn", shape, device, lambda: _randn(shape, element, name))
    return _given_out("randn", made, out, stop_gradient)


def randint(
    low: int,
    high: int | None = None,
    shape: Any = None,
    out: Variable | None = None,
    dtype: Any = None,
    device: str | None = None,
    stop_gradient: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Draw integers from [low, high), or from [0, low) without high (fluid.layers.randint).

    By default `shape` is [1] and the dtype is int64, or int32 if set; TypeError for another one.
    They are written to `out`, if set.
    """
    function = "randint"
    sizes = [1] if shape is None else shape
    element = arguments.dtype(dtype or "int64", "dtype", function)
    if element not in ("int32", "int64"):
        raise TypeError(f"{function}(): 'dtype' should be int32 or int64, found {element}")
    made = _draw_on(
        function, sizes, device, lambda: _randint(low, high, sizes, element, name, seed)
    )
    return _given_out(function, made, out, stop_gradient)


def _draw_on(
    function: str, shape: Any, device: str | None, draw: Callable[[], Variable]
) -> Variable:
    if isinstance(shape, (list, tuple)) and not shape:
        raise AssertionError(f"{function}(): 'shape' must have one size at least")
    with device_guard(device):
        return draw()


def _given_out(
    function: str, made: Variable, out: Variable | None, stop_gradient: bool
) -> Variable:
    made = made if out is None else assign(made, arguments.variable(out, "out", function))
    made.stop_gradient = arguments.flag(stop_gradient, "stop_gradient", function)
    return made


def randperm(
    n: int,
    out: Variable | None = None,
    dtype: Any = "int64",
    device: str | None = None,
    stop_gradient: bool = True,
    seed: int = 0,
) -> Variable:
    """Shuffle the integers below n (fluid.layers.randperm)."""
    function = "randperm"
    count = arguments.integer(n, "n", function)
    if count < 1:
        raise ValueError(f"{function}(): 'n' should be greater than 0, found {count}")
    if device not in (None, "cpu", "gpu"):
        raise ValueError(f"{function}(): 'device' should be 'cpu', 'gpu' or None, found {device!r}")
    element = arguments.dtype(dtype, "dtype", function)
    if out is not None and arguments.variable(out, "out", function).dtype != element:
        raise TypeError(f"{function}(): 'out' should be {element}, found {out.dtype}")
    attrs = {
        "n": count,
        "dtype": element.code,
        "seed": arguments.integer(seed, "seed", function),
    }
    keeps = arguments.flag(stop_gradient, "stop_gradient", function)
    with device_guard(device):
        made = emit_into(out, function, {}, attrs, stop_gradient=keeps)
    made.stop_gradient = made.stop_gradient or keeps
    return made


def kron(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute the Kronecker product (fluid.layers.kron)."""
    inputs = {"X": arguments.variable(x, "x", "kron"), "Y": arguments.variable(y, "y", "kron")}
    return emit_into(out, "kron", inputs, name=name)


@one_layer("log")
def logsumexp(
    x: Variable,
    dim: Any = None,
    keepdim: bool = False,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Compute log(sum(exp(x))) over some axes, without overflow (fluid.layers.logsumexp)."""
    if x is None:
        raise AssertionError("logsumexp(): 'x' cannot be None")
    arguments.variable(x, "x", "logsumexp")
    if x.has_type and x.dtype not in ("float32", "float64"):
        raise TypeError(f"logsumexp(): 'x' should be float32 or float64, found {x.dtype}")
    made = vector(_logsumexp(x, dim, keepdim, name))
    return made if out is None else assign(made, out)


def meshgrid(input: list[Variable], name: str | None = None) -> list[Variable]:
    """Broadcast vectors to the coordinates of a grid (fluid.layers.meshgrid)."""
    if not isinstance(input, list):
        raise TypeError(f"meshgrid(): 'input' must be a list, found {type(input).__name__}")
    return _meshgrid(input, name=name)
