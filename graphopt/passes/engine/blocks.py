"""The layers and repeated blocks of a program, and the fusions in each.

A program is cut where later ops need only one value: between the blocks of a residual network,
between the sublayers of a Transformer, between any two ops of a chain. In a chain, an op with
weights and the ops after it form one layer. Values that depend on no parameter, such as masks, and
values with many readers may cross a cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import SoftmaxBase
from graphopt.ir.dialect.ops.control import Yield
from graphopt.ir.dialect.ops.conv import Conv2dBase, Conv3d, ConvTransposeBase
from graphopt.ir.dialect.ops.fused import FusedConv2dAddAct, FusedGemmEpilogue
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add
from graphopt.ir.dialect.ops.norm import BatchNormBase, GroupNorm, InstanceNorm, LayerNorm
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.regions import ancestor_in, inner_ops, values_read
from graphopt.ir.dialect.signature import STATE, main_function, signature_of
from graphopt.ir.dialect.traits import Elementwise, Movement
from graphopt.passes.engine.naming import source_line
from graphopt.passes.engine.pattern import Reason

BLOCK, RESIDUAL, ATTENTION, LAYER = "block", "residual block", "attention", "layer"

_WEIGHED = (
    *(Matmul, FusedGemmEpilogue, Embedding),
    *(Conv2dBase, Conv3d, FusedConv2dAddAct, ConvTransposeBase),
)
_NORMS = (BatchNormBase, LayerNorm, GroupNorm, InstanceNorm)
# a value with more readers may cross cuts, such as the memory that all decoder layers read
_MANY = 8


@dataclass(frozen=True)
class Fused:
    """Ops of some kinds that a pass made one op, of the kind `made`."""

    rule: str
    ops: tuple[str, ...]
    made: str


@dataclass(frozen=True)
class RefusedFusion:
    """A fusion that was declined in a block."""

    rule: str
    reason: Reason


@dataclass
class CodeBlock:
    """A layer or block: the kinds of its ops in their order, and the fusions in it.

    `number` is its index among the blocks of its kind; single ops, which pages draw without a box,
    are counted separately. `location` is the user's line that made its last op.
    """

    number: int
    kind: str
    ops: tuple[str, ...]
    location: str
    fused: Counter[Fused] = field(default_factory=Counter["Fused"])
    """The number of fusions by kind; a fusion counts for the block of its last op."""
    taken: int = 0
    """The number of ops of this block that fused ops replaced."""
    refused: list[RefusedFusion] = field(default_factory=list[RefusedFusion])

    @property
    def words(self) -> str:
        """The ops in words, as `3 conv2d, 3 batch_norm, add`."""
        return ", ".join(
            name if count == 1 else f"{count} {name}" for name, count in Counter(self.ops).items()
        )


class BlockLog:
    """The blocks of a module before its fusions; a sweep reports what becomes of their ops."""

    def __init__(self, module: ModuleOp) -> None:
        self.blocks: list[CodeBlock] = []
        self._of: dict[Operation, CodeBlock] = {}
        for block, ops in blocks_of(module):
            self.blocks.append(block)
            self._of.update(dict.fromkeys(ops, block))

    def took(self, rule: str, ops: Sequence[PdOp], made: Sequence[PdOp]) -> None:
        """Record that a fusion replaced `ops`, the last one first, by the ops in `made`."""
        block = self._block(ops[0])
        if block is None:
            return
        block.fused[Fused(rule, _names(ops[::-1]), _short(made[-1]))] += 1
        for op in ops:
            (self._block(op) or block).taken += len(_names([op]))
        self._of.update(dict.fromkeys(made, block))

    def note_refusal(self, rule: str, op: PdOp, reason: Reason) -> None:
        """Record that a fusion which ends with this op was declined."""
        block = self._block(op)
        if block is not None:
            block.refused.append(RefusedFusion(rule, reason))

    def _block(self, op: Operation) -> CodeBlock | None:
        """Find the block of a forward op; other passes' ops are in the block of the op before."""
        at: Operation | None = op
        while at is not None and at not in self._of:
            if isinstance(at, (Grad, Update)):
                return None
            at = at.prev_op or at.parent_op()
        return self._of[at] if at is not None else None


def blocks_of(module: ModuleOp) -> Iterator[tuple[CodeBlock, list[PdOp]]]:
    """Yield the layers and blocks of the forward part, each with its ops, in order."""
    try:
        flow = _Flow.of(module)
    except ValueError:  # a fragment, without an @main whose arguments have roles
        return
    numbers = Counter[tuple[str, bool]]()
    for ops in _merge_layers(flow, _cut(flow)):
        names = _names([*ops, *_inside(ops)]) or tuple(map(_short, ops))
        line = next((line for op in ops[::-1] if (line := source_line(op.location))), "")
        kind = _kind(flow, ops)
        counted = kind, len(ops) > 1
        numbers[counted] += 1
        yield CodeBlock(numbers[counted], kind, names, line), ops


