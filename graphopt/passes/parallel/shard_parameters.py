"""shard_parameters: every replica keeps its part of every parameter (ZeRO, stage 3; FSDP).

`shard-updates` gathers a parameter when it is updated. Here it stays in parts between steps, and is
gathered (`pd.all_gather`) before its first reader. The gather starts when the previous reader does,
one layer ahead (`pd.fence`). The derivative gathers parameters again (`again`), since the forward
computation does not keep them. Layers in a loop (`pd.layers`) gather inside of it, also one layer
ahead; their gradient is this replica's part of the sum. Rajbhandari and others, 2020; Zhao and
others, 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from graphopt.ir.dialect.definition import encode_attrs
from graphopt.ir.dialect.differentiated import differentiated_ops
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.comm import AllGather, Part, ReduceScatter
from graphopt.ir.dialect.ops.control import Fence, Layers
from graphopt.ir.dialect.ops.conv import Conv2dBase
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.shape import Stack
from graphopt.ir.dialect.regions import ancestor_in
from graphopt.ir.dialect.signature import (
    PER_REPLICA,
    SHARD_OF,
    STATE,
    Port,
    main_function,
    signature_of,
)
from graphopt.ir.dialect.signature_edit import SignatureEdit, edit_signature
from graphopt.ir.dialect.types import UNKNOWN, Tensor, byte_count, shape_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, insert
from graphopt.passes.parallel.joining import JOIN_BYTES
from graphopt.passes.parallel.mark_per_replica import uniform_values
from graphopt.passes.parallel.shards import Shards, gather

AGAIN = encode_attrs(AllGather, {"again": True})


@dataclass(frozen=True)
class ShardParameters(RewritePass):
    """Keep state in parts between steps if the step reads it and does not update it whole.

    State of fewer than `smallest` bytes stays whole: a collective would cost its latency.
    """

    name = "shard-parameters"
    numerics = Numerics.REASSOCIATING
    parts: int = 1
    smallest: int = JOIN_BYTES

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name)
        run = _ParameterSharding(module, self.parts, self.smallest, log)
        with edit_signature(run.function) as edit:
            run.rewrite(edit)
        return log.outcomes


class _ParameterSharding:
    """One run of the pass: the parameters that are kept in parts."""

    def __init__(self, module: ModuleOp, count: int, smallest: int, log: RewriteLog) -> None:
        self.module = module
        self.function = main_function(module)
        self.block = self.function.body.block
        self.count = count
        self.smallest = smallest
        self.log = log
        self.uniform = uniform_values(module)[0]
        self.values = Shards(count, self.uniform)
        self.differentiated = differentiated_ops(module)
        end = self.block.last_op
        assert isinstance(end, ReturnOp)
        self.end = end
        ports = signature_of(module).results
        self.written = {p.name: at for at, p in enumerate(ports) if p.kind == STATE}
        grads = [op for op in module.walk() if isinstance(op, Grad)]
        self.trained: set[SSAValue] = {
            grad.wrt[at] for grad in grads for at in grad.attr("parameters")
        }

    def rewrite(self, edit: SignatureEdit) -> None:
        """Rewrite the function."""
        ports = zip(list(self.block.args), signature_of(self.module).arguments, strict=True)
        chosen = {argument: port for argument, port in ports if self._take(argument, port)}
        if not chosen:
            return
        loops = self._loops(chosen)
        for argument, port in chosen.items():
            self._keep(argument, port, edit)
        in_loops = {value for stack in loops for value in stack.operands}
        dead: dict[Operation, None] = {}
        for op in list(self.block.ops):
            if op in dead:
                continue
            if op is self.end:
                self._finish(chosen, edit)
            elif isinstance(op, Stack) and op in loops:
                self._gather_in_loop(op)
                dead[op] = None
            elif isinstance(op, Grad):
                dead |= dict.fromkeys(self._differentiate(op, in_loops))
            elif isinstance(op, Part) and self.values.is_in_parts(op.operands[0]):
                op.results[0].replace_all_uses_with(self.values.parts[op.operands[0]])
                dead[op] = None
            elif op not in self.differentiated and self.values.take(op):
                dead[op] = None
            else:
                self.values.feed_whole(op)
        for op in reversed(dead):
            op.detach()
            op.erase()
        self._remove_unread()
        _gather_ahead(self.block, self.differentiated)

    # -- choice of parameters ----------------------------------------------------------------------

    def _take(self, argument: BlockArgument, port: Port) -> bool:
        """Return whether a value is kept in parts; log the reason against another one."""
        reader = _first_reader(self.block, argument)
        if port.kind != STATE or port.shard_of is not None or reader is None:
            return False
        written = port.name in self.written
        trained = argument in self.trained
        reason = self._reason(argument, port)
        if reason is not None:
            if trained or (not written and reason.name != "small"):
                self.log.declined(reader, reason)
            return False
        if not self.log.allow(reader):
            return False
        self.log.applied(reader)
        return True

    def _reason(self, argument: BlockArgument, port: Port) -> Reason | None:
        name, shape = port.name, shape_of(argument.type)
        if UNKNOWN in shape:
            return Reason("size-unknown", f"a size of '{name}' is not known: {list(shape)}")
        size = byte_count(argument.type)
        if size < max(self.smallest, 1):
            text = f"'{name}' has {size} bytes, and sharding pays from {self.smallest} bytes on"
            return Reason("small", text, "none: sharding a small parameter would cost time")
        if argument not in self.uniform:
            text = f"'{name}' has its own value on each replica, which cannot be sharded"
            return Reason("differs-between-replicas", text)
        if port.name in self.written and self._new_part(port) is None:
            text = f"the new value of '{name}' is not computed in parts"
            return Reason("updated-whole", text, "look at the updates that shard-updates declined")
        return None

    def _new_part(self, port: Port) -> SSAValue | None:
        """Return the part of the new value that a replica has computed; None without one."""
        owner = self.end.operands[self.written[port.name]].owner
        if isinstance(owner, AllGather) and len(owner.operands) == 1:
            return owner.operands[0]
        return None

    def _loops(self, chosen: Iterable[SSAValue]) -> set[Stack]:
        """Find the stacks of parameters that only loops over layers read and differentiate."""
        found: set[Stack] = set()
        for op in self.block.ops:
            if isinstance(op, Stack) and self._is_of_loop(op, set(chosen)):
                found.add(op)
        return found

    def _is_of_loop(self, stack: Stack, chosen: set[SSAValue]) -> bool:
        if stack.attr("axis") or not all(value in chosen for value in stack.operands):
            return False
        for use in stack.results[0].uses:
            op = use.operation
            if not isinstance(op, Layers) or op.parent is not self.block:
                return False
            if use.index < len(op.carried):
                return False
        return all(self._is_only_of(stack, value) for value in set(stack.operands))

    def _is_only_of(self, stack: Stack, value: SSAValue) -> bool:
        """True when only the loop contributes to the gradient of a value."""
        for use in value.uses:
            op = ancestor_in(self.block, use.operation)
            if isinstance(op, Grad):
                if use.index < len(op.of) or use.index >= len(op.of) + len(op.wrt):
                    return False
                gradient = op.results[use.index - len(op.of)]
                if not all(isinstance(each.operation, ReduceScatter) for each in gradient.uses):
                    return False
            elif op is not stack and op in self.differentiated:
                return False
        return list(stack.operands).count(value) == 1

    # -- rewriting ---------------------------------------------------------------------------------

    def _keep(self, argument: BlockArgument, port: Port, edit: SignatureEdit) -> None:
        """Replace an argument by this replica's part."""
        whole = cast(Tensor, argument.type)
        self.values.parts[argument] = edit.replace(argument, Part.infer(whole, self.count))
        edit.mark({port.name: {SHARD_OF: whole, PER_REPLICA: UnitAttr()}})

    def _gather_in_loop(self, stack: Stack) -> None:
        """Stack the parts; the loop gathers the parts of a layer when it comes to it."""
        shape = shape_of(stack.operands[0].type)
        parts = [self.values.parts[value] for value in stack.operands]
        made = insert(Stack.make(parts), stack, stack.results[0])
        for use in list(stack.results[0].uses):
            loop = use.operation
            assert isinstance(loop, Layers)
            loop.operands[use.index] = made
            body = loop.body.block
            old = body.args[use.index]
            new = body.insert_arg(parts[0].type, use.index)
            new.name_hint = old.name_hint
            first = _first_reader(body, old)
            if first is not None:
                whole = gather(new, shape, self.count)
                old.replace_all_uses_with(insert(whole, first, old))
                whole.properties |= AGAIN
            body.erase_arg(old)

    def _differentiate(self, op: Grad, in_loops: set[SSAValue]) -> list[Operation]:
        """Differentiate with respect to parts where a loop gathers; return the replaced ops.

        The gradient of such a part is already this replica's part of the sum.
        """
        parts = self.values.parts
        if in_loops.isdisjoint(op.wrt):
            self.values.feed_whole(op)
            return []
        of, wrt, cotangents, no_grad = op.operand_groups()
        asked = [parts[v] if v in in_loops else self.values.whole(v, op) for v in wrt]
        others = [[self.values.whole(v, op) for v in group] for group in (of, cotangents, no_grad)]
        made = Grad.make(others[0], asked, *others[1:], location=op.location, **op.attr_values())
        assert op.parent is not None
        op.parent.insert_op_before(made, op)
        dead: list[Operation] = [op]
        for value, old, new in zip(wrt, op.results, made.results, strict=True):
            new.name_hint = old.name_hint
            if value not in in_loops:
                old.replace_all_uses_with(new)
                continue
            for scatter in [use.operation for use in old.uses]:
                scatter.results[0].replace_all_uses_with(new)
                dead.append(scatter)
        return dead

    def _finish(self, chosen: dict[BlockArgument, Port], edit: SignatureEdit) -> None:
        """Return new parts of state that is kept in parts, and whole values of all else."""
        kept = {port.name for port in chosen.values()}
        for at, port in enumerate(signature_of(self.module).results):
            value = self.end.operands[at]
            if port.kind != STATE or port.name not in kept:
                edit.set_result(at, self.values.whole(value, self.end))
                continue
            new = self._new_part(port)
            assert new is not None
            edit.set_result(at, new)

    def _remove_unread(self) -> None:
        """Remove the gathers of new parameters, which nothing reads now."""
        for op in reversed(list(self.block.ops)):
            if isinstance(op, AllGather) and all(r.first_use is None for r in op.results):
                op.detach()
                op.erase()


