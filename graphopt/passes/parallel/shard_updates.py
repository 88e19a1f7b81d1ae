"""reduce_strategy=Reduce: every replica updates its part of every parameter (ZeRO, stage 1).

The sum of a gradient over the replicas is scattered to them (`pd.reduce_scatter`), clipping, decay
and update work on parts, and the new parameter is gathered (`pd.all_gather`). Optimizer
state stays in parts between steps. Rajbhandari and others, 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ModuleOp,
)
from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from graphopt.ir.dialect.definition import attr_kinds, operand_names
from graphopt.ir.dialect.ops.comm import AllReduce, OnOwner, Part, ReduceScatter
from graphopt.ir.dialect.ops.update.basic import Single, Update
from graphopt.ir.dialect.ops.update.plain import Dpsgd
from graphopt.ir.dialect.signature import FETCH, SHARD_OF, STATE, main_function, signature_of
from graphopt.ir.dialect.signature_edit import SignatureEdit, edit_signature
from graphopt.ir.dialect.traits import takes_any_order
from graphopt.ir.dialect.types import UNKNOWN, byte_count, element_count, shape_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.naming import show_op
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, insert
from graphopt.passes.parallel.all_reduce_gradients import AllReduceGradients
from graphopt.passes.parallel.mark_per_replica import uniform_values
from graphopt.passes.parallel.reduce_owners import derivatives, owners, parameters_of
from graphopt.passes.parallel.shards import Shards, is_number


@dataclass(frozen=True)
class ShardUpdates(RewritePass):
    """Spread updates and their state over `parts` replicas."""

    name = "shard-updates"
    numerics = Numerics.REASSOCIATING
    parts: int = 1

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name)
        owner_of = owners(module, self.parts)
        AllReduceGradients().apply(Context(), module)
        _Sharding(module, self.parts, owner_of, log).run()
        return log.outcomes


class _Sharding:
    """One run of the pass: the sharded updates, and the sharded values so far."""

    def __init__(
        self, module: ModuleOp, count: int, owner_of: Mapping[SSAValue, int], log: RewriteLog
    ) -> None:
        self.module = module
        self.function = main_function(module)
        self.block = self.function.body.block
        self.count = count
        self.owner_of = owner_of
        self.log = log
        self.values = Shards(count, uniform_values(module)[0])
        self.totals = {
            op: op.operands[0]
            for op in self.block.ops
            if isinstance(op, AllReduce) and op.operands[0] in owner_of
        }

    def run(self) -> None:
        """Rewrite the function."""
        with edit_signature(self.function) as edit:
            self._rewrite(edit)

    def _rewrite(self, edit: SignatureEdit) -> None:
        chosen = self._choose()
        scattered = self._scattered_sums(chosen)
        kept = self._keep_in_parts(chosen, edit)
        dead: list[Operation] = []
        for op in list(self.block.ops):
            if isinstance(op, ReturnOp):
                self._finish(op, kept, edit)
            elif op in scattered:
                self._scatter(op)
                dead.append(op)
            elif op in chosen:
                self._update(op)
                dead.append(op)
            elif self.values.take(op):
                dead.append(op)
            else:
                self._read_whole(op)
        for op in reversed(dead):
            op.detach()
            op.erase()
        # the variables of which the new arguments are parts
        edit.mark({name: {SHARD_OF: old.type} for name, old in kept.items()})

    # -- choice of updates -------------------------------------------------------------------------

    def _choose(self) -> dict[Operation, Update]:
        """Choose the updates to shard over the replicas; log the reasons against the others."""
        uniform = self.values.uniform
        found: dict[Operation, Update] = {}
        for op in self.module.walk():
            if not isinstance(op, (Update, Dpsgd)):
                continue
            reason = _NOISE if isinstance(op, Dpsgd) else self._reason(op, uniform)
            if reason is not None:
                self.log.declined(op, reason)
            elif isinstance(op, Update) and self.log.allow(op):
                found[op] = op
        return found

    def _reason(self, op: Update, uniform: set[SSAValue]) -> Reason | None:
        if op.parent is not self.block:
            return Reason("conditional-update", "the update is inside a branch or a loop")
        for single in op.singles():
            shape = shape_of(op.operands[single.operands["param"]].type)
            if UNKNOWN in shape:
                return Reason(
                    "size-unknown", f"a size of the parameter is not known: {list(shape)}"
                )
            if not element_count(shape):
                return Reason("no-elements", f"the parameter has no elements: {list(shape)}")
        if any(value not in uniform for value in op.operands):
            return Reason(
                "differs-between-replicas",
                "an operand of the update differs between replicas and cannot be sharded",
                "give every replica the same parameter, state and learning rate",
            )
        return None

    def _scattered_sums(self, chosen: Mapping[Operation, Update]) -> set[Operation]:
        """Find the gradient sums that chosen updates read, also through elementwise ops."""
        todo = [
            op.operands[single.operands["grad"]]
            for op in chosen.values()
            for single in op.singles()
        ]
        found: set[Operation] = set()
        seen: set[SSAValue] = set()
        while todo:
            value = todo.pop()
            owner = value.owner
            if value in seen or not isinstance(owner, Operation):
                continue
            seen.add(value)
            if owner in self.totals:
                found.add(owner)
            elif takes_any_order(owner):
                todo += [v for v in owner.operands if shape_of(v.type) == shape_of(value.type)]
        return found

    def _keep_in_parts(
        self, chosen: Mapping[Operation, Update], edit: SignatureEdit
    ) -> dict[str, BlockArgument]:
        """Replace the state that only updates read by parts; return the old arguments by name."""
        ports = signature_of(self.module).arguments
        written = set(signature_of(self.module).writes)
        state = {
            op.operands[at]
            for op in chosen.values()
            for single in op.singles()
            for at in spread_operands(op, single)
        }
        kept: dict[str, BlockArgument] = {}
        for argument, port in zip(list(self.block.args), ports, strict=True):
            users = {use.operation for use in argument.uses}
            private = all(op in chosen or takes_any_order(op) for op in users)
            if argument in state and private and port.kind == STATE and port.name in written:
                kept[port.name] = argument
        for old in kept.values():
            part = Part.infer(old.type, self.count)  # pyright: ignore[reportArgumentType]
            self.values.parts[old] = edit.replace(old, part)
        return kept

    # -- rewriting ---------------------------------------------------------------------------------

    def _scatter(self, op: Operation) -> None:
        local = self.totals[op]  # pyright: ignore[reportArgumentType]
        made = ReduceScatter.make(
            local, parts=self.count, owner=self.owner_of[local], location=op.location
        )
        self.values.parts[op.results[0]] = insert(made, op, op.results[0])

    def _update(self, op: Operation) -> None:
        """Rebuild the update on parts."""
        assert isinstance(op, Update)
        values = self.values
        self.log.applied(op)
        attrs = op.attr_values()
        if "in_parts" in attr_kinds(type(op)):
            attrs["in_parts"] = True
        find = values.without_padding if "in_parts" in attrs else values.part
        spread = {at for single in op.singles() for at in spread_operands(op, single)}
        new = [
            find(value, op) if at in spread else values.whole(value, op)
            for at, value in enumerate(op.operands)
        ]
        made = type(op).make(*_group_operands(op, new), location=op.location, **attrs)
        assert op.parent is not None
        op.parent.insert_op_before(made, op)
        for single in op.singles():
            for name, at in single.results.items():
                old, result = op.results[at], made.results[at]
                result.name_hint = old.name_hint
                if single.operands[name] in spread:
                    values.parts[old] = result
                else:
                    values.replace(old, result)

    def _read_whole(self, op: Operation) -> None:
        for value in dict.fromkeys(self.values.feed_whole(op)):
            hint = f"%{value.name_hint}" if value.name_hint else "a value"
            text = f"{show_op(op)} needs all of {hint}, so all parts of the value are gathered"
            self.log.declined(op, Reason("read-whole", text))

    def _finish(self, op: ReturnOp, kept: Mapping[str, BlockArgument], edit: SignatureEdit) -> None:
        """Return whole fetches and parameters; a fetched gradient is summed on its owner only."""
        for at, port in enumerate(signature_of(self.module).results):
            value = op.operands[at]
            if port.kind == STATE and port.name in kept:
                new = self.values.part(value, op)
            else:
                new = self.values.whole(value, op)
            owner = value.owner
            if port.kind == FETCH and isinstance(owner, AllReduce) and owner in self.totals:
                local = self.totals[owner]
                made = OnOwner.make(new, local, owner=self.owner_of[local])
                new = insert(made, op, value)
            edit.set_result(at, new)


def spread_operands(op: Update, single: Single) -> list[int]:
    """List the operands of one parameter's update that have an element per parameter element."""
    shape = shape_of(op.operands[single.operands["param"]].type)

    def is_spread(name: str, at: int) -> bool:
        value = op.operands[at]
        if name in op.PER_ELEMENT:
            return True
        counts = name in op.COUNTERS and is_number(value)
        return name in single.results and shape_of(value.type) == shape and not counts

    return [at for name, at in single.operands.items() if is_spread(name, at)]


