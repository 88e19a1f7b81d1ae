"""Ops that put elements in order, or find and count them by size."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, integers, number, string
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp, PureOp
from graphopt.ir.dialect.ops.reduce import reduced_shape
from graphopt.ir.dialect.traits import AlongAxis, Reduction
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    broadcast_shapes,
    like,
    normalize_axis,
    rank_of,
    same_dtype,
    same_shape,
    shape_of,
)


@irdl_op_definition
class Argsort(PureOp):
    """The elements in order along an axis, and where they were. Paddle: argsort."""

    name = "pd.argsort"
    traits = traits_def(AlongAxis())
    x = operand_def(TENSOR)
    out = result_def(TENSOR)
    indices = result_def(TENSOR)
    axis = integer(-1)
    descending = flag(False)

    @staticmethod
    def infer(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        if rank_of(x):
            normalize_axis(axis, rank_of(x))
        return x, like(x, dtype="int64")


@irdl_op_definition
class Kthvalue(PureOp):
    """The k-th smallest element along an axis, and where it is. Paddle: kthvalue."""

    name = "pd.kthvalue"
    traits = traits_def(Reduction())
    x = operand_def(TENSOR)
    out = result_def(TENSOR)
    indices = result_def(TENSOR)
    k = integer(1)
    axis = integer(-1)
    keepdim = flag(False)

    @staticmethod
    def infer(x: Tensor, k: int, axis: int, keepdim: bool) -> tuple[Tensor, Tensor]:
        shape = shape_of(x)
        size = shape[normalize_axis(axis, len(shape))]
        if k < 1 or 0 <= size < k:
            raise ProgramError(f"k must be from 1 to {size}, found {k}")
        out = like(x, shape=reduced_shape(shape, (axis,), keepdim))
        return out, like(out, dtype="int64")


@irdl_op_definition
class Mode(PureOp):
    """The most frequent element along an axis (the smallest of several), and its last position.

    Paddle: mode.
    """

    name = "pd.mode"
    traits = traits_def(Reduction())
    x = operand_def(TENSOR)
    out = result_def(TENSOR)
    indices = result_def(TENSOR)
    axis = integer(-1)
    keepdim = flag(False)

    @staticmethod
    def infer(x: Tensor, axis: int, keepdim: bool) -> tuple[Tensor, Tensor]:
        shape = shape_of(x)
        if shape:
            normalize_axis(axis, len(shape))
        out = like(x, shape=reduced_shape(shape, (axis,), keepdim)) if shape else x
        return out, like(out, dtype="int64")


@irdl_op_definition
class Nanmedian(OneTensor, PureOp):
    """The median over axes of the elements that are not nan. Paddle: nanmedian.

    Of two middle elements it is the average or, with the `mode` min, the smaller one.
    """

    name = "pd.nanmedian"
    traits = traits_def(Reduction())
    axis = integers(())
    keepdim = flag(False)
    mode = string("avg", of=("avg", "min"))

    @staticmethod
    def infer(x: Tensor, axis: Sequence[int], keepdim: bool, mode: str) -> Tensor:
        if mode not in ("avg", "min"):
            raise ProgramError(f"the mode of nanmedian should be avg or min, found '{mode}'")
        return like(x, shape=reduced_shape(shape_of(x), axis, keepdim))


@irdl_op_definition
class Searchsorted(OpaqueOp):
    """The positions of values in the last axis of sorted sequences. Paddle: searchsorted.

    Two dtypes are compared as in C++: in float64 if either is float64, else in the float dtype.
    """

    name = "pd.searchsorted"
    sequence = operand_def(TENSOR)
    values = operand_def(TENSOR)
    out = result_def(TENSOR)
    out_int32 = flag(False)
    right = flag(False)

    @staticmethod
    def infer(sequence: Tensor, values: Tensor, out_int32: bool) -> Tensor:
        if rank_of(sequence) < 1:
            raise ProgramError("the sorted sequence needs an axis")
        shape = shape_of(values)
        if rank_of(sequence) > 1:
            if rank_of(sequence) != len(shape):
                raise ProgramError("the sequences and the values must have one rank")
            shape = (*broadcast_shapes(shape_of(sequence)[:-1], shape[:-1]), shape[-1])
        return like(values, shape=shape, dtype="int32" if out_int32 else "int64")


@irdl_op_definition
class Histogram(OpaqueOp):
    """The number of elements in each of equal bins from min to max. Paddle: histogram.

    With min and max equal the bins cover the elements; the last bin includes its right edge. The
    result is float32 with a weight for each element, or as a density (whose integral is 1).
    """

    name = "pd.histogram"
    x = operand_def(TENSOR)
    weight = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    bins = integer(100)
    min = number(0.0)
    max = number(0.0)
    density = flag(False)

    @staticmethod
    def infer(
        x: Tensor, bins: int, min: float, max: float, density: bool, weight: Tensor | None = None
    ) -> Tensor:
        if bins < 1 or not 0 <= max - min < math.inf:
            raise ProgramError(
                "histogram needs bins >= 1 and finite max >= min, found "
                f"bins {bins}, min {min}, max {max}"
            )
        if weight is not None:
            same_dtype(x, weight)
            same_shape(x, weight)
        counts = weight is None and not density
        return like(x, shape=(bins,), dtype="int64" if counts else "float32")


@irdl_op_definition
class Topk(OpaqueOp):
    """The k largest (or smallest) elements along an axis and where they are. Paddle: top_k_v2."""

    name = "pd.topk"
    x = operand_def(TENSOR)
    out = result_def(TENSOR)
    indices = result_def(TENSOR)
    k = integer(1)
    axis = integer(-1)
    largest = flag(True)
    sorted = flag(True)

    @staticmethod
    def infer(x: Tensor, k: int, axis: int) -> tuple[Tensor, Tensor]:
        shape = list(shape_of(x))
        at = normalize_axis(axis, len(shape))
        if k < 1 or 0 <= shape[at] < k:
            raise ProgramError(f"k must be from 1 to {shape[at]}, found {k}")
        shape[at] = k
        return like(x, shape=shape), like(x, shape=shape, dtype="int64")

    @staticmethod
    def infer_partly(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        shape = list(shape_of(x))
        if shape:
            shape[normalize_axis(axis, len(shape))] = UNKNOWN
        return like(x, shape=shape), like(x, shape=shape, dtype="int64")
