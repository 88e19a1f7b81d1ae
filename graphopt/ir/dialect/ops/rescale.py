"""Tensors divided by a norm, or by statistics gathered over many batches."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp, RealUnary
from graphopt.ir.dialect.ops.norm import channel_axis, check_vector
from graphopt.ir.dialect.types import (
    UNKNOWN,
    Tensor,
    like,
    normalize_axis,
    product,
    rank_of,
    same_dtype,
    shape_of,
)


@irdl_op_definition
class SpectralNorm(OpaqueOp):
    """A weight over its largest singular value as a matrix [dim, the rest].

    `power_iters` steps from u and v find it, through which no gradient flows. Paddle:
    spectral_norm.
    """

    name = "pd.spectral_norm"
    weight = operand_def(Tensor)
    u = operand_def(Tensor)
    v = operand_def(Tensor)
    out = result_def(Tensor)
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
class Renorm(OpaqueOp):
    """Slices along an axis, shortened to a p-norm of `max_norm` where theirs is larger.

    Paddle: renorm.
    """

    name = "pd.renorm"
    x = operand_def(Tensor)
    out = result_def(Tensor)
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
    """Normalise by sums kept over many batches: (x - sum / size) * sqrt(size / square sum).

    What the sums get for a gradient is their share of this batch. Paddle: data_norm.
    """

    name = "pd.data_norm"
    x = operand_def(Tensor)
    batch_size = operand_def(Tensor)
    batch_sum = operand_def(Tensor)
    batch_square_sum = operand_def(Tensor)
    scale_w = opt_operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    out = result_def(Tensor)
    means = result_def(Tensor)
    scales = result_def(Tensor)
    epsilon = number(1e-4)
    slot_dim = integer(-1)
    summary_decay_rate = number(0.9999999)
    enable_scale_and_shift = flag(False)
    data_layout = string("NCHW")
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