def _names(ops: Sequence[PdOp]) -> tuple[str, ...]:
    """List the kinds of the ops that compute something, without ops that move or make values."""
    shown = (op for op in ops if op.operands and not op.has_trait(Movement))
    return tuple(map(_short, shown))


def _inside(ops: Sequence[PdOp]) -> list[PdOp]:
    """Collect the ops in the regions of `ops`, without the terminators."""
    inner = (op for outer in ops for op in inner_ops(outer))
    return [op for op in inner if isinstance(op, PdOp) and not isinstance(op, Yield)]


def _short(op: PdOp) -> str:
    return op.name.removeprefix("pd.")


@dataclass
class _Flow:
    """The forward ops of `@main`, and the values that come from feeds and from parameters."""

    body: Block
    ops: list[PdOp]
    fed: set[SSAValue]
    learnt: set[SSAValue]
    state: set[SSAValue]

    @classmethod
    def of(cls, module: ModuleOp) -> _Flow:
        function = main_function(module)
        body = function.body.block
        kinds = [port.kind for port in signature_of(module).arguments]
        state: set[SSAValue] = {a for a, k in zip(body.args, kinds, strict=True) if k == STATE}
        fed: set[SSAValue] = {arg for arg in body.args if arg not in state}
        learnt = set(state)
        ops: list[PdOp] = []
        for op in body.ops:
            if isinstance(op, (Grad, Update)):
                break
            if not isinstance(op, PdOp):
                continue
            read = values_read(op)
            if any(value in fed for value in read):
                fed.update(op.results)
                ops.append(op)
            if any(value in learnt for value in read):
                learnt.update(op.results)
        return cls(body, ops, fed, learnt, state)

    def flows(self, value: SSAValue) -> bool:
        """True for a fed value that depends on parameters or that an op with weights reads.

        False for a value with many readers.
        """
        readers = {use.operation for use in value.uses}
        if value not in self.fed or len(readers) > _MANY:
            return False
        return value in self.learnt or any(isinstance(reader, _WEIGHED) for reader in readers)


def _cut(flow: _Flow) -> Iterator[list[PdOp]]:
    """Split the forward ops wherever at most one value is needed later."""
    places = {op: place for place, op in enumerate(flow.ops)}
    changes = [0] * (len(flow.ops) + 1)
    made = [(0, value) for value in flow.body.args]
    made += [(place, result) for place, op in enumerate(flow.ops) for result in op.results]
    for place, value in made:
        if flow.flows(value):
            users = (ancestor_in(flow.body, use.operation) for use in value.uses)
            last = max((places[u] for u in users if isinstance(u, PdOp) and u in places), default=0)
            if last > place:
                changes[place] += 1
                changes[last] -= 1
    open_values, found = 0, list[PdOp]()
    for op, change in zip(flow.ops, changes, strict=False):
        open_values += change
        found.append(op)
        if open_values <= 1:
            yield found
            found = []
    if found:
        yield found


def _merge_layers(flow: _Flow, parts: Iterator[list[PdOp]]) -> list[list[PdOp]]:
    """Merge norms and elementwise ops of a chain into the block or weighted op before them."""
    found: list[list[PdOp]] = []
    for ops in parts:
        follows = len(ops) == 1 and _goes_with(flow, ops[0])
        if found and follows:
            found[-1] += ops
        else:
            found.append(list(ops))
    return found


def _goes_with(flow: _Flow, op: PdOp) -> bool:
    if isinstance(op, _WEIGHED) and any(value in flow.state for value in op.operands):
        return False
    elementwise = op.has_trait(Elementwise) and not op.has_trait(Movement)
    return elementwise or isinstance(op, (*_NORMS, Dropout))


def _kind(flow: _Flow, ops: Sequence[PdOp]) -> str:
    inside = {result for op in ops for result in op.results}
    products = sum(isinstance(op, Matmul) for op in ops)
    if products > 1 and any(isinstance(op, SoftmaxBase) for op in ops):
        return ATTENTION
    adds = (op for op in ops if isinstance(op, Add))
    if any(all(map(flow.flows, op.operands)) for op in adds) and len(inside) > 2:
        return RESIDUAL
    weighed = sum(isinstance(op, _WEIGHED) for op in ops)
    return LAYER if weighed <= 1 else BLOCK
