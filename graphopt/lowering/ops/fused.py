"""Fused ops in JAX, computed by the rules of their parts, so that both give the same numbers.

XLA does the actual fusing; what an op of its own adds is one derivative for the whole.
"""

from __future__ import annotations

from typing import Any

from graphopt.ir.op import call_rule
from graphopt.ir.ops.fused import (
    FusedBatchNormAct,
    FusedBnAddActivation,
    FusedElemwiseAddActivation,
    FusedGemmEpilogue,
)
from graphopt.lowering.ops.activation import activate
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.linear import matmul
from graphopt.lowering.ops.norm import batch_norm
from graphopt.lowering.registry import lowers


@lowers(FusedGemmEpilogue)
def fused_gemm_epilogue(
    x: Array,
    y: Array,
    bias: Array,
    transpose_x: bool,
    transpose_y: bool,
    activation: str,
    approximate: bool,
) -> Array:
    linear = matmul(x, y, transpose_x, transpose_y) + bias
    return activate(activation, linear, approximate=approximate)


@lowers(FusedBatchNormAct)
def fused_batch_norm_act(activation: str, **values: Any) -> tuple[Array, ...]:
    out, *statistics = call_rule(batch_norm, values)
    return activate(activation, out), *statistics


@lowers(FusedBnAddActivation)
def fused_bn_add_activation(z: Array, activation: str, **values: Any) -> tuple[Array, ...]:
    out, *statistics = call_rule(batch_norm, values)
    return activate(activation, out + z), *statistics


@lowers(FusedElemwiseAddActivation)
def fused_elemwise_add_activation(
    x: Array, y: Array, functor_list: tuple[str, ...], scale: float, approximate: bool
) -> Array:
    outer, inner = functor_list
    if inner == "elementwise_add":
        return activate(outer, x + y, scale=scale, approximate=approximate)
    return x + activate(inner, y, scale=scale, approximate=approximate)
