"""How each op carries padded axes from its operands to its results.

`carry` gives the axes of the results and the masks that the op needs: the operands of which the
rows beyond the data have to become a neutral element first. An op without a rule here, or one that
would let those rows into its results, raises CannotPad.

Padding repeats the last row of the data. So whatever an op computes on such a row is as ordinary as
its other results: no infinity or NaN comes from padding, in derivatives neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from math import inf

from xdsl.ir import SSAValue

from graphopt.ir.op import PdOp, attr_kinds
from graphopt.ir.ops import reduce as reductions
from graphopt.ir.ops.activation import LogSoftmax, Softmax
from graphopt.ir.ops.base import Binary, Compare, Unary
from graphopt.ir.ops.comm import AllReduce
from graphopt.ir.ops.conv import Conv2dBase, PoolBase
from graphopt.ir.ops.creation import FullLike
from graphopt.ir.ops.grad import Grad
from graphopt.ir.ops.index import Embedding, Gather, OneHot, Topk
from graphopt.ir.ops.linear import Matmul
from graphopt.ir.ops.logic import Test
from graphopt.ir.ops.loss import BinaryCrossEntropy, CrossEntropyWithSoftmax, SigmoidCrossEntropy
from graphopt.ir.ops.math import AddN, Cast, LogicalNot, Where
from graphopt.ir.ops.norm import BatchNorm, GroupNorm, LayerNorm, channel_axis
from graphopt.ir.ops.random import Dropout
from graphopt.ir.ops.shape import (
    Concat,
    Expand,
    Flatten,
    Reshape,
    Slice,
    Split,
    Squeeze,
    Stack,
    Transpose,
    Unsqueeze,
)
from graphopt.ir.types import dtype_of, normalize_axes, normalize_axis, rank_of, shape_of
from graphopt.passes.padding.dims import Axes, CannotPad, Dim, factors_of, joined, reshaped


@dataclass(frozen=True)
class Mask:
    """Before the op runs, operand `operand` is `fill` beyond the data of these axes."""

    operand: int
    axes: tuple[int, ...]
    fill: float


@dataclass(frozen=True)
class Carried:
    """The axes of an op's results, and the masks of its operands and of its first result."""

    results: tuple[Axes, ...]
    masks: tuple[Mask, ...] = ()
    after: tuple[int, ...] = ()
    """The axes along which the first result is 0 beyond the data."""


@dataclass(frozen=True)
class Padded:
    """The axes of the values of a module; a value that is not here has none that are padded."""

    known: Mapping[SSAValue, Axes]

    def of(self, value: SSAValue) -> Axes:
        """One entry per axis of the value."""
        return self.known.get(value) or (None,) * rank_of(value.type)


@singledispatch
def carry(op: PdOp, padded: Padded) -> Carried:
    """The rule of an op; CannotPad when it has none or cannot do with padding."""
    raise CannotPad("no-rule", "it may let rows depend on each other")


def _same(op: PdOp, axes: Axes) -> Carried:
    """All results have the axes of the operand, where they have its rank."""
    return Carried(tuple(axes for _ in op.results))


def _free(axes: Axes, positions: Sequence[int], what: str) -> None:
    """CannotPad when one of these axes is padded."""
    for position in positions:
        if axes[position] is not None:
            raise CannotPad("padded-axis", f"{what} (axis {position}) is padded")


def _only_rows(axes: Axes) -> None:
    _free(axes, range(1, len(axes)), "an axis that it computes along")


def _only_input(op: PdOp, padded: Padded) -> Axes:
    """The axes of the first operand; CannotPad when another one (a weight) is padded."""
    if any(any(padded.of(value)) for value in op.operands[1:]):
        raise CannotPad("padded-weight", "a weight is padded")
    return padded.of(op.operands[0])


def _broadcast(operands: Sequence[SSAValue], padded: Padded) -> Axes:
    """The axes of an elementwise result."""
    rank = max(rank_of(value.type) for value in operands)
    found: list[Dim | None] = [None] * rank
    for value in operands:
        for position, dim in enumerate(padded.of(value), rank - rank_of(value.type)):
            if dim is not None:
                if found[position] not in (None, dim):
                    raise CannotPad(
                        "different-padding", f"two operands are padded differently on {position}"
                    )
                found[position] = dim
    for value in operands:
        offset = rank - rank_of(value.type)
        pairs = zip(padded.of(value), shape_of(value.type), strict=True)
        for position, (dim, size) in enumerate(pairs, offset):
            if found[position] is not None and dim is None and size != 1:
                raise CannotPad(
                    "meets-other-size", f"a padded axis meets one that is not, on {position}"
                )
    return tuple(found)


