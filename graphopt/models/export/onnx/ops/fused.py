"""The ops that fusions build, written as the ops that they were built from."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DictionaryAttr

from graphopt.ir.dialect.op import call_rule, class_of
from graphopt.ir.dialect.ops import fused as ops
from graphopt.ir.dialect.ops.dynamic import decode_properties
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value
from graphopt.models.export.onnx.ops.activation import activate
from graphopt.models.export.onnx.ops.conv import conv
from graphopt.models.export.onnx.ops.linear import matmul
from graphopt.models.export.onnx.ops.norm import batch_norm
from graphopt.models.export.onnx.registry import exports


def apply_activation(
    emit: Nodes, name: str, x: Value, act_attrs: DictionaryAttr, **own: Any
) -> Value:
    attrs = decode_properties(class_of(f"pd.{name}"), act_attrs) if act_attrs.data else {}
    return activate(emit, name, x, {**attrs, **own})


@exports(ops.FusedGemmEpilogue, wide=True)
def fused_gemm_epilogue(
    emit: Nodes,
    x: Value,
    y: Value,
    bias: Value,
    transpose_x: bool,
    transpose_y: bool,
    activation: str,
    approximate: bool,
    act_attrs: DictionaryAttr,
) -> Value:
    linear = emit("Add", matmul(emit, x, y, transpose_x, transpose_y), bias)
    return apply_activation(emit, activation, linear, act_attrs, approximate=approximate)


@exports(ops.FusedConv2dAddAct, wide=True)
def fused_conv2d_add_act(
    emit: Nodes,
    bias: Value,
    residual: Value | None,
    filter_format: str,
    activation: str,
    **values: Any,
) -> Value:
    if filter_format == ops.PACKED:
        raise NotInOnnx("the filter is stored in the layout of a kernel")
    given = {**values, "emit": emit, "groups": 1, "filter_format": filter_format}
    out = call_rule(_convolve, given | {"data_format": "NHWC"})
    out = emit("Add", out, bias)
    out = out if residual is None else emit("Add", out, residual)
    return emit("Relu", out) if activation == "relu" else out


def _convolve(
    emit: Nodes,
    input: Value,
    filter: Value,
    strides: tuple[int, ...],
    paddings: tuple[int, ...],
    padding_algorithm: str,
    dilations: tuple[int, ...],
    groups: int,
    data_format: str,
    filter_format: str,
) -> Value:
    geometry = (strides, paddings, padding_algorithm, dilations)
    return conv(emit, input, filter, *geometry, groups, data_format, filter_format)


@exports(ops.FusedBatchNormAct, wide=True)
def fused_batch_norm_act(
    emit: Nodes, activation: str, act_attrs: DictionaryAttr, **values: Any
) -> tuple[Value | None, ...]:
    out, *statistics = call_rule(batch_norm, {**values, "emit": emit})
    return apply_activation(emit, activation, out, act_attrs), *statistics


@exports(ops.FusedBnAddActivation, wide=True)
def fused_bn_add_activation(
    emit: Nodes, z: Value, activation: str, act_attrs: DictionaryAttr, **values: Any
) -> tuple[Value | None, ...]:
    out, *statistics = call_rule(batch_norm, {**values, "emit": emit})
    return apply_activation(emit, activation, emit("Add", out, z), act_attrs), *statistics


@exports(ops.FusedElemwiseAddActivation, wide=True)
def fused_elemwise_add_activation(
    emit: Nodes,
    x: Value,
    y: Value,
    functor_list: tuple[str, ...],
    scale: float,
    approximate: bool,
    act_attrs: DictionaryAttr,
) -> Value:
    outer, inner = functor_list
    own = {"scale": scale} if "scale" in functor_list else {"approximate": approximate}
    if inner == "elementwise_add":
        return apply_activation(emit, outer, emit("Add", x, y), act_attrs, **own)
    return emit("Add", x, apply_activation(emit, inner, y, act_attrs, **own))
