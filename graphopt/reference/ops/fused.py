"""Ops that fusions build, by the documentation of Paddle's fused operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr

from graphopt.ir.dialect.op import call_rule, class_of
from graphopt.ir.dialect.ops import fused as ops
from graphopt.ir.dialect.ops.dynamic import decode_properties
from graphopt.reference.ops.activation import activate, relu
from graphopt.reference.ops.conv import convolution
from graphopt.reference.ops.linear import product
from graphopt.reference.ops.norm import batch_norm
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(ops.FusedGemmEpilogue)
def fused_gemm_epilogue(
    x: Array,
    y: Array,
    bias: Array,
    transpose_x: bool,
    transpose_y: bool,
    activation: str,
    approximate: bool,
    act_attrs: DictionaryAttr,
    to: Any,
) -> Array:
    """Compute Out = act(trans(X) * trans(Y) + Bias), with the bias along the columns."""
    linear = to(to(product(x, y, transpose_x, transpose_y)) + bias)
    return _activate(activation, linear, act_attrs, to, approximate=approximate)


@rule(ops.FusedConv2dAddAct)
def fused_conv2d_add_act(
    input: Array,
    filter: Array,
    bias: Array,
    residual: Array | None,
    strides: Sequence[int],
    paddings: Sequence[int],
    padding_algorithm: str,
    dilations: Sequence[int],
    filter_format: str,
    activation: str,
    to: Any,
) -> Array:
    """Compute Out = act(Conv(Input, Filter) + Bias + ResidualData), of NHWC images."""
    if filter_format == ops.PACKED:
        joined = np.moveaxis(filter, 0, -2)
        filter = np.reshape(joined, (*joined.shape[:3], -1))[..., : bias.size]
        filter_format = "HWIO"
    geometry = (strides, paddings, padding_algorithm, dilations)
    out = to(to(convolution(input, filter, *geometry, 1, "NHWC", filter_format)) + bias)
    out = out if residual is None else to(out + residual)
    return relu(out) if activation == "relu" else out


@rule(ops.FusedBatchNormAct)
def fused_batch_norm_act(
    activation: str, act_attrs: DictionaryAttr, to: Any, **values: Any
) -> tuple[Array, ...]:
    """Compute Y = act(batch norm of X)."""
    normal, *statistics = call_rule(batch_norm, values)
    return _activate(activation, to(normal), act_attrs, to), *statistics


@rule(ops.FusedBnAddActivation)
def fused_bn_add_activation(
    z: Array, activation: str, act_attrs: DictionaryAttr, to: Any, **values: Any
) -> tuple[Array, ...]:
    """Compute Y = act(batch norm of X + Z)."""
    normal, *statistics = call_rule(batch_norm, values)
    return _activate(activation, to(to(normal) + z), act_attrs, to), *statistics


@rule(ops.FusedElemwiseAddActivation)
def fused_elemwise_add_activation(
    x: Array,
    y: Array,
    functor_list: Sequence[str],
    scale: float,
    approximate: bool,
    act_attrs: DictionaryAttr,
    to: Any,
) -> Array:
    """Compute Unary(Binary(X, Y)) if the binary functor is last, else Binary(X, Unary(Y))."""
    own = {"scale": scale} if "scale" in functor_list else {"approximate": approximate}
    if functor_list[1] == "elementwise_add":
        return _activate(functor_list[0], to(x + y), act_attrs, to, **own)
    return x + _activate(functor_list[1], y, act_attrs, to, **own)


def _activate(name: str, x: Array, act_attrs: DictionaryAttr, to: Any, **own: Any) -> Array:
    """Apply an activation with its properties; those in `own` belong to the fused operator."""
    attrs = decode_properties(class_of(f"pd.{name}"), act_attrs) if act_attrs.data else {}
    return activate(name, x, to, **{**attrs, **own})
