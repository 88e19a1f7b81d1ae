"""Fused ops in JAX, computed by the rules of their parts, so that both give the same numbers.

XLA does the actual fusing; a fused op adds one derivative for the whole.
"""

from __future__ import annotations

from typing import Any

from jax import numpy as jnp
from xdsl.dialects.builtin import DictionaryAttr

from graphopt.ir.dialect.op import call_rule, class_of
from graphopt.ir.dialect.ops import fused as ops
from graphopt.ir.dialect.ops.dynamic import decode_properties
from graphopt.lowering.kernels import onednn, onednn_blocks
from graphopt.lowering.ops.activation import activate, relu
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.conv import conv2d
from graphopt.lowering.ops.linear import matmul
from graphopt.lowering.ops.norm import batch_norm
from graphopt.lowering.registry import lowers

Ints = tuple[int, ...]


@lowers(ops.FusedGemmEpilogue)
def fused_gemm_epilogue(
    x: Array,
    y: Array,
    bias: Array,
    transpose_x: bool,
    transpose_y: bool,
    activation: str,
    approximate: bool,
    act_attrs: DictionaryAttr,
    kernel: str,
) -> Array:
    linear = matmul(x, y, transpose_x, transpose_y, kernel) + bias
    return _activate(activation, linear, act_attrs, approximate=approximate)


@lowers(ops.FusedConv2dAddAct)
def fused_conv2d_add_act(
    input: Array,
    filter: Array,
    bias: Array,
    residual: Array | None,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    dilations: Ints,
    algorithm: str,
    filter_format: str,
    kernel: str,
    activation: str,
) -> Array:
    geometry = (strides, paddings, padding_algorithm, dilations)
    shape = filter.shape
    if filter_format == ops.PACKED:
        shape = ops.unpacked_sizes(filter.shape, bias.size)
    if kernel != onednn.ONEDNN:
        if filter_format == ops.PACKED:
            filter, filter_format = onednn.unpack_filters(filter, shape), "HWIO"
        out = conv2d(input, filter, *geometry, 1, "NHWC", algorithm, filter_format)
        out = out + bias if residual is None else out + bias + residual
        return relu(out) if activation == "relu" else out
    if filter_format == "OIHW":
        filter = jnp.transpose(filter, (2, 3, 1, 0))
        shape = filter.shape
    added = 1 if residual is None else 2
    call = onednn_blocks.call_of(input.shape, shape, geometry, activation == "relu", added)
    if filter_format == ops.PACKED and not onednn_blocks.is_right(call, filter.shape[-1]):
        filter = onednn.unpack_filters(filter, shape)
    epilogue = call.epilogue._replace(algorithm=algorithm)
    return onednn.convolve_and_add(epilogue, input, filter, bias.reshape(-1), residual)


@lowers(ops.FusedBatchNormAct)
def fused_batch_norm_act(
    activation: str, act_attrs: DictionaryAttr, **values: Any
) -> tuple[Array, ...]:
    out, *statistics = call_rule(batch_norm, values)
    return _activate(activation, out, act_attrs), *statistics


@lowers(ops.FusedBnAddActivation)
def fused_bn_add_activation(
    z: Array, activation: str, act_attrs: DictionaryAttr, **values: Any
) -> tuple[Array, ...]:
    out, *statistics = call_rule(batch_norm, values)
    return _activate(activation, out + z, act_attrs), *statistics


@lowers(ops.FusedElemwiseAddActivation)
def fused_elemwise_add_activation(
    x: Array,
    y: Array,
    functor_list: tuple[str, ...],
    scale: float,
    approximate: bool,
    act_attrs: DictionaryAttr,
) -> Array:
    outer, inner = functor_list
    own = {"scale": scale} if "scale" in functor_list else {"approximate": approximate}
    if inner == "elementwise_add":
        return _activate(outer, x + y, act_attrs, **own)
    return x + _activate(inner, y, act_attrs, **own)


def _activate(name: str, x: Array, act_attrs: DictionaryAttr, **own: Any) -> Array:
    """Apply an activation with its properties; those in `own` belong to the fused op."""
    attrs = decode_properties(class_of(f"pd.{name}"), act_attrs) if act_attrs.data else {}
    return activate(name, x, **{**attrs, **own})
