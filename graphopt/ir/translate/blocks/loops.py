"""Operators with loops -> `pd.while` and `pd.scan`.

A `while` carries the names that its body writes. The number of iterations is noted if it follows
from the program.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Attribute, SSAValue
from xdsl.ir import Block as IrBlock

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.definition import encode_attrs
from graphopt.ir.dialect.known import KnownValues
from graphopt.ir.dialect.ops.control import Scan, While, Yield, join, widen_type
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of, show, tensor
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Operator
from graphopt.ir.program.sub_blocks import names_in, sub_block
from graphopt.ir.translate.blocks.arrays import open_array
from graphopt.ir.translate.blocks.block import BlockFrame, BlockParser, Handler, value_name
from graphopt.ir.translate.blocks.inline import add_op, arrays_read, arrays_written, inline_block
from graphopt.ir.translate.blocks.undefined import is_undefined, number_of

Type = tuple[tuple[int, ...], DType]


def _while(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    condition = parser.read(op.input("Condition")[0])
    is_known = parser.known.truth(condition) is not None
    if is_known and (arrays_written(parser, op) or arrays_read(parser, op)):
        return _unrolled_loop(parser, op)
    loop = _TranslatedLoop(parser, op, condition)
    made = loop.settle_types(may_unroll=is_known)
    return _unrolled_loop(parser, op) if made is None else loop.finish(made)


class _TranslatedLoop:
    """A `while` in the making: the names that it carries, with the types that they may have."""

    def __init__(self, parser: BlockParser, op: Operator, condition: SSAValue) -> None:
        self.parser, self.op, self.condition = parser, op, condition
        self.body, self.name = sub_block(op), op.input("Condition")[0]
        self.names = [n for n in names_in(self.body, written=True) if n != self.name]
        self.carried: dict[str, SSAValue] = {}
        self.new_arrays: list[str] = []
        for n in (*self.names, *names_in(self.body, written=False)):
            if parser.is_array(n):
                self._open(n)
            elif n in self.names and (value := parser.find(n)) is not None:
                self.carried[n] = value
        self.types: dict[str, Attribute] = {n: v.type for n, v in self.carried.items()}

    def _open(self, array: str) -> None:
        """Open an array, and carry it if the body writes it.

        A new array is only noted: it gets its type when the first step is parsed.
        """
        if array in self.carried or array in self.new_arrays:
            return
        if self.parser.array(array) == ():
            self.new_arrays.append(array)
            return
        value = open_array(self.parser, array)
        if array in self.names:
            self.carried[array] = value

    def settle_types(self, *, may_unroll: bool) -> While | None:
        """Parse the body until the carried types hold before and after each step.

        Return None if the loop is to be unrolled, so that a variable that changes its shape keeps
        exact shapes.
        """
        counted = self.parser.translator.random_ops
        while True:
            self.parser.translator.random_ops = counted
            made, frame = self._parse_body()
            lasts = dict(zip(self.types, made.yielded_values()[1:], strict=True))
            starts = self._starts(lasts, frame)
            types = {n: join(self.types[n], last.type) for n, last in lasts.items()}
            if not starts and types == self.types:
                return made
            is_open = any(UNKNOWN in shape for shape, _ in starts.values())
            unrolls = is_open if starts else None in types.values()
            if not starts and not (unrolls and may_unroll):
                self.types = {n: self._widen_type(n, last) for n, last in lasts.items()}
            made.erase(safe_erase=False)  # a discarded body must not keep uses of outer values
            if unrolls and may_unroll:
                self.parser.translator.random_ops = counted
                return None
            for n, type_ in starts.items():
                self._start(n, type_)

    def _starts(self, lasts: Mapping[str, SSAValue], frame: BlockFrame) -> dict[str, Type]:
        """Find the carried names that need a new initial value, with the type of that value."""
        found = {
            n: (shape_of(last.type), dtype_of(last.type))
            for n, last in lasts.items()
            if self._is_stand_in(n, last)
        }
        for n in self.new_arrays:
            array = frame.arrays.get(n, ())
            if isinstance(array, SSAValue):
                found[n] = (0, *shape_of(array.type)[1:]), dtype_of(array.type)
            elif array and array[0] is not None:
                found[n] = (0, *shape_of(array[0].type)), dtype_of(array[0].type)
        return found

    def _is_stand_in(self, name: str, last: SSAValue) -> bool:
        """True if the value before the loop is a placeholder for a value of the type of `last`."""
        before, type_ = self.carried[name], self.types[name]
        if is_undefined(before):
            return join(type_, last.type) is None
        return widen_type(type_, last.type) is None and number_of(before) is not None

    def _start(self, name: str, type_: Type) -> None:
        value = 0.0
        if name in self.new_arrays:
            self.new_arrays.remove(name)
        else:
            value = number_of(self.carried[name]) or 0.0
        shape = [1 if dim == UNKNOWN else dim for dim in type_[0]]
        made = self.parser.translator.emit(Full, self.op, shape=shape, value=value, dtype=type_[1])
        self.carried[name] = made.results[0]
        self.types[name] = made.results[0].type

    def _widen_type(self, name: str, last: SSAValue) -> Attribute:
        type_ = widen_type(self.types[name], last.type)
        if type_ is None:
            raise UnsupportedError(
                f"the loop variable '{name}' is {show(self.types[name])} before the loop and "
                f"{show(last.type)} after a step; a loop variable must keep its dtype and number "
                "of dimensions"
            )
        return type_

    def _parse_body(self) -> tuple[While, BlockFrame]:
        """Parse the body with the types so far, into a `pd.while` that is not verified yet."""
        target = IrBlock(arg_types=list(self.types.values()))
        frame = self.parser.enter(self.body, target)
        for n, argument in zip(self.types, target.args, strict=True):
            argument.name_hint = value_name(n)
            (frame.arrays if self.parser.is_array(n) else frame.values)[n] = argument
        self.parser.run(self.body.ops)
        after = [
            open_array(self.parser, n) if n in frame.arrays else frame.values[n] for n in self.types
        ]
        self.parser.leave()
        if self.name not in frame.written:
            raise ProgramError(
                f"the body of a while never changes its condition '{self.name}', so the loop would "
                "never end; write the condition in the body with paddle.assign(..., condition)"
            )
        target.add_op(Yield.make([frame.values[self.name], *after]))
        groups = [self.condition], [self.carried[n] for n in self.types]
        return While.make_unchecked(groups, list(self.types.values()), [target]), frame

    def finish(self, made: While) -> Mapping[str, SSAValue]:
        """Insert the loop; return the values of the names after it."""
        parser = self.parser
        trips = count_trips(made, parser.known)
        if trips is not None:
            made.properties |= encode_attrs(While, {"trips": trips})
        made.verify_()
        add_op(parser, self.op, made)
        for n in self.names:
            if n not in self.carried and not parser.is_array(n):
                parser.frame.partial[n] = self.name
        written: dict[str, SSAValue] = {}
        for n, result in zip(self.types, made.results, strict=True):
            if parser.is_array(n):
                parser.frame.arrays[n] = result
            else:
                parser.frame.before_loop.setdefault(n, self.carried[n])
                written[n] = result
        shape = [max(dim, 1) for dim in shape_of(self.condition.type)]
        ended = parser.translator.emit(Full, self.op, shape=shape, value=0.0, dtype="bool")
        return {**written, self.name: ended.results[0]}


def _unrolled_loop(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """Unroll a loop as long as its condition is known; emit a loop for the remaining steps."""
    body, name = sub_block(op), op.input("Condition")[0]
    written: dict[str, SSAValue] = {}
    for n in op.input("X"):
        before = None if parser.is_array(n) else parser.find(n)
        if before is not None:
            parser.frame.before_loop.setdefault(n, before)
    while True:
        holds = parser.known.truth(parser.read(name))
        if holds is None:
            return {**written, **_while(parser, op)}
        if not holds:
            return written
        if name not in names_in(body, written=True):
            raise ProgramError(f"the body of a while never changes its condition '{name}'")
        for n, value in inline_block(parser, body, "a loop over tensor arrays").items():
            parser.bind(n, value)
            written[n] = value


def _recurrent(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """Translate a StaticRNN to `pd.scan`.

    Its step block reads `ex_states` and a slice of each input sequence, and writes `states`.
    """
    body = sub_block(op)
    sequences = {n: parser.read(n) for n in op.input("inputs")}
    before = [str(n) for n in op.attrs.get("ex_states", ())]
    after = [str(n) for n in op.attrs.get("states", ())]
    memories = [parser.read(n) for n in op.input("initial_states")]
    if not sequences or len(before) != len(memories) or len(after) != len(memories):
        raise ProgramError(
            "operator recurrent needs at least one sequence, and the same number of "
            "initial_states, ex_states and states"
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
            f"the step of a recurrent network assigns to '{lost[0]}', a variable outside of the "
            f"step; make '{lost[0]}' a memory, or use paddle.static.nn.while_loop"
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


# Loops with more iterations are not followed to their end.
MOST_TRIPS = 2048


def count_trips(loop: While, known: KnownValues) -> int | None:
    """Count the iterations of a loop; None if the run decides them or they exceed MOST_TRIPS."""
    going = known.truth(loop.condition)
    arguments = loop.body.block.args
    state = [known.array(value) for value in loop.carried]
    trips = 0
    while going and trips < MOST_TRIPS:
        trips += 1
        inner = KnownValues(dict(zip(arguments, state, strict=True)), known)
        condition, *values = loop.yielded_values()
        going = inner.truth(condition)
        if going is None:
            return None
        state = [
            None if old is None else inner.array(value)
            for old, value in zip(state, values, strict=True)
        ]
    return None if going is None or going else trips
