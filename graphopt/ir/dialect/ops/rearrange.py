"""Ops that repeat, reverse, shift, pad or overwrite elements."""

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
from graphopt.ir.dialect.attrs import flag, integer, integers, number, string
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp, PureOp, TwoTensors
from graphopt.ir.dialect.ops.shape import Slice
from graphopt.ir.dialect.traits import Movement
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Partial,
    Shape,
    Tensor,
    broadcast_shapes,
    like,
    normalize_axes,
    normalize_axis,
    rank_of,
    same_dtype,
    shape_of,
    sizes_in,
)


@irdl_op_definition
class Tile(OneTensor, PureOp):
    """Every axis repeated as a whole. Paddle: tile."""

    name = "pd.tile"
    traits = traits_def(Movement())
    repeat_times = integers()

    @staticmethod
    def infer(x: Tensor, repeat_times: Sequence[int]) -> Tensor:
        if any(times < 0 for times in repeat_times):
            raise ProgramError(f"repeat_times must not be negative, found {list(repeat_times)}")
        rank = max(rank_of(x), len(repeat_times))
        shape = (1,) * (rank - rank_of(x)) + shape_of(x)
        times = (1,) * (rank - len(repeat_times)) + tuple(repeat_times)
        return like(x, shape=[_scale_dim(*pair) for pair in zip(shape, times, strict=True)])

    @staticmethod
    def infer_partly(x: Tensor, repeat_times: Partial) -> Tensor:
        known = sizes_in(repeat_times, "repeat_times")
        rank = max(rank_of(x), len(known))
        shape = (1,) * (rank - rank_of(x)) + shape_of(x)
        times = (1,) * (rank - len(known)) + known
        return like(x, shape=[_scale_dim(*pair) for pair in zip(shape, times, strict=True)])


def _scale_dim(dim: int, times: int) -> int:
    return UNKNOWN if UNKNOWN in (dim, times) else dim * times


@irdl_op_definition
class RepeatInterleave(OneTensor, PureOp):
    """Every slice along an axis `repeats` times in a row. Paddle: repeat_interleave."""

    name = "pd.repeat_interleave"
    traits = traits_def(Movement())
    repeats = integer()
    axis = integer(0)

    @staticmethod
    def infer(x: Tensor, repeats: int, axis: int) -> Tensor:
        if repeats < 0:
            raise ProgramError(f"repeats must not be negative, found {repeats}")
        at = normalize_axis(axis, rank_of(x))
        shape = shape_of(x)
        return like(x, shape=(*shape[:at], _scale_dim(shape[at], repeats), *shape[at + 1 :]))


@irdl_op_definition
class Flip(OneTensor, PureOp):
    """These axes in reverse order. Paddle: flip."""

    name = "pd.flip"
    traits = traits_def(Movement())
    axis = integers()

    @staticmethod
    def infer(x: Tensor, axis: Sequence[int]) -> Tensor:
        if len(normalize_axes(axis, rank_of(x))) != len(axis):
            raise ProgramError(f"'axis' names an axis more than once: {list(axis)}; name each once")
        return x

    @staticmethod
    def infer_partly(x: Tensor) -> Tensor:
        return x


@irdl_op_definition
class Roll(OneTensor, PureOp):
    """Elements shifted along axes, around the end; along the flat tensor without axes.

    Paddle: roll.
    """

    name = "pd.roll"
    traits = traits_def(Movement())
    shifts = integers()
    axis = integers(())

    @staticmethod
    def infer(x: Tensor, shifts: Sequence[int], axis: Sequence[int]) -> Tensor:
        if len(shifts) != (len(axis) or 1):
            raise ProgramError(f"roll by {list(shifts)} needs as many axes, found {list(axis)}")
        normalize_axes(axis, rank_of(x))
        return x

    @staticmethod
    def infer_partly(x: Tensor) -> Tensor:
        return x


@irdl_op_definition
class Unbind(PureOp):
    """The slices along an axis, without it. Paddle: unbind, unstack."""

    name = "pd.unbind"
    traits = traits_def(Movement())
    x = operand_def(TENSOR)
    outs = var_result_def(TENSOR)
    axis = integer(0)

    @staticmethod
    def infer(x: Tensor, axis: int) -> tuple[Tensor, ...]:
        shape = shape_of(x)
        at = normalize_axis(axis, len(shape))
        if shape[at] == UNKNOWN:
            raise ProgramError(f"the size of axis {axis} of {list(shape)} must be known")
        return (like(x, shape=shape[:at] + shape[at + 1 :]),) * shape[at]


def strided_count(dim: int, start: int, end: int, stride: int) -> int:
    """Count the elements that a slice with a stride takes, as Python counts them."""
    return UNKNOWN if dim == UNKNOWN else len(range(dim)[start:end:stride])


def _check_strides(*lists: Sequence[int]) -> None:
    if len({len(values) for values in lists}) > 1 or 0 in lists[-1]:
        raise ProgramError("a slice needs a start, an end and a stride other than 0 for each axis")


