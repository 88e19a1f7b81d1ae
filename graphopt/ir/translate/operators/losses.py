"""Legacy losses without a `pd` op of their own, composed by their formulas."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.activation import LogSigmoid, Relu
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.elementary import Log1p
from graphopt.ir.dialect.ops.index import Gather, OneHot
from graphopt.ir.dialect.ops.loss import CrossEntropyWithSoftmax
from graphopt.ir.dialect.ops.math import (
    Abs,
    Add,
    Cast,
    Clip,
    Divide,
    Exp,
    GreaterEqual,
    LessThan,
    Log,
    Maximum,
    Multiply,
    NotEqual,
    Pow,
    Sqrt,
    Square,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.reduce import Sum
from graphopt.ir.dialect.ops.scatter import ScatterNdAdd, TakeAlongAxis
from graphopt.ir.dialect.ops.shape import Reshape, Slice, Squeeze, StopGradient, Unsqueeze
from graphopt.ir.dialect.types import dtype_of, rank_of, same_shape, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates

# the logarithm of zero counts as the negative of this
_LARGEST = 1e20


@translates("cross_entropy", "cross_entropy2")
def cross_entropy(emit: Emitter) -> Written:
    """Emit the cross entropy of probabilities; the logarithm of 0 counts as -1e20."""
    emit.only_constants_besides("X", "Label")
    x, label = emit.input("X"), emit.input("Label")
    if emit.attr("soft_label"):
        logarithm = emit(Clip, emit(Log, x), min=-_LARGEST, max=_LARGEST)
        terms = emit(Multiply, label, logarithm)
        return emit.results(Y=emit.scale(emit(Sum, terms, axis=(-1,), keepdim=True), -1.0))
    # if the label lacks the last axis, of size 1, so does the result
    bare = rank_of(label.type) < rank_of(x.type)
    loss = emit.all(
        CrossEntropyWithSoftmax,
        *(x, emit(Unsqueeze, label, axis=(-1,)) if bare else label),
        ignore_index=emit.attr("ignore_index"),
        use_softmax=False,
    )[1]
    loss = emit(Clip, loss, min=-_LARGEST, max=_LARGEST)
    loss = emit(Squeeze, loss, axis=(-1,)) if bare else loss
    written = emit.results(Y=loss)
    if emit.op.output("MatchX"):
        # the probability of the label; 0 for an ignored label
        ignored = emit(FullLike, label, value=emit.attr("ignore_index"))
        counts = emit.like(emit(NotEqual, label, ignored), loss)
        match = emit(Multiply, emit(Exp, emit.scale(loss, -1.0)), counts)
        written |= emit.results(MatchX=match)
    return written


@translates("softmax_with_cross_entropy")
def softmax_with_cross_entropy(emit: Emitter) -> Written:
    """Translate by the row; float hard labels are truncated to integers."""
    logits, label = emit.input("Logits"), emit.input("Label")
    if not emit.attr("soft_label") and dtype_of(label.type).is_floating:
        label = emit(Cast, label, dtype="int64")
    return emit.by_row(logits, label)


def _rows(emit: Emitter, x: SSAValue) -> SSAValue:
    """Reshape to a matrix [rows, product of all other axes]."""
    return emit.matrix(x, 1) if rank_of(x.type) > 1 else emit.reshape(x, -1, 1)


def _row_sum(emit: Emitter, x: SSAValue) -> SSAValue:
    return emit(Sum, _rows(emit, x), axis=(1,), keepdim=True)


@translates("cos_sim")
def cos_sim(emit: Emitter) -> Written:
    """Emit the cosine between rows; y may have a single row."""
    emit.only("X", "Y")
    x, y = (_rows(emit, emit.input(slot)) for slot in ("X", "Y"))
    lengths = [emit(Sqrt, _row_sum(emit, emit(Square, value))) for value in (x, y)]
    common = _row_sum(emit, emit(Multiply, x, y))
    out = emit(Divide, common, emit(Multiply, *lengths))
    return emit.results(Out=out, XNorm=lengths[0], YNorm=lengths[1])


@translates("squared_l2_distance")
def squared_distance(emit: Emitter) -> Written:
    emit.only("X", "Y")
    difference = emit(Subtract, _rows(emit, emit.input("X")), _rows(emit, emit.input("Y")))
    out = _row_sum(emit, emit(Square, difference))
    return emit.results(Out=out, sub_result=difference)


@translates("smooth_l1_loss")
def smooth_l1(emit: Emitter) -> Written:
    """Emit a loss that is quadratic near 0 and linear far off, summed over each row."""
    emit.only("X", "Y", "InsideWeight", "OutsideWeight")
    squared_sigma = emit.attr("sigma") ** 2
    difference = emit(Subtract, emit.input("X"), emit.input("Y"))
    inside, outside = emit.optional("InsideWeight"), emit.optional("OutsideWeight")
    difference = difference if inside is None else emit(Multiply, difference, inside)
    size = emit(Abs, difference)
    limit = emit(FullLike, size, value=1.0 / squared_sigma)
    near = emit.scale(emit(Square, difference), 0.5 * squared_sigma)
    far = emit.scale(size, 1.0, -0.5 / squared_sigma)
    loss = emit(Where, emit(LessThan, size, limit), near, far)
    loss = loss if outside is None else emit(Multiply, loss, outside)
    return emit.results(Diff=difference, Out=_row_sum(emit, loss))


@translates("log_loss")
def log_loss(emit: Emitter) -> Written:
    """Emit -label log(p + ε) - (1 - label) log(1 - p + ε)."""
    emit.only("Predicted", "Labels")
    same_shape(*(emit.input(slot).type for slot in ("Predicted", "Labels")))
    p, label, small = emit.input("Predicted"), emit.input("Labels"), emit.attr("epsilon")
    yes = emit(Multiply, label, emit(Log, emit.scale(p, 1.0, small)))
    other = emit(Log, emit.scale(p, -1.0, 1.0 + small))
    no = emit(Multiply, emit.scale(label, -1.0, 1.0), other)
    return emit.results(Loss=emit.scale(emit(Add, yes, no), -1.0))


@translates("hinge_loss")
def hinge_loss(emit: Emitter) -> Written:
    emit.only("Logits", "Labels")
    same_shape(*(emit.input(slot).type for slot in ("Logits", "Labels")))
    signs = emit.scale(emit.input("Labels"), 2.0, -1.0)
    margin = emit.scale(emit(Multiply, signs, emit.input("Logits")), -1.0, 1.0)
    return emit.results(Loss=emit(Relu, margin))


@translates("rank_loss")
def rank_loss(emit: Emitter) -> Written:
    """Emit log(1 + exp(left - right)) - label (left - right) per element, in label's shape."""
    emit.only("Label", "Left", "Right")
    label = emit.input("Label")
    left, right = (_in_shape_of(emit, emit.input(slot), label) for slot in ("Left", "Right"))
    gap = emit(Subtract, left, right)
    soft = emit(Log1p, emit(Exp, gap))
    return emit.results(Out=emit(Subtract, soft, emit(Multiply, label, gap)))


