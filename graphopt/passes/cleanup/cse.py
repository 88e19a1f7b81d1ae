"""Ops that compute the same thing twice are computed once: xDSL's cse, minus differentiated values.

Two equal values stay apart when a gradient is taken with respect to one of them, or when one starts
a gradient, which data parallelism scales. Random ops differ in their `rng_id`, and prints and
asserts have effects, so these stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.transforms.common_subexpression_elimination import CSEDriver
from xdsl.transforms.dead_code_elimination import dce

from graphopt.ir.dialect.ops.grad import Grad
from graphopt.passes.engine import validation as instance
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import differentiated_values


@dataclass
class _Driver(CSEDriver):
    """xDSL's, which passes over the ops whose results are differentiated."""

    kept: set[SSAValue] = field(default_factory=set[SSAValue])

    def _simplify_operation(self, op: Operation) -> None:
        if not any(result in self.kept for result in op.results):
            super()._simplify_operation(op)

    def _replace_and_delete(self, op: Operation, existing: Operation) -> None:
        values: dict[SSAValue, SSAValue] = dict(zip(op.results, existing.results, strict=True))
        if instance.veto(ShareCommon.name, ShareCommon.numerics, [op], values) is None:
            super()._replace_and_delete(op, existing)


@dataclass(frozen=True)
class ShareCommon(ModulePass):
    """Common subexpression elimination that keeps the meaning of `pd.grad`."""

    name = "cse"
    numerics = Numerics.BIT_EXACT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        dce(op)  # otherwise each run would remove one more layer of unread ops
        seeds = {seed for grad in op.walk() if isinstance(grad, Grad) for seed in grad.cotangents}
        _Driver(kept=differentiated_values(op) | seeds).simplify(op)
