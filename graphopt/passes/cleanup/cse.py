"""Compute equal ops once: xDSL's cse, except for differentiated values.

xDSL compares ops with regions pairwise where their operands are equal, and copies its table of
known ops for each region. Here regions are part of the key, and ops met inside a region are
forgotten after it. Two equal values stay apart when a gradient is taken with respect to one of
them, or when one starts a gradient, which data parallelism scales. Random ops differ in their
`rng_id`, and prints and asserts have effects, so these stay.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.transforms.common_subexpression_elimination import CSEDriver, KnownOps, OperationInfo
from xdsl.transforms.dead_code_elimination import dce

from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.regions import captured_values, inner_ops
from graphopt.passes.engine import validation
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import differentiated_values


class _Key(OperationInfo):
    """xDSL's key of an op, extended by the ops of its regions and the values that they capture."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op)
        inside = hash((*captured_values(op), *(inner.name for inner in inner_ops(op))))
        self._hash = hash((super().__hash__(), inside))

    def __hash__(self) -> int:
        return self._hash


class _ScopedOps(KnownOps):
    """The ops that were met so far, in nested scopes."""

    def __setitem__(self, k: Operation, v: Operation) -> None:
        self._known_ops[_Key(k)] = v

    def __contains__(self, k: Operation) -> bool:
        return _Key(k) in self._known_ops

    def get(self, k: Operation, default: Any = None) -> Any:
        return self._known_ops.get(_Key(k), default)

    @contextmanager
    def scope(self) -> Generator[None]:
        """Open a scope; at its end, forget the ops added inside.

        Only unknown ops are added, so these are the last entries.
        """
        begin = len(self._known_ops)
        yield
        while len(self._known_ops) > begin:
            self._known_ops.popitem()


@dataclass
class _Driver(CSEDriver):
    """xDSL's CSE driver, which skips ops whose results are differentiated."""

    kept: set[SSAValue] = field(default_factory=set[SSAValue])

    def _simplify_region(self, region: Region) -> None:
        known = self._known_ops if isinstance(self._known_ops, _ScopedOps) else _ScopedOps()
        self._known_ops = known
        with known.scope():
            self._simplify_block(region.block)

    def _simplify_operation(self, op: Operation) -> None:
        if not any(result in self.kept for result in op.results):
            super()._simplify_operation(op)

    def _replace_and_delete(self, op: Operation, existing: Operation) -> None:
        values: dict[SSAValue, SSAValue] = dict(zip(op.results, existing.results, strict=True))
        if validation.veto(ShareCommon.name, ShareCommon.numerics, [op], values) is None:
            super()._replace_and_delete(op, existing)


@dataclass(frozen=True)
class ShareCommon(ModulePass):
    """Common subexpression elimination that keeps the meaning of `pd.grad`."""

    name = "cse"
    numerics = Numerics.BIT_EXACT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        dce(op)  # otherwise each run would remove only one more layer of unread ops
        seeds = {seed for grad in op.walk() if isinstance(grad, Grad) for seed in grad.cotangents}
        _Driver(kept=differentiated_values(op) | seeds).simplify(op)
