"""Operators with branches -> `pd.if`.

Paddle writes a branch as two `conditional_block` operators with opposite conditions, whose results
`select_input` merges; together they are one `pd.if`. A `conditional_block` alone changes names that
have a value already.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue
from xdsl.ir import Block as IrBlock

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.control import If, Yield, widen_type
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.index import FillRows
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.types import show
from graphopt.ir.program import Operator
from graphopt.ir.program.sub_blocks import sub_block
from graphopt.ir.translate.blocks.arrays import open_array
from graphopt.ir.translate.blocks.block import BlockFrame, BlockParser, Handler
from graphopt.ir.translate.blocks.inline import add_op, arrays_written, count_unfolded, inline_block
from graphopt.ir.translate.blocks.open_branches import (
    OpenBranch,
    is_in_main,
    ops_after,
    raise_open,
    side_of,
    undo_regions,
)
from graphopt.ir.translate.blocks.rowwise import check_rowwise
from graphopt.ir.translate.blocks.undefined import is_undefined, zeros_like

# Paddle's inference passes replace the first type by the second.
_CONDITIONAL = ("conditional_block", "conditional_block_infer")


def _conditional_block(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    if not op.attrs.get("is_scalar_condition"):
        return _row_branch(parser, op)
    deferred = parser.frame.deferred
    if op not in deferred:
        partner = _partner(op)
        if partner is not None:
            deferred[partner] = op
            return {}
    first = deferred.pop(op, None)
    both = _Branches(op.input("Cond")[0], op, None) if first is None else _of_pair(first, op)
    if first is None and (opposite := _merged_by_opposite(op)) is not None:
        both = _Branches(opposite, None, op)
    arrays = list(dict.fromkeys(n for side in both.ops for n in arrays_written(parser, side)))
    holds = side_of(parser, op)
    if holds is None:  # a side that is not taken may not fit the known values
        holds = parser.known.truth(parser.read(both.condition))
    if holds is not None:
        return _inlined_branch(parser, both, holds=holds)
    condition = parser.read(both.condition)
    try:
        if is_in_main(parser) and not parser.in_one:
            return _branch(parser, both, arrays)
        try:
            with undo_regions(parser):
                return _branch(parser, both, arrays)
        except OpenBranch as error:
            return _with_the_rest(parser, both, error)
        except ProgramError as error:
            if not parser.in_one:
                raise
            return _with_the_rest(parser, both, error)
    except ProgramError as error:
        error.conditions = (*error.conditions, condition)
        raise


def _with_the_rest(
    parser: BlockParser, both: _Branches, error: OpenBranch | ProgramError
) -> Mapping[str, SSAValue]:
    """Emit one `pd.if` whose sides also contain the rest of the block.

    The branches give different types, but the results have one type at the end of the block. So a
    loop body computes with either type; OpenBranch if the types still differ at the end. In a
    module for the whole program (`in_one`) no run can take a side whose operators do not fit the
    values: then only the other side is kept, inlined without an op.
    """
    condition, outer = parser.read(both.condition), parser.frame
    blocks = IrBlock(), IrBlock()
    sides: list[BlockFrame] = []
    misfits: list[tuple[bool, ProgramError]] = []
    for block, holds in zip(blocks, (True, False), strict=True):
        try:
            with undo_regions(parser):
                sides.append(_side_with_the_rest(parser, both, block, holds=holds))
        except ProgramError as misfit:
            if not parser.in_one:
                raise
            misfits.append((holds, misfit))
    if len(misfits) == 2:
        raise misfits[0][1]
    if misfits:
        return _inlined_branch(parser, both, holds=not misfits[0][0])
    then, otherwise = sides
    if then.arrays or otherwise.arrays:
        raise error
    results: dict[str | tuple[str, str], tuple[SSAValue, SSAValue]] = {}
    for name in dict.fromkeys((*then.written, *otherwise.written)):
        before = parser.find(name)
        yes, no = then.values.get(name, before), otherwise.values.get(name, before)
        if yes is None or no is None:
            outer.partial[name] = both.condition if no is None else f"not {both.condition}"
        elif name in parser.wanted or not outer.owns(name) or widen_type(yes.type, no.type):
            results[name] = yes, no
    made = _make_if(parser, both.ops, condition, blocks, results)
    outer.ended = True
    return {str(name): value for name, value in zip(results, made, strict=True)}


def _side_with_the_rest(
    parser: BlockParser, both: _Branches, target: IrBlock, *, holds: bool
) -> BlockFrame:
    """Parse one side, and the rest of the block after it, into `target`."""
    rest = ops_after(both.ops[-1])
    count_unfolded(parser, len(rest), "branches that have the rest of the program in each side")
    parser.enter(parser.frame.block, target)
    for name, value in _inlined_branch(parser, both, holds=holds).items():
        parser.bind(name, value)
    parser.run(rest)
    return parser.leave()


@dataclass(frozen=True)
class _Branches:
    """The operators of both branches of a condition; None for an empty one."""

    condition: str
    when_true: Operator | None
    when_false: Operator | None

    @property
    def ops(self) -> list[Operator]:
        """The operators of the non-empty branches, the true branch first."""
        return [op for op in (self.when_true, self.when_false) if op is not None]


def _of_pair(first: Operator, second: Operator) -> _Branches:
    return _Branches(first.input("Cond")[0], first, second)


def _merged_by_opposite(op: Operator) -> str | None:
    """Find the condition whose false branch `op` is, if its true branch was removed.

    A branch that gives only Python constants, as `break` does, computes nothing, and saving a
    program removes it; `select_input` still merges by that condition.
    """
    ops, condition = op.block.ops, op.input("Cond")[0]
    for other in ops:
        if other is op:
            break
        if other.type == "logical_not" and other.output("Out") == [condition]:
            alone = _Branches(other.input("X")[0], None, op)
            given = set(op.output_arg_names)
            if any(given.intersection(select.input("X")) for select in _selects_after(alone)):
                return alone.condition
    return None


def _branch(parser: BlockParser, both: _Branches, arrays: Sequence[str]) -> Mapping[str, SSAValue]:
    """Emit one `pd.if` for both branches of a condition; `arrays` are the arrays they write."""
    name = both.condition
    condition = parser.read(name)
    for array in arrays:
        if parser.array(array) != ():
            open_array(parser, array)
    blocks = IrBlock(), IrBlock()
    is_first = is_in_main(parser)
    try:
        then, otherwise = (
            BlockFrame(parser.frame.block, block)
            if op is None
            else _parse_branch(parser, op, block, arrays)
            for op, block in zip((both.when_true, both.when_false), blocks, strict=True)
        )
    except OpenBranch as inner:
        raise OpenBranch(both.ops[-1], condition, str(inner), is_first=is_first) from None
    results: dict[str | tuple[str, str], tuple[SSAValue, SSAValue]] = {}
    for select in _selects_after(both):
        false_name, true_name = select.input("X")
        pair = (
            _side(parser, then, true_name, select, otherwise.values.get(false_name)),
            _side(parser, otherwise, false_name, select, then.values.get(true_name)),
        )
        if pair[0] is not None and pair[1] is not None:
            results[false_name, true_name] = pair[0], pair[1]
    for changed in dict.fromkeys((*then.outer_names(), *otherwise.outer_names())):
        before = parser.find(changed)
        yes, no = then.values.get(changed, before), otherwise.values.get(changed, before)
        if yes is None or no is None:
            parser.frame.partial[changed] = name if no is None else f"not {name}"
        else:
            results[changed] = yes, no
    for array in arrays:
        results[array] = _array_of(parser, then, otherwise, array)
    made = _make_if(parser, both.ops, condition, blocks, results)
    written: dict[str, SSAValue] = {}
    for key, value in zip(results, made, strict=True):
        if not isinstance(key, str):
            parser.frame.selected[key] = value
        elif key in arrays:
            parser.frame.arrays[key] = value
        else:
            written[key] = value
    return written


def _parse_branch(
    parser: BlockParser, op: Operator, target: IrBlock, arrays: Sequence[str]
) -> BlockFrame:
    """Parse a branch into `target`, and open the arrays that it writes."""
    frame = parser.enter(sub_block(op), target)
    parser.run(frame.block.ops)
    for array in arrays:
        if array in frame.arrays:
            open_array(parser, array)
    parser.leave()
    return frame


def _array_of(
    parser: BlockParser, then: BlockFrame, otherwise: BlockFrame, name: str
) -> tuple[SSAValue, SSAValue]:
    """Return the value of an array after each branch; an empty array where nothing wrote it."""
    before = parser.array(name)
    found = [frame.arrays.get(name, before) for frame in (then, otherwise)]
    like = next(array for array in found if isinstance(array, SSAValue))
    for side, frame in enumerate((then, otherwise)):
        if not isinstance(found[side], SSAValue):
            empty = {**zeros_like(like), "shape": (0, *zeros_like(like)["shape"][1:])}
            with _writing_to(parser, frame.target):
                found[side] = parser.translator.emit(Full, None, **empty).results[0]
    yes, no = found
    assert isinstance(yes, SSAValue)
    assert isinstance(no, SSAValue)
    return yes, no


def _make_if(
    parser: BlockParser,
    ops: Sequence[Operator],
    condition: SSAValue,
    blocks: tuple[IrBlock, IrBlock],
    results: Mapping[str | tuple[str, str], tuple[SSAValue, SSAValue]],
) -> Sequence[SSAValue]:
    """Emit the `pd.if`, with the location of the first operator.

    Raises OpenBranch for the last operator if no type fits both values of a result.
    """
    types: list[Attribute] = []
    sides = {key: _fill_undefined(yes, no, blocks) for key, (yes, no) in results.items()}
    for key, (yes, no) in sides.items():
        type_ = widen_type(yes.type, no.type)
        if type_ is None:
            what = f"'{key}'" if isinstance(key, str) else f"'{key[1]}' and '{key[0]}'"
            raise_open(
                *(parser, ops[-1], condition),
                f"the branches give {what} different types: {show(yes.type)} if the condition "
                f"holds, else {show(no.type)}; give both one dtype and number of dimensions",
            )
        types.append(type_)
    for side, block in enumerate(blocks):
        block.add_op(Yield.make([pair[side] for pair in sides.values()]))
    return add_op(parser, ops[0], If.build_with([[condition]], types, blocks)).results


def _fill_undefined(
    yes: SSAValue, no: SSAValue, blocks: tuple[IrBlock, IrBlock]
) -> tuple[SSAValue, SSAValue]:
    """Replace the undefined value of a pair by zeros of the other value's type."""
    if is_undefined(no) and not is_undefined(yes):
        return yes, _stand_in(yes, blocks[1])
    if is_undefined(yes) and not is_undefined(no):
        return _stand_in(no, blocks[0]), no
    return yes, no


