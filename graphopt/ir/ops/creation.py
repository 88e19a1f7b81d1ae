"""Ops that make tensors of constants."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.attrs import dtype as dtype_property
from graphopt.ir.attrs import integers, number, numbers
from graphopt.ir.ops.base import PureOp
from graphopt.ir.types import Tensor, element_count, like, tensor


def known_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a new tensor; ProgramError when a dimension is not known."""
    if any(dim < 0 for dim in shape):
        raise ProgramError(f"a new tensor needs known dimensions, found {list(shape)}")
    return tuple(shape)


@irdl_op_definition
class Full(PureOp):
    """A tensor of one value. Paddle: fill_constant."""

    name = "pd.full"
    out = result_def(Tensor)
    shape = integers()
    value = number()
    dtype = dtype_property("float32")

    @staticmethod
    def infer(shape: Sequence[int], dtype: str) -> Tensor:
        return tensor(known_shape(shape), dtype)


@irdl_op_definition
class FullLike(PureOp):
    """A tensor of one value, shaped like another. Paddle: fill_any_like."""

    name = "pd.full_like"
    x = operand_def(Tensor)
    out = result_def(Tensor)
    value = number()
    dtype = dtype_property(None)

    @staticmethod
    def infer(x: Tensor, dtype: str | None) -> Tensor:
        return like(x, dtype=dtype)


@irdl_op_definition
class AssignValue(PureOp):
    """A tensor of listed values. Paddle: assign_value."""

    name = "pd.assign_value"
    out = result_def(Tensor)
    shape = integers()
    values = numbers()
    dtype = dtype_property("float32")

    @staticmethod
    def infer(shape: Sequence[int], values: Sequence[float], dtype: str) -> Tensor:
        if element_count(known_shape(shape)) != len(values):
            raise ProgramError(f"{len(values)} values do not fill the shape {list(shape)}")
        return tensor(shape, dtype)
