"""The definition of an op class: its fields and properties, and how properties are stored.

These functions need xDSL's definition of a class alone, so the text form (`assembly.py`) and the
base class (`op.py`) both stand on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation, OpDef, VarOperandDef

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import Kind, KindConstraint

SEGMENTS = AttrSizedOperandSegments(as_property=True)
_SEGMENT_NAME = SEGMENTS.attribute_name


@cache
def of_op(name: str, error: ProgramError) -> str:
    """Prefix an op's error message with the op's name, unless the message begins with it."""
    text = str(error)
    return text if text.startswith(f"'{name}'") else f"'{name}': {text}"


def definition(cls: type[IRDLOperation]) -> OpDef:
    """Return the IRDL definition of an op class."""
    return cls.get_irdl_definition()


@cache
def attr_kinds(cls: type[IRDLOperation]) -> Mapping[str, Kind]:
    """Map each declared property of an op class to its kind."""
    return {
        name: prop.constr.kind
        for name, prop in definition(cls).properties.items()
        if isinstance(prop.constr, KindConstraint)
    }


@cache
def default_attrs(cls: type[IRDLOperation]) -> Mapping[str, Any]:
    """Map each property with a default to this default, as a Python value."""
    kinds = attr_kinds(cls)
    return {
        name: kinds[name].decode(prop.default_value)
        for name, prop in definition(cls).properties.items()
        if name in kinds and prop.default_value is not None
    }


@cache
def _encoded_defaults(cls: type[IRDLOperation]) -> Mapping[str, Attribute]:
    """Map each property with a default to this default, as a stored attribute."""
    return {
        name: prop.default_value
        for name, prop in definition(cls).properties.items()
        if prop.default_value is not None
    }


def attr_values(cls: type[IRDLOperation], properties: Mapping[str, Attribute]) -> dict[str, Any]:
    """Decode all properties to Python values, with defaults filled in."""
    kinds = attr_kinds(cls)
    values = dict(default_attrs(cls))
    for name, attr in properties.items():
        if name in kinds:
            values[name] = kinds[name].decode(attr)
    return values


@cache
def operand_names(cls: type[IRDLOperation]) -> tuple[str, ...]:
    """Return the names of the operand fields."""
    return tuple(name for name, _ in definition(cls).operands)


def encode_attrs(cls: type[IRDLOperation], attrs: Mapping[str, Any]) -> dict[str, Attribute]:
    """Encode Python property values as attributes; leave out values equal to the default."""
    kinds, defaults = attr_kinds(cls), _encoded_defaults(cls)
    encoded: dict[str, Attribute] = {}
    for name, value in attrs.items():
        try:
            attribute = kinds[name].encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ProgramError(
                f"attribute '{name}' of '{cls.name}' must be {kinds[name].name}, found {value!r}"
            ) from error
        if name not in defaults or defaults[name] != attribute:
            encoded[name] = attribute
    return encoded


def segments(cls: type[IRDLOperation], sizes: Sequence[int]) -> dict[str, Attribute]:
    if SEGMENTS not in definition(cls).options:
        return {}
    return {_SEGMENT_NAME: _sizes(tuple(sizes))}


@lru_cache(4096)
def _sizes(sizes: tuple[int, ...]) -> Attribute:
    return DenseArrayBase.from_list(i32, list(sizes))


def operand_groups(op: IRDLOperation) -> list[Sequence[SSAValue]]:
    """Group the operands by declared field; an absent optional operand is an empty group."""
    fields = definition(type(op)).operands
    segments = op.properties.get(_SEGMENT_NAME)
    if isinstance(segments, DenseArrayBase):
        sizes = [int(size) for size in segments.get_values()]
    elif len(fields) == 1 and isinstance(fields[0][1], VarOperandDef):
        sizes = [len(op.operands)]
    else:
        sizes = [1] * len(fields)
    groups: list[Sequence[SSAValue]] = []
    start = 0
    for size in sizes:
        groups.append(op.operands[start : start + size])
        start += size
    return groups


def as_property(op_class: type[IRDLOperation], name: str, numbers: Sequence[Any]) -> Any:
    """Convert the elements of a tensor to the value of a property of an op class.

    Raises ProgramError when they do not fit, such as two numbers for one axis.
    """
    kind = attr_kinds(op_class)[name]
    if not kind.many and len(numbers) != 1:
        raise ProgramError(f"'{name}' of '{op_class.name}' is one number, found {list(numbers)}")
    value = list(numbers) if kind.many else numbers[0]
    return kind.decode(encode_attrs(op_class, {name: value}).get(name) or kind.encode(value))