def _stand_in(value: SSAValue, block: IrBlock) -> SSAValue:
    zeros = Full.make(**zeros_like(value))
    block.add_op(zeros)
    return zeros.results[0]


def _partner(op: Operator) -> Operator | None:
    """Find the conditional_block of the opposite condition, if the two can become one op.

    No operator between them may read this one's outputs, or write its inputs or outputs.
    """
    ops = op.block.ops
    condition = op.input("Cond")[0]
    negations: set[str] = set()
    touched = set(op.output_arg_names) | set(op.input_arg_names)
    start = next(i for i, other in enumerate(ops) if other is op)
    for other in ops[start + 1 :]:
        if other.type in _CONDITIONAL:
            opposite = other.input("Cond")[0] in negations
            return other if opposite and other.attrs.get("is_scalar_condition") else None
        if other.type == "logical_not" and other.input("X") == [condition]:
            negations.update(other.output("Out"))
        elif touched.intersection(other.output_arg_names) or set(op.output_arg_names).intersection(
            other.input_arg_names
        ):
            return None
    return None


def _selects_after(both: _Branches) -> Iterator[Operator]:
    """Find the `select_input` operators that merge the results of these branches."""
    last = both.ops[-1]
    ops = last.block.ops
    masks: set[str] = set()
    for other in ops:
        if other.type == "cast" and both.condition in other.input("X"):
            masks.update(other.output("Out"))
    start = next(i for i, other in enumerate(ops) if other is last)
    for other in ops[start + 1 :]:
        if (
            other.type == "select_input"
            and len(other.input("X")) == 2
            and masks.intersection(other.input("Mask"))
        ):
            yield other


