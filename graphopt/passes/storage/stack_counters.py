"""The powers of Adam's betas are stored as one array each, which one op multiplies.

Paddle keeps beta1_pow and beta2_pow for each parameter, and XLA makes a kernel for each of these
numbers: on a GPU a Transformer of eight layers would start 200 kernels of one number in every step.
So powers of one beta are a stack between steps. An update reads its item.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.ops.math import Scale
from graphopt.ir.dialect.ops.shape import Stack
from graphopt.ir.dialect.ops.update.basic import AdamBase, Update
from graphopt.ir.dialect.ops.update.fused import FusedUpdate
from graphopt.ir.dialect.signature import STATE, main_function, signature_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass
from graphopt.passes.storage.stacked_state import Names, stack_at_rest, state_arguments

FACTORS = {"beta1_pow": "beta1", "beta2_pow": "beta2"}
"""The attribute by which Adam multiplies each of its counters in an update."""
Kind = tuple[float, Attribute]
"""The factor and the type that all counters of a stack share."""


@dataclass(frozen=True)
class StackCounters(RewritePass):
    """Stack the counters of all updates by Adam that have one factor and one type.

    XLA gets the same products. The interpreter rounds the factor of a scale, but not the factor of
    an update. `apart` is the reason why state cannot be in stacks, if there is one.
    """

    name = "stack-counters"
    numerics = Numerics.REASSOCIATING
    changes_signature = True
    apart: str = ""

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        groups: dict[Kind, dict[str, Operation]] = {}
        for kind, name, op in _counters(module):
            groups.setdefault(kind, {})[name] = op
        chosen: dict[Names, float] = {}
        for (factor, _), updates in groups.items():
            last, *others = reversed(dict.fromkeys(updates.values()))
            if len(updates) < 2:
                log.declined(
                    last,
                    Reason("only-one", "no other update has a counter of this factor and type"),
                )
            elif self.apart:
                log.declined(last, Reason("state-apart", self.apart))
            elif log.allow(last):
                log.applied(
                    last, *others, note=f"{len(updates)} powers of {factor:g} become one array"
                )
                chosen[tuple(updates)] = factor
        stack_at_rest(module, list(chosen))
        _multiply(module, chosen)
        return log.outcomes


def _counters(module: ModuleOp) -> Iterator[tuple[Kind, str, Operation]]:
    """Yield each counter that is a variable of its own and that one update by Adam changes."""
    block, state = main_function(module).body.block, state_arguments(module)
    end = block.last_op
    assert end is not None
    ports = zip(end.operands, signature_of(module).results, strict=True)
    returned = {value: port.name for value, port in ports if port.kind == STATE}
    for op in block.ops:
        if not isinstance(op, Update) or not _is_adam(op):
            continue
        for single in op.singles():
            for role, factor in FACTORS.items():
                old = op.operands[single.operands[role]]
                new = op.results[single.results[role]]
                name = state.get(old)
                if name and returned.get(new) == name and _is_read_by(new, end):
                    yield (op.attr(factor), old.type), name, op


def _is_adam(op: Update) -> bool:
    kind = op.SINGLE if isinstance(op, FusedUpdate) else type(op)
    return issubclass(kind, AdamBase)


def _is_read_by(value: SSAValue, end: Operation) -> bool:
    """True when only `end` reads a value, and only once."""
    return [use.operation for use in value.uses] == [end]


def _multiply(module: ModuleOp, factors: dict[Names, float]) -> None:
    """Replace each stack of updated counters by one product of the old stack."""
    function, signature = main_function(module), signature_of(module)
    block = function.body.block
    stacks = zip(block.args, signature.arguments, strict=True)
    before = {port.stack_of: value for value, port in stacks}
    end = block.last_op
    assert end is not None
    for value, port in zip(tuple(end.operands), signature.results, strict=True):
        if port.stack_of in factors:
            made = value.owner
            assert isinstance(made, Stack)
            product = Scale.make(before[port.stack_of], scale=factors[port.stack_of])
            product.results[0].name_hint = value.name_hint
            block.insert_op_before(product, made)
            replace_uses({value: product.results[0]})
            made.detach()
            made.erase()
