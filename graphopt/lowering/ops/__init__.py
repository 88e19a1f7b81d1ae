"""How JAX computes each op, one file per family of `ir/ops`; importing this fills the registry."""

from __future__ import annotations

from graphopt.lowering.ops import (
    activation,
    comm,
    conv,
    creation,
    fused,
    index,
    linear,
    loss,
    math,
    norm,
    optimizer,
    random,
    reduce,
    shape,
)

__all__ = [
    "activation",
    "comm",
    "conv",
    "creation",
    "fused",
    "index",
    "linear",
    "loss",
    "math",
    "norm",
    "optimizer",
    "random",
    "reduce",
    "shape",
]
