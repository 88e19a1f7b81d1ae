"""Legacy losses and arithmetic without a `pd` op of their own, as the formulas that they are."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.activation import LogSigmoid, Relu
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.elementary import Log1p
from graphopt.ir.dialect.ops.index import OneHot
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import (
    Abs,
    Add,
    AddN,
    Divide,
    Exp,
    GreaterEqual,
    LessThan,
    Log,
    Maximum,
    Multiply,
    Pow,
    Sqrt,
    Square,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.reduce import PNorm, Sum
from graphopt.ir.dialect.ops.scatter import TakeAlongAxis
from graphopt.ir.dialect.ops.shape import Reshape, Slice
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, rank_of, shape_of
from graphopt.ir.translate.operators.fused import aligned
from graphopt.ir.translate.operators.making import Maker, Translation, Written, translation

# the end of a dimension, whatever its size
_END = 2**31 - 1


def _dot(make: Maker) -> Written:
    make.only("X", "Y")
    x = make.input("X")
    products = make(Multiply, x, make.input("Y"))
    return make.results(Out=make(Sum, products, axis=(-1,), dtype=dtype_of(x.type)))


def _addmm(make: Maker) -> Written:
    make.only("Input", "X", "Y")
    product = make.scaled(make(Matmul, make.input("X"), make.input("Y")), make.attr("Alpha", 1.0))
    return make.results(
        Out=make(Add, make.scaled(make.input("Input"), make.attr("Beta", 1.0)), product)
    )


def _sum_of_two(make: Maker) -> Written:
    make.only("X", "Y")
    x, y = aligned(make, make.input("X"), make.input("Y"), make.attr("axis", -1))
    return make.results(Out=make(Subtract if make.op.type == "minus" else Add, x, y))


def _distance(make: Maker) -> Written:
    """The norm of x - y, a number."""
    make.only("X", "Y")
    difference = make(Subtract, make.input("X"), make.input("Y"))
    return make.results(Out=make(PNorm, difference, porder=make.attr("p", 2.0)))


def _l1_norm(make: Maker) -> Written:
    make.only("X")
    return make.results(Out=make(Sum, make(Abs, make.input("X"))))


def _affine_channel(make: Maker) -> Written:
    """A factor and a number to add for each channel."""
    make.only("X", "Scale", "Bias")
    x = make.input("X")
    rank, layout = rank_of(x.type), make.attr("data_layout", "NCHW")
    axis = rank - 1 if layout == "NHWC" or rank < 2 else 1
    scale, bias = (make.along(make.input(slot), rank, axis) for slot in ("Scale", "Bias"))
    return make.results(Out=make(Add, make(Multiply, x, scale), bias))


def _lrn(make: Maker) -> Written:
    """x over (k + alpha * the sum of squares of n neighbouring channels) ** beta."""
    make.only("X")
    x, count = make.input("X"), make.attr("n", 5)
    rank = rank_of(x.type)
    axis = rank - 1 if make.attr("data_format", "NCHW") == "NHWC" else 1
    if rank < 3 or count < 1:
        raise ProgramError(f"lrn over {count} channels of {list(shape_of(x.type))}")
    around = [0] * (2 * rank)
    around[2 * axis : 2 * axis + 2] = [(count - 1) // 2, count - 1 - (count - 1) // 2]
    squares = make(Pad, make(Square, x), paddings=around)
    near = [
        make(Slice, squares, axes=(axis,), starts=(i,), ends=(i + 1 - count or _END,))
        for i in range(count)
    ]
    middle = make.scaled(make(AddN, near), make.attr("alpha", 1e-4), make.attr("k", 2.0))
    out = make(Multiply, x, make(Pow, middle, factor=-make.attr("beta", 0.75)))
    return make.results(Out=out, MidOut=middle)


def _rows(make: Maker, x: SSAValue) -> SSAValue:
    """[rows, everything else]."""
    return make.matrix(x, 1) if rank_of(x.type) > 1 else make.reshaped(x, -1, 1)


def _row_sum(make: Maker, x: SSAValue) -> SSAValue:
    return make(Sum, _rows(make, x), axis=(1,), keepdim=True)


def _cos_sim(make: Maker) -> Written:
    """The cosine between rows; y may have a single one."""
    make.only("X", "Y")
    x, y = (_rows(make, make.input(slot)) for slot in ("X", "Y"))
    lengths = [make(Sqrt, _row_sum(make, make(Square, value))) for value in (x, y)]
    common = _row_sum(make, make(Multiply, x, y))
    out = make(Divide, common, make(Multiply, *lengths))
    return make.results(Out=out, XNorm=lengths[0], YNorm=lengths[1])


def _squared_distance(make: Maker) -> Written:
    make.only("X", "Y")
    difference = make(Subtract, _rows(make, make.input("X")), _rows(make, make.input("Y")))
    out = _row_sum(make, make(Square, difference))
    return make.results(Out=out, sub_result=difference)


def _smooth_l1(make: Maker) -> Written:
    """Quadratic near 0 and linear far off, summed over each row."""
    make.only("X", "Y", "InsideWeight", "OutsideWeight")
    squared_sigma = make.attr("sigma", 1.0) ** 2
    difference = make(Subtract, make.input("X"), make.input("Y"))
    inside, outside = make.optional("InsideWeight"), make.optional("OutsideWeight")
    difference = difference if inside is None else make(Multiply, difference, inside)
    size = make(Abs, difference)
    limit = make(FullLike, size, value=1.0 / squared_sigma)
    near = make.scaled(make(Square, difference), 0.5 * squared_sigma)
    far = make.scaled(size, 1.0, -0.5 / squared_sigma)
    loss = make(Where, make(LessThan, size, limit), near, far)
    loss = loss if outside is None else make(Multiply, loss, outside)
    return make.results(Diff=difference, Out=_row_sum(make, loss))


def _log_loss(make: Maker) -> Written:
    """-label log(p + ε) - (1 - label) log(1 - p + ε)."""
    make.only("Predicted", "Labels")
    _same_shape(make, "Predicted", "Labels")
    p, label, small = make.input("Predicted"), make.input("Labels"), make.attr("epsilon", 1e-4)
    yes = make(Multiply, label, make(Log, make.scaled(p, 1.0, small)))
    other = make(Log, make.scaled(p, -1.0, 1.0 + small))
    no = make(Multiply, make.scaled(label, -1.0, 1.0), other)
    return make.results(Loss=make.scaled(make(Add, yes, no), -1.0))


def _hinge_loss(make: Maker) -> Written:
    make.only("Logits", "Labels")
    _same_shape(make, "Logits", "Labels")
    signs = make.scaled(make.input("Labels"), 2.0, -1.0)
    margin = make.scaled(make(Multiply, signs, make.input("Logits")), -1.0, 1.0)
    return make.results(Loss=make(Relu, margin))


def _rank_loss(make: Maker) -> Written:
    """log(1 + exp(left - right)) - label (left - right), element by element, in label's shape."""
    make.only("Label", "Left", "Right")
    label = make.input("Label")
    left, right = (_in_shape_of(make, make.input(slot), label) for slot in ("Left", "Right"))
    gap = make(Subtract, left, right)
    soft = make(Log1p, make(Exp, gap))
    return make.results(Out=make(Subtract, soft, make(Multiply, label, gap)))


