"""Activations."""

from __future__ import annotations

from graphopt.ir.dialect.ops import activation as ops
from graphopt.ir.dialect.types import normalize_axis
from graphopt.models.export.onnx.nodes import Nodes, Value, sizes_of
from graphopt.models.export.onnx.registry import exports, exports_as, exports_each

exports_as(
    {
        ops.Relu: "Relu",
        ops.Sigmoid: "Sigmoid",
        ops.Tanh: "Tanh",
        ops.Hardswish: "HardSwish",
        ops.Softsign: "Softsign",
        ops.Mish: "Mish",
    }
)


exports_each(
    {
        ops.LogSigmoid: lambda emit, x: emit("Neg", emit("Softplus", emit("Neg", x))),
        ops.Tanhshrink: lambda emit, x: emit("Sub", x, emit("Tanh", x)),
        ops.Softmax: lambda emit, x, axis: _along_axis(emit, "Softmax", x, axis),
        ops.LogSoftmax: lambda emit, x, axis: _along_axis(emit, "LogSoftmax", x, axis),
    },
    wide=True,
)


exports_each(
    {
        ops.Relu6: lambda emit, x: emit("Clip", x, emit.number(0, x), emit.number(6, x)),
        ops.LeakyRelu: lambda emit, x, negative_slope: emit("LeakyRelu", x, alpha=negative_slope),
        ops.Elu: lambda emit, x, alpha: emit("Elu", x, alpha=alpha),
        ops.Selu: lambda emit, x, scale, alpha: emit("Selu", x, alpha=alpha, gamma=scale),
        ops.Celu: lambda emit, x, alpha: emit("Celu", x, alpha=alpha),
        ops.Hardshrink: lambda emit, x, threshold: emit("Shrink", x, lambd=threshold, bias=0.0),
    }
)


@exports(ops.Gelu)
def gelu(emit: Nodes, x: Value, approximate: bool) -> Value:
    return emit("Gelu", x, approximate="tanh" if approximate else "none")


@exports(ops.Silu, wide=True)
def silu(emit: Nodes, x: Value) -> Value:
    return emit("Mul", x, emit("Sigmoid", x))


@exports(ops.Swish, wide=True)
def swish(emit: Nodes, x: Value, beta: float) -> Value:
    return silu(emit, x) if beta == 1 else emit("Mul", x, emit("Sigmoid", _times(emit, x, beta)))


def _times(emit: Nodes, x: Value, factor: float) -> Value:
    return x if factor == 1 else emit("Mul", x, emit.number(factor, x))


@exports(ops.Hardsigmoid)
def hardsigmoid(emit: Nodes, x: Value, slope: float, offset: float) -> Value:
    return emit("HardSigmoid", x, alpha=slope, beta=offset)


@exports(ops.Softplus, wide=True)
def softplus(emit: Nodes, x: Value, beta: float, threshold: float) -> Value:
    scaled = _times(emit, x, beta)
    soft = _times(emit, emit("Softplus", scaled), 1 / beta)
    if threshold >= 20:  # from there on, the formula itself gives x
        return soft
    return emit("Where", emit("Greater", scaled, emit.number(threshold, x)), x, soft)


@exports(ops.Softshrink)
def softshrink(emit: Nodes, x: Value, threshold: float) -> Value:
    return emit("Shrink", x, lambd=threshold, bias=threshold)


@exports(ops.Hardtanh)
def hardtanh(emit: Nodes, x: Value, t_min: float, t_max: float) -> Value:
    return emit("Clip", x, emit.number(t_min, x), emit.number(t_max, x))


@exports(ops.ThresholdedRelu)
def thresholded_relu(emit: Nodes, x: Value, threshold: float, value: float) -> Value:
    above = emit("Greater", x, emit.number(threshold, x))
    return emit("Where", above, x, emit.number(value, x))


@exports(ops.Prelu)
def prelu(emit: Nodes, x: Value, alpha: Value, mode: str, data_format: str) -> Value:
    shape = ops.prelu_alpha_shape(sizes_of(x), mode, data_format)
    return emit("PRelu", x, emit.reshape(alpha, emit.ints(shape)))


@exports(ops.Maxout)
def maxout(emit: Nodes, x: Value, groups: int, axis: int) -> Value:
    sizes = sizes_of(x)
    axis = normalize_axis(axis, len(sizes))
    after = [emit.size(x, at) for at in range(axis + 1, len(sizes))]
    split = emit.reshape(x, [*[0] * axis, -1, groups, *after])
    return emit("ReduceMax", split, emit.ints([axis + 1]), keepdims=0)


def _along_axis(emit: Nodes, op: str, x: Value, axis: int) -> Value:
    if sizes_of(x):
        return emit(op, x, axis=axis)
    return emit.squeeze(emit(op, emit.unsqueeze(x, 0), axis=0), 0)


def activate(emit: Nodes, name: str, x: Value, attrs: dict[str, object]) -> Value:
    """Emit the op `pd.<name>` on one tensor, the activation of a fused op; return x for `none`."""
    from graphopt.ir.dialect.definition import default_attrs
    from graphopt.ir.dialect.op import call_rule, class_of
    from graphopt.models.export.onnx.registry import ENTRIES

    if name == "none":
        return x
    op_class = class_of(f"pd.{name}")
    return call_rule(
        ENTRIES[op_class].rule, {**default_attrs(op_class), **attrs, "x": x, "emit": emit}
    )