@carry.register(Unary)
def _(op: Unary, padded: Padded) -> Carried:
    if "axis" in attr_kinds(type(op)) or isinstance(op, AllReduce):
        raise CannotPad("no-rule", "it may let rows depend on each other")
    return _same(op, padded.of(op.operands[0]))


@carry.register(Binary)
@carry.register(Compare)
@carry.register(AddN)
@carry.register(Where)
@carry.register(Test)
@carry.register(Cast)
@carry.register(LogicalNot)
@carry.register(FullLike)
def _(op: PdOp, padded: Padded) -> Carried:
    return _same(op, _broadcast(op.operands, padded))


@carry.register(Dropout)
def _(op: Dropout, padded: Padded) -> Carried:
    return _same(op, padded.of(op.operands[0]))


@carry.register(BinaryCrossEntropy)
@carry.register(SigmoidCrossEntropy)
def _(op: PdOp, padded: Padded) -> Carried:
    if op.attr_values().get("normalize"):
        raise CannotPad("counts-rows", "it divides by the number of elements that count")
    return _same(op, _broadcast(op.operands, padded))


# what an element beyond the data must be so that a reduction does not see it
_NEUTRAL: Mapping[type[PdOp], float] = {
    reductions.Mean: 0.0,
    reductions.Sum: 0.0,
    reductions.Max: -inf,
    reductions.Amax: -inf,
    reductions.Min: inf,
    reductions.Amin: inf,
    reductions.Prod: 1.0,
    reductions.All: 1.0,
    reductions.Any: 0.0,
    reductions.Logsumexp: -inf,
    reductions.PNorm: 0.0,
}


