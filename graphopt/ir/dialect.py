"""The `pd` dialect: Paddle's operators (by their current names) on tensors, as SSA values."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.ir import Dialect

from graphopt.ir.ops import ALL

Pd = Dialect("pd", list(ALL), [])


def context() -> Context:
    """An xDSL context that knows everything our modules contain."""
    ctx = Context()
    for dialect in (Builtin, Func, Pd):
        ctx.load_dialect(dialect)
    return ctx
