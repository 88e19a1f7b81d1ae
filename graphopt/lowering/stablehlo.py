"""A module as StableHLO text, as passed to XLA for one replica."""

from __future__ import annotations

import re

import jax
from jax import export
from jax import numpy as jnp
from xdsl.dialects.builtin import ModuleOp

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.ops.callback import Assert, Print, PrintGradient
from graphopt.ir.dialect.signature import FEED, Port
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.locations import for_files
from graphopt.lowering.plan import Plan
from graphopt.lowering.replication import replica_function

# a reference to a location, or a short inline location
_LOCATION = re.compile(r' loc\((?:#loc\d*|unknown|"(?:[^"\\]|\\.)*")\)')
_LOCATIONS = re.compile(r"^#loc.*\n?", re.MULTILINE)


def to_stablehlo(module: ModuleOp, *, unknown: int | None = None, locations: bool = True) -> str:
    """Lower a module's replica function to StableHLO.

    Unknown dimensions become symbols: the first one of every feed is the batch `b`, others have a
    symbol of their own; `unknown` gives all of them this size instead. Without `locations` ops have
    no source locations. Raises JAX's own error when shapes do not follow from the symbols, and
    UnsupportedError for a program that prints or asserts.
    """
    for op in module.walk():
        if isinstance(op, (Print, PrintGradient, Assert)):
            raise UnsupportedError(
                f"{op.name} calls back into Python, which StableHLO text cannot hold; build the "
                "program without it"
            )
    plan = Plan.of(module)
    ports = (plan.updated, plan.read_only, plan.feeds)
    symbols = _Symbols()
    with jax.enable_x64(True), for_files():
        groups = [
            tuple(
                jax.ShapeDtypeStruct(symbols.shape(port, unknown), dtype_of(port.type).numpy)
                for port in group
            )
            for group in ports
        ]
        function = jax.jit(replica_function(module, plan, ALONE))
        exported = export.export(function)(*groups, jax.ShapeDtypeStruct((2,), jnp.uint32))
    text = exported.mlir_module()
    return text if locations else _LOCATIONS.sub("", _LOCATION.sub("", text))


class _Symbols:
    """The symbolic dimensions of one scope."""

    def __init__(self) -> None:
        self.scope = export.SymbolicScope()
        self.count = 0

    def shape(self, port: Port, unknown: int | None) -> tuple[object, ...]:
        return tuple(
            self.dim(port, position, unknown) if dim == UNKNOWN else dim
            for position, dim in enumerate(shape_of(port.type))
        )

    def dim(self, port: Port, position: int, unknown: int | None) -> object:
        if unknown is not None:
            return unknown
        if position == 0 and port.kind == FEED:
            name = "b"
        else:
            self.count += 1
            name = f"d{self.count}"
        return export.symbolic_shape(name, scope=self.scope)[0]
