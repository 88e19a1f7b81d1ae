"""Losses."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.math import Divide, Equal, Multiply, Scale, Where
from graphopt.ir.dialect.ops.reduce import Mean, Sum
from graphopt.ir.dialect.ops.scatter import TakeAlongAxis
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.ops.activation import log_of_softmax
from graphopt.ir.translate.onnx.registry import reads


def _likelihood(
    emit: OnnxEmitter,
    logs: SSAValue,
    labels: SSAValue,
    weight: SSAValue | None,
    ignored: int | None,
    reduction: str,
) -> SSAValue:
    """Emit the negative log-likelihood of the labels, weighted by class."""
    safe, is_ignored = labels, None
    if ignored is not None:
        is_ignored = emit(Equal, labels, emit.constant([ignored], dtype(labels), ()))
        safe = emit(Where, is_ignored, emit(FullLike, labels, value=0.0), labels)
    taken = emit(TakeAlongAxis, logs, emit.unsqueeze(safe, 1), axis=1)
    loss = emit(Scale, emit.squeeze(taken, 1), scale=-1.0)
    ones = emit.fill_like(loss, 1)
    weights = ones
    if weight is not None:
        flat = emit(Gather, weight, emit.reshape(safe, -1))
        weights = emit.to_shape(flat, shape(labels)) if rank(labels) != 1 else flat
    if is_ignored is not None:
        weights = emit(Where, is_ignored, emit.fill_like(loss, 0), weights)
    if weights is not ones:
        loss = emit(Multiply, loss, weights)
    kind = emit.one_of(reduction, ("none", "sum", "mean"))
    if kind == "none":
        return loss
    axes = tuple(range(rank(loss)))
    if kind == "mean" and weight is None and ignored is None:
        return emit(Mean, loss, axis=axes)
    total = emit(Sum, loss, axis=axes, dtype=dtype(loss))
    if kind == "sum":
        return total
    return emit(Divide, total, emit(Sum, weights, axis=axes, dtype=dtype(loss)))


@reads("NegativeLogLikelihoodLoss")
def nll_loss(
    emit: OnnxEmitter,
    logs: SSAValue,
    labels: SSAValue,
    weight: SSAValue | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> SSAValue:
    return _likelihood(emit, logs, labels, weight, ignore_index, reduction)


@reads("SoftmaxCrossEntropyLoss")
def cross_entropy(
    emit: OnnxEmitter,
    scores: SSAValue,
    labels: SSAValue,
    weight: SSAValue | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Sequence[SSAValue]:
    logs = log_of_softmax(emit, scores, 1)
    return [_likelihood(emit, logs, labels, weight, ignore_index, reduction), logs]
