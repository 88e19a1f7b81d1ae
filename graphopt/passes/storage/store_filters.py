"""Store trained filters as convolutions read them, [height, width, in / groups, out].

Convolutions with the channels last transpose their filters in every step, and transpose the
gradients back. Here a filter is stored in the scope in the order that they read, with its optimizer
state, and is transposed only for other readers. `pd.order` on the argument and the result says so;
by its name the variable is read and written as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    ModuleOp,
    i64,
)
from xdsl.ir import BlockArgument, SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.conv import Conv2d, DepthwiseConv2d
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.shape import Transpose
from graphopt.ir.dialect.ops.update.basic import Single, Update
from graphopt.ir.dialect.signature import ORDER, STATE, main_function, signature_of
from graphopt.ir.dialect.signature_edit import SignatureEdit, edit_signature, state_name
from graphopt.ir.dialect.traits import takes_any_order
from graphopt.ir.dialect.types import dtype_of, element_count, rank_of, shape_of, tensor
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass
from graphopt.passes.storage.stacked_state import state_arguments

# from [out, in / groups, height, width] to [height, width, in / groups, out], and back
FILTER = (2, 3, 1, 0)
BACK = tuple(int(axis) for axis in np.argsort(FILTER))


@dataclass(frozen=True)
class StoreFilters(RewritePass):
    """Store trained filters in the order that convolutions with the channels last read.

    `apart` is the reason why state must keep the variables' order, if there is one.
    """

    name = "store-filters"
    numerics = Numerics.REASSOCIATING
    changes_signature = True
    apart: str = ""

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        stored: dict[BlockArgument, None] = {}
        state = _State(module)
        for argument, update, single in state.filters():
            reason = Reason("state-apart", self.apart) if self.apart else None
            reason = reason or state.refusal(argument, update, single)
            if reason is not None:
                log.declined(update, reason)
            elif log.allow(update):
                log.applied(update)
                stored |= dict.fromkeys(state.of_update(update, single))
        if stored:
            _Turning(module, list(stored)).run()
        return log.outcomes


class _State:
    """The state of a module, and its new form."""

    def __init__(self, module: ModuleOp) -> None:
        self.block = main_function(module).body.block
        self.names = state_arguments(module)
        end = self.block.last_op
        assert end is not None
        ports = zip(end.operands, signature_of(module).results, strict=True)
        self.returned = {value: port.name for value, port in ports if port.kind == STATE}

    def filters(self) -> list[tuple[BlockArgument, Update, Single]]:
        """Find the filters of convolutions with the channels last, each with its update."""
        read = {
            op.operands[1]
            for op in self.block.ops
            if isinstance(op, (Conv2d, DepthwiseConv2d)) and _reads_transposed(op)
        }
        found: list[tuple[BlockArgument, Update, Single]] = []
        for op in self.block.ops:
            if isinstance(op, Update):
                for single in op.singles():
                    param = op.operands[single.operands["param"]]
                    if param in read and param in self.names:
                        found.append((cast(BlockArgument, param), op, single))
        return found

    def refusal(self, param: BlockArgument, op: Update, single: Single) -> Reason | None:
        """Return the reason to store a filter in the variable's order, else None."""
        for role, at in single.results.items():
            name = self.names.get(op.operands[single.operands[role]])
            if name is None or self.returned.get(op.results[at]) != name:
                return Reason(
                    "not-state",
                    f"the update does not write its new {role} back to the variable of the old one",
                )
        blocked = any(
            isinstance(use.operation, Grad) and param not in use.operation.wrt for use in param.uses
        )
        if blocked or any(use.operation.parent is not self.block for use in param.uses):
            return Reason("named", "a loop, a branch or a gradient refers to the filter")
        return None

    def of_update(self, op: Update, single: Single) -> list[BlockArgument]:
        """List the parameter and its state of the same shape."""
        shape = shape_of(op.operands[single.operands["param"]].type)
        values = [op.operands[single.operands[role]] for role in single.results]
        return [cast(BlockArgument, v) for v in values if shape_of(v.type) == shape]


def _reads_transposed(op: PdOp) -> bool:
    return op.attr("data_format") == "NHWC" and op.attr("filter_format") == "OIHW"


