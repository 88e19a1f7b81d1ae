"""Branches, loops and tensor arrays of PIR as legacy operators with sub-blocks.

PIR's blocks give values to the operator around them. Legacy's blocks write variables of the block
around them: a branch copies its results there, and a loop's body overwrites what it carries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphopt.errors import FormatError
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.formats.pir.importer import Importer
from graphopt.ir.formats.pir.loop_gradients import STACK_OPERATORS, Pair
from graphopt.ir.formats.pir_json.records import PirBlock, PirOp, PirType, PirValue
from graphopt.ir.program import EMPTY, GRAD_SUFFIX, AttrKind, Block, VarKind
from graphopt.ir.program.sub_blocks import names_in

_ARRAY = "dense_tensor_array"
_FLAG = PirType("dtensor", "bool", (1,))


def _if(self: Importer, op: PirOp) -> None:
    """Two `conditional_block`s with opposite conditions, and a `select_input` for each result."""
    if len(op.regions) != 2 or len(op.operands) != 1:
        raise _unsound(self, op, "a condition and two regions")
    tag = f"if_{self.serial()}"
    condition = self.value(op.operands[0])
    found = [
        self.new(f"{tag}.{side}{i}", result.type) if result.type.kind != _ARRAY else ""
        for side in ("true", "false")
        for i, result in enumerate(op.results)
    ]
    count = len(op.results)
    sides = found[:count], found[count:]
    yielded = [_branch(self, op, op.regions[0], condition, sides[0], tag)]
    opposite = self.new(f"{tag}.not", _FLAG)
    self.emit("logical_not", {"X": [condition]}, {"Out": [opposite]}, {}, source=op)
    yielded.append(_branch(self, op, op.regions[1], opposite, sides[1], tag))
    if not count:
        return
    mask = self.new(f"{tag}.mask", PirType("dtensor", "int32", (1,)))
    codes = {"in_dtype": as_dtype("bool").code, "out_dtype": as_dtype("int32").code}
    self.emit("cast", {"X": [condition]}, {"Out": [mask]}, codes, source=op)
    for i, result in enumerate(op.results):
        if result.type.kind == _ARRAY:
            # both branches write to the array that came from outside
            self.named[result.id] = yielded[0][i]
            continue
        inputs = {"X": [sides[1][i], sides[0][i]], "Mask": [mask]}
        self.emit("select_input", inputs, {"Out": self.results(op, i)}, {}, source=op)


def _branch(
    self: Importer,
    op: PirOp,
    region: Sequence[PirBlock],
    condition: str,
    names: Sequence[str],
    tag: str,
) -> list[str]:
    """One branch, which copies the yielded values to `names`; returns these values."""
    inner = _enter(self)
    yielded: list[str] = []
    for block in region[:1]:
        self.translate(block)
        yielded = [self.value(value) for value in _yielded(block)]
    if len(yielded) != len(op.results):
        raise _unsound(self, op, f"branches that yield {len(op.results)} values")
    for name, value in zip(names, yielded, strict=True):
        if name:
            self.emit("assign", {"X": [value]}, {"Out": [name]}, {}, source=op)
    _leave(self, inner)
    scope = self.new(f"{tag}.scope", kind=VarKind.STEP_SCOPES)
    self.emit(
        "conditional_block",
        {"Cond": [condition], "Input": _read_from_around(inner)},
        {"Out": names_in(inner, written=True), "Scope": [scope]},
        {"sub_block": inner.idx, "is_scalar_condition": True},
        {"sub_block": AttrKind.BLOCK},
        op,
    )
    return yielded


def _while(self: Importer, op: PirOp) -> None:
    """A `while` that overwrites a variable for its condition and for each value it carries."""
    pair = self.loops.pairs.get(id(op))
    if pair is not None and _emit_gradient(self, pair):
        return
    block = op.regions[0][0] if op.regions and op.regions[0] else None
    if block is None or not len(op.operands) - 1 == len(op.results) == len(block.args):
        raise _unsound(self, op, "a region with an argument for each value that it carries")
    tag = f"while_{self.serial()}"
    condition = self.new(f"{tag}.condition", self.types.get(op.operands[0]))
    _assign(self, op, self.value(op.operands[0]), condition)
    carried = [
        _carried(self, op, value, argument, result, f"{tag}.carried{i}")
        for i, (value, argument, result) in enumerate(
            zip(op.operands[1:], block.args, op.results, strict=True)
        )
    ]
    inner = _enter(self)
    self.translate(block)
    following = [self.value(value) for value in _yielded(block)]
    if len(following) != len(carried) + 1:
        raise _unsound(self, op, f"a body that yields {len(carried) + 1} values")
    _assign_all(self, op, following, [condition, *carried])
    _leave(self, inner)
    scope = self.new(f"{tag}.scope", kind=VarKind.STEP_SCOPES)
    self.loops.made[id(op)] = self.emit(
        "while",
        {"Condition": [condition], "X": _read_from_around(inner)},
        {"Out": names_in(inner, written=True), "StepScopes": [scope]},
        {"sub_block": inner.idx, "is_test": False},
        {"sub_block": AttrKind.BLOCK},
        op,
    )


def _carried(
    self: Importer, op: PirOp, value: int, argument: PirValue, result: PirValue, name: str
) -> str:
    """The variable of a carried value: before the loop, in its body and after it.

    An array is written in place, so that it needs no other.
    """
    before = self.value(value)
    self.types[argument.id] = argument.type
    if argument.type.kind != _ARRAY:
        before, source = self.new(name, result.type), before
        _assign(self, op, source, before)
    self.named[argument.id] = self.named[result.id] = before
    return before


def _assign_all(self: Importer, op: PirOp, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Copy all at once: no copy overwrites a value that a later one reads."""
    for i, source in enumerate(sources):
        if source in targets[:i] and source != targets[i]:
            kept = self.new(f"{source}.kept")
            _assign(self, op, source, kept)
            sources = [*sources[:i], kept, *sources[i + 1 :]]
    for source, target in zip(sources, targets, strict=True):
        if source != target:
            _assign(self, op, source, target)


