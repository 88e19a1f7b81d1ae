"""Ops that make tensors of constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import dtype as dtype_property
from graphopt.ir.dialect.attrs import integer, integers, number, numbers
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp, PureOp
from graphopt.ir.dialect.traits import Elementwise
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Partial,
    Tensor,
    element_count,
    like,
    sizes_in,
    tensor,
)


def known_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a new tensor; raise ProgramError when a dimension is not known."""
    if any(dim < 0 for dim in shape):
        raise ProgramError(f"a new tensor needs known dimensions, found {list(shape)}")
    return tuple(shape)


@irdl_op_definition
class Full(OpaqueOp):
    """A tensor of one value. Paddle: fill_constant."""

    name = "pd.full"
    out = result_def(TENSOR)
    shape = integers()
    value = number()
    dtype = dtype_property("float32")

    @staticmethod
    def infer(shape: Sequence[int], dtype: str) -> Tensor:
        return tensor(known_shape(shape), dtype)

    @staticmethod
    def infer_partly(shape: Partial, dtype: str) -> Tensor:
        return tensor(sizes_in(shape, "shape"), dtype)


@irdl_op_definition
class FullLike(OneTensor, PureOp):
    """A tensor of one value, shaped like another. Paddle: fill_any_like."""

    name = "pd.full_like"
    traits = traits_def(Elementwise())
    value = number()
    dtype = dtype_property(None)

    @staticmethod
    def infer(x: Tensor, dtype: str | None) -> Tensor:
        return like(x, dtype=dtype)


@irdl_op_definition
class AssignValue(OpaqueOp):
    """A tensor of listed values. Paddle: assign_value."""

    name = "pd.assign_value"
    out = result_def(TENSOR)
    shape = integers()
    values = numbers()
    dtype = dtype_property("float32")

    @staticmethod
    def infer(shape: Sequence[int], values: Sequence[float], dtype: str) -> Tensor:
        if element_count(known_shape(shape)) != len(values):
            raise ProgramError(f"{len(values)} values do not fill the shape {list(shape)}")
        return tensor(shape, dtype)


def range_length(start: float, end: float, step: float) -> int:
    """Count the elements from start up to, but without, end."""
    if step == 0:
        raise ProgramError("the step of a range must not be 0")
    if not all(map(math.isfinite, (start, end, step))):
        raise ProgramError(f"a range needs finite numbers, found {start}, {end} and {step}")
    return max(math.ceil((end - start) / step), 0)


@irdl_op_definition
class Arange(OpaqueOp):
    """Numbers from start, by step, up to but without end. Paddle: range."""

    name = "pd.arange"
    out = result_def(TENSOR)
    start = number(0.0)
    end = number()
    step = number(1.0)
    dtype = dtype_property("int64")

    @staticmethod
    def infer(start: float, end: float, step: float, dtype: str) -> Tensor:
        return tensor((range_length(start, end, step),), dtype)

    @staticmethod
    def infer_partly(dtype: str) -> Tensor:
        return tensor((UNKNOWN,), dtype)


@irdl_op_definition
class Linspace(OpaqueOp):
    """Evenly spaced numbers from start to stop, both included. Paddle: linspace."""

    name = "pd.linspace"
    out = result_def(TENSOR)
    start = number()
    stop = number()
    num = integer()
    dtype = dtype_property("float32")

    @staticmethod
    def infer(num: int, dtype: str) -> Tensor:
        if num < 1:
            raise ProgramError(f"linspace needs 1 number or more, found {num}")
        return tensor((num,), dtype)

    @staticmethod
    def infer_partly(num: int | Partial, dtype: str) -> Tensor:
        return tensor((num if isinstance(num, int) else UNKNOWN,), dtype)


@irdl_op_definition
class Logspace(OpaqueOp):
    """Powers of a base whose exponents are evenly spaced. Paddle: logspace."""

    name = "pd.logspace"
    out = result_def(TENSOR)
    start = number()
    stop = number()
    num = integer()
    base = number(10.0)
    dtype = dtype_property("float32")

    @staticmethod
    def infer(num: int, dtype: str) -> Tensor:
        if num < 1:
            raise ProgramError(f"logspace needs 1 number or more, found {num}")
        return tensor((num,), dtype)

    @staticmethod
    def infer_partly(num: int | Partial, dtype: str) -> Tensor:
        return tensor((num if isinstance(num, int) else UNKNOWN,), dtype)


@irdl_op_definition
class Eye(OpaqueOp):
    """A matrix with ones on the diagonal. Paddle: eye."""

    name = "pd.eye"
    out = result_def(TENSOR)
    num_rows = integer()
    num_columns = integer(-1)
    dtype = dtype_property("float32")

    @staticmethod
    def infer(num_rows: int, num_columns: int, dtype: str) -> Tensor:
        columns = num_rows if num_columns == -1 else num_columns
        return tensor(known_shape((num_rows, columns)), dtype)
