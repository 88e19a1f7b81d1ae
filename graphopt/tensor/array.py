"""Tensor arrays: lists of tensors that loops fill (paddle.tensor.array_write and its like).

Where positions follow from constants of the program, such as the counter of a loop with a constant
trip count, the elements may differ in shape. Otherwise they may differ only in the size of their
first axis, and the program runs op by op. Separate arrays hold the lengths of elements that are
sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import variable_of
from graphopt.frontend.sub_blocks import is_array
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import LENGTHS, Variable, VarKind, unique_name
from graphopt.ir.program.lengths import levels_of
from graphopt.tensor.creation import full


def create_array(dtype: Any, initialized_list: Sequence[Variable] | None = None) -> Variable:
    """Create a tensor array of this dtype, empty or with the Variables of a list.

    Raises TypeError if an element of `initialized_list` is no Variable.
    """
    made = _new(LayerHelper("array"), as_dtype(dtype))
    if initialized_list is not None:
        for value in arguments.variables(initialized_list, "initialized_list", "create_array"):
            array_write(value, array_length(made), made)
    return made


def _new(helper: LayerHelper, dtype: Any, shape: Sequence[int] | None = None) -> Variable:
    block = helper.main_program.current_block()
    return block.create_var(f"{helper.name}.out", shape, dtype, kind=VarKind.TENSOR_ARRAY)


def array_write(x: Variable, i: Variable | int, array: Variable | None = None) -> Variable:
    """Write `x` to a position of an array, or of a new one; return the array.

    The position `i` is a number, or an int64 Variable of one element.

    Raises TypeError for other operands.
    """
    arguments.variable(x, "x", "array_write")
    i = _position(i, "array_write")
    helper = LayerHelper("array_write")
    target = _new(helper, x.dtype, x.shape) if array is None else _array(array, "array_write")
    if not target.has_type:
        target.shape, target.dtype = x.shape, x.dtype
    helper.append_op("write_to_array", {"X": x, "I": i}, {"Out": target})
    _write_lengths(x, i, target)
    return target


def _write_lengths(x: Variable, i: Variable, array: Variable) -> None:
    """Write the lengths of a sequence element to the array's arrays of lengths."""
    count = len(levels_of(x))
    if not count:
        return
    if not levels_of(array):
        note(array, [f"{array.name}{LENGTHS}{level}" for level in range(count)])
    with unique_name.inside(unique_name.generate(f"{array.name}/lengths")):
        for level, name in enumerate(levels_of(array)[:count]):
            own = array.block.find_var(str(name))
            if own is None:
                own = array.block.create_var(
                    str(name), (-1,), "int64", kind=VarKind.TENSOR_ARRAY, stop_gradient=True
                )
            lengths = variable_of(x, "array_write", "x", level)
            LayerHelper("array_write").append_op(
                "write_to_array", {"X": lengths, "I": i}, {"Out": own}
            )


def array_read(array: Variable, i: Variable | int) -> Variable:
    """Read the element at a position of an array; raise TypeError for other operands.

    The position `i` is a number, or an int64 Variable of one element. The result is declared with
    the shape of the array's first element.
    """
    _array(array, "array_read")
    i = _position(i, "array_read")
    helper = LayerHelper("array_read")
    made = helper.temporary()
    if array.has_type:
        made.shape, made.dtype = array.shape, array.dtype
    helper.append_op("read_from_array", {"X": array, "I": i}, {"Out": made})
    with unique_name.inside(unique_name.generate(f"{made.name}/lengths")):
        lengths = [_read_lengths(str(name), array, i) for name in levels_of(array)]
    return note(made, lengths) if lengths else made


def _read_lengths(name: str, array: Variable, i: Variable) -> str:
    """Append a read of an element's lengths at one level; return the result's name."""
    made = LayerHelper("array_read").temporary(stop_gradient=True)
    made.shape, made.dtype = (-1,), as_dtype("int64")
    own = array.block.find_var(name)
    LayerHelper("array_read").append_op("read_from_array", {"X": own, "I": i}, {"Out": made})
    return made.name


def array_length(array: Variable) -> Variable:
    """Emit the number of elements, int64 of shape [1]; raise TypeError for other operands."""
    _array(array, "array_length")
    helper = LayerHelper("array_length")
    made = helper.temporary(stop_gradient=True)
    made.shape, made.dtype = (1,), as_dtype("int64")
    helper.append_op("lod_array_length", {"X": array}, {"Out": made})
    return made


def tensor_array_to_tensor(
    input: Variable, axis: int = 1, name: str | None = None, use_stack: bool = False
) -> tuple[Variable, Variable]:
    """Join all elements into one tensor; also return their sizes along `axis` (int32).

    The elements are concatenated along `axis`, or stacked along a new one with `use_stack`. Paddle
    page: paddle.fluid.layers.tensor_array_to_tensor.
    """
    _array(input, "tensor_array_to_tensor")
    at = arguments.integer(axis, "axis", "tensor_array_to_tensor")
    helper = LayerHelper("tensor_array_to_tensor", name)
    out, index = helper.temporary(), helper.temporary(stop_gradient=True)
    out.dtype, index.dtype = input.dtype, as_dtype("int32")
    index.shape = (-1,)
    if input.has_type:
        out.shape = _joined_shape(input.shape, at, use_stack)
    attrs = {"axis": at, "use_stack": arguments.flag(use_stack, "use_stack", helper.layer_type)}
    helper.append_op("tensor_array_to_tensor", {"X": input}, {"Out": out, "OutIndex": index}, attrs)
    return out, index


def _joined_shape(element: tuple[int, ...], axis: int, use_stack: bool) -> list[int]:
    dims = list(element)
    if use_stack:
        dims.insert(axis if axis >= 0 else len(dims) + 1 + axis, -1)
    else:
        dims[axis] = -1
    return dims


def _array(value: object, function: str) -> Variable:
    if not isinstance(value, Variable) or not is_array(value):
        raise TypeError(f"{function}(): 'array' should be a tensor array, found {value!r}")
    return value


def _position(i: object, function: str) -> Variable:
    if isinstance(i, int):
        return full([1], arguments.integer(i, "i", function), "int64")
    found = arguments.variable(i, "i", function)
    if found.dtype != "int64":
        raise TypeError(f"{function}(): 'i' must be int64, but '{found.name}' is {found.dtype}")
    return found
