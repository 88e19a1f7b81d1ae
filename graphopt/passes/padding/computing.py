"""Padded axes in ops that compute: reductions, products, norms, losses."""

from __future__ import annotations

from math import inf

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import reduce as reductions
from graphopt.ir.dialect.ops.activation import LogSoftmax, Softmax
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.linalg.matrices import Einsum
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.loss import (
    CrossEntropyWithSoftmax,
    SigmoidCrossEntropy,
)
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.traits import Reduction
from graphopt.ir.dialect.types import normalize_axis, shape_of
from graphopt.passes.padding.dims import Axes, CannotPad, Dim, factors_of, join_factors
from graphopt.passes.padding.rules import (
    Carried,
    Mask,
    MeetsOther,
    Padded,
    broadcast,
    carry,
    check_free,
    input_axes,
    same,
    sizes_of,
)


@carry.register(Dropout)
def _(op: Dropout, padded: Padded) -> Carried:
    return same(op, padded.of(op.operands[0]))


@carry.register(SigmoidCrossEntropy)
def _(op: SigmoidCrossEntropy, padded: Padded) -> Carried:
    if op.attr("normalize"):
        raise CannotPad(
            "counts-rows", "the op divides by a number of elements, which padding changes"
        )
    return same(op, broadcast(op.operands, padded))


@carry.register(reductions.Reduce)
def _(op: reductions.Reduce, padded: Padded) -> Carried:
    axes, trait = padded.of(op.operands[0]), _reduction(op)
    reduced = trait.axes(op)
    left = (
        None if position in reduced else dim
        for position, dim in enumerate(axes)
        if op.attr("keepdim") or position not in reduced
    )
    masked = tuple(position for position in sorted(reduced) if axes[position] is not None)
    results = (tuple(left),)
    if not masked:
        return Carried(results)
    return Carried(results, (Mask(0, masked, _neutral(op, trait)),))


def _reduction(op: PdOp) -> Reduction:
    trait = op.get_trait(Reduction)
    assert trait is not None, op.name
    return trait


def _neutral(op: PdOp, trait: Reduction) -> float:
    """Return a reduction's neutral element, for elements beyond the data; CannotPad without one."""
    inverse = isinstance(op, reductions.PNorm) and op.attr("porder") < 0
    if trait.neutral is None or inverse:
        raise CannotPad("no-neutral-element", "no padding value leaves the reduction unchanged")
    return trait.neutral


