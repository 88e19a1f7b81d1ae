"""Tensor arrays of open length, in one tensor along its first axis.

Elements may differ in the size of their own first axis, which is unknown then.

An array whose length follows from the program needs none of these: see `parse/arrays.py`.
"""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer
from graphopt.ir.dialect.ops.base import DataSizedOp, OpaqueOp
from graphopt.ir.dialect.types import (
    UNKNOWN,
    Tensor,
    compatible,
    like,
    normalize_axis,
    rank_of,
    shape_of,
    show,
)


def _element(array: Tensor) -> Tensor:
    if not rank_of(array):
        raise ProgramError(f"a tensor array has a first axis, found {show(array)}")
    return like(array, shape=shape_of(array)[1:])


def _rows(element: Tensor) -> Tensor:
    """The type of an element without the size of its first axis."""
    return like(element, shape=[UNKNOWN, *shape_of(element)[1:]][: rank_of(element)])


@irdl_op_definition
class ArrayWrite(DataSizedOp):
    """The array with x at a position, which may be the one after its last element.
    Paddle: write_to_array.
    """

    name = "pd.array_write"
    array = operand_def(Tensor)
    position = operand_def(Tensor)
    x = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(array: Tensor, position: Tensor, x: Tensor) -> Tensor:
        element = _element(array)
        first = shape_of(element)[:1] if shape_of(element)[:1] == shape_of(x)[:1] else (UNKNOWN,)
        if not compatible(_rows(element), _rows(x)):
            raise ProgramError(
                f"a tensor array of {show(element)} elements cannot take {show(x)}: where its "
                "length depends on data, elements differ in their first axis at most"
            )
        return like(x, shape=(UNKNOWN, *first[: rank_of(x)], *shape_of(x)[1:]))


@irdl_op_definition
class ArrayRead(DataSizedOp):
    """The element at a position. Paddle: read_from_array."""

    name = "pd.array_read"
    array = operand_def(Tensor)
    position = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(array: Tensor, position: Tensor) -> Tensor:
        return _element(array)


@irdl_op_definition
class ArrayToTensor(OpaqueOp):
    """The elements joined along `axis`, a new one with `use_stack`, and the size of each there.
    Paddle: tensor_array_to_tensor.
    """

    name = "pd.array_to_tensor"
    array = operand_def(Tensor)
    out = result_def(Tensor)
    sizes = result_def(Tensor)
    axis = integer(0)
    use_stack = flag(False)

    @staticmethod
    def infer(array: Tensor, axis: int, use_stack: bool) -> tuple[Tensor, Tensor]:
        shape = list(shape_of(_element(array)))
        count = shape_of(array)[0]
        axis = normalize_axis(axis, len(shape) + use_stack)
        if use_stack:
            shape.insert(axis, count)
        else:
            known = UNKNOWN not in (count, shape[axis])
            shape[axis] = count * shape[axis] if known else UNKNOWN
        return like(array, shape=shape), like(array, shape=(count,), dtype="int32")