def _side(
    parser: BlockParser, frame: BlockFrame, name: str, select: Operator, other: SSAValue | None
) -> SSAValue | None:
    """Return a branch's value for a name that `select` reads; None if it merges other branches."""
    if name in frame.values:
        return frame.values[name]
    if other is None:
        return None
    outside = parser.find(name)
    if outside is not None:
        return outside
    # a Python number that a branch returned is a constant operator after the branches
    for op in select.block.ops:
        if op is select:
            return None
        if name in op.output_arg_names and not op.input_arg_names:
            with _writing_to(parser, frame.target):
                return parser.translator.translate(op)[name]
    return None


@contextmanager
def _writing_to(parser: BlockParser, target: IrBlock) -> Generator[None]:
    saved, parser.translator.block = parser.translator.block, target
    try:
        yield
    finally:
        parser.translator.block = saved


def _select_input(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    names = op.input("X")
    if len(set(names)) == 1 and parser.is_array(names[0]):  # both branches wrote to one array
        parser.frame.arrays[op.output("Out")[0]] = parser.array(names[0])
        return {}
    chosen = parser.frame.chosen.get((names[0], names[1])) if len(names) == 2 else None
    if chosen is None and len(names) == 2 and (holds := side_of(parser, op)) is not None:
        chosen = names[1 if holds else 0]
    if chosen is not None:
        return {op.output("Out")[0]: parser.read(chosen)}
    found = parser.frame.selected.get((names[0], names[1])) if len(names) == 2 else None
    if found is None and len(names) == 2 and all(parser.find(n) is not None for n in names):
        no, yes = (parser.read(n) for n in names)
        mask = parser.translator.emit(Cast, op, parser.read(op.input("Mask")[0]), dtype="bool")
        blocks = IrBlock(), IrBlock()
        (found,) = _make_if(
            parser, [op], mask.results[0], blocks, {(names[0], names[1]): (yes, no)}
        )
    if found is None:
        raise UnsupportedError(
            f"select_input of {', '.join(names)} is not supported: the inputs are not the results "
            "of the two branches of one condition in this block"
        )
    return {op.output("Out")[0]: found}


def _row_branch(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """Inline a branch of IfElse for all rows; `merge_lod_tensor` takes the branch's rows."""
    target = parser.frame.target
    before = target.last_op
    written = inline_block(parser, sub_block(op), "a branch of IfElse")
    split: set[SSAValue] = set()
    is_new = before is None
    for inner in target.ops:
        if isinstance(inner, FillRows):
            split.update(inner.results)
        if is_new:
            check_rowwise(inner, split)
        is_new = is_new or inner is before
    return written


def _inlined_branch(parser: BlockParser, both: _Branches, *, holds: bool) -> Mapping[str, SSAValue]:
    """Inline the branch that is known to be taken into the current block."""
    taken = both.when_true if holds else both.when_false
    written = {}
    if taken is not None:
        written = inline_block(parser, sub_block(taken), "a branch with a known condition")
    for select in _selects_after(both):
        false_name, true_name = select.input("X")
        parser.frame.chosen[false_name, true_name] = true_name if holds else false_name
    return written


BRANCHES: Mapping[str, Handler] = {
    **dict.fromkeys(_CONDITIONAL, _conditional_block),
    "select_input": _select_input,
}