@carry.register(reductions.SquaredL2Norm)
@carry.register(reductions.ClipByNorm)
def _(op: PdOp, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    masked = tuple(position for position, dim in enumerate(axes) if dim is not None)
    result = axes if isinstance(op, reductions.ClipByNorm) else (None,)
    return Carried((result,), (Mask(0, masked, 0.0),))


@carry.register(reductions.ArgReduce)
def _(op: reductions.ArgReduce, padded: Padded) -> Carried:
    axes, trait = padded.of(op.operands[0]), _reduction(op)
    if op.attr("flatten"):
        raise CannotPad("counts-rows", "the op numbers the elements of all axes")
    at = normalize_axis(op.attr("axis"), len(axes))
    kept = (None,) if op.attr("keepdim") else ()
    results = ((*axes[:at], *kept, *axes[at + 1 :]),)
    if axes[at] is None:
        return Carried(results)
    return Carried(results, (Mask(0, (at,), _neutral(op, trait)),))


@carry.register(Softmax)
@carry.register(LogSoftmax)
def _(op: Softmax | LogSoftmax, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    at = normalize_axis(op.attr("axis"), len(axes))
    if axes[at] is None:
        return Carried((axes,))
    if isinstance(op, Softmax) and padded.zero:
        # exp(-inf) is 0, and no derivative is taken
        padded.zero.add(op.results[0])
        return Carried((axes,), (Mask(0, (at,), -inf),))
    # the padding would have probability 0, with an infinite logarithm, so it is masked again
    return Carried((axes,), (Mask(0, (at,), -inf),), (at,))


@carry.register(Matmul)
def _(op: Matmul, padded: Padded) -> Carried:
    x, y = (padded.of(value) for value in op.operands)
    if len(x) < 2 or len(y) < 2:
        raise CannotPad("no-rule", "the op is a product with a vector")
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
        raise CannotPad("different-padding", "the op sums over axes that are padded differently")
    masks = (Mask(0, (x_at,), 0.0), Mask(1, (y_at,), 0.0))
    return Carried(results, tuple(m for m in masks if not padded.is_zero(op.operands[m.operand])))


@carry.register(Einsum)
def _(op: Einsum, padded: Padded) -> Carried:
    """Give all axes of one letter one dimension, and mask the axes that are summed over."""
    terms, _, result = op.attr("equation").replace(" ", "").partition("->")
    if "." in terms:
        raise CannotPad("no-rule", "the equation has an ellipsis")
    found: dict[str, Dim] = {}
    at_letter = [
        (number, at, letter)
        for number, term in enumerate(terms.split(","))
        for at, letter in enumerate(term)
    ]
    for number, at, letter in at_letter:
        dim = padded.of(op.operands[number])[at]
        if dim is not None and not padded.meet(found.setdefault(letter, dim), dim):
            raise CannotPad("different-padding", f"the axes of '{letter}' are padded differently")
    masks: list[Mask] = []
    for number, at, letter in at_letter:
        value = op.operands[number]
        if letter in found and padded.of(value)[at] is None and sizes_of(value, padded)[at] != 1:
            raise MeetsOther(value, at, found[letter])
        if letter in found and letter not in result and padded.of(value)[at] is not None:
            masks.append(Mask(number, (at,), 0.0))
    return Carried((tuple(found.get(letter) for letter in result),), tuple(masks))


def _joined_batch(op: Matmul, padded: Padded) -> Axes:
    """Broadcast the padded axes before the matrices; raise CannotPad where they differ."""
    pairs = [(padded.of(value)[:-2], shape_of(value.type)[:-2]) for value in op.operands]
    rank = max(len(axes) for axes, _ in pairs)
    found: list[Dim | None] = [None] * rank
    for axes, _ in pairs:
        for position, dim in enumerate(axes, rank - len(axes)):
            if dim is not None and found[position] not in (None, dim):
                raise CannotPad(
                    "different-padding", "the batches of the operands are padded differently"
                )
            found[position] = found[position] or dim
    for axes, sizes in pairs:
        for position, (dim, size) in enumerate(zip(axes, sizes, strict=True), rank - len(axes)):
            if found[position] is not None and dim is None and size != 1:
                raise CannotPad("meets-other-size", "a padded batch meets a batch without padding")
    return tuple(found)


@carry.register(CrossEntropyWithSoftmax)
def _(op: CrossEntropyWithSoftmax, padded: Padded) -> Carried:
    logits, label = (padded.of(value) for value in op.operands)
    at = normalize_axis(op.attr("axis"), len(logits))
    check_free(logits, (at,), "the axis of the classes")
    loss = (*logits[:at], None, *logits[at + 1 :])
    wanted = loss if len(label) == len(logits) else (*logits[:at], *logits[at + 1 :])
    if label != wanted:
        raise CannotPad("different-padding", "logits and labels are padded differently")
    return Carried((logits, loss))


@carry.register(LayerNorm)
def _(op: LayerNorm, padded: Padded) -> Carried:
    axes, shape = input_axes(op, padded), shape_of(op.operands[0].type)
    begin = op.attr("begin_norm_axis")
    check_free(axes, range(begin, len(axes)), "an axis that the op normalizes over")
    if any(axes):
        pairs = zip(shape[:begin], axes[:begin], strict=True)
        rows = join_factors(factor for size, dim in pairs for factor in factors_of(size, dim))
    else:
        rows = None
    return Carried((axes, (rows,), (rows,)))


@carry.register(Grad)
def _(op: Grad, padded: Padded) -> Carried:
    if any(any(padded.of(value)) for value in (*op.of, *op.cotangents)):
        raise CannotPad("padded-loss", "the op differentiates a value with padded rows")
    return Carried(tuple(padded.of(value) for value in op.wrt))
