"""Two tensors element by element: `axis`, `act` and `cond` as 1.8 has them (fluid.layers)."""

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
    """`axis` is where the dimensions of y start in x; -1 aligns their ends."""
    inputs = {"X": arguments.variable(x, "x", type), "Y": arguments.variable(y, "y", type)}
    attrs = {"axis": arguments.integer(axis, "axis", type)}
    return activate(emit(type, inputs, attrs, name=name), act)


def elementwise_add(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x + y (fluid.layers.elementwise_add)."""
    return _elementwise("elementwise_add", x, y, axis, act, name)


def elementwise_sub(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x - y (fluid.layers.elementwise_sub)."""
    return _elementwise("elementwise_sub", x, y, axis, act, name)


def elementwise_mul(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x * y (fluid.layers.elementwise_mul)."""
    return _elementwise("elementwise_mul", x, y, axis, act, name)


def elementwise_div(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x / y; integers divide towards 0 (fluid.layers.elementwise_div)."""
    return _elementwise("elementwise_div", x, y, axis, act, name)


def elementwise_max(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """The larger of x and y (fluid.layers.elementwise_max)."""
    return _elementwise("elementwise_max", x, y, axis, act, name)


def elementwise_min(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """The smaller of x and y (fluid.layers.elementwise_min)."""
    return _elementwise("elementwise_min", x, y, axis, act, name)


def elementwise_pow(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x to the power y (fluid.layers.elementwise_pow)."""
    return _elementwise("elementwise_pow", x, y, axis, act, name)


@one_layer("elementwise_mod")
def elementwise_mod(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """The remainder of x / y (fluid.layers.elementwise_mod).

    As 1.8 computes it: with the sign of x for integers, with the sign of y for other numbers.
    """
    if arguments.variable(x, "x", "elementwise_mod").dtype not in ("int32", "int64"):
        return _elementwise("elementwise_mod", x, y, axis, act, name)
    # the operator of this name has the sign of y since 2.0
    whole = _elementwise("elementwise_div", x, y, axis, None, None)
    part = _elementwise("elementwise_mul", whole, y, axis, None, None)
    return _elementwise("elementwise_sub", x, part, -1, act, name)


@one_layer("elementwise_floordiv")
def elementwise_floordiv(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x / y for integers, towards 0 as 1.8 computes it (fluid.layers.elementwise_floordiv).

    Raises TypeError for other dtypes.
    """
    if arguments.variable(x, "x", "elementwise_floordiv").dtype not in ("int32", "int64"):
        raise TypeError(f"elementwise_floordiv(): 'x' must be int32 or int64, found {x.dtype!s}")
    # the operator of this name rounds down since 2.0
    return _elementwise("elementwise_div", x, y, axis, act, name)


def _compare(type: str, x: Any, y: Any, cond: Variable | None, name: str | None) -> Variable:
    inputs = {"X": arguments.variable(x, "x", type), "Y": arguments.variable(y, "y", type)}
    if cond is not None:
        arguments.variable(cond, "cond", type)
    return emit_into(cond, type, inputs, {"axis": -1}, name=name, stop_gradient=True)


def equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """x == y as bool, written to `cond` when it is given (fluid.layers.equal)."""
    return _compare("equal", x, y, cond, name)


def not_equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """x != y as bool, written to `cond` when it is given (fluid.layers.not_equal)."""
    return _compare("not_equal", x, y, cond, name)


def less_than(
    x: Variable,
    y: Variable,
    force_cpu: bool | None = None,
    cond: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """x < y as bool, written to `cond` when it is given (fluid.layers.less_than).

    `force_cpu` has no effect: XLA decides where operators run.
    """
    return _compare("less_than", x, y, cond, name)


def less_equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """x <= y as bool, written to `cond` when it is given (fluid.layers.less_equal)."""
    return _compare("less_equal", x, y, cond, name)


def greater_than(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """x > y as bool, written to `cond` when it is given (fluid.layers.greater_than)."""
    return _compare("greater_than", x, y, cond, name)


def greater_equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """x >= y as bool, written to `cond` when it is given (fluid.layers.greater_equal)."""
    return _compare("greater_equal", x, y, cond, name)


def _logical(type: str, x: Any, y: Any, out: Variable | None, name: str | None) -> Variable:
    inputs = {"X": arguments.variable(x, "x", type), "Y": arguments.variable(y, "y", type)}
    return emit_into(out, type, inputs, name=name, stop_gradient=True)


def logical_and(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Both are true (fluid.layers.logical_and)."""
    return _logical("logical_and", x, y, out, name)


def logical_or(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """One or both are true (fluid.layers.logical_or)."""
    return _logical("logical_or", x, y, out, name)


def logical_xor(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """One is true, not both (fluid.layers.logical_xor)."""
    return _logical("logical_xor", x, y, out, name)


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """x is false (fluid.layers.logical_not)."""
    inputs = {"X": arguments.variable(x, "x", "logical_not")}
    return emit_into(out, "logical_not", inputs, name=name, stop_gradient=True)


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
    """input + value * tensor1 * tensor2 (fluid.layers.addcmul)."""
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
    """The product of x and y as matrices, cut after so many dimensions (fluid.layers.mul)."""
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
    """alpha times the product of (batches of) matrices (fluid.layers.matmul).

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
    """Row i of the tensor that index[i] names (fluid.layers.multiplex)."""
    return _multiplex(inputs, index)