def _in_shape_of(emit: Emitter, x: SSAValue, other: SSAValue) -> SSAValue:
    """Reshape x to the rank of another value: vectors may be columns."""
    wanted = shape_of(other.type)
    if rank_of(x.type) == len(wanted):
        return x
    return emit.reshape(x, *(-1 if i == 0 else 1 for i in range(len(wanted))))


@translates("margin_rank_loss")
def margin_rank_loss(emit: Emitter) -> Written:
    """Emit max(0, margin - label (x1 - x2))."""
    emit.only("X1", "X2", "Label")
    same_shape(*(emit.input(slot).type for slot in ("Label", "X1", "X2")))
    gap = emit(Subtract, emit.input("X1"), emit.input("X2"))
    signed = emit(Multiply, emit.input("Label"), gap)
    out = emit(Relu, emit.scale(signed, -1.0, emit.attr("margin")))
    active = emit(LessThan, emit(FullLike, out, value=0.0), out)
    return emit.results(Out=out, Activated=emit.like(active, out))


@translates("bpr_loss")
def bpr_loss(emit: Emitter) -> Written:
    """Emit the mean of -log sigmoid(x[label] - x[j]) over the other classes j."""
    emit.only("X", "Label")
    x, label = emit.input("X"), emit.input("Label")
    classes = shape_of(x.type)[-1]
    if classes < 2:
        raise ProgramError(f"bpr_loss needs 2 or more classes, found {list(shape_of(x.type))}")
    chosen = emit(TakeAlongAxis, x, label, axis=rank_of(x.type) - 1)
    logs = emit(LogSigmoid, emit(Subtract, chosen, x))
    flat = emit(Reshape, label, shape=(*(0,) * (rank_of(label.type) - 2), -1))
    own = emit(OneHot, flat, depth=classes)
    others = emit.scale(emit.like(own, logs), -1.0, 1.0)
    total = emit(Sum, emit(Multiply, logs, others), axis=(-1,), keepdim=True)
    return emit.results(Y=emit.scale(total, -1.0 / (classes - 1)))


@translates("modified_huber_loss")
def modified_huber(emit: Emitter) -> Written:
    """Emit, for v = (2 y - 1) x: -4 v below -1, (1 - v)² up to 1, then 0."""
    emit.only("X", "Y")
    same_shape(*(emit.input(slot).type for slot in ("X", "Y")))
    v = emit(Multiply, emit.scale(emit.input("Y"), 2.0, -1.0), emit.input("X"))
    below = emit(LessThan, v, emit(FullLike, v, value=-1.0))
    near = emit(Square, emit(Relu, emit.scale(v, -1.0, 1.0)))
    out = emit(Where, below, emit.scale(v, -4.0), near)
    return emit.results(Out=out, IntermediateVal=v)


