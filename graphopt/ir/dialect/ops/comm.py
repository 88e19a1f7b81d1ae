"""Communication between the replicas of a data-parallel program.

A value in parts is flat: each of `parts` replicas has ceil(elements / parts) of its elements in
order, and zeros after the last one. Replicas in several processes come in groups of `parts`, each
of which has the whole value between its members.

With a model axis `degree` devices compute one replica together. A value of theirs is whole on each
of them, or cut along an axis: each has one of `degree` equal pieces.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def, var_operand_def, var_result_def

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import flag, integer, integers, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp
from graphopt.ir.dialect.ops.callback import split_shapes
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    compatible,
    element_count,
    like,
    rank_of,
    shape_of,
    show,
)

REDUCTIONS = ("sum", "max", "min", "prod")


def part_length(shape: Sequence[int], parts: int) -> int:
    """Count the elements of each replica's part of a tensor; raise ProgramError if open."""
    count = element_count(tuple(shape))
    if parts < 1:
        raise ProgramError(f"parts must be at least 1, found {parts}")
    if count == UNKNOWN:
        raise ProgramError(f"a tensor of shape {list(shape)} has no parts of a known size")
    return -(-count // parts)


class Collective(OpaqueOp, ABC):
    """An op that communicates with other replicas, or depends on the index of this one."""


@irdl_op_definition
class AllReduce(Collective):
    """The sum (or mean) of values over all replicas, on each of them. Paddle: all_reduce.

    Several values travel as one buffer, in one collective. With `of_parts` the values are computed
    from the parts of another value, and each part counts once, even if several replicas have it.
    """

    name = "pd.all_reduce"
    x = operand_def(TENSOR)
    rest = var_operand_def(TENSOR)
    outs = var_result_def(TENSOR)
    reduction = string("sum", of=("sum", "mean"))
    of_parts = flag(False)
    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor,
        rest: tuple[Tensor, ...] = (),
        reduction: str = "sum",
        of_parts: bool = False,
    ) -> list[Tensor]:
        if reduction not in ("sum", "mean"):
            raise ProgramError(f"reduction must be sum or mean, found '{reduction}'")
        if of_parts and reduction != "sum":
            raise ProgramError(f"of parts there is a sum, no {reduction}")
        _one_dtype(x, rest)
        return [x, *rest]


@irdl_op_definition
class CAllReduce(OneTensor, Collective):
    """A program's own all-reduce: the sum, maximum, minimum or product over all replicas.

    The gradient of a sum is the sum of the gradients; the others have none. Paddle: c_allreduce_sum
    and its kin.
    """

    name = "pd.c_allreduce"
    reduction = string("sum", of=REDUCTIONS)

    @staticmethod
    def infer(x: Tensor, reduction: str) -> Tensor:
        if reduction not in REDUCTIONS:
            raise ProgramError(f"reduction must be one of {REDUCTIONS}, found '{reduction}'")
        return x


@irdl_op_definition
class CAllGather(OneTensor, Collective):
    """A program's own all-gather: the rows of all replicas, in their order.

    The gradient of a replica's rows is the sum of all replicas' gradients for them. Paddle:
    c_allgather.
    """

    name = "pd.c_allgather"
    nranks = integer()

    @staticmethod
    def infer(x: Tensor, nranks: int) -> Tensor:
        rows, *rest = shape_of(x) or (UNKNOWN,)
        if rank_of(x) < 1 or nranks < 1:
            raise ProgramError(f"there are no rows of {nranks} replicas in {show(x)}")
        return like(x, shape=(UNKNOWN if rows == UNKNOWN else rows * nranks, *rest))


@irdl_op_definition
class CBroadcast(OneTensor, Collective):
    """The value of the replica `root`, on each of them, without a gradient. Paddle: c_broadcast."""

    name = "pd.c_broadcast"
    root = integer(0)

    @staticmethod
    def infer(x: Tensor, root: int) -> Tensor:
        if root < 0:
            raise ProgramError(f"there is no replica {root}")
        return x


@irdl_op_definition
class ReduceScatter(OneTensor, Collective):
    """This replica's part of the sum of a value over all replicas. Paddle: reduce_scatter.

    `owner` is the replica (of a group) that Paddle would give the parameter of this gradient to.
    """

    name = "pd.reduce_scatter"
    parts = integer()
    owner = integer(None)

    @staticmethod
    def infer(x: Tensor, parts: int) -> Tensor:
        return like(x, shape=(part_length(shape_of(x), parts),))


@irdl_op_definition
class Part(OneTensor, Collective):
    """This replica's part of a value that all replicas have."""

    name = "pd.part"
    parts = integer()

    @staticmethod
    def infer(x: Tensor, parts: int) -> Tensor:
        return like(x, shape=(part_length(shape_of(x), parts),))