def _in_shape_of(make: Maker, x: SSAValue, other: SSAValue) -> SSAValue:
    """x with its elements in the shape of another value: vectors may be columns."""
    wanted = shape_of(other.type)
    if rank_of(x.type) == len(wanted):
        return x
    return make.reshaped(x, *(-1 if i == 0 else 1 for i in range(len(wanted))))


def _same_shape(make: Maker, *slots: str) -> None:
    """ProgramError when inputs differ in shape: they must not broadcast."""
    shapes = [shape_of(make.input(slot).type) for slot in slots]
    for shape in shapes[1:]:
        differs = len(shape) != len(shapes[0]) or any(
            a != b for a, b in zip(shape, shapes[0], strict=True) if UNKNOWN not in (a, b)
        )
        if differs:
            shown = " and ".join(
                f"{slot} {list(found)}" for slot, found in zip(slots, shapes, strict=True)
            )
            raise ProgramError(f"{make.op.type} needs inputs of one shape, found {shown}")


def _margin_rank_loss(make: Maker) -> Written:
    """max(0, margin - label (x1 - x2))."""
    make.only("X1", "X2", "Label")
    _same_shape(make, "Label", "X1", "X2")
    gap = make(Subtract, make.input("X1"), make.input("X2"))
    signed = make(Multiply, make.input("Label"), gap)
    out = make(Relu, make.scaled(signed, -1.0, make.attr("margin", 0.0)))
    active = make(LessThan, make(FullLike, out, value=0.0), out)
    return make.results(Out=out, Activated=make.like(active, out))


def _bpr_loss(make: Maker) -> Written:
    """-log sigmoid(x[label] - x[j]) in the mean over the other classes j."""
    make.only("X", "Label")
    x, label = make.input("X"), make.input("Label")
    classes = shape_of(x.type)[-1]
    if classes < 2:
        raise ProgramError(f"bpr_loss needs 2 or more classes, found {list(shape_of(x.type))}")
    chosen = make(TakeAlongAxis, x, label, axis=rank_of(x.type) - 1)
    logs = make(LogSigmoid, make(Subtract, chosen, x))
    flat = make(Reshape, label, shape=(*(0,) * (rank_of(label.type) - 2), -1))
    own = make(OneHot, flat, depth=classes)
    others = make.scaled(make.like(own, logs), -1.0, 1.0)
    total = make(Sum, make(Multiply, logs, others), axis=(-1,), keepdim=True)
    return make.results(Y=make.scaled(total, -1.0 / (classes - 1)))