def _assign(self: Importer, op: PirOp, source: str, target: str) -> None:
    self.emit("assign", {"X": [source]}, {"Out": [target]}, {}, source=op)


def _create_array(self: Importer, op: PirOp) -> None:
    """An array has no operator: it begins when something is written to it."""
    self.results(op)


def _stack(self: Importer, op: PirOp) -> None:
    """A stack between a loop and its gradient is not there where these become one operator."""
    if not self.loops.is_known(op):
        self.opaque(op)


def _yielded(block: PirBlock) -> tuple[int, ...]:
    last = block.ops[-1] if block.ops else None
    return last.operands if last is not None and last.name == "cf.yield" else ()


def _enter(self: Importer) -> Block:
    inner = Block(self.program, len(self.program.blocks), self.block.idx)
    self.program.blocks.append(inner)
    self.block = inner
    return inner


def _leave(self: Importer, inner: Block) -> None:
    self.block = self.program.blocks[inner.parent_idx]


def _read_from_around(inner: Block) -> list[str]:
    """The variables around a block that it reads."""
    return names_in(inner, written=False)


def _unsound(self: Importer, op: PirOp, expected: str) -> FormatError:
    return FormatError(f"{self.source.source}: expected {op.name} to have {expected}")


CONTROL: Mapping[str, Callable[[Importer, PirOp], None]] = {
    "pd_op.if": _if,
    "pd_op.while": _while,
    "pd_op.create_array": _create_array,
    **dict.fromkeys(STACK_OPERATORS, _stack),
}


def _emit_gradient(self: Importer, pair: Pair) -> bool:
    """Append the `while_grad` of a pair; False when the first loop does not read its operands."""
    forward = self.loops.made.get(id(pair.forward))
    op = pair.backward
    if forward is None:
        return False
    results = [result.id for result in pair.forward.results]
    reads = list(forward.inputs["X"])
    given: list[str] = []
    gradients = dict.fromkeys(reads, EMPTY)
    copies: list[tuple[int, str]] = []
    sums: list[tuple[int, str, str]] = []
    for position, target in enumerate(pair.targets):
        name = self.value(target)
        if name not in gradients:
            return False
        if target in results:
            # the loop's variable starts as a copy, whose gradient is what the source gets
            given.append(self.value(op.operands[1 + position]))
            made = self.new(f"{name}{GRAD_SUFFIX}", op.results[position].type)
            gradients[name] = made
            copies.append((position, made))
            continue
        start = op.operands[1 + position]
        begin = self.value(start)
        if self.loops.is_zero(start):
            # the zeros are needed no more
            (gradients[name],) = self.results(op, position)
            self.constant_ops += [o for o in self.block.ops if begin in o.output_arg_names]
        else:
            made = self.new(f"{name}{GRAD_SUFFIX}@RENAME@{start}", op.results[position].type)
            gradients[name] = made
            sums.append((position, begin, made))
    inputs = {"X": reads, "Out": list(forward.outputs["Out"]), f"Out{GRAD_SUFFIX}": given}
    inputs["StepScopes"] = list(forward.outputs["StepScopes"])
    outputs = {f"X{GRAD_SUFFIX}": [gradients[name] for name in reads]}
    self.emit("while_grad", inputs, outputs, {}, source=op)
    for position, made in copies:
        outputs = {"Out": self.results(op, position)}
        self.emit("assign", {"X": [made]}, outputs, {}, source=op)
    for position, begin, made in sums:
        outputs = {"Out": self.results(op, position)}
        self.emit("sum", {"X": [begin, made]}, outputs, {}, source=op)
    return True
