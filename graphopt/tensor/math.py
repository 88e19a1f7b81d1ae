"""Elementwise arithmetic, sums and products (paddle.*).

Elementwise functions keep the shape of `x`. Two operands broadcast as in NumPy. Two floating dtypes
promote to the wider one, and any dtype to a complex one; other dtypes must be equal. All raise
TypeError for operands that are not Variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import LayerHelper, emit, emit_whole
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Variable
from graphopt.tensor.creation import full
from graphopt.tensor.manipulation import cast, reshape
from graphopt.tensor.scaled import promote


def unary(type: str, x: Any, name: str | None = None, **attrs: Any) -> Variable:
    """Emit a unary operator from the slot X to Out."""
    return unary_as(type, type, x, name, **attrs)


def unary_as(layer: str, type: str, x: Any, name: str | None = None, /, **attrs: Any) -> Variable:
    """Emit a unary operator whose result is named after another layer."""
    return emit(type, {"X": arguments.variable(x, "x", type)}, attrs, layer=layer, name=name)


def binary(type: str, x: Any, y: Any, name: str | None = None, *, axis: int = -1) -> Variable:
    """Emit an elementwise operator; the dimensions of y start at `axis` of x (-1: at the end).

    The result is named `name` if that is free, or by default `<type>_0` and so on.
    """
    x, y = promote(arguments.variable(x, "x", type), arguments.variable(y, "y", type))
    return emit_whole(type, {"X": x, "Y": y}, {"axis": axis}, layer=type, name=name)


def add(x: Variable, y: Variable, name: str | None = None, *, alpha: float = 1) -> Variable:
    """Compute x + alpha * y (paddle.add)."""
    return binary("elementwise_add", x, times(y, alpha, "add"), name)


def subtract(x: Variable, y: Variable, name: str | None = None, *, alpha: float = 1) -> Variable:
    """Compute x - alpha * y (paddle.subtract)."""
    return binary("elementwise_sub", x, times(y, alpha, "subtract"), name)


def times(y: Variable, alpha: float, function: str) -> Variable:
    """Scale y by `alpha`; return y for 1. Integers times a fraction give float32."""
    if isinstance(alpha, (int, float)) and alpha == 1:
        return y
    alpha = arguments.number(alpha, "alpha", function)
    y = arguments.variable(y, "y", function)
    fraction = not alpha.is_integer() and not (y.dtype.is_floating or y.dtype.is_complex)
    return scale(cast(y, "float32") if fraction else y, alpha)


def multiply(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute x * y (paddle.multiply)."""
    return binary("elementwise_mul", x, y, name)


def divide(
    x: Variable, y: Variable, name: str | None = None, *, rounding_mode: str | None = None
) -> Variable:
    """Compute x / y; integers divide toward zero and stay integers (paddle.divide).

    The rounding mode "floor" rounds down, "trunc" toward zero. Raises ValueError for other modes.
    """
    if rounding_mode is not None:
        arguments.choice(rounding_mode, "rounding_mode", "divide", ("floor", "trunc"))
    if rounding_mode == "floor":
        return floor_divide(x, y, name)
    if rounding_mode is None or not arguments.variable(x, "x", "divide").dtype.is_floating:
        return binary("elementwise_div", x, y, name)
    return unary("trunc", binary("elementwise_div", x, y), name)


