"""Fused ops in JAX, computed by the rules of their parts, so that both give the same numbers.

XLA does the actual fusing; what an op of its own adds is one derivative for the whole.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DictionaryAttr

from graphopt.ir.dialect.op import call_rule, class_of
from graphopt.ir.dialect.ops import fused as ops
from graphopt.ir.dialect.ops.dynamic import decoded
from graphopt.lowering.ops.activation import activate
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.linear import matmul
from graphopt.lowering.ops.norm import batch_norm
from graphopt.lowering.registry import lowers


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
    """The activation with its properties, those in `own` being the fused op's."""
    attrs = decoded(class_of(f"pd.{name}"), act_attrs) if act_attrs.data else {}
    return activate(name, x, **{**attrs, **own})