_NOISE = Reason(
    "noise",
    "the update clips the whole gradient and draws noise for all of it",
    "use another optimizer",
)


def _group_operands(op: Update, flat: Sequence[SSAValue]) -> list[Sequence[SSAValue]]:
    """Group flat operands into the fields that `make` takes."""
    found: list[Sequence[SSAValue]] = []
    start = 0
    for _, group in zip(operand_names(type(op)), op.operand_groups(), strict=True):
        found.append(flat[start : start + len(group)])
        start += len(group)
    return found


def sharding_notes(module: ModuleOp) -> Iterator[str]:
    """Report the state sharded between steps, and the owner of each parameter in Paddle."""
    ports = [port for port in signature_of(module).arguments if port.shard_of and port.cut is None]
    if ports:
        own = sum(byte_count(port.type) for port in ports)
        whole = sum(byte_count(port.shard_of) for port in ports if port.shard_of is not None)
        count = len(ports)
        yield f"state in parts: each device has {own} bytes of {count} states, not {whole}"
    found = [op for op in module.walk() if isinstance(op, ReduceScatter)]
    if found:
        names = {
            grad: _name(parameter)
            for op in derivatives(module)
            for parameter, grad in parameters_of(op)
        }
        shown = ", ".join(f"{names.get(op.operands[0], '?')} {op.attr('owner')}" for op in found)
        yield f"reduce_strategy=Reduce: owners in Paddle: {shown}"


def _name(value: SSAValue) -> str:
    return value.name_hint or "?"