def _first_reader(block: Block, value: SSAValue) -> Operation | None:
    """Find the first op of a block that reads a value, itself or in its regions."""
    readers = {ancestor_in(block, use.operation) for use in value.uses}
    return next((op for op in block.ops if op in readers), None)


def _gather_ahead(block: Block, differentiated: set[Operation]) -> None:
    """Let each forward gather wait until the reader before its own begins.

    So a replica has the parameters of two readers at a time: one computes, the other's arrive.
    """
    before: Operation | None = None
    for reader, gathers in _gathers_by_reader(block).items():
        if reader not in differentiated:
            continue
        for op in gathers:
            op.properties |= AGAIN
        if before is not None:
            _let_wait(gathers, before)
        before = reader


def _gathers_by_reader(block: Block) -> dict[Operation, list[AllGather]]:
    """Map the first readers of parameters, in order, to the gathers of these parameters."""
    found: dict[Operation, list[AllGather]] = {}
    for op in block.ops:
        if isinstance(op, AllGather):
            reader = _first_reader(block, op.results[0])
            if reader is not None:
                found.setdefault(reader, []).append(op)
    return found


def _let_wait(gathers: Sequence[AllGather], before: Operation) -> None:
    """Fence the parts together with an operand that `before` computes with."""
    computed = [v for v in before.operands if isinstance(v.owner, PdOp)]
    computed = [v for v in computed if not isinstance(v.owner, (AllGather, Fence))]
    if not computed:
        return
    value, parts = computed[0], [op.operands[0] for op in gathers]
    fence = Fence.make([*parts, value], [], location=before.location)
    assert before.parent is not None
    before.parent.insert_op_before(fence, before)
    for old, new in zip(fence.values, fence.results, strict=True):
        new.name_hint = old.name_hint
    for op, part in zip(gathers, fence.results, strict=False):
        op.operands[0] = part
    # XLA drops an unread result of a barrier, and then does not wait for it
    for at, operand in enumerate(before.operands):
        if operand is value:
            before.operands[at] = fence.results[-1]


