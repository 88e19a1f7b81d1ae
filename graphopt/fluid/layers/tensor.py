"""Creation, copies and ordering of tensors (paddle.fluid.layers.tensor)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.errors import OperandError
from graphopt.fluid.common import vector
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit, emit_into
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.sequence_notes import note
from graphopt.ir.program import Variable, VarKind, default_main_program, unique_name
from graphopt.tensor.array import tensor_array_to_tensor as _array_to_tensor
from graphopt.tensor.attribute import is_empty as _is_empty
from graphopt.tensor.attribute import numel
from graphopt.tensor.creation import assign as _assign
from graphopt.tensor.creation import full, full_like
from graphopt.tensor.manipulation import cast, expand, reshape, stack
from graphopt.tensor.manipulation import concat as _concat
from graphopt.tensor.manipulation import slice as _slice
from graphopt.tensor.ranges import diag as _diag
from graphopt.tensor.ranges import eye as _eye
from graphopt.tensor.rearrange import flip
from graphopt.tensor.search import argmax as _argmax
from graphopt.tensor.search import argmin as _argmin

_ASSIGNED = ("bool", "float32", "int32", "int64")


def create_tensor(dtype: Any, name: str | None = None, persistable: bool = False) -> Variable:
    """Create a variable without a shape, for `assign` or a feed (fluid.layers.create_tensor)."""
    element = arguments.dtype(dtype, "dtype", "create_tensor")
    made = name or unique_name.generate("create_tensor")
    block = default_main_program().current_block()
    variable = block.create_var(made, None, element, persistable=persistable)
    variable.takes_any_shape = True
    return variable


def fill_constant(
    shape: Any,
    dtype: Any,
    value: Any,
    force_cpu: bool = False,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Create a tensor filled with one number, written to `out` if set (layers.fill_constant).

    `force_cpu` has no effect: XLA decides where operators run. Raises TypeError when `out` is no
    Variable, or has another dtype.
    """
    element = arguments.dtype(dtype, "dtype", "fill_constant")
    if out is not None:
        arguments.variable(out, "out", "fill_constant")
    if out is not None and out.has_type and out.dtype != element:
        raise OperandError(
            f"fill_constant(): 'dtype' is {element}, but 'out' is '{out.name}' of {out.dtype}; "
            "they must be the same"
        )
    sizes = [shape] if isinstance(shape, Variable) else shape
    if any(isinstance(item, Variable) for item in (value, *sizes)):
        made = full(shape, value, dtype, name)
        return made if out is None else _assign(made, out)
    number = arguments.number(value, "value", "fill_constant")
    whole = not element.is_floating and element != "bool"
    attrs = {
        "shape": arguments.shape(shape, "fill_constant"),
        "value": number,
        "str_value": str(int(value) if whole else number),
        "dtype": element.code,
    }
    return emit_into(out, "fill_constant", {}, attrs, name=name, stop_gradient=True)


@one_layer("fill_constant_batch_size_like")
def fill_constant_batch_size_like(
    input: Variable,
    shape: Any,
    dtype: Any,
    value: float,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    force_cpu: bool = False,
) -> Variable:
    """Create a tensor filled with one number, with one dimension from the input.

    The dimension `output_dim_idx` is as large as `input_dim_idx` of the input. Paddle page:
    fluid.layers.fill_constant_batch_size_like.
    """
    function = "fill_constant_batch_size_like"
    sizes = like_batch(input, shape, input_dim_idx, output_dim_idx, function)
    if sizes[output_dim_idx] >= 0:
        return fill_constant(sizes, dtype, value)
    # The size is known only at run time: derive it from a vector of the input.
    others = [a for a in _numbers(len(input.shape)) if a != input_dim_idx % len(input.shape)]
    edge = _slice(input, others, [0] * len(others), [1] * len(others)) if others else input
    column = reshape(edge, [-1 if a == output_dim_idx else 1 for a in _numbers(len(sizes))])
    return note(full_like(expand(column, sizes), value, dtype), ())