@translates("label_smooth")
def label_smooth(emit: Emitter) -> Written:
    """Emit (1 - ε) x + ε prior; the prior is uniform by default."""
    emit.only("X", "PriorDist")
    x, prior, share = emit.input("X"), emit.optional("PriorDist"), emit.attr("epsilon")
    if prior is None:
        classes = shape_of(x.type)[-1]
        if classes < 1:
            raise ProgramError(
                f"label_smooth of {list(shape_of(x.type))}: the number of classes is unknown"
            )
        return emit.results(Out=emit.scale(x, 1.0 - share, share / classes))
    smooth = emit.scale(emit.reshape(prior, -1), share)
    return emit.results(Out=emit(Add, emit.scale(x, 1.0 - share), smooth))


@translates("sigmoid_focal_loss")
def focal_loss(emit: Emitter) -> Written:
    """Emit the focal loss of logits [n, classes]; label 0 is the background, -1 is ignored."""
    emit.only("X", "Label", "FgNum")
    x, label = emit.input("X"), emit.input("Label")
    classes, gamma, alpha = shape_of(x.type)[-1], emit.attr("gamma"), emit.attr("alpha")
    if classes < 1:
        raise ProgramError(
            f"sigmoid_focal_loss of {list(shape_of(x.type))}: the number of classes is unknown"
        )
    number = emit.like(emit.input("FgNum"), x)
    number = emit(Maximum, number, emit(FullLike, number, value=1.0))
    own = emit(OneHot, emit.reshape(label, -1), depth=classes + 1)
    own = emit(Slice, emit.like(own, x), axes=(1,), starts=(1,), ends=(classes + 1,))
    zero = emit(FullLike, label, value=0)
    counts = emit.like(emit(GreaterEqual, label, zero), x)
    other = emit(Subtract, counts, own)
    yes, no = emit(LogSigmoid, x), emit(LogSigmoid, emit.scale(x, -1.0))
    p, q = emit(Exp, yes), emit(Exp, no)
    near = emit(Multiply, emit(Pow, q, factor=gamma), yes)
    far = emit(Multiply, emit(Pow, p, factor=gamma), no)
    near = emit.scale(emit(Multiply, own, near), -alpha)
    far = emit.scale(emit(Multiply, other, far), alpha - 1.0)
    return emit.results(Out=emit(Divide, emit(Add, near, far), number))


@translates("center_loss")
def center_loss(emit: Emitter) -> Written:
    """Emit half the squared distance of each row from the center of its class.

    With `need_update` a center moves by rate * (sum of differences) / (1 + their number). No
    gradient reaches the centers.
    """
    emit.only("X", "Label", "Centers", "CenterUpdateRate")
    x, centers = emit.input("X"), emit.input("Centers")
    count = emit.attr("cluster_num") or shape_of(centers.type)[0]
    if rank_of(x.type) != 2 or shape_of(centers.type) != (count, shape_of(x.type)[1]):
        raise ProgramError(
            f"center_loss of rows {list(shape_of(x.type))} needs centres "
            f"[{count}, {shape_of(x.type)[-1]}], found {list(shape_of(centers.type))}"
        )
    numbers = emit.reshape(emit.input("Label"), -1)
    fixed = emit(StopGradient, centers)
    difference = emit(Subtract, x, emit(Gather, fixed, numbers, axis=0))
    loss = emit.scale(emit(Sum, emit(Square, difference), axis=(1,), keepdim=True), 0.5)
    written = emit.results(Loss=loss, SampleCenterDiff=difference)
    if emit.attr("need_update"):
        rate = emit.like(emit.input("CenterUpdateRate"), x)
        centers = emit(
            Add, fixed, _moves(emit, fixed, numbers, emit(StopGradient, difference), rate)
        )
    return written | emit.results(CentersOut=centers)


def _moves(
    emit: Emitter, centers: SSAValue, numbers: SSAValue, difference: SSAValue, rate: SSAValue
) -> SSAValue:
    """Compute the move of each center toward its rows."""
    rows, none = emit.reshape(numbers, -1, 1), emit(FullLike, centers, value=0.0)
    total = emit(ScatterNdAdd, none, rows, difference)
    ones = emit(FullLike, difference, value=1.0)
    number = emit.scale(emit(ScatterNdAdd, none, rows, ones), 1.0, 1.0)
    return emit(Divide, emit(Multiply, total, emit.reshape(rate, 1)), number)


@translates("warpctc")
def warpctc(emit: Emitter) -> Written:
    """Translate warpctc; padded logits may have trailing axes of size 1, which Paddle drops."""
    logits, *rest = (emit.input(slot) for slot in emit.row.inputs)
    if set(shape_of(logits.type)[3:]) == {1}:
        logits = emit.reshape(logits, 0, 0, 0)
    return emit.by_row(logits, *rest)