def memory_notes(module: ModuleOp) -> Iterator[str]:
    """Report the bytes that a device has, where parameters are in parts."""
    found = share_of(module)
    if found is not None:
        yield (
            f"shard_parameters: each device has {found.state} bytes of state, {found.gradients} of "
            f"gradients and {found.stacks} of stacks, in parts, and at most {found.whole} of whole "
            "values; activations come on top"
        )


@dataclass(frozen=True)
class Share:
    """The bytes of a device: state, gradients, stacks for loops, and whole values at a time."""

    state: int
    gradients: int
    stacks: int
    whole: int


def share_of(module: ModuleOp) -> Share | None:
    """Compute a device's bytes in a program with parameters in parts; None for another program.

    Whole at a time are the parameters of a reader and their gradients, before these are scattered,
    and the parameters of the reader whose derivative comes next. In a loop all parameters of a
    layer count. Parameters that an op before and an op after the reader use stay whole in between.
    """
    main = main_function(module).body.block
    gathers = [op for op in module.walk() if isinstance(op, AllGather) and op.attr("again")]
    if not gathers:
        return None
    state = [port for port in signature_of(module).arguments if port.kind == STATE]
    order = {op: at for at, op in enumerate(main.ops)}
    spans = [_span(op, order) for op in gathers if op.parent is main]
    whole, for_memory = 0, looks_up(module)
    for block in dict.fromkeys(op.parent for op in gathers):
        assert block is not None
        readers = _gathers_by_reader(block)
        each = [_bytes(op.results[0] for op in ops) for ops in readers.values()]
        each = each if block is main else [sum(each)]
        ahead = [0, *each] if block is main else each
        for reader, own, next in zip(readers, each, ahead, strict=False):
            outer = ancestor_in(main, reader)
            assert outer is not None
            at = order[outer]
            held = sum(size for first, last, size in spans if first < at < last)
            copies = _copies(reader, for_memory=for_memory)
            whole = max(whole, copies * own + next + held)
    scattered = [op.results[0] for op in module.walk() if isinstance(op, ReduceScatter)]
    stacks = [value for op in main.ops if isinstance(op, Layers) for value in _parts_read(op)]
    return Share(
        sum(byte_count(port.type) for port in state),
        _bytes(scattered) + _bytes(stacks),
        _bytes(stacks),
        whole,
    )


