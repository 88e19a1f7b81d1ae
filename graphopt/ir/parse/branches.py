"""Operators with branches -> `pd.if`.

Paddle writes a branch as two `conditional_block` operators with opposite conditions, whose results
`select_input` merges; together they are one `pd.if`. A `conditional_block` alone changes names that
have a value already.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.ir import Attribute, SSAValue
from xdsl.ir import Block as IrBlock

from graphopt.errors import UnsupportedError
from graphopt.ir.fold import truth
from graphopt.ir.ops.control import If, Yield, join
from graphopt.ir.ops.creation import Full
from graphopt.ir.ops.index import FillRows
from graphopt.ir.ops.math import Cast
from graphopt.ir.parse.block import BlockParser, Frame, Handler
from graphopt.ir.parse.inline import add_op, changes_arrays, inlined
from graphopt.ir.parse.rowwise import check_rowwise
from graphopt.ir.parse.undefined import is_undefined, zeros_like
from graphopt.ir.program import Operator
from graphopt.ir.sub_blocks import sub_block
from graphopt.ir.types import show

# The second one is what Paddle's inference passes make of the first.
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
    when_true, when_false = (op, None) if first is None else (first, op)
    if changes_arrays(parser, when_true) or (when_false and changes_arrays(parser, when_false)):
        return _inlined_branch(parser, when_true, when_false)
    return _branch(parser, when_true, when_false)


def _branch(
    parser: BlockParser, when_true: Operator, when_false: Operator | None
) -> Mapping[str, SSAValue]:
    """One `pd.if` for the operators of the true and of the false branch."""
    name = when_true.input("Cond")[0]
    condition = parser.read(name)
    blocks = IrBlock(), IrBlock()
    then = parser.parse_into(sub_block(when_true), blocks[0])
    otherwise = Frame(parser.frame.block, blocks[1])
    if when_false is not None:
        otherwise = parser.parse_into(sub_block(when_false), blocks[1])
    results: dict[str | tuple[str, str], tuple[SSAValue, SSAValue]] = {}
    for select in _selects_after(when_true, when_false):
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
    made = _make_if(parser, when_true, condition, blocks, results)
    written: dict[str, SSAValue] = {}
    for key, value in zip(results, made, strict=True):
        if isinstance(key, str):
            written[key] = value
        else:
            parser.frame.selected[key] = value
    return written


def _make_if(
    parser: BlockParser,
    source: Operator,
    condition: SSAValue,
    blocks: tuple[IrBlock, IrBlock],
    results: Mapping[str | tuple[str, str], tuple[SSAValue, SSAValue]],
) -> Sequence[SSAValue]:
    types: list[Attribute] = []
    sides = {key: _defined(yes, no, blocks) for key, (yes, no) in results.items()}
    for key, (yes, no) in sides.items():
        type_ = join(yes.type, no.type)
        if type_ is None:
            what = f"'{key}'" if isinstance(key, str) else f"'{key[1]}' and '{key[0]}'"
            raise UnsupportedError(
                f"the branches give {what} different types: {show(yes.type)} if the condition "
                f"holds, else {show(no.type)}; XLA needs one shape and dtype"
            )
        types.append(type_)
    for side, block in enumerate(blocks):
        block.add_op(Yield.make([pair[side] for pair in sides.values()]))
    return add_op(parser, source, If.build_with([[condition]], types, blocks)).results


def _defined(
    yes: SSAValue, no: SSAValue, blocks: tuple[IrBlock, IrBlock]
) -> tuple[SSAValue, SSAValue]:
    """The pair with zeros of the other's type for a side that is undefined."""
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
    """The conditional_block for the opposite condition, if nothing before it looks at this one."""
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


def _selects_after(when_true: Operator, when_false: Operator | None) -> Iterator[Operator]:
    """The select_input operators that merge what these branches of one condition give."""
    ops, last = when_true.block.ops, when_false or when_true
    condition = when_true.input("Cond")[0]
    masks: set[str] = set()
    for other in ops:
        if other.type == "cast" and condition in other.input("X"):
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
    parser: BlockParser, frame: Frame, name: str, select: Operator, other: SSAValue | None
) -> SSAValue | None:
    """What a branch gives for a name that `select` reads; None when `select` is not about it."""
    if name in frame.values:
        return frame.values[name]
    if other is None:
        return None
    outside = parser.find(name)
    if outside is not None:
        return outside
    # a Python number that a branch returned is a constant, which follows the branches
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
    found = parser.frame.selected.get((names[0], names[1])) if len(names) == 2 else None
    if found is None and len(names) == 2 and all(parser.find(n) is not None for n in names):
        no, yes = (parser.read(n) for n in names)
        mask = parser.translator.emit(Cast, op, parser.read(op.input("Mask")[0]), dtype="bool")
        blocks = IrBlock(), IrBlock()
        (found,) = _make_if(parser, op, mask.results[0], blocks, {(names[0], names[1]): (yes, no)})
    if found is None:
        raise UnsupportedError(
            f"select_input of {', '.join(names)}, which are not the results of the two branches "
            "of one condition in this block"
        )
    return {op.output("Out")[0]: found}


def _row_branch(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """A branch of IfElse: computed for all rows, of which `merge_lod_tensor` takes its own."""
    target = parser.frame.target
    before = target.last_op
    written = inlined(parser, sub_block(op))
    split: set[SSAValue] = set()
    is_new = before is None
    for inner in target.ops:
        if isinstance(inner, FillRows):
            split.update(inner.results)
        if is_new:
            check_rowwise(inner, split)
        is_new = is_new or inner is before
    return written


def _inlined_branch(
    parser: BlockParser, when_true: Operator, when_false: Operator | None
) -> Mapping[str, SSAValue]:
    name = when_true.input("Cond")[0]
    holds = truth(parser.read(name), parser.known)
    if holds is None:
        raise UnsupportedError(
            f"a tensor array is written under the condition '{name}', which is not known before "
            "the program runs; write it outside, and let the branches give the value"
        )
    taken = when_true if holds else when_false
    written = {} if taken is None else inlined(parser, sub_block(taken))
    for select in _selects_after(when_true, when_false):
        false_name, true_name = select.input("X")
        chosen = true_name if holds else false_name
        if chosen in written:
            parser.frame.selected[false_name, true_name] = written[chosen]
    return written


BRANCHES: Mapping[str, Handler] = {
    **dict.fromkeys(_CONDITIONAL, _conditional_block),
    "select_input": _select_input,
}
