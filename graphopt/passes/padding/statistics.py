"""Padded axes in ops that divide by the number of rows: means, batch statistics, metrics."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.comm import AllReduce
from graphopt.ir.dialect.ops.creation import Full, FullLike
from graphopt.ir.dialect.ops.math import (
    Add,
    Cast,
    Divide,
    Equal,
    LogicalAnd,
    Multiply,
    Scale,
    Square,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.metric import Accuracy, Auc
from graphopt.ir.dialect.ops.norm import BatchNorm, channel_axis
from graphopt.ir.dialect.ops.reduce import Any, Mean, Sum
from graphopt.ir.dialect.ops.sequence.alignment import EditDistance
from graphopt.ir.dialect.ops.shape import Reshape, Slice, StopGradient
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, normalize_axes, rank_of, shape_of
from graphopt.ir.dtypes import DType
from graphopt.passes.engine.inserting import Before
from graphopt.passes.padding.dims import Axes, CannotPad
from graphopt.passes.padding.rules import (
    Carried,
    Mask,
    Padded,
    RealRows,
    carry,
    check_free,
    input_axes,
)


@carry.register(Mean)
def _(op: Mean, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    given, keepdim = op.attr("axis"), op.attr("keepdim")
    reduced = sorted(normalize_axes(given, len(axes)) if given else range(len(axes)))
    result = tuple(
        None if at in reduced else dim
        for at, dim in enumerate(axes)
        if keepdim or at not in reduced
    )
    if not any(axes[at] for at in reduced):
        return Carried((result,))
    return mean_of_rows(result, axes, reduced, keepdim=keepdim)


def mean_of_rows(result: Axes, axes: Axes, reduced: Sequence[int], *, keepdim: bool) -> Carried:
    """Build the rule of an op that averages its operand, which has padding along `reduced`.

    The mean is a sum of the data elements, divided by their number.
    """

    def write(op: PdOp, real: RealRows) -> Sequence[SSAValue]:
        new, value = Before(op), op.operands[0]
        dtype = dtype_of(value.type)
        wide = _wide(dtype)
        summand = value if dtype == wide else new(Cast.make(value, dtype=wide))
        total = new(Sum.make(summand, axis=list(reduced), keepdim=keepdim))
        mean = new(Divide.make(total, _count(new, real, value, axes, reduced, wide)))
        return [mean if dtype == wide else new(Cast.make(mean, dtype=dtype))]

    masked = tuple(at for at in reduced if axes[at] is not None)
    return Carried((result,), (Mask(0, masked, 0.0),), write=write)


def _wide(dtype: DType) -> str:
    """Return the accumulation dtype of a dtype."""
    return dtype if dtype in ("float32", "float64", "complex64", "complex128") else "float32"


def _count(
    new: Before, real: RealRows, value: SSAValue, axes: Axes, reduced: Sequence[int], dtype: str
) -> SSAValue:
    """Compute the number of data elements of the value along these axes, some of them padded."""
    shape, known = shape_of(value.type), 1
    numbers: list[SSAValue] = []
    for at in reduced:
        dim = axes[at]
        if dim is not None:
            numbers.append(new(Cast.make(real.count(dim), dtype=dtype)))
        elif shape[at] == UNKNOWN:
            numbers.append(_size(new, value, at, dtype))
        else:
            known *= shape[at]
    if known != 1:
        numbers.append(new(Full.make(shape=[], value=float(known), dtype=dtype)))
    count = numbers[0]
    for number in numbers[1:]:
        count = new(Multiply.make(count, number))
    return count


def _size(new: Before, value: SSAValue, at: int, dtype: str) -> SSAValue:
    """Compute the size of an axis, which is known only at run time."""
    others = [axis for axis in range(rank_of(value.type)) if axis != at]
    if others:
        ends = {"starts": [0] * len(others), "ends": [1] * len(others)}
        value = new(Slice.make(value, axes=others, **ends))
    return new(Sum.make(new(FullLike.make(value, value=1.0, dtype=dtype))))


@carry.register(BatchNorm)
def _(op: BatchNorm, padded: Padded) -> Carried:
    axes = input_axes(op, padded)
    channel = channel_axis(len(axes), op.attr("data_format"))
    check_free(axes, (channel,), "the axis of the channels")
    results = (axes, *((None,) for _ in op.results[1:]))
    if op.keeps_statistics:
        return Carried(results)
    return Carried(results, write=lambda old, real: _normalise_rows(old, real, axes))


def _normalise_rows(op: BatchNorm, real: RealRows, axes: Axes) -> Sequence[SSAValue]:
    """Normalize by statistics that are computed first, from the data rows.

    A synchronized op uses the statistics of all replicas.
    """
    new, x = Before(op), op.operands[0]
    _, (mean,), (variance,), scale, bias = op.operand_groups()
    dtype = _wide(dtype_of(x.type))
    values = x if dtype_of(x.type) == dtype else new(Cast.make(x, dtype=dtype))
    channel = channel_axis(len(axes), op.attr("data_format"))
    reduced = [at for at in range(len(axes)) if at != channel]

    def total(value: SSAValue) -> SSAValue:
        return new(AllReduce.make(value)) if op.attr("sync") else value

    count = total(_count(new, real, x, axes, reduced, dtype))
    zero = new(Full.make(shape=[], value=0.0, dtype=dtype))

    def average(value: SSAValue) -> SSAValue:
        for at in reduced:
            dim = axes[at]
            if dim is not None:
                value = new(Where.make(real.mask(dim, len(axes), at), value, zero))
        return new(Divide.make(total(new(Sum.make(value, axis=reduced))), count))

    own_mean = average(values)
    shape = [-1 if at == channel else 1 for at in range(len(axes))]
    centred = new(Subtract.make(values, new(Reshape.make(own_mean, shape=shape))))
    own = own_mean, average(new(Square.make(centred)))
    means = [new.cast(value, old) for value, old in zip(own, (mean, variance), strict=True)]
    attrs = {**op.attr_values(), "use_global_stats": True, "sync": False}
    normal = BatchNorm.make(x, *means, *(g[0] if g else None for g in (scale, bias)), **attrs)
    out = new(normal)
    # the moving statistics pass no gradient on, as in any batch_norm
    share, fixed = op.attr("momentum"), [new(StopGradient.make(value)) for value in means]
    moved = [
        new(Add.make(new(Scale.make(old, scale=share)), new(Scale.make(now, scale=1 - share))))
        for old, now in zip((mean, variance), fixed, strict=True)
    ]
    return [out, *moved, *normal.results[3:]]


@carry.register(Accuracy)
def _(op: Accuracy, padded: Padded) -> Carried:
    rows = padded.of(op.operands[1])[0]
    if rows is None or any(padded.of(value) != (rows, None) for value in op.operands[:2]):
        raise CannotPad("different-padding", "other axes than the rows are padded")
    if padded.of(op.operands[2])[:1] != (rows,):
        raise CannotPad("different-padding", "scores and labels are padded differently")

    def write(op: Accuracy, real: RealRows) -> Sequence[SSAValue]:
        new, (_, indices, label) = Before(op), op.operands
        column = new(Reshape.make(label, shape=[-1, 1]))
        hits = new(Any.make(new(Equal.make(indices, new.cast(column, indices))), axis=[1]))
        counted = new(LogicalAnd.make(hits, real.mask(rows, 1, 0)))
        correct = new(Sum.make(counted))
        share = [new(Cast.make(value, dtype="float32")) for value in (correct, real.count(rows))]
        numbers = [new(Cast.make(value, dtype="int32")) for value in (correct, real.count(rows))]
        return [new(Divide.make(*share)), *numbers]

    return Carried(((), (), ()), write=write)


@carry.register(Auc)
def _(op: Auc, padded: Padded) -> Carried:
    x, label, *statistics = (padded.of(value) for value in op.operands)
    if any(any(axes) for axes in statistics):
        raise CannotPad("padded-weight", "the statistics are padded")
    if x[0] is None or x[1:] != (None,) or label[:1] != x[:1]:
        raise CannotPad("different-padding", "predictions and labels are padded differently")
    # a label below 0 is neither positive nor negative
    return Carried(((), *statistics), (Mask(1, (0,), -1.0),))


@carry.register(EditDistance)
def _(op: EditDistance, padded: Padded) -> Carried:
    every = [padded.of(value) for value in op.operands]
    rows = every[0][0]
    if rows is None or any(axes[0] != rows or any(axes[1:]) for axes in every):
        raise CannotPad("different-padding", "other axes than the rows are padded")

    def write(op: EditDistance, real: RealRows) -> Sequence[SSAValue]:
        new = Before(op)
        groups = [group[0] if group else None for group in op.operand_groups()]
        distances = new(EditDistance.make(*groups, normalized=op.attr("normalized")))
        return [distances, new(Reshape.make(real.count(rows), shape=[1]))]

    return Carried(((rows, None), (None,)), write=write)
