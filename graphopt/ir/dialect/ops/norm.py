"""Normalization layers, and tensors divided by a norm."""

from __future__ import annotations

from abc import ABC

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp, PureOp, RealUnary
from graphopt.ir.dialect.traits import Rowwise
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    dtype_of,
    like,
    normalize_axis,
    product,
    rank_of,
    same_dtype,
    shape_of,
    show,
)


def channel_axis(rank: int, data_format: str) -> int:
    """Return the axis of the channels: 1, or the last axis for NHWC, NLC and the like."""
    return rank - 1 if rank > 1 and data_format in ("NHWC", "NLC", "NDHWC") else min(1, rank - 1)


def check_vector(what: str, vector: Tensor | None, length: int) -> None:
    """Raise ProgramError unless `vector` is absent or 1-D of this length."""
    if vector is None:
        return
    shape = shape_of(vector)
    if len(shape) != 1 or (UNKNOWN not in (shape[0], length) and shape[0] != length):
        raise ProgramError(f"'{what}' should be 1-D of length {length}, found {show(vector)}")


class BatchNormBase(OpaqueOp, ABC):
    """Normalize each channel over batch and space; statistics are values in and values out.

    The moving statistics become `momentum * old + (1 - momentum) * batch` with the biased batch
    variance. With `is_test` or `use_global_stats` the moving statistics normalize and stay
    unchanged.
    """

    x = operand_def(TENSOR)
    mean = operand_def(TENSOR)
    variance = operand_def(TENSOR)
    scale = opt_operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    mean_out = result_def(TENSOR)
    variance_out = result_def(TENSOR)
    saved_mean = result_def(TENSOR)
    saved_variance = result_def(TENSOR)
    momentum = number(0.9)
    epsilon = number(1e-5)
    is_test = flag(False)
    use_global_stats = flag(False)
    trainable_statistics = flag(False)
    data_format = string("NCHW", of=("NCHW", "NHWC"))
    sync = flag(False)

    irdl_options = (SEGMENTS,)

    @property
    def keeps_statistics(self) -> bool:
        """True when the op normalizes by the moving statistics and does not change them."""
        testing = self.attr("is_test") and not self.attr("trainable_statistics")
        return bool(testing or self.attr("use_global_stats"))

    @staticmethod
    def infer(
        x: Tensor,
        mean: Tensor,
        variance: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        data_format: str,
    ) -> tuple[Tensor, ...]:
        if rank_of(x) < 2:
            raise ProgramError("batch_norm needs a tensor of rank 2 or more")
        channels = shape_of(x)[channel_axis(rank_of(x), data_format)]
        for name, value in (
            ("mean", mean),
            ("variance", variance),
            ("scale", scale),
            ("bias", bias),
        ):
            check_vector(name, value, channels)
        return (x, mean, variance, mean, variance)


@irdl_op_definition
class BatchNorm(BatchNormBase):
    """Batch normalization. Paddle: batch_norm, sync_batch_norm (`sync`)."""

    name = "pd.batch_norm"


# Paddle's limit, a float32 number
_LARGEST_EPSILON = float(np.float32(0.001))


@irdl_op_definition
class LayerNorm(PureOp):
    """Normalize over the axes from `begin_norm_axis` on. Paddle: layer_norm."""

    name = "pd.layer_norm"
    traits = traits_def(Rowwise(first_result=True))
    x = operand_def(TENSOR)
    scale = opt_operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    mean = result_def(TENSOR)
    variance = result_def(TENSOR)
    epsilon = number(1e-5)
    begin_norm_axis = integer(1)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor, scale: Tensor | None, bias: Tensor | None, epsilon: float, begin_norm_axis: int
    ) -> tuple[Tensor, ...]:
        shape = shape_of(x)
        if not 0 <= epsilon <= _LARGEST_EPSILON:
            raise ProgramError(f"layer_norm takes an epsilon from 0 to 0.001, found {epsilon}")
        if not 0 < begin_norm_axis < len(shape):
            raise ProgramError(
                f"begin_norm_axis {begin_norm_axis} must be from 1 to {len(shape) - 1}"
            )
        size = product(shape[begin_norm_axis:])
        check_vector("scale", scale, size)
        check_vector("bias", bias, size)
        # the statistics of half-precision tensors are float32
        dtype = "float64" if dtype_of(x) == "float64" else "float32"
        rows = like(x, shape=(product(shape[:begin_norm_axis]),), dtype=dtype)
        return (x, rows, rows)


