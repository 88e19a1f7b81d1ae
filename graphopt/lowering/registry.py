"""The registry of lowering rules: op class -> a function from JAX arrays to JAX arrays.

`rules.py` imports the modules that register them.

A rule is called by keyword, like an op's type rule: operands by field name (None for an absent
optional, a tuple for a variadic), properties by name, and, if its signature has them, `key` (a JAX
random key, for random ops) and `replicas` (see `collectives.py`). It returns one array, or a tuple
of them in the order of the op's results. Rules use `jax.lax` with explicit dtypes, because the
types in the IR are the truth and a trace runs with 64-bit types enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from graphopt.ir.dialect.op import PdOp

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)
RULES: dict[type[PdOp], Rule] = {}


def lowers(*op_classes: type[PdOp]) -> Callable[[R], R]:
    """Register the decorated function as the lowering rule of these op classes.

    A rule of an elementwise op, of a reduction, or of an op that moves elements is traced within
    `jax.disable_jit()`, which unrolls a `lax.scan` step by step (`Call.jit`).
    """

    def register(rule: R) -> R:
        for op_class in op_classes:
            assert op_class not in RULES, f"{op_class.name} has two lowering rules"
            RULES[op_class] = rule
        return rule

    return register


def lower_each(rules: Mapping[type[PdOp], Rule]) -> None:
    """Register rules of one expression, which get the names of their ops."""
    for op_class, rule in rules.items():
        rule.__name__ = op_class.name.removeprefix("pd.")
        lowers(op_class)(rule)


Evaluator = Callable[..., Any]
E = TypeVar("E", bound=Evaluator)
_EVALUATORS: dict[type[PdOp], Evaluator] = {}


def evaluates(op_class: type[PdOp]) -> Callable[[E], E]:
    """Register a function that computes such ops from (op, environment, context, wanted).

    It serves the subclasses, too. Other ops are computed from their operands alone, by a rule.
    """

    def register(evaluator: E) -> E:
        _EVALUATORS[op_class] = evaluator
        return evaluator

    return register


@cache
def evaluator(op_class: type[PdOp]) -> Evaluator | None:
    """Find the evaluator of an op class; None for a class with a rule."""
    return next((_EVALUATORS[c] for c in op_class.__mro__ if c in _EVALUATORS), None)
