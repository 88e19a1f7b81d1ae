"""Reductions over axes, and running results along an axis."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import inf

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import dtype as dtype_property
from graphopt.ir.dialect.attrs import flag, integer, integers, number
from graphopt.ir.dialect.ops.base import (
    FloatUnary,
    OneTensor,
    OpaqueOp,
    PureOp,
    RealUnary,
)
from graphopt.ir.dialect.traits import AlongAxis, Reduction
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Partial,
    Shape,
    Tensor,
    dtype_of,
    like,
    normalize_axes,
    normalize_axis,
    product,
    rank_of,
    shape_of,
    sizes_in,
)
from graphopt.ir.dtypes import DType, as_dtype


def reduced_shape(shape: Shape, axes: Sequence[int], keepdim: bool) -> Shape:
    """Compute the shape after a reduction; empty `axes` means all axes."""
    dropped = set(normalize_axes(axes, len(shape)) if axes else range(len(shape)))
    if keepdim:
        return tuple(1 if i in dropped else dim for i, dim in enumerate(shape))
    return tuple(dim for i, dim in enumerate(shape) if i not in dropped)


class Reduce(OneTensor, PureOp, ABC):
    """Combine the elements along `axis` (all axes when empty)."""

    axis = integers(())
    keepdim = flag(False)

    @staticmethod
    def infer(x: Tensor, axis: Sequence[int], keepdim: bool) -> Tensor:
        return like(x, shape=reduced_shape(shape_of(x), axis, keepdim))

    @staticmethod
    def infer_partly(x: Tensor, axis: Partial, keepdim: bool) -> Tensor:
        dropped = 0 if keepdim else len(sizes_in(axis, "axis"))
        return like(x, shape=(UNKNOWN,) * (rank_of(x) - dropped))


@irdl_op_definition
class Mean(Reduce):
    """The average. Paddle: mean, reduce_mean."""

    name = "pd.mean"
    traits = traits_def(Reduction())

    @staticmethod
    def infer(x: Tensor, axis: Sequence[int], keepdim: bool) -> Tensor:
        if not dtype_of(x).is_differentiable:
            raise OperandError(f"mean needs a floating-point tensor, found {dtype_of(x)}")
        return Reduce.infer(x, axis, keepdim)


def sum_dtype(source: DType, wanted: str | None) -> DType:
    """Choose the dtype of a sum: `wanted`, or int64 for bool and int32, or the operand's own."""
    return as_dtype(wanted or ("int64" if source in ("bool", "int32") else source))


@irdl_op_definition
class Sum(Reduce):
    """The sum; bool and int32 add up in int64. Paddle: reduce_sum."""

    name = "pd.sum"
    traits = traits_def(Reduction(neutral=0.0))

    dtype = dtype_property(None)

    @staticmethod
    def infer(x: Tensor, axis: Sequence[int], keepdim: bool, dtype: str | None = None) -> Tensor:
        return like(Reduce.infer(x, axis, keepdim), dtype=sum_dtype(dtype_of(x), dtype))

    @staticmethod
    def infer_partly(x: Tensor, axis: Partial, keepdim: bool, dtype: str | None = None) -> Tensor:
        return like(Reduce.infer_partly(x, axis, keepdim), dtype=sum_dtype(dtype_of(x), dtype))


@irdl_op_definition
class Max(Reduce):
    """The largest element. Paddle: reduce_max."""

    name = "pd.max"
    traits = traits_def(Reduction(neutral=-inf))


@irdl_op_definition
class Min(Reduce):
    """The smallest element. Paddle: reduce_min."""

    name = "pd.min"
    traits = traits_def(Reduction(neutral=inf))


@irdl_op_definition
class Prod(Reduce):
    """The product. Paddle: reduce_prod."""

    name = "pd.prod"
    traits = traits_def(Reduction(neutral=1.0))


@irdl_op_definition
class Amax(Reduce):
    """The largest element; equal ones share its gradient. Paddle: reduce_amax."""

    name = "pd.amax"
    traits = traits_def(Reduction(neutral=-inf))


@irdl_op_definition
class Amin(Reduce):
    """The smallest element; equal ones share its gradient. Paddle: reduce_amin."""

    name = "pd.amin"
    traits = traits_def(Reduction(neutral=inf))


@irdl_op_definition
class All(Reduce):
    """Every element is true. Paddle: reduce_all."""

    name = "pd.all"
    traits = traits_def(Reduction(neutral=1.0))

    @staticmethod
    def infer(x: Tensor, axis: Sequence[int], keepdim: bool) -> Tensor:
        return like(Reduce.infer(x, axis, keepdim), dtype="bool")


@irdl_op_definition
class Any(Reduce):
    """Some element is true. Paddle: reduce_any."""

    name = "pd.any"
    traits = traits_def(Reduction(neutral=0.0))

    @staticmethod
    def infer(x: Tensor, axis: Sequence[int], keepdim: bool) -> Tensor:
        return like(Reduce.infer(x, axis, keepdim), dtype="bool")


@irdl_op_definition
class Logsumexp(Reduce):
    """log(sum(exp(x))) without overflow. Paddle: logsumexp."""

    name = "pd.logsumexp"
    traits = traits_def(Reduction(neutral=-inf))

    @staticmethod
    def infer(x: Tensor, axis: Sequence[int], keepdim: bool) -> Tensor:
        return Reduce.infer(FloatUnary.infer(x), axis, keepdim)