def like_batch(
    input: Any, shape: Any, input_dim_idx: int, output_dim_idx: int, function: str
) -> list[int]:
    """Compute a shape with one dimension from the input, -1 if it is known only at run time."""
    arguments.variable(input, "input", function)
    sizes = arguments.shape(shape, function)
    sizes[output_dim_idx] = input.shape[input_dim_idx]
    return sizes


_numbers = range


def ones(shape: Any, dtype: Any, force_cpu: bool = False) -> Variable:
    """Create a tensor of ones (fluid.layers.ones)."""
    return fill_constant(shape, dtype, 1.0)


def zeros(shape: Any, dtype: Any, force_cpu: bool = False, name: str | None = None) -> Variable:
    """Create a tensor of zeros (fluid.layers.zeros)."""
    return fill_constant(shape, dtype, 0.0, name=name)


def _fill_like(x: Variable, value: float, out: Variable | None, function: str) -> Variable:
    arguments.variable(x, "x", function)
    attrs = {"value": value, "dtype": x.dtype.code}
    return emit_into(out, "fill_any_like", {"X": x}, attrs, stop_gradient=True)


@one_layer("ones_like")
def ones_like(x: Variable, out: Variable | None = None) -> Variable:
    """Create ones in the shape of x, written to `out` if set (fluid.layers.ones_like)."""
    return _fill_like(x, 1.0, out, "ones_like")


@one_layer("zeros_like")
def zeros_like(x: Variable, out: Variable | None = None) -> Variable:
    """Create zeros in the shape of x, written to `out` if set (fluid.layers.zeros_like)."""
    return _fill_like(x, 0.0, out, "zeros_like")


def assign(input: Any, output: Variable | None = None) -> Variable:
    """Copy a Variable, or create a constant from an array (fluid.layers.assign).

    Raises TypeError for another input, and for arrays that are not bool, float32, int32 or int64.
    """
    if isinstance(input, Variable):
        return _assign(input, output)
    if not isinstance(input, np.ndarray):
        raise TypeError(
            f"assign(): 'input' must be a Variable or an array, found {type(input).__name__}"
        )
    if input.dtype not in _ASSIGNED:
        raise TypeError(
            f"assign(): an array must be {', '.join(_ASSIGNED)}, found {input.dtype}; convert it "
            "with astype"
        )
    return _assign(input, output)


def sums(input: Any, out: Variable | None = None) -> Variable:
    """Sum tensors of one shape, into `out` if set (fluid.layers.sums)."""
    given = [input] if isinstance(input, Variable) else input
    return emit_into(out, "sum", {"X": arguments.variables(given, "input", "sums")})


def sum(x: Any) -> Variable:
    """Sum tensors of one shape (fluid.layers.sum)."""
    given = [x] if isinstance(x, Variable) else x
    return emit("sum", {"X": arguments.variables(given, "x", "sum")})


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """Add `value` to x, in place unless `in_place` is False (fluid.layers.increment)."""
    arguments.variable(x, "x", "increment")
    attrs = {"step": arguments.number(value, "value", "increment")}
    target = x if arguments.flag(in_place, "in_place", "increment") else None
    return emit_into(target, "increment", {"X": x}, attrs)


def concat(input: Any, axis: int = 0, name: str | None = None) -> Variable:
    """Concatenate tensors of one rank and dtype along an axis (fluid.layers.concat)."""
    if isinstance(input, Variable) and input.kind == VarKind.TENSOR_ARRAY:
        return tensor_array_to_tensor(input, axis, name)[0]
    return _concat([input] if isinstance(input, Variable) else input, axis, name)


def tensor_array_to_tensor(
    input: Any, axis: int = 1, name: str | None = None, use_stack: bool = False
) -> tuple[Variable, Variable]:
    """Join tensors along an axis, or a new one with `use_stack`; also return their sizes there.

    `input` is a list of Variables or a tensor array. The sizes are int32.
    Paddle page: fluid.layers.tensor_array_to_tensor.
    """
    function = "tensor_array_to_tensor"
    if isinstance(input, Variable):
        return _array_to_tensor(input, axis, name, use_stack)
    given = arguments.variables(input, "input", function)
    out = stack(given, axis, name) if use_stack else _concat(given, axis, name)
    sizes = [1 if use_stack else x.shape[axis] for x in given]
    if min(sizes) < 0:
        raise ValueError(f"{function}(): the sizes of axis {axis} must be known, found {sizes}")
    return out, _assign(np.array(sizes, "int32"))


