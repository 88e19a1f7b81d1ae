"""Convert operator attributes between the kinds of a ProgramDesc and plain Python values.

Reading is exact, since every stored attribute names its kind. Writing has to choose a kind for
values that came from no file: by the row of the operator, else by the type of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from graphopt.errors import ProgramError
from graphopt.ir.dtypes import DType
from graphopt.ir.formats.protobuf.message import INT32, INT64, UNKNOWN, Message, decode
from graphopt.ir.formats.protobuf.schema import ATTRIBUTE, ATTRIBUTE_KIND, SCALAR
from graphopt.ir.formats.protobuf.wire import WireReader
from graphopt.ir.formats.quote import quote
from graphopt.ir.operators import operators
from graphopt.ir.program import AttrKind, Block, Operator, Variable

# The field for values of each kind; the plural names are lists.
_FIELD = {
    AttrKind.INT: "i",
    AttrKind.FLOAT: "f",
    AttrKind.STRING: "s",
    AttrKind.INTS: "ints",
    AttrKind.FLOATS: "floats",
    AttrKind.STRINGS: "strings",
    AttrKind.BOOLEAN: "b",
    AttrKind.BOOLEANS: "bools",
    AttrKind.BLOCK: "block_idx",
    AttrKind.LONG: "l",
    AttrKind.BLOCKS: "blocks_idx",
    AttrKind.LONGS: "longs",
    AttrKind.FLOAT64S: "float64s",
    AttrKind.VAR: "var_name",
    AttrKind.VARS: "vars_name",
    AttrKind.FLOAT64: "float64",
    AttrKind.SCALAR: "scalar",
    AttrKind.SCALARS: "scalars",
}
_LISTS = {row.name for row in ATTRIBUTE.fields if row.repeated}
_SCALAR_FIELD = {1: "b", 2: "i", 3: "r", 4: "c"}


class StoredAttribute(NamedTuple):
    """A decoded attribute; `value` is a Python bool, int, float, complex, str or a list of one."""

    name: str
    kind: int
    value: Any


def read_attribute(wire: WireReader, start: int, stop: int) -> StoredAttribute:
    """Decode the attribute in bytes `start`..`stop`; FormatError when kind and value disagree."""

    def scalar(start: int, stop: int) -> Any:
        return _read_scalar(wire, start, stop)

    message = decode(wire, ATTRIBUTE, start, stop, {"scalar": scalar, "scalars": scalar})
    name, kind = message.pop("name"), message.pop("type")
    expected = _FIELD[kind]
    message.pop(UNKNOWN, None)
    if expected in _LISTS:
        message.setdefault(expected, [])
    if list(message) != [expected]:
        raise wire.error(
            start,
            f"expected attribute {quote(name)} of kind {ATTRIBUTE_KIND.meanings[kind]} to have its "
            f"value in '{expected}', found {', '.join(map(repr, message)) or 'no value'}",
        )
    return StoredAttribute(name, kind, message[expected])


def _read_scalar(wire: WireReader, start: int, stop: int) -> Any:
    message = decode(wire, SCALAR, start, stop)
    expected = _SCALAR_FIELD[message["type"]]
    if expected not in message:
        raise wire.error(start, f"expected the scalar to have its value in '{expected}'")
    value = message[expected]
    return complex(value["r"], value["i"]) if expected == "c" else value


def attribute_message(op: Operator, name: str) -> Message:
    """Build the message of an attribute, of the remembered kind while it still fits the value.

    Raises ProgramError, naming operator and attribute, for a value that no kind can hold.
    """
    value = _plain(op.attrs[name])
    remembered, usual = op.attr_kinds.get(name), _stated_kind(op.type, name)
    kinds = (kind for kind in (remembered, usual) if kind is not None and _FITS[kind](value))
    kind = next(kinds, _value_kind(value))
    if kind is None:
        raise ProgramError(
            f"attribute '{name}' of operator {op.type} has the value {quote(value)}, which "
            "a saved program cannot store; use a bool, int, float or str, or a list of one type"
        )
    convert = _scalar if kind in (AttrKind.SCALAR, AttrKind.SCALARS) else _stored_value
    many = isinstance(value, list)
    stored = [convert(item) for item in cast(list[Any], value)] if many else convert(value)
    return {"name": name, "type": kind, _FIELD[kind]: stored}


def _stored_value(value: Any) -> Any:
    """Convert blocks to their indices and variables to their names; return others unchanged."""
    if isinstance(value, Block):
        return value.idx
    return value.name if isinstance(value, Variable) else value


def _scalar(value: Any) -> Message:
    if isinstance(value, bool):
        return {"type": 1, "b": value}
    if isinstance(value, int):
        return {"type": 2, "i": value}
    if isinstance(value, float):
        return {"type": 3, "r": value}
    return {"type": 4, "c": {"r": value.real, "i": value.imag}}


def _plain(value: Any) -> Any:
    """Convert a value of the front end to the types that files have."""
    if isinstance(value, DType):
        return value.code
    if isinstance(value, np.generic | np.ndarray):
        return cast(np.generic, value).tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in cast(Sequence[Any], value)]
    return value


# Kinds of attributes that no row lists: of operators of any type, and of old lookups.
_STRINGS = "epmap ex_states op_callstack op_role_var skip_eager_deletion_vars states table_names"
_COMMON_KINDS = {
    **dict.fromkeys(_STRINGS.split(), AttrKind.STRINGS),
    "sub_block": AttrKind.BLOCK,
    "blocks": AttrKind.BLOCKS,
    "height_sections": AttrKind.LONGS,
}


def _stated_kind(op_type: str, name: str) -> int | None:
    """Look up an attribute's kind in the row of an operator, or of the one it differentiates.

    Values do not determine it: a whole number may be a FLOAT, a list empty.
    """
    row = operators().get(op_type.removesuffix("_grad"))
    own = None if row is None else row.attributes.get(name)
    if own is None:
        return _COMMON_KINDS.get(name)
    return getattr(AttrKind, own.kind.upper()) if own.kind else _value_kind(own.default)


def _value_kind(value: Any) -> int | None:
    """Find the first kind that can hold a value."""
    return next((kind for kind, fits in _FITS.items() if fits(value)), None)


_Test: TypeAlias = Callable[[Any], bool]


def _is(*types: type) -> _Test:
    return lambda value: isinstance(value, types)


def _integer(low: int, high: int) -> _Test:
    return lambda value: isinstance(value, int) and low <= value <= high


def _list_of(fits: _Test) -> _Test:
    return lambda value: isinstance(value, list) and all(map(fits, cast(list[Any], value)))


_is_int, _is_long = _integer(INT32.low, INT32.high), _integer(INT64.low, INT64.high)
_is_variable = _is(Variable, str)


def _is_real(value: Any) -> bool:
    return isinstance(value, float) or (_is_long(value) and not isinstance(value, bool))


def _is_block(value: Any) -> bool:
    return isinstance(value, Block) or _is_int(value)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, float | complex) or _is_long(value)


# Tests whether a value fits a kind; `_value_kind` tries them in this order.
_FITS: dict[int, _Test] = {
    AttrKind.BOOLEAN: _is(bool),
    AttrKind.INT: _is_int,
    AttrKind.LONG: _is_long,
    AttrKind.FLOAT: _is_real,
    AttrKind.STRING: _is(str),
    AttrKind.BLOCK: _is_block,
    AttrKind.VAR: _is_variable,
    AttrKind.FLOAT64: _is_real,
    AttrKind.SCALAR: _is_scalar,
    AttrKind.BOOLEANS: lambda value: bool(value) and _list_of(_is(bool))(value),
    AttrKind.INTS: _list_of(_is_int),
    AttrKind.LONGS: _list_of(_is_long),
    AttrKind.FLOATS: _list_of(_is_real),
    AttrKind.STRINGS: _list_of(_is(str)),
    AttrKind.BLOCKS: _list_of(_is_block),
    AttrKind.VARS: _list_of(_is_variable),
    AttrKind.FLOAT64S: _list_of(_is_real),
    AttrKind.SCALARS: _list_of(_is_scalar),
}