def _statistics(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Build the type of statistics: float64 for float64, else float32, as for half types."""
    return like(x, shape=shape, dtype="float64" if dtype_of(x) == "float64" else "float32")


@irdl_op_definition
class GroupNorm(PureOp):
    """Normalize each sample over groups of channels and space. Paddle: group_norm."""

    name = "pd.group_norm"
    traits = traits_def(Rowwise())
    x = operand_def(TENSOR)
    scale = opt_operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    mean = result_def(TENSOR)
    variance = result_def(TENSOR)
    epsilon = number(1e-5)
    groups = integer(1)
    data_layout = string("NCHW", of=("NCHW", "NHWC"))

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor, scale: Tensor | None, bias: Tensor | None, groups: int, data_layout: str
    ) -> tuple[Tensor, ...]:
        shape = shape_of(x)
        if len(shape) < 2:
            raise ProgramError(f"group_norm needs rank 2 or more, found {list(shape)}")
        channels = shape[channel_axis(len(shape), data_layout)]
        if groups < 1 or (channels != UNKNOWN and channels % groups):
            raise ProgramError(f"{channels} channels cannot be split in {groups} groups")
        check_vector("scale", scale, channels)
        check_vector("bias", bias, channels)
        statistics = _statistics(x, (shape[0], groups))
        return (x, statistics, statistics)


@irdl_op_definition
class InstanceNorm(OpaqueOp):
    """Normalize each channel of each sample over space. Paddle: instance_norm."""

    name = "pd.instance_norm"
    x = operand_def(TENSOR)
    scale = opt_operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    saved_mean = result_def(TENSOR)
    saved_variance = result_def(TENSOR)
    epsilon = number(1e-5)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(x: Tensor, scale: Tensor | None, bias: Tensor | None) -> tuple[Tensor, ...]:
        shape = shape_of(x)
        if not 2 <= len(shape) <= 5:
            raise ProgramError(f"instance_norm needs rank 2 to 5, found {list(shape)}")
        check_vector("scale", scale, shape[1])
        check_vector("bias", bias, shape[1])
        statistics = _statistics(x, (product(shape[:2]),))
        return (x, statistics, statistics)


@irdl_op_definition
class SpectralNorm(OpaqueOp):
    """A weight over its largest singular value as a matrix [dim, the rest].

    `power_iters` steps from u and v find it, through which no gradient flows. Paddle:
    spectral_norm.
    """

    name = "pd.spectral_norm"
    weight = operand_def(TENSOR)
    u = operand_def(TENSOR)
    v = operand_def(TENSOR)
    out = result_def(TENSOR)
    dim = integer(0)
    power_iters = integer(1)
    eps = number(1e-12)

    @staticmethod
    def infer(weight: Tensor, u: Tensor, v: Tensor, dim: int) -> Tensor:
        same_dtype(weight, u, v)
        shape = shape_of(weight)
        at = normalize_axis(dim, len(shape), "dim")
        check_vector("u", u, shape[at])
        check_vector("v", v, product((*shape[:at], *shape[at + 1 :])))
        return weight


@irdl_op_definition
class Renorm(OneTensor, OpaqueOp):
    """Slices along an axis, scaled to a p-norm of `max_norm` where their norm is larger.

    Paddle: renorm.
    """

    name = "pd.renorm"
    p = number()
    axis = integer()
    max_norm = number()

    @staticmethod
    def infer(x: Tensor, p: float, axis: int, max_norm: float) -> Tensor:
        normalize_axis(axis, rank_of(x))
        if p <= 0 or max_norm < 0:
            raise ProgramError(f"renorm needs p above 0 and no negative max_norm, found {p}")
        return RealUnary.infer(x)


@irdl_op_definition
class DataNorm(OpaqueOp):
    """Normalize by sums kept over many batches: (x - sum / size) * sqrt(size / square sum).

    The gradients of the sums are this batch's contributions to them. Paddle: data_norm.
    """

    name = "pd.data_norm"
    x = operand_def(TENSOR)
    batch_size = operand_def(TENSOR)
    batch_sum = operand_def(TENSOR)
    batch_square_sum = operand_def(TENSOR)
    scale_w = opt_operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    means = result_def(TENSOR)
    scales = result_def(TENSOR)
    epsilon = number(1e-4)
    slot_dim = integer(-1)
    summary_decay_rate = number(0.9999999)
    enable_scale_and_shift = flag(False)
    data_layout = string("NCHW", of=("NCHW", "NHWC"))
    sync_stats = flag(False)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor,
        batch_size: Tensor,
        batch_sum: Tensor,
        batch_square_sum: Tensor,
        scale_w: Tensor | None,
        bias: Tensor | None,
        slot_dim: int,
        data_layout: str,
    ) -> tuple[Tensor, ...]:
        rank, shape = rank_of(x), shape_of(x)
        if rank < 2:
            raise ProgramError(f"data_norm needs rank 2 or more, found {list(shape)}")
        if slot_dim > 0:
            raise ProgramError("data_norm with slot_dim above 0 is not supported; use -1")
        channels = shape[channel_axis(rank, data_layout)]
        given = {
            "batch_size": batch_size,
            "batch_sum": batch_sum,
            "batch_square_sum": batch_square_sum,
            "scale_w": scale_w,
            "bias": bias,
        }
        for name, value in given.items():
            check_vector(name, value, channels)
        known = shape_of(batch_size)[0] if channels == UNKNOWN else channels
        return x, like(x, shape=(known,)), like(x, shape=(known,))


@irdl_op_definition
class Cvm(OpaqueOp):
    """Rows whose first two columns count shows and clicks, as logarithms or dropped.

    With `use_cvm` the columns become log(shows + 1) and log(clicks + 1) - log(shows + 1). Their
    gradient is the row of `cvm`. Paddle: cvm.
    """

    name = "pd.cvm"
    x = operand_def(TENSOR)
    cvm = operand_def(TENSOR)
    out = result_def(TENSOR)
    use_cvm = flag(True)

    @staticmethod
    def infer(x: Tensor, cvm: Tensor, use_cvm: bool) -> Tensor:
        if rank_of(x) != 2 or rank_of(cvm) != 2 or shape_of(cvm)[1] not in (2, UNKNOWN):
            raise ProgramError(f"expected rows [n, d] and [n, 2], found {show(x)}, {show(cvm)}")
        rows, columns = shape_of(x)
        if columns != UNKNOWN and columns < 2:
            raise ProgramError(f"rows of {columns} columns have no shows and clicks")
        same_dtype(x, cvm)
        return like(x, shape=(rows, columns if use_cvm or columns == UNKNOWN else columns - 2))
