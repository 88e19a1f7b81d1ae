"""Drop unchanged state from the results of a program.

A batch norm with fixed statistics returns them as its results. Without them a test program writes
no state, so that nothing is donated, and values that depend on parameters alone can be kept between
steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.ops.norm import BatchNormBase
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.dialect.signature_edit import edit_signature, state_name
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass


@dataclass(frozen=True)
class DropKeptState(RewritePass):
    """Remove state from the results of a program that does not change it."""

    name = "drop-kept-state"
    numerics = Numerics.BIT_EXACT
    changes_signature: ClassVar[bool] = True

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, function = RewriteLog(self.name, self.numerics), main_function(module)
        for op in function.body.block.ops:
            if isinstance(op, BatchNormBase) and _gives_back(op) and log.allow(op):
                log.applied(op)
                values: dict[SSAValue, SSAValue] = {}
                values.update(zip(op.results[1:3], op.operands[1:3], strict=True))
                if not log.undo_if_wrong((op,), values):
                    replace_uses(values)
        _drop(function)
        return log.outcomes


def _gives_back(op: BatchNormBase) -> bool:
    """True when the new moving statistics are the old ones and only the return reads them."""
    uses = [use for result in op.results[1:3] for use in result.uses]
    return op.keeps_statistics and all(isinstance(use.operation, ReturnOp) for use in uses)


def _drop(function: FuncOp) -> None:
    with edit_signature(function) as edit:
        came = edit.state
        kept = [
            at
            for at, (attributes, value) in enumerate(zip(edit.results, edit.returned, strict=True))
            if (name := state_name(attributes)) is None or came.get(name) is not value
        ]
        edit.keep_results(kept)