@carry.register(reductions.Reduce)
def _(op: reductions.Reduce, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    given = op.attr("axis")
    reduced = set(normalize_axes(given, len(axes)) if given else range(len(axes)))
    left = (
        None if position in reduced else dim
        for position, dim in enumerate(axes)
        if op.attr("keepdim") or position not in reduced
    )
    masked = tuple(position for position in sorted(reduced) if axes[position] is not None)
    results = (tuple(left),)
    if not masked:
        return Carried(results)
    if type(op) not in _NEUTRAL or (isinstance(op, reductions.PNorm) and op.attr("porder") < 0):
        raise CannotPad("no-neutral-element", "no number leaves this reduction unchanged")
    return Carried(results, (Mask(0, masked, _NEUTRAL[type(op)]),))


@carry.register(reductions.SquaredL2Norm)
@carry.register(reductions.ClipByNorm)
def _(op: PdOp, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    masked = tuple(position for position, dim in enumerate(axes) if dim is not None)
    result = axes if isinstance(op, reductions.ClipByNorm) else (None,)
    return Carried((result,), (Mask(0, masked, 0.0),))


@carry.register(reductions.ArgReduce)
def _(op: reductions.ArgReduce, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    if op.attr("flatten"):
        raise CannotPad("counts-rows", "it numbers the elements of all axes")
    at = normalize_axis(op.attr("axis"), len(axes))
    kept = (None,) if op.attr("keepdim") else ()
    results = ((*axes[:at], *kept, *axes[at + 1 :]),)
    if axes[at] is None:
        return Carried(results)
    return Carried(results, (Mask(0, (at,), inf if isinstance(op, reductions.Argmin) else -inf),))


@carry.register(Softmax)
@carry.register(LogSoftmax)
def _(op: Softmax | LogSoftmax, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    at = normalize_axis(op.attr("axis"), len(axes))
    if axes[at] is None:
        return Carried((axes,))
    # the logarithm of a probability of 0 must not meet a derivative of 0
    after = (at,) if isinstance(op, LogSoftmax) else ()
    return Carried((axes,), (Mask(0, (at,), -inf),), after)


@carry.register(Matmul)
def _(op: Matmul, padded: Padded) -> Carried:
    x, y = (padded.of(value) for value in op.operands)
    if len(x) < 2 or len(y) < 2:
        raise CannotPad("no-rule", "it is a product with a vector")
    x_at, y_at = len(x) - 1, len(y) - 2
    if op.attr("transpose_x"):
        x_at -= 1
    if op.attr("transpose_y"):
        y_at += 1
    rows, columns = x[2 * len(x) - 3 - x_at], y[2 * len(y) - 3 - y_at]
    batch = _joined_batch(op, padded)
    results = ((*batch, rows, columns),)
    if x[x_at] is None and y[y_at] is None:
        return Carried(results)
    if x[x_at] != y[y_at]:
        raise CannotPad("different-padding", "it adds up along axes that are padded differently")
    return Carried(results, (Mask(0, (x_at,), 0.0), Mask(1, (y_at,), 0.0)))


def _joined_batch(op: Matmul, padded: Padded) -> Axes:
    """The axes in front of the matrices, which broadcast."""
    pairs = [(padded.of(value)[:-2], shape_of(value.type)[:-2]) for value in op.operands]
    rank = max(len(axes) for axes, _ in pairs)
    found: list[Dim | None] = [None] * rank
    for axes, _ in pairs:
        for position, dim in enumerate(axes, rank - len(axes)):
            if dim is not None and found[position] not in (None, dim):
                raise CannotPad("different-padding", "its batches are padded differently")
            found[position] = found[position] or dim
    for axes, sizes in pairs:
        for position, (dim, size) in enumerate(zip(axes, sizes, strict=True), rank - len(axes)):
            if found[position] is not None and dim is None and size != 1:
                raise CannotPad("meets-other-size", "a padded batch meets one that is not")
    return tuple(found)


@carry.register(CrossEntropyWithSoftmax)
def _(op: CrossEntropyWithSoftmax, padded: Padded) -> Carried:
    logits, label = (padded.of(value) for value in op.operands)
    at = normalize_axis(op.attr("axis"), len(logits))
    _free(logits, (at,), "the axis of the classes")
    loss = (*logits[:at], None, *logits[at + 1 :])
    wanted = loss if len(label) == len(logits) else (*logits[:at], *logits[at + 1 :])
    if label != wanted:
        raise CannotPad("different-padding", "logits and labels are padded differently")
    return Carried((logits, loss))


@carry.register(LayerNorm)
def _(op: LayerNorm, padded: Padded) -> Carried:
    axes, shape = _only_input(op, padded), shape_of(op.operands[0].type)
    begin = op.attr("begin_norm_axis")
    _free(axes, range(begin, len(axes)), "an axis that it normalises over")
    if any(axes):
        pairs = zip(shape[:begin], axes[:begin], strict=True)
        rows = joined(factor for size, dim in pairs for factor in factors_of(size, dim))
    else:
        rows = None
    return Carried((axes, (rows,), (rows,)))


@carry.register(BatchNorm)
def _(op: BatchNorm, padded: Padded) -> Carried:
    axes = _only_input(op, padded)
    if not op.keeps_statistics:
        raise CannotPad("batch-statistics", "it takes its statistics from all rows")
    _free(axes, (channel_axis(len(axes), op.attr("data_format")),), "the axis of the channels")
    return Carried((axes, *((None,) for _ in op.results[1:])))


@carry.register(GroupNorm)
def _(op: GroupNorm, padded: Padded) -> Carried:
    axes = _only_input(op, padded)
    _only_rows(axes)
    return Carried((axes, (axes[0], None), (axes[0], None)))


@carry.register(Conv2dBase)
@carry.register(PoolBase)
def _(op: PdOp, padded: Padded) -> Carried:
    axes = _only_input(op, padded)
    _only_rows(axes)
    return _same(op, axes)


@carry.register(Embedding)
def _(op: Embedding, padded: Padded) -> Carried:
    numbers, weight = op.operands[:2]
    _free(padded.of(weight), (0, 1), "the table")
    return Carried(((*padded.of(numbers), None),))


@carry.register(OneHot)
def _(op: OneHot, padded: Padded) -> Carried:
    return Carried(((*padded.of(op.operands[0]), None),))


@carry.register(Gather)
def _(op: Gather, padded: Padded) -> Carried:
    x, index = (padded.of(value) for value in op.operands[:2])
    at = normalize_axis(op.attr("axis"), len(x))
    _free(x, (at,), "the axis that it looks up in")
    _free(index, range(1, len(index)), "the second axis of the index")
    return Carried(((*x[:at], *index[:1], *x[at + 1 :]),))


@carry.register(Topk)
def _(op: Topk, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    _free(axes, (normalize_axis(op.attr("axis"), len(axes)),), "the axis that it sorts")
    return _same(op, axes)


@carry.register(Reshape)
def _(op: Reshape, padded: Padded) -> Carried:
    value = op.operands[0]
    return Carried((reshaped(shape_of(value.type), padded.of(value), op.attr("shape")),))


@carry.register(Flatten)
def _(op: Flatten, padded: Padded) -> Carried:
    value = op.operands[0]
    axes, shape = padded.of(value), shape_of(value.type)
    start = normalize_axis(op.attr("start_axis"), len(axes))
    stop = normalize_axis(op.attr("stop_axis"), len(axes)) + 1
    pairs = zip(shape[start:stop], axes[start:stop], strict=True)
    inside: Dim | None = None
    if any(axes[start:stop]):
        inside = joined(factor for size, dim in pairs for factor in factors_of(size, dim))
    return Carried(((*axes[:start], inside, *axes[stop:]),))


@carry.register(Transpose)
def _(op: Transpose, padded: Padded) -> Carried:
    axes, perm = padded.of(op.operands[0]), list[int](op.attr("perm"))
    return Carried((tuple(axes[axis] for axis in perm),))


@carry.register(Squeeze)
def _(op: Squeeze, padded: Padded) -> Carried:
    value = op.operands[0]
    axes, shape = padded.of(value), shape_of(value.type)
    given = op.attr("axis")
    dropped = set(normalize_axes(given, len(axes)) if given else range(len(axes)))
    _free(axes, sorted(dropped), "an axis that it may drop")
    gone = {position for position in dropped if shape[position] == 1}
    return Carried((tuple(dim for position, dim in enumerate(axes) if position not in gone),))


@carry.register(Unsqueeze)
def _(op: Unsqueeze, padded: Padded) -> Carried:
    axes = list(padded.of(op.operands[0]))
    for position in op.attr("axis"):
        axes.insert(normalize_axis(position, len(axes) + 1), None)
    return Carried((tuple(axes),))


@carry.register(Concat)
def _(op: Concat, padded: Padded) -> Carried:
    every = [padded.of(value) for value in op.operands]
    at = normalize_axis(op.attr("axis"), len(every[0]))
    if any(axes != every[0] for axes in every):
        raise CannotPad("different-padding", "its parts are padded differently")
    _free(every[0], (at,), "the axis that it joins")
    return Carried((every[0],))


@carry.register(Stack)
def _(op: Stack, padded: Padded) -> Carried:
    every = [padded.of(value) for value in op.operands]
    if any(axes != every[0] for axes in every):
        raise CannotPad("different-padding", "its parts are padded differently")
    at = normalize_axis(op.attr("axis"), len(every[0]) + 1)
    return Carried(((*every[0][:at], None, *every[0][at:]),))


@carry.register(Split)
def _(op: Split, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    _free(axes, (normalize_axis(op.attr("axis"), len(axes)),), "the axis that it splits")
    return _same(op, axes)


@carry.register(Slice)
def _(op: Slice, padded: Padded) -> Carried:
    axes = list(padded.of(op.operands[0]))
    cut = normalize_axes(op.attr("axes"), len(axes))
    for at, start, end in zip(cut, op.attr("starts"), op.attr("ends"), strict=True):
        if axes[at] is None:
            continue
        if (start, end) != (0, 1):  # there is a first row whatever the padding
            raise CannotPad("counts-rows", f"it cuts rows {start} to {end} of a padded axis")
        axes[at] = None
    dropped = set(normalize_axes(op.attr("decrease_axis"), len(axes)))
    return Carried((tuple(dim for at, dim in enumerate(axes) if at not in dropped),))


@carry.register(Expand)
def _(op: Expand, padded: Padded) -> Carried:
    axes, wanted = padded.of(op.operands[0]), op.attr("shape")
    extra = len(wanted) - len(axes)
    for dim, size in zip(axes, wanted[extra:], strict=True):
        if dim is not None and size != -1:
            raise CannotPad("meets-other-size", f"it expands a padded axis to {size}")
    return Carried((((None,) * extra) + axes,))


@carry.register(Grad)
def _(op: Grad, padded: Padded) -> Carried:
    if any(any(padded.of(value)) for value in (*op.of, *op.cotangents)):
        raise CannotPad("padded-loss", "it differentiates a value with padded rows")
    return Carried(tuple(padded.of(value) for value in op.wrt))


def fill_of(fill: float, value: SSAValue) -> float:
    """The fill as a number of the value's dtype; CannotPad where its range has no such end."""
    dtype = dtype_of(value.type)
    if dtype.is_differentiable or fill in (0.0, 1.0) or dtype == "bool":
        return fill
    limits = _INTEGER_LIMITS.get(dtype)
    if limits is None:
        raise CannotPad("no-neutral-element", f"no {dtype!s} leaves this reduction unchanged")
    return limits[0] if fill < 0 else limits[1]


# the ends that float64, in which the IR writes constants, holds exactly
_INTEGER_LIMITS: Mapping[str, tuple[float, float]] = {
    "int8": (-(2.0**7), 2.0**7 - 1),
    "uint8": (0.0, 2.0**8 - 1),
    "int16": (-(2.0**15), 2.0**15 - 1),
    "int32": (-(2.0**31), 2.0**31 - 1),
}
