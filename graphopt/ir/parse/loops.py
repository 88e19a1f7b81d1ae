"""Operators with loops -> `pd.while` and `pd.scan`.

A `while` carries the names that its body writes. How often it runs is noted where that follows from
the program.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Attribute, SSAValue
from xdsl.ir import Block as IrBlock

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.fold import count_trips, truth
from graphopt.ir.op import encode_attrs
from graphopt.ir.ops.control import Scan, While, Yield, join
from graphopt.ir.ops.creation import Full
from graphopt.ir.parse.block import BlockParser, Handler, value_name
from graphopt.ir.parse.inline import add_op, changes_arrays, inlined
from graphopt.ir.parse.undefined import is_undefined, zeros_like
from graphopt.ir.program import Operator
from graphopt.ir.sub_blocks import names_in, sub_block
from graphopt.ir.types import UNKNOWN, dtype_of, shape_of, show, tensor


def _while(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    if changes_arrays(parser, op):
        return _unrolled_loop(parser, op)
    body, name = sub_block(op), op.input("Condition")[0]
    condition = parser.read(name)
    names = [n for n in names_in(body, written=True) if n != name]
    carried = {n: value for n in names if (value := parser.find(n)) is not None}
    types: dict[str, Attribute] = {n: value.type for n, value in carried.items()}
    counted = parser.translator.random_ops
    while True:
        parser.translator.random_ops = counted
        made = _loop(parser, op, condition, carried, types)
        joined = {
            n: join(types[n], value.type)
            for n, value in zip(carried, made.yielded()[1:], strict=True)
        }
        undefined = [n for n in carried if joined[n] is None and is_undefined(carried[n])]
        if undefined:
            lasts = {n: made.yielded()[1 + list(carried).index(n)] for n in undefined}
            is_open = any(UNKNOWN in shape_of(last.type) for last in lasts.values())
            if is_open and truth(condition, parser.known) is not None:
                made.erase(safe_erase=False)
                parser.translator.random_ops = counted
                return _unrolled_loop(parser, op)
            for n, last in lasts.items():
                carried[n] = parser.translator.emit(Full, op, **zeros_like(last)).results[0]
                types[n] = carried[n].type
            made.erase(safe_erase=False)
            continue
        for n, type_ in joined.items():
            if type_ is None and truth(condition, parser.known) is not None:
                made.erase(safe_erase=False)
                parser.translator.random_ops = counted
                return _unrolled_loop(parser, op)
            if type_ is None:
                last = made.yielded()[1 + list(carried).index(n)]
                raise UnsupportedError(
                    f"the loop variable '{n}' is {show(types[n])} before the loop and "
                    f"{show(last.type)} after a step; XLA needs one shape and dtype, so pad it to "
                    "its largest size, or write it to a tensor array"
                )
        if joined == types:
            break
        made.erase(safe_erase=False)  # its uses of outer values must not stay behind
        types = {n: type_ for n, type_ in joined.items() if type_ is not None}
    trips = count_trips(made, parser.known)
    if trips is not None:
        made.properties |= encode_attrs(While, {"trips": trips})
    made.verify_()
    add_op(parser, op, made)
    for n in names:
        if n not in carried:
            parser.frame.partial[n] = name
    for n, value in carried.items():
        parser.frame.before_loop.setdefault(n, value)
    written: dict[str, SSAValue] = dict(zip(carried, made.results, strict=True))
    shape = [max(dim, 1) for dim in shape_of(condition.type)]
    ended = parser.translator.emit(Full, op, shape=shape, value=0.0, dtype="bool")
    return {**written, name: ended.results[0]}


def _loop(
    parser: BlockParser,
    op: Operator,
    condition: SSAValue,
    carried: Mapping[str, SSAValue],
    types: Mapping[str, Attribute],
) -> While:
    """The loop with its body parsed for carried values of these types; not verified yet."""
    body, name = sub_block(op), op.input("Condition")[0]
    target = IrBlock(arg_types=list(types.values()))
    frame = parser.enter(body, target)
    for n, argument in zip(types, target.args, strict=True):
        argument.name_hint = value_name(n)
        frame.values[n] = argument
    parser.run(body.ops)
    parser.leave()
    if name not in frame.written:
        raise ProgramError(
            f"the body of a while never changes its condition '{name}', so it would run for ever; "
            "end it with paddle.assign(..., condition)"
        )
    values = [frame.values[name], *(frame.values[n] for n in types)]
    target.add_op(Yield.make(values))
    groups = [condition], list(carried.values())
    return While.unchecked(groups, list(types.values()), [target])


def _unrolled_loop(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """A loop run while parsing, as far as its condition says, which must be constant."""
    body, name = sub_block(op), op.input("Condition")[0]
    written: dict[str, SSAValue] = {}
    for n in op.input("X"):
        before = None if parser.is_array(n) else parser.find(n)
        if before is not None:
            parser.frame.before_loop.setdefault(n, before)
    while True:
        holds = truth(parser.read(name), parser.known)
        if holds is None:
            raise UnsupportedError(
                "a loop uses a tensor array, or a variable that changes its shape, and how long "
                f"it runs ('{name}') is not known before the program runs; use a constant number "
                "of iterations, or carry a tensor of fixed size through the loop"
            )
        if not holds:
            return written
        if name not in names_in(body, written=True):
            raise ProgramError(f"the body of a while never changes its condition '{name}'")
        for n, value in inlined(parser, body).items():
            parser.bind(n, value)
            written[n] = value


def _recurrent(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """A StaticRNN: the step block reads `ex_states`, writes `states`, and slices its inputs."""
    body = sub_block(op)
    sequences = {n: parser.read(n) for n in op.input("inputs")}
    before = [str(n) for n in op.attrs.get("ex_states", ())]
    after = [str(n) for n in op.attrs.get("states", ())]
    memories = [parser.read(n) for n in op.input("initial_states")]
    if not sequences or len(before) != len(memories) or len(after) != len(memories):
        raise ProgramError(
            "recurrent needs a sequence, and as many initial states as ex_states and states"
        )
    items = [tensor(shape_of(s.type)[1:], dtype_of(s.type)) for s in sequences.values()]
    target = IrBlock(arg_types=[*(m.type for m in memories), *items])
    frame = parser.enter(body, target)
    for n, argument in zip((*before, *sequences), target.args, strict=True):
        argument.name_hint = value_name(n)
        frame.values[n] = argument
    parser.run(body.ops)
    parser.leave()
    lost = [n for n in frame.outer_names() if n not in (*op.output("outputs"), *after)]
    if lost:
        raise UnsupportedError(
            f"the step of a recurrent network assigns to '{lost[0]}' from outside; make it a "
            "memory, or use paddle.static.nn.while_loop"
        )
    steps = [frame.values[n] for n in op.output("outputs")]
    target.add_op(Yield.make([*(frame.values[n] for n in after), *steps]))
    length = shape_of(next(iter(sequences.values())).type)[0]
    types = [tensor((length, *shape_of(s.type)), dtype_of(s.type)) for s in steps]
    made = Scan.build_with(
        [memories, list(sequences.values())],
        types,
        [target],
        reverse=bool(op.attrs.get("reverse", False)),
    )
    return dict(zip(op.output("outputs"), add_op(parser, op, made).results, strict=True))


LOOPS: Mapping[str, Handler] = {"while": _while, "recurrent": _recurrent}