def _copies(reader: Operation, *, for_memory: bool) -> int:
    """Count the values as large as a reader's parameters that its derivative has at a time.

    XLA's schedule for memory computes the readers of a parameter before its gradient. XLA for CPUs
    computes the gradient of a convolution's filters as a product, and then moves its elements.
    """
    return (3 if isinstance(reader, Conv2dBase) else 2) - for_memory


def looks_up(module: ModuleOp) -> bool:
    """True for a program that looks up a table in parts: it is scheduled for memory."""
    return any(map(_is_look_up, module.walk()))


def _is_look_up(op: Operation) -> bool:
    """True for an op that looks up a table in parts, which no other op reads."""
    if not isinstance(op, Embedding) or not isinstance(op.weight.owner, AllGather):
        return False
    readers = [use.operation for use in op.weight.uses]
    return all(reader is op or isinstance(reader, Grad) for reader in readers)


def _span(gather: AllGather, order: Mapping[Operation, int]) -> tuple[int, int, int]:
    """Return a gathered value's first and last forward readers, by position, and its bytes."""
    (value,) = gather.results
    assert gather.parent is not None
    readers = {ancestor_in(gather.parent, use.operation) for use in value.uses}
    places = [order[op] for op in readers if op is not None and not isinstance(op, Grad)]
    return min(places), max(places), byte_count(value.type)


def _parts_read(loop: Layers) -> list[SSAValue]:
    """List the stacks of parts that a loop reads; their gradients are as large."""
    items = zip(loop.stacks, loop.body.block.args[len(loop.carried) :], strict=True)
    return [
        stack
        for stack, item in items
        if any(isinstance(use.operation, AllGather) for use in item.uses)
    ]


def _bytes(values: Iterable[SSAValue]) -> int:
    return sum(byte_count(value.type) for value in values)
