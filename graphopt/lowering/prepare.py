"""`@prepare` as a function that XLA compiles; `host_rules.py` has the form that NumPy computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
from jax import numpy as jnp
from xdsl.dialects.builtin import ModuleOp

import graphopt.lowering.rules  # noqa: F401  (every op can be computed)
from graphopt.ir.dialect.signature import function_signature, prepare_function
from graphopt.lowering.call import Array
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.evaluate import Context, evaluate_function

Arrays: TypeAlias = "tuple[Array, ...]"


def prepare(module: ModuleOp, device: Any) -> Callable[[Arrays], Arrays]:
    """Compile the module's `@prepare` by XLA: state arrays -> its results on one device."""
    function = prepare_function(module)
    assert function is not None
    ports = function_signature(function).arguments

    def run(state: Arrays) -> Arrays:
        inputs = {(p.kind, p.name): (a,) for p, a in zip(ports, state, strict=True)}
        context = Context(ALONE, jnp.zeros(2, "uint32"))
        return tuple(lane for (lane,) in evaluate_function(function, inputs, context))

    return jax.jit(run, out_shardings=jax.sharding.SingleDeviceSharding(device))