@irdl_op_definition
class AllGather(Collective):
    """Whole values, gathered from the parts of all replicas. Paddle: all_gather.

    Several values travel as one buffer, in one collective. `sizes` lists their shapes, of `ranks`
    dimensions each, one after the other. The gradient of a part is the same part of the sum of all
    replicas' gradients. With `again` a derivative keeps no whole values; it gathers once more.
    """

    name = "pd.all_gather"
    x = operand_def(TENSOR)
    rest = var_operand_def(TENSOR)
    outs = var_result_def(TENSOR)
    parts = integer()
    sizes = integers()
    ranks = integers()
    again = flag(False)
    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor,
        parts: int,
        sizes: Sequence[int],
        ranks: Sequence[int],
        rest: tuple[Tensor, ...] = (),
    ) -> list[Tensor]:
        _one_dtype(x, rest)
        if len(ranks) != 1 + len(rest) or sum(ranks) != len(sizes):
            raise ProgramError("all_gather: operands, sizes and ranks do not belong together")
        found: list[Tensor] = []
        for value, shape in zip((x, *rest), split_shapes(sizes, ranks), strict=True):
            if shape_of(value) != (part_length(shape, parts),):
                raise ProgramError(f"{show(value)} is not a part of {list(shape)} in {parts} parts")
            found.append(like(value, shape=shape))
        return found


@irdl_op_definition
class WithoutPadding(OneTensor, Collective):
    """A part, with zeros after the last of the `count` elements of the whole."""

    name = "pd.without_padding"
    count = integer()

    @staticmethod
    def infer(x: Tensor, count: int) -> Tensor:
        if rank_of(x) != 1:
            raise ProgramError(f"expected a part, which is flat, found {show(x)}")
        return x


@irdl_op_definition
class OnOwner(Collective):
    """`x` on the replica `owner` (of each group), `other` on the others."""

    name = "pd.on_owner"
    x = operand_def(TENSOR)
    other = operand_def(TENSOR)
    out = result_def(TENSOR)
    owner = integer()

    @staticmethod
    def infer(x: Tensor, other: Tensor) -> Tensor:
        if not compatible(x, other):
            raise ProgramError(f"{show(x)} and {show(other)} are not one value's type")
        return x


@irdl_op_definition
class WeighByRows(Collective):
    """x times this replica's share of the rows of all replicas; `rows` holds its own rows."""

    name = "pd.weigh_by_rows"
    x = operand_def(TENSOR)
    rows = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, rows: Tensor) -> Tensor:
        if not rank_of(rows):
            raise ProgramError("a number has no rows")
        return x


def cut_shape(shape: Sequence[int], axis: int, degree: int) -> tuple[int, ...]:
    """Compute the shape of each of `degree` equal pieces; raise ProgramError if not equal."""
    if not 0 <= axis < len(shape):
        raise ProgramError(f"there is no axis {axis} in the shape {list(shape)}")
    size = shape[axis]
    if degree < 1 or size == UNKNOWN or size % degree:
        raise ProgramError(f"axis {axis} of {list(shape)} is not cut into {degree} equal pieces")
    return (*shape[:axis], size // degree, *shape[axis + 1 :])


class ModelCollective(Collective, ABC):
    """An op that needs the other devices of this replica, and no other replica."""


@irdl_op_definition
class CIdentity(OneTensor, ModelCollective):
    """A whole value that ops on pieces read. Paddle: c_identity.

    Each device computes some terms of its gradient, so the gradient is the sum over the model axis.
    """

    name = "pd.c_identity"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return x


@irdl_op_definition
class MpAllReduceSum(OneTensor, ModelCollective):
    """The sum over the model axis, on each of its devices. Paddle: mp_allreduce_sum.

    The gradient of each term is the gradient of the sum.
    """

    name = "pd.mp_allreduce_sum"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return x


@irdl_op_definition
class CConcat(OneTensor, ModelCollective):
    """The whole value, joined from pieces on the devices of the model axis. Paddle: c_concat.

    The gradient of a piece is the same piece of the gradient.
    """

    name = "pd.c_concat"
    axis = integer()
    degree = integer()

    @staticmethod
    def infer(x: Tensor, axis: int, degree: int) -> Tensor:
        shape = shape_of(x)
        if not 0 <= axis < len(shape):
            raise ProgramError(f"there is no axis {axis} in {show(x)}")
        whole = UNKNOWN if shape[axis] == UNKNOWN else shape[axis] * degree
        return like(x, shape=(*shape[:axis], whole, *shape[axis + 1 :]))


@irdl_op_definition
class CSplit(OneTensor, ModelCollective):
    """This device's piece of a whole value. Paddle: c_split.

    The gradient of the value is concatenated from the gradients of the pieces.
    """

    name = "pd.c_split"
    axis = integer()
    degree = integer()

    @staticmethod
    def infer(x: Tensor, axis: int, degree: int) -> Tensor:
        return like(x, shape=cut_shape(shape_of(x), axis, degree))


@irdl_op_definition
class CEmbedding(ModelCollective):
    """Rows of a table that is cut by rows; zeros for rows on other devices. Paddle: c_embedding.

    The sum over the model axis equals `pd.embedding` on the whole table.
    """

    name = "pd.c_embedding"
    x = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    out = result_def(TENSOR)
    padding_idx = integer(-1)

    @staticmethod
    def infer(x: Tensor, weight: Tensor) -> Tensor:
        if rank_of(weight) != 2:
            raise ProgramError("the embedding table must be 2-D")
        return like(weight, shape=(*shape_of(x), shape_of(weight)[1]))


def _one_dtype(x: Tensor, rest: Sequence[Tensor]) -> None:
    """Raise ProgramError unless all operands can travel in one buffer."""
    for other in rest:
        if other.get_element_type() != x.get_element_type():
            raise OperandError(
                f"one collective has one dtype, found {show(x)} and {show(other)}; use two"
            )
