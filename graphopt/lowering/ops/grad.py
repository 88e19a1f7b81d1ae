"""`pd.vjp` -> `jax.vjp` of the lowering rule of the op that it names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import numpy as jnp
from xdsl.dialects.builtin import DictionaryAttr

from graphopt.ir.dialect.op import class_of
from graphopt.ir.dialect.ops.dynamic import decode_properties
from graphopt.ir.dialect.ops.grad import Vjp
from graphopt.lowering.call import Call, jitted_pullback
from graphopt.lowering.collectives import Replicas
from graphopt.lowering.registry import lowers


@lowers(Vjp)
def vjp(
    inputs: Sequence[Any],
    cotangents: Sequence[Any],
    op: str,
    groups: Sequence[int],
    attrs: DictionaryAttr,
    ins: Sequence[int],
    outs: Sequence[int],
    key: Any,
    replicas: Replicas,
) -> tuple[Any, ...]:
    """Compute the gradients of the op that a `pd.vjp` names.

    Paddle's gradient of a complex value is the conjugate of JAX's, as for `pd.grad`.
    """
    op_class = class_of(op)
    properties = tuple(sorted(decode_properties(op_class, attrs).items()))
    call = Call(op_class, properties, tuple(groups), replicas)
    pull = jitted_pullback(call, tuple(ins), tuple(outs))
    (grads,) = pull([list(inputs)], [key], [[_conjugate(c) for c in cotangents]])
    return tuple(_conjugate(g) for g in grads)


def _conjugate(x: Any) -> Any:
    return jnp.conj(x) if jnp.iscomplexobj(x) else x
