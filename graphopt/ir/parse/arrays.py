"""Tensor arrays: lists of values, written and read at positions that are known while parsing.

They exist only here: the module has the elements themselves. A loop over an array is unfolded (see
`loops.py`), which makes its counter known.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.fold import fold
from graphopt.ir.ops.creation import AssignValue
from graphopt.ir.ops.shape import Concat, Stack
from graphopt.ir.parse.block import BlockParser, Handler
from graphopt.ir.program import Operator
from graphopt.ir.types import shape_of

_MOST_ELEMENTS = 100_000


def _position(parser: BlockParser, op: Operator) -> int:
    name = op.input("I")[0]
    found = fold(parser.read(name), parser.known)
    if found is None or found.size != 1:
        raise UnsupportedError(
            f"{op.type} at the position '{name}', which is not known before the program runs; "
            "count with constants (paddle.full, paddle.increment) outside of loops whose length "
            "depends on data, or use paddle.scatter and paddle.gather on a tensor of fixed size"
        )
    position = int(found.reshape(()))
    if not 0 <= position < _MOST_ELEMENTS:
        raise ProgramError(f"{op.type} at position {position}, outside 0..{_MOST_ELEMENTS - 1}")
    return position


def _write(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    name, position = op.output("Out")[0], _position(parser, op)
    elements = list(parser.array(name))
    elements += [None] * (position + 1 - len(elements))
    elements[position] = parser.read(op.input("X")[0])
    parser.frame.arrays[name] = tuple(elements)
    return {}


def _read(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    name, position = op.input("X")[0], _position(parser, op)
    elements = parser.array(name)
    value = elements[position] if position < len(elements) else None
    if value is None:
        raise ProgramError(
            f"position {position} of the array '{name}' is read and was never written; "
            f"it has {len(elements)} elements"
        )
    return {op.output("Out")[0]: value}


def _length(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    count = len(parser.array(op.input("X")[0]))
    made = parser.translator.emit(AssignValue, op, shape=(1,), values=(count,), dtype="int64")
    return {op.output("Out")[0]: made.results[0]}


def _join(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """All elements in one tensor, and the length of each along the axis."""
    name, axis = op.input("X")[0], int(op.attrs.get("axis", 0))
    elements = [value for value in parser.array(name) if value is not None]
    if not elements or len(elements) < len(parser.array(name)):
        raise ProgramError(f"the array '{name}' has positions that were never written")
    stacked = bool(op.attrs.get("use_stack"))
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
    """A copy of an array; of a tensor, the ordinary operator."""
    name = op.input("X")[0]
    if not parser.is_array(name):
        return parser.translator.translate(op)
    parser.frame.arrays[op.output("Out")[0]] = parser.array(name)
    return {}


ARRAYS: Mapping[str, Handler] = {
    "write_to_array": _write,
    "read_from_array": _read,
    "lod_array_length": _length,
    "tensor_array_to_tensor": _join,
    "assign": _assign,
}