@irdl_op_definition
class PNorm(Reduce):
    """The p-norm; of order 0 the count of elements not 0. Paddle: p_norm, frobenius_norm."""

    name = "pd.p_norm"
    traits = traits_def(Reduction(neutral=0.0))
    porder = number(2.0)

    @staticmethod
    def infer(x: Tensor, axis: Sequence[int], keepdim: bool) -> Tensor:
        return Reduce.infer(FloatUnary.infer(x), axis, keepdim)


@irdl_op_definition
class SquaredL2Norm(OneTensor, PureOp):
    """The sum of squares of all elements, of shape [1]. Paddle: squared_l2_norm."""

    name = "pd.squared_l2_norm"
    traits = traits_def(Reduction(axis=None, neutral=0.0))

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return like(FloatUnary.infer(x), shape=(1,))


@irdl_op_definition
class ClipByNorm(OneTensor, OpaqueOp):
    """x, scaled down to the Euclidean norm max_norm if its own is larger. Paddle: clip_by_norm.

    Each element depends on all others, so the op is no `Unary`.
    """

    name = "pd.clip_by_norm"
    max_norm = number()

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return FloatUnary.infer(x)


def check_broadcasts(target: Shape, shape: Shape) -> None:
    """Raise ProgramError unless a tensor of the shape `target` broadcasts to `shape`."""
    own = shape[len(shape) - len(target) :]
    pairs = zip(target, own, strict=False)
    if len(target) > len(shape) or any(
        size not in (1, of) and UNKNOWN not in (size, of) for size, of in pairs
    ):
        raise ProgramError(
            f"reduce_as: a target {list(target)} does not broadcast to {list(shape)}"
        )


@irdl_op_definition
class ReduceAs(OpaqueOp):
    """x added up over the axes along which the target broadcasts to it. Paddle: reduce_as."""

    name = "pd.reduce_as"
    x = operand_def(TENSOR)
    target = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, target: Tensor) -> Tensor:
        check_broadcasts(shape_of(target), shape_of(x))
        return like(x, shape=shape_of(target))


@irdl_op_definition
class Numel(OneTensor, OpaqueOp):
    """The number of elements. Paddle: size."""

    name = "pd.numel"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return like(x, shape=(), dtype="int64")


class ArgReduce(OneTensor, PureOp, ABC):
    """The index of the first extreme element along an axis, or in the flattened tensor."""

    axis = integer(-1)
    keepdim = flag(False)
    flatten = flag(False)
    dtype = dtype_property("int64")

    @staticmethod
    def infer(x: Tensor, axis: int, keepdim: bool, flatten: bool, dtype: str) -> Tensor:
        axes = () if flatten else (normalize_axis(axis, len(shape_of(x))),)
        return like(x, shape=reduced_shape(shape_of(x), axes, keepdim), dtype=dtype)


@irdl_op_definition
class Argmax(ArgReduce):
    """Index of the largest element. Paddle: arg_max."""

    name = "pd.argmax"
    traits = traits_def(Reduction(flatten="flatten", neutral=-inf))


@irdl_op_definition
class Argmin(ArgReduce):
    """Index of the smallest element. Paddle: arg_min."""

    name = "pd.argmin"
    traits = traits_def(Reduction(flatten="flatten", neutral=inf))


@irdl_op_definition
class Cumsum(OneTensor, PureOp):
    """Running sum along an axis, or of the flattened tensor. Paddle: cumsum."""

    name = "pd.cumsum"
    traits = traits_def(AlongAxis(flatten="flatten"))
    axis = integer(-1)
    flatten = flag(False)
    exclusive = flag(False)
    reverse = flag(False)

    @staticmethod
    def infer(x: Tensor, axis: int, flatten: bool) -> Tensor:
        if flatten:
            return like(x, shape=(product(shape_of(x)),))
        normalize_axis(axis, rank_of(x))
        return x

    @staticmethod
    def infer_partly(x: Tensor) -> Tensor:
        return x


@irdl_op_definition
class Cumprod(OneTensor, PureOp):
    """Running product along an axis. Paddle: cumprod."""

    name = "pd.cumprod"
    traits = traits_def(AlongAxis())
    axis = integer()
    exclusive = flag(False)
    reverse = flag(False)

    @staticmethod
    def infer(x: Tensor, axis: int) -> Tensor:
        normalize_axis(axis, rank_of(x))
        return x


@irdl_op_definition
class Logcumsumexp(OneTensor, PureOp):
    """log(cumsum(exp(x))) without overflow. Paddle: logcumsumexp."""

    name = "pd.logcumsumexp"
    traits = traits_def(AlongAxis(flatten="flatten"))
    axis = integer(-1)
    flatten = flag(False)
    exclusive = flag(False)
    reverse = flag(False)

    @staticmethod
    def infer(x: Tensor, axis: int, flatten: bool) -> Tensor:
        RealUnary.infer(x)
        if flatten:
            return like(x, shape=(product(shape_of(x)),))
        if rank_of(x):
            normalize_axis(axis, rank_of(x))
        return x


class Extreme(PureOp, ABC):
    """The extreme of the elements so far, and where it is; of equal ones the last."""

    traits = traits_def(AlongAxis())
    x = operand_def(TENSOR)
    out = result_def(TENSOR)
    indices = result_def(TENSOR)
    axis = integer(-1)
    dtype = dtype_property("int64")

    @staticmethod
    def infer(x: Tensor, axis: int, dtype: str) -> tuple[Tensor, Tensor]:
        if rank_of(x):
            normalize_axis(axis, rank_of(x))
        return x, like(x, dtype=dtype)


@irdl_op_definition
class Cummax(Extreme):
    """The largest element so far. Paddle: cummax."""

    name = "pd.cummax"


@irdl_op_definition
class Cummin(Extreme):
    """The smallest element so far. Paddle: cummin."""

    name = "pd.cummin"
