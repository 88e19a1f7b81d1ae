"""Drop unchanged state from the results of a program.

A batch norm with fixed statistics names them as its results. Without them a test program writes no
state, so that nothing is donated and what depends on parameters alone can be kept between steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.ops.norm import BatchNormBase
from graphopt.ir.dialect.signature import STATE, function_signature, main_function
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
                if not log.vetoed((op,), values):
                    replace_uses(values)
        _drop(function)
        return log.outcomes


def _gives_back(op: BatchNormBase) -> bool:
    """True when the new moving statistics are the old ones and only the program's end has them."""
    uses = [use for result in op.results[1:3] for use in result.uses]
    return op.keeps_statistics and all(isinstance(use.operation, ReturnOp) for use in uses)


def _drop(function: FuncOp) -> None:
    signature, end = function_signature(function), function.body.block.last_op
    assert end is not None
    came = {
        port.name: value
        for port, value in zip(signature.arguments, function.args, strict=True)
        if port.kind == STATE
    }
    kept = [
        at
        for at, (port, value) in enumerate(zip(signature.results, end.operands, strict=True))
        if port.kind != STATE or came.get(port.name) is not value
    ]
    keep_results(function, kept)


def keep_results(function: FuncOp, kept: list[int]) -> None:
    """Let a function return only some of its results."""
    end, attrs = function.body.block.last_op, function.res_attrs
    assert end is not None
    if len(kept) == len(end.operands):
        return
    values: list[SSAValue] = [end.operands[at] for at in kept]
    end.operands = values
    inputs = list(function.function_type.inputs)
    function.function_type = FunctionType.from_lists(inputs, [value.type for value in values])
    if attrs is not None:
        function.res_attrs = ArrayAttr([attrs.data[at] for at in kept])
