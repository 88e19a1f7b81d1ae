"""Elementwise operators on two tensors, with `axis`, `act` and `cond` as in 1.8 (fluid.layers)."""

from __future__ import annotations

from typing import Any

from graphopt.fluid.common import activate
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit, emit_into
from graphopt.frontend.one_layer import one_layer
from graphopt.ir.program import Variable
from graphopt.tensor.math import multiplex as _multiplex
from graphopt.tensor.math import scale


def _elementwise(
    type: str, x: Any, y: Any, axis: int, act: str | None, name: str | None
) -> Variable:
    """Emit an operator and an activation; y's dimensions start at `axis` of x (-1: at the end)."""
    inputs = {"X": arguments.variable(x, "x", type), "Y": arguments.variable(y, "y", type)}
    attrs = {"axis": arguments.integer(axis, "axis", type)}
    return activate(emit(type, inputs, attrs, name=name), act)


def elementwise_add(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """Compute x + y (fluid.layers.elementwise_add)."""
    return _elementwise("elementwise_add", x, y, axis, act, name)


def elementwise_sub(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """Compute x - y (fluid.layers.elementwise_sub)."""
    return _elementwise("elementwise_sub", x, y, axis, act, name)


def elementwise_mul(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """Compute x * y (fluid.layers.elementwise_mul)."""
    return _elementwise("elementwise_mul", x, y, axis, act, name)


def elementwise_div(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """Compute x / y; integers divide toward 0 (fluid.layers.elementwise_div)."""
    return _elementwise("elementwise_div", x, y, axis, act, name)


def elementwise_max(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """Compute the maximum of x and y (fluid.layers.elementwise_max)."""
    return _elementwise("elementwise_max", x, y, axis, act, name)


def elementwise_min(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """Compute the minimum of x and y (fluid.layers.elementwise_min)."""
    return _elementwise("elementwise_min", x, y, axis, act, name)


def elementwise_pow(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """Raise x to the power y (fluid.layers.elementwise_pow)."""
    return _elementwise("elementwise_pow", x, y, axis, act, name)


@one_layer("elementwise_mod")
def elementwise_mod(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """Compute the remainder of x / y (fluid.layers.elementwise_mod).

    As in 1.8, it has the sign of x for integers, and the sign of y for other numbers.
    """
    if arguments.variable(x, "x", "elementwise_mod").dtype not in ("int32", "int64"):
        return _elementwise("elementwise_mod", x, y, axis, act, name)
    # since 2.0, the operator of this name returns the sign of y
    whole = _elementwise("elementwise_div", x, y, axis, None, None)
    part = _elementwise("elementwise_mul", whole, y, axis, None, None)
    return _elementwise("elementwise_sub", x, part, -1, act, name)


@one_layer("elementwise_floordiv")
def elementwise_floordiv(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """Divide integers, toward 0 as in 1.8 (fluid.layers.elementwise_floordiv).

    Raises TypeError for other dtypes.
    """
    if arguments.variable(x, "x", "elementwise_floordiv").dtype not in ("int32", "int64"):
        raise TypeError(f"elementwise_floordiv(): 'x' must be int32 or int64, found {x.dtype}")
    # since 2.0, the operator of this name rounds down
    return _elementwise("elementwise_div", x, y, axis, act, name)


def _compare(type: str, x: Any, y: Any, cond: Variable | None, name: str | None) -> Variable:
    inputs = {"X": arguments.variable(x, "x", type), "Y": arguments.variable(y, "y", type)}
    if cond is not None:
        arguments.variable(cond, "cond", type)
    return emit_into(cond, type, inputs, {"axis": -1}, name=name, stop_gradient=True)


def equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute x == y as bool, written to `cond` if set (fluid.layers.equal)."""
    return _compare("equal", x, y, cond, name)


def not_equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute x != y as bool, written to `cond` if set (fluid.layers.not_equal)."""
    return _compare("not_equal", x, y, cond, name)


def less_than(
    x: Variable,
    y: Variable,
    force_cpu: bool | None = None,
    cond: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Compute x < y as bool, written to `cond` if set (fluid.layers.less_than).

    `force_cpu` has no effect: XLA decides where operators run.
    """
    return _compare("less_than", x, y, cond, name)


def less_equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute x <= y as bool, written to `cond` if set (fluid.layers.less_equal)."""
    return _compare("less_equal", x, y, cond, name)


def greater_than(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute x > y as bool, written to `cond` if set (fluid.layers.greater_than)."""
    return _compare("greater_than", x, y, cond, name)


def greater_equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute x >= y as bool, written to `cond` if set (fluid.layers.greater_equal)."""
    return _compare("greater_equal", x, y, cond, name)


def _logical(type: str, x: Any, y: Any, out: Variable | None, name: str | None) -> Variable:
    inputs = {"X": arguments.variable(x, "x", type), "Y": arguments.variable(y, "y", type)}
    return emit_into(out, type, inputs, name=name, stop_gradient=True)


def logical_and(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute the logical and (fluid.layers.logical_and)."""
    return _logical("logical_and", x, y, out, name)


def logical_or(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute the logical or (fluid.layers.logical_or)."""
    return _logical("logical_or", x, y, out, name)


def logical_xor(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute the logical xor (fluid.layers.logical_xor)."""
    return _logical("logical_xor", x, y, out, name)


elementwise_equal = equal


@one_layer("addcmul")
def addcmul(
    input: Variable,
    tensor1: Variable,
    tensor2: Variable,
    value: float = 1.0,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Compute input + value * tensor1 * tensor2 (fluid.layers.addcmul)."""
    product = elementwise_mul(tensor1, tensor2)
    weighted = scale(product, arguments.number(value, "value", "addcmul"))
    inputs = {"X": arguments.variable(input, "input", "addcmul"), "Y": weighted}
    return emit_into(out, "elementwise_add", inputs, {"axis": -1}, name=name)


def mul(
    x: Variable,
    y: Variable,
    x_num_col_dims: int = 1,
    y_num_col_dims: int = 1,
    name: str | None = None,
) -> Variable:
    """Multiply x and y as matrices, flattened at a dimension of each (fluid.layers.mul)."""
    inputs = {"X": arguments.variable(x, "x", "mul"), "Y": arguments.variable(y, "y", "mul")}
    attrs = {
        "x_num_col_dims": arguments.integer(x_num_col_dims, "x_num_col_dims", "mul"),
        "y_num_col_dims": arguments.integer(y_num_col_dims, "y_num_col_dims", "mul"),
    }
    return emit("mul", inputs, attrs, name=name)


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """Multiply matrices, or batches of them, and scale by alpha (fluid.layers.matmul).

    Two vectors give one element, of shape [1].
    """
    inputs = {"X": arguments.variable(x, "x", "matmul"), "Y": arguments.variable(y, "y", "matmul")}
    attrs = {
        "transpose_X": arguments.flag(transpose_x, "transpose_x", "matmul"),
        "transpose_Y": arguments.flag(transpose_y, "transpose_y", "matmul"),
        "alpha": arguments.number(alpha, "alpha", "matmul"),
    }
    return emit("matmul", inputs, attrs, name=name)


def multiplex(inputs: Any, index: Variable) -> Variable:
    """Select row i of the tensor number index[i] (fluid.layers.multiplex)."""
    return _multiplex(inputs, index)
