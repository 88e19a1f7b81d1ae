"""Losses that are outputs of models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.ops import loss as ops
from graphopt.ir.dialect.types import normalize_axis
from graphopt.models.export.onnx.nodes import Nodes, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.registry import exports


@exports(ops.BinaryCrossEntropy, wide=True)
def bce_loss(emit: Nodes, x: Value, label: Value) -> Value:
    """Compute binary cross-entropy with logarithms clamped to -100."""
    one, bound = emit.number(1, x), emit.number(-100, x)
    yes, no = (
        emit("Mul", share, emit("Max", emit("Log", p), bound))
        for share, p in ((label, x), (emit("Sub", one, label), emit("Sub", one, x)))
    )
    return emit("Neg", emit("Add", yes, no))


@exports(ops.HuberLoss, wide=True)
def huber_loss(emit: Nodes, x: Value, y: Value, delta: float) -> tuple[Value, Value]:
    error = emit("Sub", y, x)
    size, bound, half = emit("Abs", error), emit.number(delta, x), emit.number(0.5, x)
    inner = emit("Mul", half, emit("Mul", error, error))
    outer = emit("Mul", bound, emit("Sub", size, emit("Mul", half, bound)))
    return emit("Where", emit("LessOrEqual", size, bound), inner, outer), error


@exports(ops.CrossEntropyWithSoftmax, wide=True)
def cross_entropy_with_softmax(
    emit: Nodes,
    logits: Value,
    label: Value,
    axis: int,
    soft_label: bool,
    use_softmax: bool,
    ignore_index: int,
    used: Sequence[bool],
) -> tuple[Value | None, Value]:
    rank = len(sizes_of(logits))
    axis, zero = normalize_axis(axis, rank), emit.number(0, logits)
    scores = emit("LogSoftmax", logits, axis=axis) if use_softmax else logits
    softmax = None
    if used[0]:
        softmax = emit("Softmax", logits, axis=axis) if use_softmax else logits
    if soft_label:
        logarithms = scores if use_softmax else emit("Log", scores)
        shares = emit("Mul", label, logarithms)
        shares = shares if use_softmax else emit("Where", emit("Equal", label, zero), zero, shares)
        return softmax, emit("Neg", emit("ReduceSum", shares, emit.ints([axis])))
    label = emit.unsqueeze(label, axis) if len(sizes_of(label)) < rank else label
    classes = emit.cast(label, "int64")
    ignored = emit("Equal", classes, emit.number(ignore_index, "int64"))
    classes = emit("Where", ignored, emit.number(0, "int64"), classes)
    chosen = emit("GatherElements", scores, classes, axis=axis)
    loss = emit("Neg", chosen if use_softmax else emit("Log", chosen))
    return softmax, emit("Where", ignored, zero, loss)


@exports(ops.SigmoidCrossEntropy, wide=True)
def sigmoid_cross_entropy(
    emit: Nodes, x: Value, label: Value, normalize: bool, ignore_index: int
) -> Value:
    loss = emit("Sub", emit("Softplus", x), emit("Mul", x, label))
    ignored = emit("Equal", label, emit.number(ignore_index, label))
    loss = emit("Where", ignored, emit.number(0, x), loss)
    if not normalize:
        return loss
    count = emit("ReduceSum", emit.cast(emit("Not", ignored), dtype_of(x)), keepdims=0)
    return emit("Div", loss, emit("Max", count, emit.number(1, x)))


@exports(ops.KldivLoss, wide=True)
def kldiv_loss(emit: Nodes, x: Value, target: Value, reduction: str, log_target: bool) -> Value:
    zero = emit.number(0, x)
    if log_target:
        loss = emit("Mul", emit("Exp", target), emit("Sub", target, x))
    else:
        positive = emit("Greater", target, zero)
        logarithm = emit("Log", emit("Where", positive, target, emit.number(1, x)))
        away = emit("Mul", target, emit("Sub", logarithm, x))
        loss = emit("Where", positive, away, zero)
    if reduction == "none":
        return loss
    total = emit("ReduceSum", loss, keepdims=0)
    if reduction == "mean":
        count = emit.cast(emit("Size", x), dtype_of(x))
    elif reduction == "batchmean" and sizes_of(x):
        count = emit.cast(emit.reshape(emit.size(x, 0), emit.ints([])), dtype_of(x))
    else:
        return total
    return emit("Div", total, emit("Max", count, emit.number(1, x)))


@exports(ops.NllLoss, wide=True)
def nll_loss(
    emit: Nodes,
    x: Value,
    label: Value,
    weight: Value | None,
    ignore_index: int,
    reduction: str,
) -> tuple[Value, Value]:
    zero, classes = emit.number(0, x), emit.cast(label, "int64")
    ignored = emit("Equal", classes, emit.number(ignore_index, "int64"))
    classes = emit("Where", ignored, emit.number(0, "int64"), classes)
    score = emit("GatherElements", x, emit.unsqueeze(classes, 1), axis=1)
    share = emit.number(1, x) if weight is None else emit("Gather", weight, classes, axis=0)
    share = emit("Where", ignored, zero, share)
    loss = emit("Neg", emit("Mul", emit.squeeze(score, 1), share))
    loss = emit("Where", ignored, zero, loss)
    total = emit("ReduceSum", share, keepdims=0)
    if reduction == "none":
        return loss, total
    loss = emit("ReduceSum", loss, keepdims=0)
    if reduction == "mean":
        nothing = emit("Equal", total, zero)
        mean = emit("Div", loss, emit("Where", nothing, emit.number(1, x), total))
        loss = emit("Where", nothing, zero, mean)
    return loss, total


@exports(ops.HsigmoidLoss, wide=True)
def hsigmoid_loss(
    emit: Nodes,
    x: Value,
    w: Value,
    label: Value,
    path: Value | None,
    code: Value | None,
    bias: Value | None,
    num_classes: int,
) -> tuple[Value, Value]:
    """Choose the branch at each node by the bits of label + num_classes, from the last bit on."""
    zero, one = emit.number(0, "int64"), emit.number(1, "int64")
    if path is None or code is None:
        steps = np.left_shift(1, np.arange((num_classes - 1).bit_length()))
        number = emit("Add", emit.cast(label, "int64"), emit.number(num_classes, "int64"))
        number = emit.reshape(number, [-1, 1])
        node = emit("Sub", emit("Div", number, emit.constant(2 * steps)), one)
        decision = emit("Mod", emit("Div", number, emit.constant(steps)), emit.ints([2]))
    else:
        node, decision = emit.cast(path, "int64"), emit.cast(code, "int64")
    outside = emit.cast(emit("Less", node, zero), "int64")
    left = emit("CumSum", outside, one)  # the path ends at the first such node
    on_path = emit("Equal", left, zero)
    node = emit("Where", on_path, node, zero)
    rows = emit("Gather", w, node, axis=0)
    score = emit("ReduceSum", emit("Mul", rows, emit.unsqueeze(x, 1)), emit.ints([-1]), keepdims=0)
    if bias is not None:
        score = emit("Add", score, emit("Gather", emit.reshape(bias, [-1]), node, axis=0))
    score = emit("Where", on_path, score, emit.number(0, x))
    score = emit("Clip", score, emit.number(-40, x), emit.number(40, x))
    soft = emit("Softplus", score)
    right = emit("And", on_path, emit("Not", emit("Equal", decision, zero)))
    taken = emit("Where", right, score, emit.number(0, x))
    return emit("ReduceSum", emit("Sub", soft, taken), emit.ints([1])), soft
