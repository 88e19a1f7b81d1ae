"""The registry of lowering rules: op class -> a function from JAX arrays to JAX arrays.

A rule is called by keyword, like an op's type rule: operands by field name (None for an absent
optional, a tuple for a variadic), properties by name, and, when its signature asks for them,
`key` (a JAX random key, for random ops) and `replicas` (see `collectives.py`). It returns one
array, or a tuple of them in the order of the op's results. Rules use `jax.lax` with explicit
dtypes, because the types in the IR are the truth and a trace runs with 64-bit types enabled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt.ir.op import PdOp

Rule = Callable[..., Any]
RULES: dict[type[PdOp], Rule] = {}


def lowers(*op_classes: type[PdOp]) -> Callable[[Rule], Rule]:
    """Register the decorated function as the lowering rule of these op classes."""

    def register(rule: Rule) -> Rule:
        for op_class in op_classes:
            assert op_class not in RULES, f"{op_class.name} has two lowering rules"
            RULES[op_class] = rule
        return rule

    return register
