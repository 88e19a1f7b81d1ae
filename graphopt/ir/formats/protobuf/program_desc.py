"""Convert ProgramDesc bytes to a `Program` and back; unchanged parts keep their bytes.

This file covers the wire format and the schema; `graph_check.py` checks that blocks, names and
columns are consistent.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from graphopt.errors import ProgramError
from graphopt.ir.dtypes import NUMBERED, DType, as_dtype
from graphopt.ir.formats.graph_check import check_program, column_operators
from graphopt.ir.formats.limits import UNLIMITED, Limits
from graphopt.ir.formats.protobuf.attributes import attribute_message, read_attribute
from graphopt.ir.formats.protobuf.message import Message, MessageType, SpanReader, decode, encode
from graphopt.ir.formats.protobuf.schema import BLOCK, OPERATOR, PROGRAM, SLOT, VARIABLE
from graphopt.ir.formats.protobuf.wire import WireReader
from graphopt.ir.formats.quote import quote
from graphopt.ir.formats.seal import unsealed_message
from graphopt.ir.operators import operators
from graphopt.ir.program import AttrKind, Block, Operator, Parameter, Program, Variable, VarKind
from graphopt.ir.program.location import Location

_FRAME = re.compile(r'\s*File "([^"]+)", line (\d{1,9})')
# Paddle's own frames, and frames of the package whose decorators wrap its functions.
_PADDLE = re.compile(r"(?:site|dist)-packages[\\/](?:paddle[\\/]|decorator)")


def callstack_location(lines: Sequence[str]) -> Location | None:
    """Find the innermost frame outside Paddle in an `op_callstack`; None when there is none."""
    for line in reversed(lines):
        frame = _FRAME.match(line)
        if frame and not _PADDLE.search(frame[1]):
            return Location(frame[1], int(frame[2]))
    return None


# The release of Paddle that defines the operator versions of the table of operators.
PADDLE_VERSION = 2006002
# VarType's field with the tensor description, by kind of variable; some fields wrap it together
# with a LoD level.
_TENSOR_FIELD = {
    VarKind.DENSE_TENSOR: "lod_tensor",
    VarKind.SELECTED_ROWS: "selected_rows",
    VarKind.TENSOR_ARRAY: "tensor_array",
}
_WITH_LOD = ("lod_tensor", "tensor_array")
_DTYPE_CODES = frozenset(dtype.code for dtype in NUMBERED)
_FLAGS = ("need_check_feed", "is_parameter", "stop_gradient")


def read_program(data: bytes, source: str = "<program>", limits: Limits | None = None) -> Program:
    """Decode the program in a serialized ProgramDesc.

    `source` names the bytes in errors. Operators of any type are accepted. Raises FormatError (with
    the byte offset, or the block and operator) for bytes that are not a sound program and
    LimitError for a program that exceeds `limits`.
    """
    wire = WireReader(unsealed_message(data), source, limits or Limits())
    program = _ProgramReader(wire).program()
    check_program(program, source, wire.limits)
    for op in column_operators(program, "feed"):
        program.blocks[0].vars[op.output("Out")[0]].is_data = True
    return program


class _ProgramReader:
    """Reads one file; counts operators and variables over all of its blocks."""

    def __init__(self, wire: WireReader) -> None:
        self.wire = wire
        self._counts = {"operators": 0, "variables": 0}

    def program(self) -> Program:
        program = Program()
        program.blocks = []

        def block(start: int, stop: int) -> None:
            program.blocks.append(self._block(program, start, stop))

        saved = decode(self.wire, PROGRAM, 0, len(self.wire.data), {"blocks": block})
        saved.pop("blocks", None)
        if not program.blocks:
            raise self.wire.error(0, "expected a ProgramDesc with at least one block, found none")
        program.saved = saved
        return program

    def _block(self, program: Program, start: int, stop: int) -> Block:
        index = len(program.blocks)
        if index >= self.wire.limits.blocks:
            raise self.wire.over_limit(start, f"expected at most {index} blocks, found more")
        block = Block(program, index)

        def variable(start: int, stop: int) -> None:
            found = self.variable(block, start, stop)
            if found.name in block.vars:
                raise self.wire.error(
                    start,
                    f"expected one variable of each name in block {index}, "
                    f"found {quote(found.name)} again",
                )
            block.vars[found.name] = found

        def operator(start: int, stop: int) -> None:
            block.ops.append(self.operator(block, start, stop))

        saved = decode(self.wire, BLOCK, start, stop, {"vars": variable, "ops": operator})
        if saved["idx"] != index:
            raise self.wire.error(
                start, f"expected block number {index} to have idx {index}, found {saved['idx']}"
            )
        block.parent_idx = saved["parent_idx"]
        block.forward_block_idx = saved.get("forward_block_idx", -1)
        block.saved = {k: v for k, v in saved.items() if k not in ("vars", "ops")}
        return block

    def _count(self, what: str, offset: int) -> None:
        self._counts[what] += 1
        limit: int = getattr(self.wire.limits, what)
        if self._counts[what] > limit:
            raise self.wire.over_limit(offset, f"expected at most {limit} {what}, found more")

    def variable(self, block: Block, start: int, stop: int) -> Variable:
        self._count("variables", start)
        message = decode(self.wire, VARIABLE, start, stop)
        name, persistable = message["name"], message.get("persistable", False)
        if not name:
            raise self.wire.error(start, "expected a variable with a name, found none")
        shape, dtype, lod_level = self._tensor_type(name, message["type"], start)
        stop_gradient = message.get("stop_gradient", False)
        is_parameter = message.get("is_parameter", False)
        if is_parameter and persistable and shape is not None and dtype is not None:
            variable = Parameter(block, name, shape, dtype, trainable=not stop_gradient)
        else:
            variable = Variable(
                block,
                name,
                shape,
                dtype,
                persistable=persistable,
                stop_gradient=stop_gradient,
                is_parameter=is_parameter,
            )
        variable.kind = message["type"]["type"]
        variable.lod_level = lod_level
        variable.need_check_feed = variable.is_data = message.get("need_check_feed", False)
        variable.saved = self.wire.data[start:stop]
        return variable

    def _tensor_type(
        self, name: str, message: Message, start: int
    ) -> tuple[tuple[int, ...] | None, DType | None, int]:
        """Read shape, element type and LoD level, as far as the kind of variable has them."""
        field = _TENSOR_FIELD.get(message["type"], "")
        if field not in message:
            return None, None, 0
        tensor = message[field]["tensor"] if field in _WITH_LOD else message[field]
        dims: list[int] = tensor.get("dims", [])
        limits = self.wire.limits
        if len(dims) > limits.rank:
            raise self.wire.over_limit(
                start,
                f"expected variable {quote(name)} to have at most {limits.rank} dimensions, "
                f"found {len(dims)}",
            )
        if any(dim > limits.dimension for dim in dims):
            raise self.wire.over_limit(
                start,
                f"expected variable {quote(name)} to have dimensions of at most "
                f"{limits.dimension}, found {max(dims)}",
            )
        lod_level = message[field].get("lod_level", 0) if field in _WITH_LOD else 0
        if not 0 <= lod_level <= limits.lod_levels:
            raise self.wire.over_limit(
                start,
                f"expected variable {quote(name)} to have a LoD level in 0..{limits.lod_levels}, "
                f"found {lod_level}",
            )
        code = tensor["data_type"]
        dtype = as_dtype(code) if code in _DTYPE_CODES else None
        # Any negative number means unknown: Paddle multiplies -1 by known dimensions.
        return tuple(max(dim, -1) for dim in dims), dtype, lod_level

    def operator(self, block: Block, start: int, stop: int) -> Operator:
        self._count("operators", start)
        inputs: dict[str, list[str]] = {}
        outputs: dict[str, list[str]] = {}
        attrs: dict[str, Any] = {}
        kinds: dict[str, int] = {}

        def attribute(start: int, stop: int) -> None:
            name, kind, value = read_attribute(self.wire, start, stop)
            name = sys.intern(name)
            # Paddle 2.6 repeats some attributes; equal copies are accepted.
            if name in attrs and (kinds[name], repr(attrs[name])) != (kind, repr(value)):
                raise self.wire.error(
                    start,
                    f"expected one value for attribute {quote(name)}, "
                    f"found {quote(attrs[name])} and {quote(value)}",
                )
            attrs[name], kinds[name] = value, kind

        each = {
            "inputs": self._slot_into(inputs),
            "outputs": self._slot_into(outputs),
            "attrs": attribute,
        }
        message = decode(self.wire, OPERATOR, start, stop, each)
        stack = attrs["op_callstack"] if kinds.get("op_callstack") == AttrKind.STRINGS else ()
        location = callstack_location(stack)
        op = Operator(block, sys.intern(message["type"]), inputs, outputs, attrs, location)
        op.attr_kinds = kinds
        op.saved = self.wire.data[start:stop]
        op.is_loaded = True
        return op

    def _slot_into(self, slots: dict[str, list[str]]) -> SpanReader:
        def slot(start: int, stop: int) -> None:
            message = decode(self.wire, SLOT, start, stop)
            name = sys.intern(message["parameter"])
            if name in slots:
                raise self.wire.error(start, f"expected slot {quote(name)} once, found it again")
            slots[name] = message.get("arguments", [])

        return slot


def write_program(program: Program) -> bytes:
    """Encode a program as a serialized ProgramDesc, readable by Paddle and by `read_program`.

    Operators and variables that were read from a file and not changed since are written byte for
    byte as they were. A program created here declares the versions of Paddle 2.6.2. Raises
    ProgramError, naming the operator or variable, for values that the format cannot hold.
    """
    header = _new_header() if program.saved is None else program.saved
    blocks = [_block_bytes(block) for block in program.blocks]
    return encode(PROGRAM, {**header, "blocks": blocks})


def _new_header() -> Message:
    pairs = [
        {"op_name": row.type, "op_version": {"version": row.version}}
        for row in operators().values()
        if row.version
    ]
    return {"version": {"version": PADDLE_VERSION}, "op_version_map": {"pair": pairs}}


def _block_bytes(block: Block) -> bytes:
    message: Message = dict(block.saved or {})
    message["idx"], message["parent_idx"] = block.idx, block.parent_idx
    if block.forward_block_idx != message.get("forward_block_idx", -1):
        message["forward_block_idx"] = block.forward_block_idx
    message["vars"] = [_variable_bytes(variable) for variable in block.vars.values()]
    message["ops"] = [_operator_bytes(op) for op in block.ops]
    return encode(BLOCK, message)


def _variable_bytes(variable: Variable) -> bytes:
    def read(reader: _ProgramReader, stop: int) -> Message:
        return _variable_message(reader.variable(variable.block, 0, stop))

    try:
        return _repeat(VARIABLE, variable.saved, _variable_message(variable), read)
    except ProgramError as error:
        raise ProgramError(f"variable '{variable.name}' cannot be saved: {error}") from None


def _operator_bytes(op: Operator) -> bytes:
    def read(reader: _ProgramReader, stop: int) -> Message:
        return _operator_message(reader.operator(op.block, 0, stop))

    try:
        return _repeat(OPERATOR, op.saved, _operator_message(op), read)
    except ProgramError as error:
        raise ProgramError(f"operator {op.type} cannot be saved: {error}") from None


def _repeat(
    kind: MessageType,
    saved: bytes | None,
    message: Message,
    read: Callable[[_ProgramReader, int], Message],
) -> bytes:
    """Return `saved` while it means the same as `message`; else encode `message`.

    The encoded message keeps the fields of `saved` that graphopt does not model.
    """
    fresh = encode(kind, message)
    if saved is None:
        return fresh
    wire = WireReader(saved, kind.name, UNLIMITED)
    if encode(kind, read(_ProgramReader(wire), len(saved))) == fresh:
        return saved
    old = decode(wire, kind, 0, len(saved))
    if kind is VARIABLE and message["type"] == {"type": old["type"]["type"]}:
        message = {**message, "type": old["type"]}
    modelled = _MODELLED[kind.name]
    return encode(kind, {**{k: v for k, v in old.items() if k not in modelled}, **message})


# The fields that variables and operators represent themselves; a false flag has no field.
_MODELLED = {
    VARIABLE.name: ("name", "type", "persistable", *_FLAGS),
    OPERATOR.name: ("inputs", "outputs", "type", "attrs"),
}


def _variable_message(variable: Variable) -> Message:
    """Build the variable's own fields; false flags are left out, except `persistable`."""
    return {
        "name": variable.name,
        "type": _type_message(variable),
        "persistable": variable.persistable,
        **{flag: True for flag in _FLAGS if getattr(variable, flag)},
    }


def _type_message(variable: Variable) -> Message:
    field = _TENSOR_FIELD.get(variable.kind)
    if field is None or not variable.has_type:
        return {"type": variable.kind}
    tensor: Message = {"data_type": variable.dtype.code, "dims": variable.shape}
    if field in _WITH_LOD:
        tensor = {"tensor": tensor, "lod_level": variable.lod_level or None}
    return {"type": variable.kind, field: tensor}


def _operator_message(op: Operator) -> Message:
    """Build the operator's own fields; an attribute that is None is unset, and so left out."""
    return {
        "inputs": _slot_messages(op.inputs),
        "outputs": _slot_messages(op.outputs),
        "type": op.type,
        "attrs": [attribute_message(op, n) for n, value in op.attrs.items() if value is not None],
    }


def _slot_messages(slots: dict[str, list[str]]) -> list[Message]:
    return [{"parameter": slot, "arguments": names} for slot, names in slots.items()]