def _modified_huber(make: Maker) -> Written:
    """Of v = (2 y - 1) x: -4 v below -1, (1 - v)² up to 1, then 0."""
    make.only("X", "Y")
    _same_shape(make, "X", "Y")
    v = make(Multiply, make.scaled(make.input("Y"), 2.0, -1.0), make.input("X"))
    below = make(LessThan, v, make(FullLike, v, value=-1.0))
    near = make(Square, make(Relu, make.scaled(v, -1.0, 1.0)))
    out = make(Where, below, make.scaled(v, -4.0), near)
    return make.results(Out=out, IntermediateVal=v)


def _label_smooth(make: Maker) -> Written:
    """(1 - ε) x + ε of the prior, which is uniform unless given."""
    make.only("X", "PriorDist")
    x, prior, share = make.input("X"), make.optional("PriorDist"), make.attr("epsilon", 0.0)
    if prior is None:
        classes = shape_of(x.type)[-1]
        if classes < 1:
            raise ProgramError(f"label_smooth of {list(shape_of(x.type))}: how many classes?")
        return make.results(Out=make.scaled(x, 1.0 - share, share / classes))
    smooth = make.scaled(make.reshaped(prior, -1), share)
    return make.results(Out=make(Add, make.scaled(x, 1.0 - share), smooth))


def _focal_loss(make: Maker) -> Written:
    """Of logits [n, classes] and labels [n, 1] from 0, the background, or -1, which counts not."""
    make.only("X", "Label", "FgNum")
    x, label = make.input("X"), make.input("Label")
    classes, gamma, alpha = shape_of(x.type)[-1], make.attr("gamma", 2.0), make.attr("alpha", 0.25)
    if classes < 1:
        raise ProgramError(f"sigmoid_focal_loss of {list(shape_of(x.type))}: how many classes?")
    number = make.like(make.input("FgNum"), x)
    number = make(Maximum, number, make(FullLike, number, value=1.0))
    own = make(OneHot, make.reshaped(label, -1), depth=classes + 1)
    own = make(Slice, make.like(own, x), axes=(1,), starts=(1,), ends=(classes + 1,))
    zero = make(FullLike, label, value=0)
    counts = make.like(make(GreaterEqual, label, zero), x)
    other = make(Subtract, counts, own)
    yes, no = make(LogSigmoid, x), make(LogSigmoid, make.scaled(x, -1.0))
    p, q = make(Exp, yes), make(Exp, no)
    near = make(Multiply, make(Pow, q, factor=gamma), yes)
    far = make(Multiply, make(Pow, p, factor=gamma), no)
    near = make.scaled(make(Multiply, own, near), -alpha)
    far = make.scaled(make(Multiply, other, far), alpha - 1.0)
    return make.results(Out=make(Divide, make(Add, near, far), number))


def _scale(make: Maker) -> Written:
    """The factor is an attribute or a tensor."""
    make.only("X", "ScaleTensor", "BiasTensor")
    factor, more = make.optional("ScaleTensor"), make.optional("BiasTensor")
    x, bias, after = make.input("X"), make.attr("bias", 0.0), make.attr("bias_after_scale", True)
    if factor is None and more is None:
        return make.by_row()
    ones = (1,) * rank_of(x.type)

    def number(tensor: SSAValue | None, constant: float) -> SSAValue:
        if tensor is None:
            return make(FullLike, x, value=constant)
        return make.like(make.reshaped(tensor, *ones), x)

    times, plus = number(factor, make.attr("scale", 1.0)), number(more, bias)
    if after:
        return make.results(Out=make(Add, make(Multiply, x, times), plus))
    return make.results(Out=make(Multiply, make(Add, x, plus), times))


def _clip(make: Maker) -> Written:
    """The bounds are attributes or tensors."""
    make.only("X", "Min", "Max")
    x, low, high = make.input("X"), make.optional("Min"), make.optional("Max")
    if low is None and high is None:
        return make.by_row()
    shape = (1,) * rank_of(x.type)

    def bound(tensor: SSAValue | None, constant: float) -> SSAValue:
        if tensor is None:
            return make(FullLike, x, value=constant)
        return make.like(make.reshaped(tensor, *shape), x)

    largest = 3.4028234663852886e38
    lower = bound(low, make.attr("min", -largest))
    upper = bound(high, make.attr("max", largest))
    out = make(Where, make(LessThan, x, lower), lower, x)
    return make.results(Out=make(Where, make(LessThan, upper, out), upper, out))


LOSSES: Mapping[str, Translation] = {
    type: translation(made)
    for type, made in {
        "dot": _dot,
        "addmm": _addmm,
        "minus": _sum_of_two,
        "dist": _distance,
        "l1_norm": _l1_norm,
        "affine_channel": _affine_channel,
        "lrn": _lrn,
        "cos_sim": _cos_sim,
        "squared_l2_distance": _squared_distance,
        "smooth_l1_loss": _smooth_l1,
        "log_loss": _log_loss,
        "hinge_loss": _hinge_loss,
        "rank_loss": _rank_loss,
        "margin_rank_loss": _margin_rank_loss,
        "bpr_loss": _bpr_loss,
        "modified_huber_loss": _modified_huber,
        "label_smooth": _label_smooth,
        "sigmoid_focal_loss": _focal_loss,
        "scale": _scale,
        "clip": _clip,
    }.items()
}
