"""Running results along an axis, other than sums and products."""

from __future__ import annotations

from abc import ABC

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from graphopt.ir.dialect.attrs import dtype as dtype_property
from graphopt.ir.dialect.attrs import flag, integer
from graphopt.ir.dialect.ops.base import PureOp, RealUnary
from graphopt.ir.dialect.traits import AlongAxis
from graphopt.ir.dialect.types import Tensor, like, normalize_axis, product, rank_of, shape_of


@irdl_op_definition
class Logcumsumexp(PureOp):
    """log(cumsum(exp(x))) without overflow. Paddle: logcumsumexp."""

    name = "pd.logcumsumexp"
    traits = traits_def(AlongAxis(flatten="flatten"))
    x = operand_def(Tensor)
    out = result_def(Tensor)
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
    x = operand_def(Tensor)
    out = result_def(Tensor)
    indices = result_def(Tensor)
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