def _add_with_axis(x: Variable, y: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """Compute x + y; the dimensions of y start at `axis` of x (-1: at the end)."""
    return binary("elementwise_add", x, y, name, axis=axis)


def _subtract_with_axis(
    x: Variable, y: Variable, axis: int = -1, name: str | None = None
) -> Variable:
    """Compute x - y; the dimensions of y start at `axis` of x (-1: at the end)."""
    return binary("elementwise_sub", x, y, name, axis=axis)


def _multiply_with_axis(
    x: Variable, y: Variable, axis: int = -1, name: str | None = None
) -> Variable:
    """Compute x * y; the dimensions of y start at `axis` of x (-1: at the end)."""
    return binary("elementwise_mul", x, y, name, axis=axis)


def _divide_with_axis(
    x: Variable, y: Variable, axis: int = -1, name: str | None = None
) -> Variable:
    """Compute x / y; the dimensions of y start at `axis` of x (-1: at the end)."""
    return binary("elementwise_div", x, y, name, axis=axis)


def maximum(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the elementwise maximum of x and y (paddle.maximum)."""
    return binary("elementwise_max", x, y, name)


def minimum(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the elementwise minimum of x and y (paddle.minimum)."""
    return binary("elementwise_min", x, y, name)


def floor_divide(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute x / y, rounded down to a whole number (paddle.floor_divide)."""
    return binary("elementwise_floordiv", x, y, name)


def remainder(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the remainder of floor_divide, with the sign of y (remainder, mod, floor_mod)."""
    return binary("elementwise_mod", x, y, name)


mod = floor_mod = remainder


def fmax(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the elementwise maximum of x and y, ignoring nan (paddle.fmax)."""
    return binary("elementwise_fmax", x, y, name)


def fmin(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the elementwise minimum of x and y, ignoring nan (paddle.fmin)."""
    return binary("elementwise_fmin", x, y, name)


def atan2(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the angle of the point (y, x); integers give float64 (paddle.atan2)."""
    x, y = promote(arguments.variable(x, "x", "atan2"), arguments.variable(y, "y", "atan2"))
    given = {"X1": x, "X2": y}
    exact = not any(v.dtype.is_differentiable for v in given.values())
    inputs = {slot: cast(v, "float64") if exact else v for slot, v in given.items()}
    return emit("atan2", inputs, name=name)


def lerp(x: Variable, y: Variable, weight: Any, name: str | None = None) -> Variable:
    """Compute x + weight * (y - x); the weight is a number or a Variable (paddle.lerp)."""
    arguments.variable(x, "x", "lerp")
    if not isinstance(weight, Variable):
        weight = full([], arguments.number(weight, "weight", "lerp"), x.dtype)
    inputs = {"X": x, "Y": arguments.variable(y, "y", "lerp"), "Weight": weight}
    return emit("lerp", inputs, name=name)


def multiplex(inputs: Sequence[Variable], index: Variable, name: str | None = None) -> Variable:
    """Select row i of the tensor number index[i] (paddle.multiplex)."""
    slots = {"X": arguments.variables(inputs, "inputs", "multiplex")}
    ids = arguments.variable(index, "index", "multiplex")
    return emit("multiplex", {**slots, "Ids": ids}, name=name)


def pow(x: Variable, y: Any, name: str | None = None) -> Variable:
    """Raise x to the power y, a number or a Variable (paddle.pow)."""
    if isinstance(y, Variable):
        x, y = promote(arguments.variable(x, "x", "pow"), y)
        return emit("elementwise_pow", {"X": x, "Y": y}, {"axis": -1}, name=name)
    return unary("pow", x, name, factor=arguments.number(y, "y", "pow"))


def as_float(x: Any, function: str) -> Variable:
    """Cast integers to float32; return any other tensor unchanged."""
    is_exact = not arguments.variable(x, "x", function).dtype.is_differentiable
    return cast(x, "float32") if is_exact else x


def exp(x: Variable, name: str | None = None) -> Variable:
    """Compute e to the power x; float32 for integers (paddle.exp)."""
    return unary("exp", as_float(x, "exp"), name)


def log(x: Variable, name: str | None = None) -> Variable:
    """Compute the natural logarithm; float32 for integers (paddle.log)."""
    return unary("log", as_float(x, "log"), name)


def sqrt(x: Variable, name: str | None = None) -> Variable:
    """Compute the square root; float32 for integers (paddle.sqrt)."""
    return unary("sqrt", as_float(x, "sqrt"), name)


def rsqrt(x: Variable, name: str | None = None) -> Variable:
    """Compute 1 / sqrt(x) (paddle.rsqrt)."""
    return unary("rsqrt", as_float(x, "rsqrt"), name)


def erf(x: Variable, name: str | None = None) -> Variable:
    """Compute the error function (paddle.erf)."""
    return unary("erf", as_float(x, "erf"), name)


def square(x: Variable, name: str | None = None) -> Variable:
    """Compute x * x (paddle.square)."""
    return unary("square", x, name)


def abs(x: Variable, name: str | None = None) -> Variable:
    """Compute the absolute value (paddle.abs)."""
    return unary("abs", x, name)


def tanh(x: Variable, name: str | None = None) -> Variable:
    """Compute the hyperbolic tangent (paddle.tanh)."""
    return unary("tanh", as_float(x, "tanh"), name)


def clip(x: Variable, min: Any = None, max: Any = None, name: str | None = None) -> Variable:
    """Clamp x to [min, max] (paddle.clip).

    A limit is a number, a Variable of one element (floating-point or int32), or None for no limit.
    Integers with a limit that is a float give float32, as in Paddle 3. Raises TypeError for other
    limits.
    """
    whole = not arguments.variable(x, "x", "clip").dtype.is_floating
    if whole and any(isinstance(limit, (float, np.floating)) for limit in (min, max)):
        x = cast(x, "float32")
    lowest, highest = _limits(x.dtype)
    inputs: dict[str, Any] = {"X": x}
    attrs = {"min": lowest, "max": highest}
    for which, limit, slot in (("min", min, "Min"), ("max", max, "Max")):
        if isinstance(limit, Variable):
            inputs[slot] = _limit(limit, which)
        elif limit is not None:
            attrs[which] = arguments.number(limit, which, "clip")
    return emit("clip", inputs, attrs, name=name)


def _limit(limit: Variable, name: str) -> Variable:
    if not limit.dtype.is_floating and limit.dtype != "int32":
        raise TypeError(
            f"clip(): the data type of '{name}' must be floating-point or int32 when it is a "
            f"Variable, but '{limit.name}' is {limit.dtype}"
        )
    return limit


def _limits(dtype: DType) -> tuple[float, float]:
    info: Any = np.finfo(np.float32)
    if dtype == "float64":
        info = np.finfo(np.float64)
    elif not dtype.is_floating and dtype != "bool":
        info = np.iinfo(dtype.numpy)
    return float(info.min), float(info.max)


def scale(
    x: Variable,
    scale: Any = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Compute scale * x + bias, or scale * (x + bias) (paddle.scale).

    `scale` may be a Variable, which gets no gradient. `act` names an activation to apply.
    """
    helper = LayerHelper("scale", name)
    inputs = {"X": arguments.variable(x, "x", "scale")}
    attrs = {
        "scale": 1.0 if isinstance(scale, Variable) else arguments.number(scale, "scale", "scale"),
        "bias": arguments.number(bias, "bias", "scale"),
        "bias_after_scale": arguments.flag(bias_after_scale, "bias_after_scale", "scale"),
    }
    if isinstance(scale, Variable):
        inputs["ScaleTensor"] = scale
    return helper.append_activation(helper.emit("scale", inputs, attrs), act)


def neg(x: Variable, name: str | None = None) -> Variable:
    """Negate x (paddle.neg)."""
    return scale(x, -1.0, name=name)


def increment(x: Variable, value: float = 1.0, name: str | None = None) -> Variable:
    """Add `value` to x in place, and return x (paddle.increment)."""
    arguments.variable(x, "x", "increment")
    attrs = {"step": arguments.number(value, "value", "increment")}
    LayerHelper("increment", name).append_op("increment", {"X": x}, {"Out": x}, attrs)
    return x


def add_n(inputs: Variable | Sequence[Variable], name: str | None = None) -> Variable:
    """Sum tensors of one shape and dtype (paddle.add_n)."""
    given = [inputs] if isinstance(inputs, Variable) else inputs
    return emit(
        "sum", {"X": arguments.variables(given, "inputs", "add_n")}, layer="add_n", name=name
    )


def cumsum(
    x: Variable, axis: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """Compute cumulative sums along `axis`, or of the flattened tensor, in `dtype` (cumsum)."""
    x = x if dtype is None else cast(x, dtype)
    at = -1 if axis is None else arguments.integer(axis, "axis", "cumsum")
    return unary("cumsum", x, name, axis=at, flatten=axis is None)


def cumprod(
    x: Variable, dim: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """Compute cumulative products along `dim`, or of all elements, in `dtype` (paddle.cumprod)."""
    x = x if dtype is None else cast(x, dtype)
    if dim is None:
        x, dim = reshape(x, [-1]), 0
    return unary("cumprod", x, name, dim=arguments.integer(dim, "dim", "cumprod"))


def reduce(
    type: str,
    x: Any,
    axis: Any,
    keepdim: bool,
    name: str | None,
    *,
    layer: str,
    stop_gradient: bool = False,
    **attrs: Any,
) -> Variable:
    """Emit a reduction over `axis`: an int, several, or all axes (None and [])."""
    arguments.variable(x, "x", layer)
    dims = arguments.axes(axis, layer)
    keep = arguments.flag(keepdim, "keepdim", layer)
    shared = {"dim": dims or [0], "keep_dim": keep, "reduce_all": not dims}
    return emit(
        type, {"X": x}, {**shared, **attrs}, layer=layer, name=name, stop_gradient=stop_gradient
    )


def sum(
    x: Variable, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """Sum over `axis`; without a `dtype`, bool and int32 add up in int64 (paddle.sum)."""
    code = -1 if dtype is None else arguments.dtype(dtype, "dtype", "sum").code
    return reduce("reduce_sum", x, axis, keepdim, name, layer="sum", out_dtype=code)


def max(x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Compute the maximum over `axis` (paddle.max)."""
    return reduce("reduce_max", x, axis, keepdim, name, layer="max")


def min(x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Compute the minimum over `axis` (paddle.min)."""
    return reduce("reduce_min", x, axis, keepdim, name, layer="min")


def prod(
    x: Variable, axis: Any = None, keepdim: bool = False, dtype: Any = None, name: str | None = None
) -> Variable:
    """Compute the product over `axis`, after a cast to `dtype` (paddle.prod)."""
    x = x if dtype is None else cast(x, dtype)
    return reduce("reduce_prod", x, axis, keepdim, name, layer="reduce_prod")


def amax(x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Compute the maximum over `axis`; equal elements share its gradient (paddle.amax)."""
    return reduce("reduce_amax", x, axis, keepdim, name, layer="amax")


def amin(x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Compute the minimum over `axis`; equal elements share its gradient (paddle.amin)."""
    return reduce("reduce_amin", x, axis, keepdim, name, layer="amin")


def logsumexp(
    x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """Compute log(sum(exp(x))) over `axis`, without overflow (paddle.logsumexp)."""
    axes = arguments.axes(axis, "logsumexp")
    keep = arguments.flag(keepdim, "keepdim", "logsumexp")
    x = as_float(x, "logsumexp")
    return unary("logsumexp", x, name, axis=axes or [0], keepdim=keep, reduce_all=not axes)


lazy.join_package(globals())
