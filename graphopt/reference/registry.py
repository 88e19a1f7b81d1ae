"""The registry of reference rules: op class -> a function from NumPy arrays to NumPy arrays.

A rule is called by keyword, like an op's type rule: operands by field name (None for an absent
optional, a tuple for a variadic) and properties by name. Floating-point operands come in float64,
complex ones in complex128, others in their declared dtype. A rule that names `to` gets the function
that rounds a value to the declared dtype of the first result, for the steps inside of it, and
`wide` the same with float32 for half types; `draw` gives it random numbers, `dtypes` the declared
dtypes of its results. Rules are written in plain NumPy functions, so that `tape.py` can
differentiate them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.op import PdOp

Rule = Callable[..., Any]
RULES: dict[type[PdOp], Rule] = {}


class Unsupported(UnsupportedError):
    """The reference interpreter has no rule for an op; `op` is its name."""

    def __init__(self, op: str, why: str = "it has no rule") -> None:
        self.op = op
        super().__init__(f"the reference interpreter does not compute '{op}': {why}")


def rule(*op_classes: type[PdOp]) -> Callable[[Rule], Rule]:
    """Register the decorated function as the reference rule of these op classes."""

    def register(function: Rule) -> Rule:
        for op_class in op_classes:
            assert op_class not in RULES, f"{op_class.name} has two reference rules"
            RULES[op_class] = function
        return function

    return register


def rule_each(rules: Mapping[type[PdOp], Rule]) -> None:
    """Register rules of one expression."""
    for op_class, function in rules.items():
        rule(op_class)(function)
