"""Reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import reduce as ops
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.math import Abs, Log, Sqrt, Square, Subtract
from graphopt.ir.dialect.ops.rearrange import Flip
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.registry import Rule, reads


def _before(emit: OnnxEmitter, name: str, x: SSAValue) -> SSAValue:
    """Map `x` to the terms of the sum: absolute values or squares for norms."""
    if name in ("ReduceL1",):
        return emit(Abs, x)
    if name in ("ReduceL2", "ReduceSumSquare"):
        return emit(Square, x)
    return x


_OPS: dict[str, type[PdOp]] = {
    **dict.fromkeys(
        ("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"), ops.Sum
    ),
    "ReduceMean": ops.Mean,
    "ReduceProd": ops.Prod,
    "ReduceMax": ops.Max,
    "ReduceMin": ops.Min,
    "ReduceLogSumExp": ops.Logsumexp,
}


def _reduction(name: str) -> Rule:
    def rule(
        emit: OnnxEmitter,
        x: SSAValue,
        given: SSAValue | None = None,
        *,
        axes: Sequence[int] = (),
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> SSAValue:
        attrs: dict[str, Any] = {"keepdim": bool(keepdims)}
        wide = _wide(name, x)
        before = _before(emit, name, emit.cast(x, wide))
        op_class = _OPS[name]
        if op_class is ops.Sum:
            attrs["dtype"] = wide
        numbers = tuple(axes) if given is None else emit.known_elements(given)
        if numbers is None:
            assert given is not None
            out = emit.emit_with_tensor(op_class, [before], "axis", given, **attrs)
        elif not numbers and noop_with_empty_axes:
            out = before
        else:
            at = tuple(sorted({emit.axis(int(axis), rank(x)) for axis in numbers}))
            at = at or tuple(range(rank(x)))
            of_none = _of_no_elements(emit, op_class, x, at, keepdims=bool(keepdims))
            out = of_none or (emit(op_class, before, axis=at, **attrs) if at else before)
        if name == "ReduceLogSum":
            out = emit(Log, out)
        if name == "ReduceL2":
            out = emit(Sqrt, out)
        return emit.cast(out, dtype(x))

    return rule


def _of_no_elements(
    emit: OnnxEmitter, op_class: type[PdOp], x: SSAValue, axes: Sequence[int], *, keepdims: bool
) -> SSAValue | None:
    """Emit the maximum or minimum of no elements, a limit of the dtype; None if there are some."""
    sizes, kind = shape(x), dtype(x)
    if op_class not in (ops.Max, ops.Min) or all(sizes[axis] for axis in axes):
        return None
    kept = [1 if i in axes else size for i, size in enumerate(sizes)]
    if not keepdims:
        kept = [size for i, size in enumerate(sizes) if i not in axes]
    if UNKNOWN in kept:
        raise emit.open("the operand has no elements, and its sizes must be known")
    return emit(Full, shape=tuple(kept), value=kind.ends[op_class is ops.Min], dtype=kind)


def _wide(name: str, x: SSAValue) -> str:
    """Choose the dtype to compute in: integers have no roots or logs, and bool has no order."""
    kept = dtype(x)
    if kept == "bool":
        return "int32"
    if not kept.is_floating and name in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
        return "float64"
    return kept


for _name in _OPS:
    reads(_name)(_reduction(_name))


def _extreme(op_class: type[PdOp]) -> Rule:
    def rule(
        emit: OnnxEmitter,
        x: SSAValue,
        *,
        axis: int = 0,
        keepdims: int = 1,
        select_last_index: int = 0,
    ) -> SSAValue:
        at = emit.axis(axis, rank(x))
        if not select_last_index:
            return emit(op_class, x, axis=at, keepdim=bool(keepdims))
        last = emit(op_class, emit(Flip, x, axis=(at,)), axis=at, keepdim=bool(keepdims))
        size = emit.constant([emit.sizes(x, along=(at,))[at] - 1], "int64", ())
        return emit(Subtract, size, last)

    return rule


reads("ArgMax")(_extreme(ops.Argmax))
reads("ArgMin")(_extreme(ops.Argmin))