def range(start: Any, end: Any, step: Any, dtype: Any, name: str | None = None) -> Variable:
    """Create the numbers from start up to end in steps (fluid.layers.range).

    A bound that is a Variable must be a constant of the program.
    """
    element = arguments.dtype(dtype, "dtype", "range")
    bounds = {"Start": start, "End": end, "Step": step}
    if not any(isinstance(bound, Variable) for bound in bounds.values()):
        attrs = {k.lower(): arguments.number(v, k.lower(), "range") for k, v in bounds.items()}
        attrs["dtype"] = element.code
        return emit("range", {}, attrs, name=name, stop_gradient=True)
    inputs: dict[str, Variable] = {}
    for slot, bound in bounds.items():
        if not isinstance(bound, Variable):
            bound = fill_constant([1], element, bound)
        inputs[slot] = bound if bound.dtype == element else cast(bound, element)
    return emit("range", inputs, name=name, stop_gradient=True)


@one_layer("diag")
def diag(diagonal: Any) -> Variable:
    """Build the matrix with this diagonal, a vector or an array (fluid.layers.diag)."""
    vector_ = diagonal if isinstance(diagonal, Variable) else _assign(np.asarray(diagonal))
    if len(vector_.shape) != 1:
        raise ValueError(f"diag(): 'diagonal' must have one axis, found {list(vector_.shape)}")
    made = _diag(vector_)
    made.stop_gradient = True
    return made


def eye(
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: Sequence[int] | None = None,
    dtype: Any = "float32",
    name: str | None = None,
) -> Variable:
    """Create the identity matrix, repeated over the dimensions of `batch_shape` (layers.eye)."""
    columns = num_rows if num_columns is None else num_columns
    for what, value in (("num_rows", num_rows), ("num_columns", columns)):
        if arguments.integer(value, what, "eye") < 0:
            raise TypeError(f"eye(): '{what}' should be a non-negative int, found {value}")
    made = _eye(num_rows, columns, dtype, name)
    if batch_shape is None:
        return made
    batch = arguments.integers(batch_shape, "batch_shape", "eye")
    if min(batch, default=1) <= 0:
        raise TypeError(f"eye(): 'batch_shape' should be positive ints, found {batch}")
    return expand(made, [*batch, num_rows, columns])


@one_layer("reverse")
def reverse(x: Variable, axis: Any) -> Variable:
    """Reverse the order of elements along these axes (fluid.layers.reverse)."""
    return flip(x, arguments.integers(axis, "axis", "reverse"))


@one_layer("arg_max")
def argmax(x: Variable, axis: int = 0) -> Variable:
    """Find the index of the first maximum along `axis`, int64 (fluid.layers.argmax)."""
    return _argmax(x, axis)


@one_layer("arg_min")
def argmin(x: Variable, axis: int = 0) -> Variable:
    """Find the index of the first minimum along `axis`, int64 (fluid.layers.argmin)."""
    return _argmin(x, axis)


def argsort(
    input: Variable, axis: int = -1, descending: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """Sort the elements along `axis`; also return their former indices (fluid.layers.argsort)."""
    arguments.variable(input, "input", "argsort")
    attrs = {
        "axis": arguments.integer(axis, "axis", "argsort"),
        "descending": arguments.flag(descending, "descending", "argsort"),
    }
    helper = LayerHelper("argsort", name)
    outs = helper.emit_all("argsort", {"X": input}, attrs, ("Out", "Indices"), stop_gradient=True)
    return outs[0], outs[1]


@one_layer("size")
def size(input: Variable) -> Variable:
    """Count the elements, int64 of shape [1] (fluid.layers.size)."""
    return vector(numel(input))


def is_empty(x: Variable, cond: Variable | None = None) -> Variable:
    """Test whether x has no elements, bool of shape [1], written to `cond` if set (is_empty)."""
    answer = vector(_is_empty(x))
    return answer if cond is None else _assign(answer, cond)