@irdl_op_definition
class StridedSlice(PureOp):
    """Every stride-th element of a range of some axes, as Python slices. Paddle: strided_slice."""

    name = "pd.strided_slice"
    traits = traits_def(Movement())
    input = operand_def(TENSOR)
    out = result_def(TENSOR)
    axes = integers()
    starts = integers()
    ends = integers()
    strides = integers()
    decrease_axis = integers(())

    @staticmethod
    def infer(
        input: Tensor,
        axes: Sequence[int],
        starts: Sequence[int],
        ends: Sequence[int],
        strides: Sequence[int],
        decrease_axis: Sequence[int],
    ) -> Tensor:
        _check_strides(axes, starts, ends, strides)
        shape = list(shape_of(input))
        for axis, *bounds in zip(axes, starts, ends, strides, strict=True):
            at = normalize_axis(axis, len(shape))
            shape[at] = strided_count(shape[at], *bounds)
        dropped = normalize_axes(decrease_axis, len(shape))
        return like(input, shape=[dim for i, dim in enumerate(shape) if i not in dropped])

    infer_partly = staticmethod(Slice.infer_partly)


@irdl_op_definition
class SetValue(OpaqueOp):
    """The input with a strided slice replaced by a broadcast value. Paddle: set_value."""

    name = "pd.set_value"
    input = operand_def(TENSOR)
    value = operand_def(TENSOR)
    out = result_def(TENSOR)
    axes = integers()
    starts = integers()
    ends = integers()
    steps = integers()
    decrease_axes = integers(())

    @staticmethod
    def infer(
        input: Tensor,
        value: Tensor,
        axes: Sequence[int],
        starts: Sequence[int],
        ends: Sequence[int],
        steps: Sequence[int],
        decrease_axes: Sequence[int],
    ) -> Tensor:
        same_dtype(input, value)
        place = StridedSlice.infer(input, axes, starts, ends, steps, decrease_axes)
        want, have = shape_of(place), shape_of(value)
        # a value of higher rank may have leading axes of size 1
        while len(have) > len(want) and have[0] == 1:
            have = have[1:]
        if len(broadcast_shapes(want, have)) != len(want) or any(
            a != b and UNKNOWN not in (a, b)
            for a, b in zip(broadcast_shapes(want, have), want, strict=True)
        ):
            raise ProgramError(
                f"a value of shape {list(shape_of(value))} does not fit a slice of {list(want)}"
            )
        return input

    @staticmethod
    def infer_partly(input: Tensor) -> Tensor:
        return input


@irdl_op_definition
class ExpandAs(TwoTensors, PureOp):
    """x broadcast to the shape of another tensor. Paddle: expand_as_v2."""

    name = "pd.expand_as"
    traits = traits_def(Movement())

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        have, want = shape_of(x), shape_of(y)
        trailing = want[len(want) - len(have) :]
        if len(have) > len(want) or any(
            a not in (1, b) and UNKNOWN not in (a, b) for a, b in zip(have, trailing, strict=True)
        ):
            raise ProgramError(f"{list(have)} cannot expand to {list(want)}")
        return like(x, shape=broadcast_shapes(have, want))


@irdl_op_definition
class Meshgrid(PureOp):
    """Vectors as the coordinates of a grid, each broadcast over all. Paddle: meshgrid."""

    name = "pd.meshgrid"
    traits = traits_def(Movement())
    inputs = var_operand_def(TENSOR)
    outs = var_result_def(TENSOR)

    @staticmethod
    def infer(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if any(rank_of(x) > 1 for x in inputs):
            raise ProgramError("meshgrid needs tensors of rank 1 or 0")
        shape = [(*shape_of(x), 1)[0] for x in inputs]
        return tuple(like(x, shape=shape) for x in inputs)


PAD_MODES = ("constant", "reflect", "replicate", "circular")


def pad_pairs(paddings: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Pair the padding before and after each axis."""
    return tuple(zip(paddings[::2], paddings[1::2], strict=True))


@irdl_op_definition
class Pad(OneTensor, OpaqueOp):
    """Elements added (or, below zero, cut) before and after each axis. Paddle: pad, pad3d.

    `mode` selects the added elements: a constant, a mirror image without the edge (reflect), the
    edge (replicate), or the other end (circular).
    """

    name = "pd.pad"
    paddings = integers()
    mode = string("constant", of=PAD_MODES)
    value = number(0.0)

    @staticmethod
    def infer(x: Tensor, paddings: Sequence[int], mode: str) -> Tensor:
        shape: Shape = shape_of(x)
        if len(paddings) != 2 * len(shape):
            raise ProgramError(
                f"pad needs two numbers for each axis of {list(shape)}, found {list(paddings)}"
            )
        if mode not in PAD_MODES:
            raise ProgramError(f"the mode of pad must be one of {PAD_MODES}, found '{mode}'")
        result: list[int] = []
        for dim, pair in zip(shape, pad_pairs(paddings), strict=True):
            room = dim - 1 if mode == "reflect" else max(pair)
            nothing = mode == "circular" and dim == 0 < max(pair)
            if dim != UNKNOWN and (dim + sum(pair) < 0 or max(pair) > room or nothing):
                raise ProgramError(f"{mode} padding {list(pair)} does not fit a dimension of {dim}")
            result.append(UNKNOWN if dim == UNKNOWN and any(pair) else dim + sum(pair))
        return like(x, shape=result)


@irdl_op_definition
class TriangleOf(OneTensor, OpaqueOp):
    """The lower or upper triangle of matrices, zeros elsewhere. Paddle: tril_triu."""

    name = "pd.tril_triu"
    diagonal = integer(0)
    lower = flag(True)

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        if rank_of(x) < 2:
            raise ProgramError(f"tril and triu need matrices, found {list(shape_of(x))}")
        return x