class _Turning:
    """Transposes arguments, and lets their readers follow as far as possible."""

    def __init__(self, module: ModuleOp, stored: Sequence[BlockArgument]) -> None:
        self.module, self.function = module, main_function(module)
        self.block = self.function.body.block
        self.stored = stored
        self.transposed: dict[SSAValue, SSAValue] = {}
        """A value in the variables' order -> the same value in the order of stored filters."""
        self.made: list[Transpose] = []

    def run(self) -> None:
        ops = list(self.block.ops)
        with edit_signature(self.function) as edit:
            names = {name for name, value in edit.state.items() if value in self.stored}
            self._arguments(edit)
            for op in ops:
                if isinstance(op, PdOp):
                    self._visit(op)
            for at, attributes in enumerate(edit.results):
                if state_name(attributes) in names:
                    edit.set_result(at, self.transposed[edit.returned[at]])
            order = DenseArrayBase.from_list(i64, FILTER)
            edit.mark({name: {ORDER: order} for name in names})
        for back in reversed(self.made):
            if not back.results[0].uses:
                back.detach()
                back.erase()

    def _arguments(self, edit: SignatureEdit) -> None:
        first = self.block.first_op
        assert first is not None
        values: dict[SSAValue, SSAValue] = {}
        for old in filter(self.stored.__contains__, self.block.args):
            shape = shape_of(old.type)
            type_ = tensor([shape[axis] for axis in FILTER], dtype_of(old.type))
            values[old] = self._back(edit.replace(old, type_))
            self.block.insert_op_before(self.made[-1], first)
        replace_uses(values)

    def _back(self, value: SSAValue) -> SSAValue:
        """Transpose a value to the variable's order, by an op that is inserted later."""
        op = Transpose.make(value, perm=BACK)
        self.made.append(op)
        self.transposed[op.results[0]] = value
        return op.results[0]

    def _visit(self, op: PdOp) -> None:
        if isinstance(op, (Conv2d, DepthwiseConv2d)):
            if op.operands[1] in self.transposed and _reads_transposed(op):
                filters = {1: self.transposed[op.operands[1]]}
                self._become(op, filters, (), {"filter_format": "HWIO"})
        elif isinstance(op, Grad):
            count = len(op.of)
            wrt = {
                at: self.transposed[v] for at, v in enumerate(op.wrt, count) if v in self.transposed
            }
            if wrt:
                self._become(op, wrt, [at - count for at in wrt])
        elif isinstance(op, Update):
            self._update(op)
        elif takes_any_order(op) and any(v in self.transposed for v in op.operands):
            values = {at: self.transposed.get(v) for at, v in enumerate(op.operands)}
            wide = {at for at in values if element_count(shape_of(op.operands[at].type)) != 1}
            transposed = {at: new for at, new in values.items() if at in wide and new is not None}
            if transposed.keys() == wide and rank_of(op.results[0].type) == len(FILTER):
                self._become(op, transposed, range(len(op.results)))

    def _update(self, op: Update) -> None:
        """Transpose an update's filters, and all operands of their shape."""
        transposed: dict[int, SSAValue] = {}
        results: list[int] = []
        for single in op.singles():
            param = op.operands[single.operands["param"]]
            if param not in self.transposed:
                continue
            shape = shape_of(param.type)
            for at in single.operands.values():
                value = op.operands[at]
                if shape_of(value.type) == shape:
                    found = self.transposed.get(value)
                    transposed[at] = found if found is not None else self._forth(value, op)
            outs = single.results.values()
            results += [at for at in outs if shape_of(op.results[at].type) == shape]
        if transposed:
            self._become(op, transposed, results)

    def _forth(self, value: SSAValue, before: PdOp) -> SSAValue:
        """Transpose a value of another op to the stored order."""
        made = Transpose.make(value, perm=FILTER, location=before.location)
        self.block.insert_op_before(made, before)
        return made.results[0]

    def _become(
        self,
        op: PdOp,
        operands: Mapping[int, SSAValue],
        results: Sequence[int],
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        """Replace the op by one with other operands and attributes, and transposed `results`."""
        values = iter([operands.get(at, value) for at, value in enumerate(op.operands)])
        grouped = [[next(values) for _ in group] for group in op.operand_groups()]
        new = type(op).make(*grouped, location=op.location, **{**op.attr_values(), **(attrs or {})})
        self.block.insert_op_before(new, op)
        found: dict[SSAValue, SSAValue] = {}
        for at, (old, result) in enumerate(zip(op.results, new.results, strict=True)):
            result.name_hint, found[old] = old.name_hint, result
            if at in results:
                found[old] = self._back(result)
                self.block.insert_op_before(self.made[-1], op)
        replace_uses(found)
        op.detach()
        op.erase()
