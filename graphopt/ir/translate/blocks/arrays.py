"""Tensor arrays: lists of values, written and read at positions.

Where all positions are known while parsing, arrays exist only here: the module has the elements
themselves, and a loop over an array is unfolded (see `loops.py`), which makes its counter known.
Any other array is *open*: one tensor with its elements along the first axis (see
`ir/dialect/ops/dynamic.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from graphopt.errors import ArrayFetchError, ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.creation import AssignValue, Full
from graphopt.ir.dialect.ops.dynamic import ArrayRead, ArrayToTensor, ArrayWrite
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.sequence.beam_search import BeamSearchDecode
from graphopt.ir.dialect.ops.sequence.steps import ArrayOfRows, SequenceSteps
from graphopt.ir.dialect.ops.shape import Concat, ShapeOf, Slice, Stack
from graphopt.ir.dialect.ops.sort import Argsort
from graphopt.ir.dialect.types import UNKNOWN, rank_of, shape_of, show
from graphopt.ir.program import Operator
from graphopt.ir.program.array_parts import parts_of
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.translate.blocks.block import BlockParser, Elements, Handler
from graphopt.ir.translate.blocks.undefined import zeros_like

_MOST_ELEMENTS = 100_000


def open_array(parser: BlockParser, name: str, like: SSAValue | None = None) -> SSAValue:
    """Convert an array to an open one from here on.

    `like` is an element that gives an array without elements its type.
    """
    array = parser.array(name)
    if isinstance(array, SSAValue):
        return array
    elements, emit = written_elements(array, name), parser.translator.emit
    first = next(iter(elements), like)
    if first is None:
        raise ProgramError(f"the tensor array '{name}' is read, but was never written")
    if elements and len({show(value.type) for value in elements}) == 1 and not _varies(elements):
        found = emit(Stack, None, elements, axis=0).results[0]
    else:
        properties = zeros_like(first)
        found = emit(Full, None, **{**properties, "shape": (0, *properties["shape"])}).results[0]
        for position, value in enumerate(elements):
            at = emit(AssignValue, None, shape=(1,), values=(position,), dtype="int64").results[0]
            found = emit(ArrayWrite, None, found, at, value).results[0]
    parser.frame.arrays[name] = found
    return found


def array_part(parser: BlockParser, name: str, part: str) -> SSAValue:
    """Return the fetched part of an array.

    Raises ArrayFetchError, which names the parts, for the array itself or an unknown part;
    ProgramError for an array with gaps; UnsupportedError for an open array of numbers.
    """
    array = parser.array(name)
    if not isinstance(array, SSAValue):
        elements = dict(zip(parts_of(name, len(array)), written_elements(array, name), strict=True))
        if part not in elements:
            raise ArrayFetchError(name, len(array))
        return elements[part]
    names = parts_of(name, None)
    if rank_of(array.type) == 1:
        raise UnsupportedError(
            f"the tensor array '{name}' has scalar elements, and its length depends on data; fetch "
            "the result of tensor_array_to_tensor instead"
        )
    if part not in names:
        raise ArrayFetchError(name, None)
    made = parser.translator.emit(ArrayToTensor, None, array, axis=0, use_stack=False)
    return made.results[names.index(part)]


def _varies(elements: list[SSAValue]) -> bool:
    """True for several elements that may differ in the size of their first axis."""
    return len(elements) > 1 and shape_of(elements[0].type)[:1] == (UNKNOWN,)


def written_elements(elements: Elements, name: str) -> list[SSAValue]:
    """Return the elements of an array; ProgramError if it has gaps."""
    found = [value for value in elements if value is not None]
    if len(found) < len(elements):
        raise ProgramError(f"the tensor array '{name}' has positions that were never written")
    return found


def _position(parser: BlockParser, op: Operator) -> int | None:
    """Return the position to write or read, or None if it is unknown before the run."""
    found = parser.known.array(parser.read(op.input("I")[0]))
    if found is None or found.size != 1:
        return None
    position = int(found.reshape(()))
    if not 0 <= position < _MOST_ELEMENTS:
        raise ProgramError(
            f"{op.type}: the position should be in 0..{_MOST_ELEMENTS - 1}, found {position}"
        )
    return position


def _write(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    name, position = op.output("Out")[0], _position(parser, op)
    array, value = parser.array(name), parser.read(op.input("X")[0])
    if isinstance(array, SSAValue) or position is None:
        array, at = open_array(parser, name, value), parser.read(op.input("I")[0])
        made = parser.translator.emit(ArrayWrite, op, array, at, value)
        parser.frame.arrays[name] = made.results[0]
        return {}
    elements = [*array, *[None] * (position + 1 - len(array))]
    elements[position] = value
    parser.frame.arrays[name] = tuple(elements)
    return {}


def _read(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    name, position = op.input("X")[0], _position(parser, op)
    array = parser.array(name)
    if isinstance(array, SSAValue) or position is None:
        array, at = open_array(parser, name), parser.read(op.input("I")[0])
        made = parser.translator.emit(ArrayRead, op, array, at)
        return {op.output("Out")[0]: made.results[0]}
    value = array[position] if position < len(array) else None
    if value is None:
        raise ProgramError(
            f"position {position} of the tensor array '{name}' is read, but was never written; "
            f"the array has {len(array)} elements"
        )
    return {op.output("Out")[0]: value}


def _length(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    array, emit = parser.array(op.input("X")[0]), parser.translator.emit
    if isinstance(array, SSAValue):
        shape = emit(ShapeOf, op, array).results[0]
        first = emit(Slice, op, shape, axes=(0,), starts=(0,), ends=(1,)).results[0]
        return {op.output("Out")[0]: emit(Cast, op, first, dtype="int64").results[0]}
    made = emit(AssignValue, op, shape=(1,), values=(len(array),), dtype="int64")
    return {op.output("Out")[0]: made.results[0]}


def _join(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """Concatenate or stack all elements, and emit the size of each along the axis."""
    name, axis = op.input("X")[0], int(op.attrs.get("axis", 0))
    array, stacked = parser.array(name), bool(op.attrs.get("use_stack"))
    if isinstance(array, SSAValue):
        made = parser.translator.emit(ArrayToTensor, op, array, axis=axis, use_stack=stacked)
        names = [*op.output("Out"), *op.output("OutIndex")]
        return dict(zip(names, made.results, strict=False))
    elements = written_elements(array, name)
    if not elements:
        raise ProgramError(f"the tensor array '{name}' is read, but was never written")
    made = parser.translator.emit(Stack if stacked else Concat, op, elements, axis=axis)
    sizes = [1 if stacked else shape_of(value.type)[axis] for value in elements]
    written = {op.output("Out")[0]: made.results[0]}
    if op.output("OutIndex") and min(sizes) >= 0:
        index = parser.translator.emit(
            AssignValue, op, shape=(len(sizes),), values=sizes, dtype="int32"
        )
        written[op.output("OutIndex")[0]] = index.results[0]
    return written


def _assign(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """Copy an array; translate the assign of a tensor as an ordinary operator."""
    name = op.input("X")[0]
    if not parser.is_array(name):
        return parser.translator.translate(op)
    parser.frame.arrays[op.output("Out")[0]] = parser.array(name)
    return {}


def _sentences(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """Emit the decoding of a beam search; the front end supplies the arrays of lengths."""
    names = [*op.input("Ids"), *op.input("Scores"), *op.input(SLOT)]
    if len(names) != 4:
        raise UnsupportedError(
            "operator beam_search_decode of a saved program is not supported: the lengths of its "
            "steps are unknown"
        )
    arrays = [open_array(parser, name) for name in names]
    end = int(op.attrs.get("end_id", 0))
    made = parser.translator.emit(BeamSearchDecode, op, *arrays, end_id=end)
    outs = ("SentenceIds", "SentenceScores", "SourceCounts", "WordCounts")
    found = zip(outs, made.results, strict=True)
    return {name: value for slot, value in found for name in op.output(slot)}


def _steps(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """Split sequences into an array of time steps, whose length depends on data."""
    emit, (x, order, lengths) = parser.translator.emit, _rank_values(parser, op, op.input("X"))
    rows, sizes = emit(SequenceSteps, op, lengths, order).results
    ranked = emit(Gather, op, x, rows).results[0]
    parser.frame.arrays[op.output("Out")[0]] = emit(ArrayOfRows, op, ranked, sizes).results[0]
    return {}


def _sequences_of_steps(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """Join an array of time steps to sequences: the inverse of `_steps`."""
    emit, (order, lengths) = parser.translator.emit, _rank_values(parser, op, [])
    array = open_array(parser, op.input("X")[0])
    ranked = emit(ArrayToTensor, op, array, axis=0, use_stack=False).results[0]
    rows = emit(SequenceSteps, op, lengths, order).results[0]
    places = emit(Argsort, op, rows).results[1]
    return {op.output("Out")[0]: emit(Gather, op, ranked, places).results[0]}


def _rank_values(parser: BlockParser, op: Operator, names: Sequence[str]) -> list[SSAValue]:
    """Read the named values, then a rank table and its lengths."""
    given = op.input(SLOT)
    if not given:
        raise UnsupportedError(
            f"operator {op.type} of a saved program is not supported: the lengths of its sequences "
            "are unknown"
        )
    return [parser.read(name) for name in (*names, *op.input("RankTable"), *given)]


ARRAYS: Mapping[str, Handler] = {
    "lod_tensor_to_array": _steps,
    "array_to_lod_tensor": _sequences_of_steps,
    "beam_search_decode": _sentences,
    "write_to_array": _write,
    "read_from_array": _read,
    "lod_array_length": _length,
    "tensor_array_to_tensor": _join,
    "assign": _assign,
}
