"""Branches, loops and tensor arrays of PIR as legacy operators with sub-blocks.

PIR's blocks return values to the enclosing operator. Legacy blocks write variables of the enclosing
block: a branch copies its results there, and a loop's body overwrites its carried variables.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphopt.errors import FormatError
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.formats.pir.importer import Importer
from graphopt.ir.formats.pir.loop_gradients import STACK_OPERATORS, Pair
from graphopt.ir.formats.pir.registry import imports
from graphopt.ir.formats.pir_json.records import PirBlock, PirOp, PirType, PirValue
from graphopt.ir.program import EMPTY, GRAD_SUFFIX, AttrKind, Block, VarKind
from graphopt.ir.program.sub_blocks import names_in

_ARRAY = "dense_tensor_array"
_FLAG = PirType("dtensor", "bool", (1,))


@imports("pd_op.if")
def branches(importer: Importer, op: PirOp) -> None:
    """Emit two `conditional_block`s with opposite conditions, and a `select_input` per result."""
    if len(op.regions) != 2 or len(op.operands) != 1:
        raise _unsound(importer, op, "a condition and two regions")
    tag = f"if_{importer.serial()}"
    condition = importer.value(op.operands[0])
    found = [
        importer.new(f"{tag}.{side}{i}", result.type) if result.type.kind != _ARRAY else ""
        for side in ("true", "false")
        for i, result in enumerate(op.results)
    ]
    count = len(op.results)
    sides = found[:count], found[count:]
    yielded = [_branch(importer, op, op.regions[0], condition, sides[0], tag)]
    opposite = importer.new(f"{tag}.not", _FLAG)
    importer.emit("logical_not", {"X": [condition]}, {"Out": [opposite]}, {}, source=op)
    yielded.append(_branch(importer, op, op.regions[1], opposite, sides[1], tag))
    if not count:
        return
    mask = importer.new(f"{tag}.mask", PirType("dtensor", "int32", (1,)))
    codes = {"in_dtype": as_dtype("bool").code, "out_dtype": as_dtype("int32").code}
    importer.emit("cast", {"X": [condition]}, {"Out": [mask]}, codes, source=op)
    for i, result in enumerate(op.results):
        if result.type.kind == _ARRAY:
            # both branches write to the same array of the enclosing block
            importer.named[result.id] = yielded[0][i]
            continue
        inputs = {"X": [sides[1][i], sides[0][i]], "Mask": [mask]}
        importer.emit("select_input", inputs, {"Out": importer.results(op, i)}, {}, source=op)


def _branch(
    importer: Importer,
    op: PirOp,
    region: Sequence[PirBlock],
    condition: str,
    names: Sequence[str],
    tag: str,
) -> list[str]:
    """Emit one branch, which copies the yielded values to `names`; return these values."""
    inner = _enter(importer)
    yielded: list[str] = []
    for block in region[:1]:
        importer.translate(block)
        yielded = [importer.value(value) for value in _yielded_values(block)]
    if len(yielded) != len(op.results):
        raise _unsound(importer, op, f"branches that yield {len(op.results)} values")
    for name, value in zip(names, yielded, strict=True):
        if name:
            importer.emit("assign", {"X": [value]}, {"Out": [name]}, {}, source=op)
    _leave(importer, inner)
    scope = importer.new(f"{tag}.scope", kind=VarKind.STEP_SCOPES)
    importer.emit(
        "conditional_block",
        {"Cond": [condition], "Input": _read_from_around(inner)},
        {"Out": names_in(inner, written=True), "Scope": [scope]},
        {"sub_block": inner.idx, "is_scalar_condition": True},
        {"sub_block": AttrKind.BLOCK},
        op,
    )
    return yielded


@imports("pd_op.while")
def loop(importer: Importer, op: PirOp) -> None:
    """Emit a `while` that overwrites a variable for its condition and for each carried value."""
    pair = importer.loops.pairs.get(id(op))
    if pair is not None and _emit_gradient(importer, pair):
        return
    block = op.regions[0][0] if op.regions and op.regions[0] else None
    if block is None or not len(op.operands) - 1 == len(op.results) == len(block.args):
        raise _unsound(importer, op, "a region with an argument for each carried value")
    tag = f"while_{importer.serial()}"
    condition = importer.new(f"{tag}.condition", importer.types.get(op.operands[0]))
    _assign(importer, op, importer.value(op.operands[0]), condition)
    carried = [
        _carry_value(importer, op, value, argument, result, f"{tag}.carried{i}")
        for i, (value, argument, result) in enumerate(
            zip(op.operands[1:], block.args, op.results, strict=True)
        )
    ]
    inner = _enter(importer)
    importer.translate(block)
    following = [importer.value(value) for value in _yielded_values(block)]
    if len(following) != len(carried) + 1:
        raise _unsound(importer, op, f"a body that yields {len(carried) + 1} values")
    _assign_all(importer, op, following, [condition, *carried])
    _leave(importer, inner)
    scope = importer.new(f"{tag}.scope", kind=VarKind.STEP_SCOPES)
    importer.loops.made[id(op)] = importer.emit(
        "while",
        {"Condition": [condition], "X": _read_from_around(inner)},
        {"Out": names_in(inner, written=True), "StepScopes": [scope]},
        {"sub_block": inner.idx, "is_test": False},
        {"sub_block": AttrKind.BLOCK},
        op,
    )


def _carry_value(
    importer: Importer, op: PirOp, value: int, argument: PirValue, result: PirValue, name: str
) -> str:
    """Bind a carried value to one variable: before the loop, in its body and after it.

    An array is written in place, so it needs no new variable.
    """
    before = importer.value(value)
    importer.types[argument.id] = argument.type
    if argument.type.kind != _ARRAY:
        before, source = importer.new(name, result.type), before
        _assign(importer, op, source, before)
    importer.named[argument.id] = importer.named[result.id] = before
    return before


def _assign_all(
    importer: Importer, op: PirOp, sources: Sequence[str], targets: Sequence[str]
) -> None:
    """Copy all at once: no copy overwrites a value that a later copy reads."""
    for i, source in enumerate(sources):
        if source in targets[:i] and source != targets[i]:
            kept = importer.new(f"{source}.kept")
            _assign(importer, op, source, kept)
            sources = [*sources[:i], kept, *sources[i + 1 :]]
    for source, target in zip(sources, targets, strict=True):
        if source != target:
            _assign(importer, op, source, target)


def _assign(importer: Importer, op: PirOp, source: str, target: str) -> None:
    importer.emit("assign", {"X": [source]}, {"Out": [target]}, {}, source=op)


@imports("pd_op.create_array")
def create_array(importer: Importer, op: PirOp) -> None:
    """Declare an array without an operator: the first write creates it."""
    importer.results(op)


@imports(*STACK_OPERATORS)
def stack(importer: Importer, op: PirOp) -> None:
    """Drop a stack between a loop and its gradient if they become one operator; else keep it."""
    if not importer.loops.is_known(op):
        importer.opaque(op)


def _yielded_values(block: PirBlock) -> tuple[int, ...]:
    last = block.ops[-1] if block.ops else None
    return last.operands if last is not None and last.name == "cf.yield" else ()


def _enter(importer: Importer) -> Block:
    inner = Block(importer.program, len(importer.program.blocks), importer.block.idx)
    importer.program.blocks.append(inner)
    importer.block = inner
    return inner


def _leave(importer: Importer, inner: Block) -> None:
    importer.block = importer.program.blocks[inner.parent_idx]


def _read_from_around(inner: Block) -> list[str]:
    """List the outer variables that a block reads."""
    return names_in(inner, written=False)


def _unsound(importer: Importer, op: PirOp, expected: str) -> FormatError:
    return FormatError(f"{importer.source.source}: expected {op.name} to have {expected}")


def _emit_gradient(importer: Importer, pair: Pair) -> bool:
    """Append the `while_grad` of a pair; False when the first loop reads no such target."""
    forward = importer.loops.made.get(id(pair.forward))
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
        name = importer.value(target)
        if name not in gradients:
            return False
        if target in results:
            # the loop's variable starts as a copy of the source, which gets its gradient
            given.append(importer.value(op.operands[1 + position]))
            made = importer.new(f"{name}{GRAD_SUFFIX}", op.results[position].type)
            gradients[name] = made
            copies.append((position, made))
            continue
        start = op.operands[1 + position]
        begin = importer.value(start)
        if importer.loops.is_zero(start):
            # `while_grad` makes the zeros unnecessary
            (gradients[name],) = importer.results(op, position)
            importer.constant_ops += [o for o in importer.block.ops if begin in o.output_arg_names]
        else:
            made = importer.new(f"{name}{GRAD_SUFFIX}@RENAME@{start}", op.results[position].type)
            gradients[name] = made
            sums.append((position, begin, made))
    inputs = {"X": reads, "Out": list(forward.outputs["Out"]), f"Out{GRAD_SUFFIX}": given}
    inputs["StepScopes"] = list(forward.outputs["StepScopes"])
    outputs = {f"X{GRAD_SUFFIX}": [gradients[name] for name in reads]}
    importer.emit("while_grad", inputs, outputs, {}, source=op)
    for position, made in copies:
        outputs = {"Out": importer.results(op, position)}
        importer.emit("assign", {"X": [made]}, outputs, {}, source=op)
    for position, begin, made in sums:
        outputs = {"Out": importer.results(op, position)}
        importer.emit("sum", {"X": [begin, made]}, outputs, {}, source=op)
    return True
