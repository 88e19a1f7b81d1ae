"""The `pd` dialect: Paddle's operators (by their current names) on tensors, as SSA values."""

from __future__ import annotations

from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.ir import Dialect

from graphopt.ir.dialect.collector import paused_collector
from graphopt.ir.dialect.families import ALL
from graphopt.ir.dialect.text import ModuleParser

Pd = Dialect("pd", list(ALL), [])


@cache
def _load_dialects() -> Context:
    ctx = Context()
    for dialect in (Builtin, Func, Pd):
        ctx.load_dialect(dialect)
    return ctx


def new_context() -> Context:
    """Create an xDSL context with all dialects that our modules use."""
    return _load_dialects().clone()


@paused_collector()
def parse_text(text: str, name: str = "<text>") -> ModuleOp:
    """Parse a module; raise ParseError, with the position, for malformed text."""
    return ModuleParser(new_context(), text, name).parse_module()
