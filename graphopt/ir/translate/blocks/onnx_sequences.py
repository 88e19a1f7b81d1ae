"""ONNX's sequences, which are lists of tensors, as tensor arrays (see `arrays.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from graphopt.errors import OpenSizeError, UnsupportedError
from graphopt.ir.dialect.ops.creation import AssignValue
from graphopt.ir.dialect.ops.dynamic import ArrayRead, ArrayToTensor, ArrayWrite
from graphopt.ir.dialect.ops.math import Add, Cast, LessThan, Where
from graphopt.ir.dialect.ops.shape import Concat, Reshape, ShapeOf, Slice, Squeeze, Stack
from graphopt.ir.dialect.types import UNKNOWN, rank_of, shape_of
from graphopt.ir.program import EMPTY, Operator
from graphopt.ir.translate.blocks.arrays import open_array, written_elements
from graphopt.ir.translate.blocks.block import Array, BlockParser, Handler

_MOST_PARTS = 1 << 12


def _construct(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    return _set(parser, op, tuple(map(parser.read, op.input("X"))))


def _set(parser: BlockParser, op: Operator, elements: Array) -> Mapping[str, SSAValue]:
    parser.frame.arrays[op.output("Out")[0]] = elements
    return {}


def _at(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    name, position = op.input("X")[0], _position(parser, op, 1)
    array, out = parser.array(name), op.output("Out")[0]
    if not isinstance(array, SSAValue) and position is not None:
        elements = written_elements(array, name)
        return {out: elements[_within(op, position, len(elements))]}
    emit, array = parser.translator.emit, open_array(parser, name)
    given = emit(Cast, op, parser.read(op.input("X")[1]), dtype="int64").results[0]
    at = emit(Reshape, op, given, shape=(1,)).results[0]
    zero = emit(AssignValue, op, shape=(1,), values=(0,), dtype="int64").results[0]
    # a negative position counts from the end
    is_below = emit(LessThan, op, at, zero).results[0]
    from_end = emit(Add, op, at, _open_length(parser, op, array)).results[0]
    at = emit(Where, op, is_below, from_end, at).results[0]
    return {out: emit(ArrayRead, op, array, at).results[0]}


def _length(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    array, emit = parser.array(op.input("X")[0]), parser.translator.emit
    if isinstance(array, SSAValue):
        found = emit(Squeeze, op, _open_length(parser, op, array), axis=(0,))
    else:
        found = emit(AssignValue, op, shape=(), values=(len(array),), dtype="int64")
    return {op.output("Out")[0]: found.results[0]}


def _open_length(parser: BlockParser, op: Operator, array: SSAValue) -> SSAValue:
    """Emit the number of elements of an open array, of shape [1]."""
    emit = parser.translator.emit
    first = emit(Slice, op, emit(ShapeOf, op, array).results[0], axes=(0,), starts=(0,), ends=(1,))
    return emit(Cast, op, first.results[0], dtype="int64").results[0]


def _insert(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    name, value = op.input("X")[0], parser.read(op.input("X")[1])
    array, position = parser.array(name), _position(parser, op, 2)
    is_last = len(op.input("X")) < 3
    if isinstance(array, SSAValue) and is_last:
        at = _open_length(parser, op, array)
        made = parser.translator.emit(ArrayWrite, op, array, at, value)
        return _set(parser, op, made.results[0])
    if isinstance(array, SSAValue) or (position is None and not is_last):
        raise _open_number(parser, op, 2, "the position")
    elements = written_elements(array, name)
    at = len(elements) if position is None else _within(op, position, len(elements), "to")
    return _set(parser, op, (*elements[:at], value, *elements[at:]))


def _erase(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    name, array = op.input("X")[0], parser.array(op.input("X")[0])
    position = -1 if len(op.input("X")) < 2 else _position(parser, op, 1)
    if isinstance(array, SSAValue) or position is None:
        raise _open_number(parser, op, 1, "the position")
    elements = written_elements(array, name)
    at = _within(op, position, len(elements))
    return _set(parser, op, (*elements[:at], *elements[at + 1 :]))


def _position(parser: BlockParser, op: Operator, at: int) -> int | None:
    """Return the number in input `at`; None if the run decides it or the input is absent."""
    names = op.input("X")
    if len(names) <= at or names[at] == EMPTY:
        return None
    found = parser.known.array(parser.read(names[at]))
    return None if found is None or found.size != 1 else int(found.reshape(()))


def _open_number(parser: BlockParser, op: Operator, at: int, what: str) -> OpenSizeError:
    """Build the error for an input that must be known before the run; the caller raises it."""
    error = OpenSizeError(f"{op.type}: {what} and the list must be known before a run")
    error.values = tuple(map(parser.read, op.input("X")[at : at + 1]))
    return error


def _within(op: Operator, position: int, length: int, upto: str = "below") -> int:
    """Convert a position to one from the front; UnsupportedError if it is out of range."""
    if not -length <= position < length + (upto == "to"):
        raise UnsupportedError(
            f"{op.type}: position {position} is out of range for a list of {length} tensors"
        )
    return position % length if position < 0 else position


def _join(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    name, axis = op.input("X")[0], int(op.attrs["axis"])
    is_stack, array = bool(op.attrs.get("new_axis", 0)), parser.array(op.input("X")[0])
    emit = parser.translator.emit
    if isinstance(array, SSAValue):
        made = emit(ArrayToTensor, op, array, axis=axis, use_stack=is_stack)
    else:
        made = emit(Stack if is_stack else Concat, op, written_elements(array, name), axis=axis)
    return {op.output("Out")[0]: made.results[0]}


def _split(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    names, x = op.input("X"), parser.read(op.input("X")[0])
    axis = int(op.attrs.get("axis", 0))
    if not -rank_of(x.type) <= axis < rank_of(x.type):
        raise UnsupportedError(
            f"{op.type}: axis {axis} is out of range for {rank_of(x.type)} dimensions"
        )
    axis %= rank_of(x.type)
    sizes = _sizes_of_parts(parser, op, shape_of(x.type)[axis])
    is_dropped = len(names) < 2 and not op.attrs.get("keepdims", 1)
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    parts = [
        parser.translator.emit(
            *(Slice, op, x),
            axes=(axis,),
            starts=(end - size,),
            ends=(end,),
            decrease_axis=(axis,) if is_dropped else (),
        ).results[0]
        for size, end in zip(sizes, ends, strict=True)
    ]
    return _set(parser, op, tuple(parts))


def _sizes_of_parts(parser: BlockParser, op: Operator, size: int) -> Sequence[int]:
    """Compute the part sizes along the axis; UnsupportedError if the run decides their number."""
    split = None
    if len(op.input("X")) > 1:
        split = parser.known.array(parser.read(op.input("X")[1]))
        if split is None:
            raise _open_number(parser, op, 1, "the sizes of the parts")
    if split is not None and split.ndim:
        return [int(each) for each in split]
    part = 1 if split is None else int(split)
    if size == UNKNOWN or part < 1 or size > part * _MOST_PARTS:
        raise UnsupportedError(
            f"{op.type}: cannot split an axis of size {size} into parts of {part} (-1: open)"
        )
    return [min(part, size - start) for start in range(0, size, part)]


ONNX_SEQUENCES: Mapping[str, Handler] = {
    "onnx.SequenceEmpty": _construct,
    "onnx.SequenceConstruct": _construct,
    "onnx.SequenceAt": _at,
    "onnx.SequenceLength": _length,
    "onnx.SequenceInsert": _insert,
    "onnx.SequenceErase": _erase,
    "onnx.ConcatFromSequence": _join,
    "onnx.SplitToSequence": _split,
}
