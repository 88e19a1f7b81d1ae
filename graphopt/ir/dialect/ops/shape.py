"""Ops that move, join or cut elements without computing on them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer, integers
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp, PureOp, Unary
from graphopt.ir.dialect.traits import Linear, Movement, Rowwise
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Partial,
    Tensor,
    broadcast_dim,
    check_count,
    like,
    normalize_axes,
    normalize_axis,
    product,
    rank_of,
    resolve_shape,
    resolve_shape_like,
    same_dtype,
    shape_of,
    sizes_in,
    slice_bounds,
    split_sizes,
)
from graphopt.ir.dialect.types import like as retyped


def _keeps_first(op: PdOp) -> bool:
    """Return whether a reshape copies the first size."""
    return list(op.attr("shape"))[:1] == [0]


def _leaves_first(op: PdOp) -> bool:
    """Return whether a transposition permutes only the axes after the first one."""
    return list(op.attr("perm"))[:1] == [0]


def _flattens_rows(op: PdOp) -> bool:
    """Return whether a flatten joins axes within each row only."""
    rank = rank_of(op.operands[0].type)
    return rank > 0 and normalize_axis(op.attr("start_axis"), rank) > 0


def _squeezes_rows(op: PdOp) -> bool:
    """Return whether a squeeze names its axes and keeps the first one."""
    axes = op.attr("axis")
    return bool(axes) and 0 not in normalize_axes(axes, rank_of(op.operands[0].type))


def _unsqueezes_rows(op: PdOp) -> bool:
    """Return whether an unsqueeze adds axes only after the first one."""
    return all(axis % (rank_of(op.operands[0].type) + 1) for axis in op.attr("axis"))


def _joins_rows(op: PdOp) -> bool:
    """Return whether a concat joins along another axis than the first one."""
    return normalize_axis(op.attr("axis"), rank_of(op.operands[0].type)) != 0


@irdl_op_definition
class Assign(Unary):
    """The same value. Paddle: assign."""

    name = "pd.assign"
    traits = traits_def(Linear(), Movement(in_order=True))


@irdl_op_definition
class StopGradient(Unary):
    """The same value, through which no gradient flows. Paddle: Variable.stop_gradient."""

    name = "pd.stop_gradient"
    traits = traits_def(Movement(in_order=True))


@irdl_op_definition
class Reshape(OneTensor, PureOp):
    """The same elements in another shape. Paddle: reshape2."""

    name = "pd.reshape"
    traits = traits_def(Movement(in_order=True), Rowwise(when=_keeps_first))
    shape = integers()

    @staticmethod
    def infer(x: Tensor, shape: Sequence[int]) -> Tensor:
        return like(x, shape=resolve_shape(shape_of(x), shape))

    @staticmethod
    def infer_partly(x: Tensor, shape: Partial) -> Tensor:
        own = shape_of(x)
        sizes = enumerate(sizes_in(shape, "shape"))
        return like(x, shape=[own[i] if dim == 0 and i < len(own) else dim for i, dim in sizes])


@irdl_op_definition
class ReshapeLike(PureOp):
    """The same elements in another shape, in which a 0 copies the size of `like` at its place.

    One -1 takes the rest.
    """

    name = "pd.reshape_like"
    traits = traits_def(Movement())
    x = operand_def(TENSOR)
    like = operand_def(TENSOR)
    out = result_def(TENSOR)
    shape = integers()

    @staticmethod
    def infer(x: Tensor, like: Tensor, shape: Sequence[int]) -> Tensor:
        return retyped(x, shape=resolve_shape_like(shape_of(x), shape_of(like), shape))


@irdl_op_definition
class Transpose(OneTensor, PureOp):
    """The axes in another order. Paddle: transpose2."""

    name = "pd.transpose"
    traits = traits_def(Movement(), Rowwise(when=_leaves_first))
    perm = integers()

    @staticmethod
    def infer(x: Tensor, perm: Sequence[int]) -> Tensor:
        shape = shape_of(x)
        axes = [normalize_axis(axis, len(shape), "perm") for axis in perm]
        if sorted(axes) != list(range(len(shape))):
            raise ProgramError(f"perm {list(perm)} does not order the axes of {list(shape)}")
        return like(x, shape=[shape[axis] for axis in axes])


@irdl_op_definition
class Flatten(OneTensor, PureOp):
    """Join the axes from start to stop into one. Paddle: flatten_contiguous_range."""

    name = "pd.flatten"
    traits = traits_def(Movement(in_order=True), Rowwise(when=_flattens_rows))
    start_axis = integer(0)
    stop_axis = integer(-1)

    @staticmethod
    def infer(x: Tensor, start_axis: int, stop_axis: int) -> Tensor:
        shape = shape_of(x)
        if not shape:
            for axis, name in ((start_axis, "start_axis"), (stop_axis, "stop_axis")):
                normalize_axis(axis, 1, name)
            return like(x, shape=(1,))
        start = normalize_axis(start_axis, len(shape), "start_axis")
        stop = normalize_axis(stop_axis, len(shape), "stop_axis")
        if start > stop:
            raise ProgramError(f"start_axis {start_axis} comes after stop_axis {stop_axis}")
        joined = product(shape[start : stop + 1])
        return like(x, shape=(*shape[:start], joined, *shape[stop + 1 :]))


@irdl_op_definition
class Squeeze(OneTensor, PureOp):
    """Drop axes of size 1 (the named ones, or all). Paddle: squeeze2.

    An unknown size of a named axis is assumed to be 1, as in Paddle.
    """

    name = "pd.squeeze"
    traits = traits_def(Movement(in_order=True), Rowwise(when=_squeezes_rows))
    axis = integers(())

    @staticmethod
    def infer(x: Tensor, axis: Sequence[int]) -> Tensor:
        shape = shape_of(x)
        candidates = normalize_axes(axis, len(shape)) if axis else range(len(shape))
        dropped = {i for i in candidates if shape[i] == 1 or (axis and shape[i] == UNKNOWN)}
        return like(x, shape=[dim for i, dim in enumerate(shape) if i not in dropped])


@irdl_op_definition
class Unsqueeze(OneTensor, PureOp):
    """Insert axes of size 1 at these positions of the result. Paddle: unsqueeze2."""

    name = "pd.unsqueeze"
    traits = traits_def(Movement(in_order=True), Rowwise(when=_unsqueezes_rows))
    axis = integers()

    @staticmethod
    def infer(x: Tensor, axis: Sequence[int]) -> Tensor:
        shape = list(shape_of(x))
        for position in axis:
            shape.insert(normalize_axis(position, len(shape) + 1), 1)
        return like(x, shape=shape)

    @staticmethod
    def infer_partly(x: Tensor, axis: Partial) -> Tensor:
        return like(x, shape=(UNKNOWN,) * (rank_of(x) + len(sizes_in(axis, "axis"))))


@irdl_op_definition
class Concat(PureOp):
    """Tensors joined along an axis. Paddle: concat."""

    name = "pd.concat"
    traits = traits_def(Movement(), Rowwise(when=_joins_rows, of_all=True))
    inputs = var_operand_def(TENSOR)
    out = result_def(TENSOR)
    axis = integer(0)

    @staticmethod
    def infer(inputs: tuple[Tensor, ...], axis: int) -> Tensor:
        if not inputs:
            raise ProgramError("concat needs at least one tensor")
        same_dtype(*inputs)
        at = normalize_axis(axis, rank_of(inputs[0]))
        shape = list(shape_of(inputs[0]))
        for other in map(shape_of, inputs[1:]):
            if len(other) != len(shape):
                raise ProgramError("concat needs tensors of one rank")
            for i, dim in enumerate(other):
                if i == at:
                    shape[i] = UNKNOWN if UNKNOWN in (shape[i], dim) else shape[i] + dim
                elif shape[i] == UNKNOWN:
                    shape[i] = dim
                elif dim not in (shape[i], UNKNOWN):
                    raise ProgramError(f"concat on axis {at}: dimension {i} differs")
        return like(inputs[0], shape=shape)


@irdl_op_definition
class Stack(PureOp):
    """Tensors of one type joined along a new axis. Paddle: stack."""

    name = "pd.stack"
    traits = traits_def(Movement())
    inputs = var_operand_def(TENSOR)
    out = result_def(TENSOR)
    axis = integer(0)

    @staticmethod
    def infer(inputs: tuple[Tensor, ...], axis: int) -> Tensor:
        if not inputs:
            raise ProgramError("stack needs at least one tensor")
        same_dtype(*inputs)
        shape = list(shape_of(inputs[0]))
        for other in map(shape_of, inputs[1:]):
            if len(other) != len(shape) or any(
                UNKNOWN not in (a, b) and a != b for a, b in zip(shape, other, strict=True)
            ):
                raise ProgramError("stack needs tensors of one shape")
        shape.insert(normalize_axis(axis, len(shape) + 1), len(inputs))
        return like(inputs[0], shape=shape)


@irdl_op_definition
class Split(PureOp):
    """One tensor cut into several along an axis. Paddle: split."""

    name = "pd.split"
    traits = traits_def(Movement())
    x = operand_def(TENSOR)
    outs = var_result_def(TENSOR)
    axis = integer(0)
    num = integer(0)
    sections = integers(())

    @staticmethod
    def infer(x: Tensor, axis: int, num: int, sections: Sequence[int]) -> tuple[Tensor, ...]:
        shape = list(shape_of(x))
        at = normalize_axis(axis, len(shape))
        return tuple(
            like(x, shape=(*shape[:at], size, *shape[at + 1 :]))
            for size in split_sizes(shape[at], num, sections)
        )

    @staticmethod
    def infer_partly(
        x: Tensor, axis: int | Partial, num: int, sections: Partial
    ) -> tuple[Tensor, ...]:
        check_count(num, "parts of one dimension")
        sizes = sizes_in(sections or (), "sections") or (UNKNOWN,) * num
        if not isinstance(axis, int):
            return (like(x, shape=(UNKNOWN,) * rank_of(x)),) * len(sizes)
        shape = shape_of(x)
        at = normalize_axis(axis, len(shape))
        return tuple(like(x, shape=(*shape[:at], size, *shape[at + 1 :])) for size in sizes)


@irdl_op_definition
class Slice(PureOp):
    """A range of some axes; `decrease_axis` drops axes of size 1 afterwards. Paddle: slice."""

    name = "pd.slice"
    traits = traits_def(Movement())
    input = operand_def(TENSOR)
    out = result_def(TENSOR)
    axes = integers()
    starts = integers()
    ends = integers()
    decrease_axis = integers(())

    @staticmethod
    def infer(
        input: Tensor,
        axes: Sequence[int],
        starts: Sequence[int],
        ends: Sequence[int],
        decrease_axis: Sequence[int],
    ) -> Tensor:
        shape = list(shape_of(input))
        _check_bounds(axes, starts, ends)
        for axis, start, end in zip(axes, starts, ends, strict=True):
            at = normalize_axis(axis, len(shape))
            if shape[at] != UNKNOWN:
                low, high = slice_bounds(shape[at], start, end)
                shape[at] = high - low
            elif 0 <= start <= end and at in decrease_axis:
                shape[at] = end - start
        dropped = set(normalize_axes(decrease_axis, len(shape)))
        return like(input, shape=[d for i, d in enumerate(shape) if i not in dropped])

    @staticmethod
    def infer_partly(
        input: Tensor,
        axes: Sequence[int],
        starts: Partial,
        ends: Partial,
        decrease_axis: Sequence[int],
    ) -> Tensor:
        shape = shape_of(input)
        _check_bounds(axes, starts, ends)
        cut, dropped = (normalize_axes(given, len(shape)) for given in (axes, decrease_axis))
        sizes = [UNKNOWN if i in cut else dim for i, dim in enumerate(shape)]
        return like(input, shape=[dim for i, dim in enumerate(sizes) if i not in dropped])


def _check_bounds(axes: Sequence[int], *bounds: Sequence[int | None] | None) -> None:
    """Refuse a slice whose bounds are known not to be one for each axis."""
    for what, given in zip(("starts", "ends"), bounds, strict=True):
        if given is not None and len(given) != len(axes):
            raise ProgramError(
                f"slice needs as many starts and ends as axes, found {len(given)} {what} "
                f"for {len(axes)} axes"
            )


@irdl_op_definition
class Expand(OneTensor, PureOp):
    """Repeat axes of size 1 up to a shape; -1 keeps an axis. Paddle: expand_v2."""

    name = "pd.expand"
    traits = traits_def(Movement())
    shape = integers()

    @staticmethod
    def infer(x: Tensor, shape: Sequence[int]) -> Tensor:
        have = shape_of(x)
        if len(shape) < len(have):
            raise ProgramError(f"{list(have)} cannot expand to the lower rank of {list(shape)}")
        extra = len(shape) - len(have)
        result: list[int] = []
        for position, dim in enumerate(shape):
            if position < extra and dim < 0:
                raise ProgramError(f"a new axis needs a size, found {dim} in {list(shape)}")
            own = have[position - extra] if position >= extra else 1
            merged = own if dim == -1 else broadcast_dim(own, dim)
            if merged is None or (dim != -1 and own not in (1, UNKNOWN, dim)):
                raise ProgramError(f"{list(have)} cannot expand to {list(shape)}")
            result.append(merged)
        return like(x, shape=result)

    @staticmethod
    def infer_partly(x: Tensor, shape: Partial) -> Tensor:
        sizes = sizes_in(shape, "shape")
        own = (1,) * (len(sizes) - rank_of(x)) + shape_of(x)
        if len(sizes) < rank_of(x):
            raise ProgramError(f"{list(own)} cannot expand to the lower rank {len(sizes)}")
        result: list[int] = []
        for size, known, dim in zip(sizes, shape or (), own, strict=True):
            keeps = known == -1 or (known is None and dim > 1)
            result.append(dim if keeps else size)
        return like(x, shape=result)


@irdl_op_definition
class ShapeOf(OpaqueOp):
    """The dimensions as an int32 vector. Paddle: shape."""

    name = "pd.shape"
    input = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(input: Tensor) -> Tensor:
        return like(input, shape=(rank_of(input),), dtype="int32")
