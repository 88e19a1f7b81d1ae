"""The base class of every `pd` operation: building from Python values, type rules, text form.

A concrete op declares operands, results and properties with xDSL's field definitions and one
static method `infer`. `infer` and the op's lowering are called the same way: one argument per
operand (a type here, an array there; None for an absent optional, a tuple for a variadic) and one
per property, by name, and only those that the function names in its signature.
"""

from __future__ import annotations

import inspect
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Self

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    OpDef,
    OptOperandDef,
    VarOperandDef,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from graphopt.errors import ProgramError
from graphopt.ir.attrs import Kind, KindConstraint
from graphopt.ir.types import Tensor, compatible, show

SEGMENTS = AttrSizedOperandSegments(as_property=True)
_SEGMENT_NAME = SEGMENTS.attribute_name
# one operand group: a value, None (absent optional) or a list (variadic)
Operand = SSAValue | Sequence[SSAValue] | None


class PdOp(IRDLOperation, ABC):
    """An operation of the `pd` dialect on tensors; `infer` gives the result types."""

    @staticmethod
    def infer(*args: Any, **kwargs: Any) -> Any:
        """The result type (or a tuple of them) for these operand types and property values."""
        raise NotImplementedError

    @classmethod
    def make(cls, *operands: Operand, location: Any = None, **attrs: Any) -> Self:
        """Build the op from SSA values and Python property values; result types are inferred.

        Raises ProgramError when operands or properties do not fit the op.
        """
        fields = definition(cls).operands
        operands = operands + (None,) * (len(fields) - len(operands))
        groups = [as_group(operand) for operand in operands]
        values = {**default_attrs(cls), **attrs}
        types = infer_types(cls, [[value.type for value in group] for group in groups], values)
        op = cls.create(
            operands=[value for group in groups for value in group],
            result_types=types,
            properties=encode_attrs(cls, attrs) | segments(cls, [len(g) for g in groups]),
        )
        if location is not None:
            op.location = location
        return op

    def attr_values(self) -> dict[str, Any]:
        """Every property as a Python value, defaults filled in."""
        kinds = attr_kinds(type(self))
        given = {
            name: kinds[name].decode(attr)
            for name, attr in self.properties.items()
            if name in kinds
        }
        return {**default_attrs(type(self)), **given}

    def attr(self, name: str) -> Any:
        """One property as a Python value."""
        found = self.properties.get(name)
        if found is None:
            return default_attrs(type(self))[name]
        return attr_kinds(type(self))[name].decode(found)

    def operand_groups(self) -> list[Sequence[SSAValue]]:
        """The operands of each declared field; an absent optional is an empty group."""
        fields = definition(type(self)).operands
        segments = self.properties.get(_SEGMENT_NAME)
        if isinstance(segments, DenseArrayBase):
            sizes = [int(size) for size in segments.get_values()]
        elif len(fields) == 1 and isinstance(fields[0][1], VarOperandDef):
            sizes = [len(self.operands)]
        else:
            sizes = [1] * len(fields)
        groups: list[Sequence[SSAValue]] = []
        start = 0
        for size in sizes:
            groups.append(self.operands[start : start + size])
            start += size
        return groups

    def verify_(self) -> None:
        try:
            types = infer_types(
                type(self),
                [[value.type for value in group] for group in self.operand_groups()],
                self.attr_values(),
            )
        except ProgramError as error:
            raise VerifyException(f"'{self.name}': {error}") from error
        if len(self.results) != len(types):
            raise VerifyException(
                f"'{self.name}' has {len(self.results)} results but its type rule gives "
                f"{len(types)}"
            )
        for result, wanted in zip(self.results, types, strict=True):
            if not compatible(result.type, wanted):
                raise VerifyException(
                    f"'{self.name}' declares the result type {result.type} "
                    f"but its type rule gives {wanted}"
                )

    def print(self, printer: Printer) -> None:
        """`pd.name(%x, bias = %b, rest = [%c]) {axis = 1} : (types) -> types`."""
        from graphopt.ir.assembly import print_op

        print_op(self, printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """The inverse of `print`; errors carry the position in the text."""
        from graphopt.ir.assembly import parse_op

        return parse_op(cls, parser)


@cache
def definition(cls: type[PdOp]) -> OpDef:
    """The IRDL definition of an op class."""
    return cls.get_irdl_definition()


@cache
def attr_kinds(cls: type[PdOp]) -> Mapping[str, Kind]:
    """The kind of each property that the op declares."""
    return {
        name: prop.constr.kind
        for name, prop in definition(cls).properties.items()
        if isinstance(prop.constr, KindConstraint)
    }


@cache
def default_attrs(cls: type[PdOp]) -> Mapping[str, Any]:
    """The Python values of the properties that have a default."""
    kinds = attr_kinds(cls)
    return {
        name: kinds[name].decode(prop.default_value)
        for name, prop in definition(cls).properties.items()
        if name in kinds and prop.default_value is not None
    }


@cache
def _encoded_defaults(cls: type[PdOp]) -> Mapping[str, Attribute]:
    """The stored attributes of the properties that have a default."""
    return {
        name: prop.default_value
        for name, prop in definition(cls).properties.items()
        if prop.default_value is not None
    }


@cache
def operand_names(cls: type[PdOp]) -> tuple[str, ...]:
    """The names of the operand fields."""
    return tuple(name for name, _ in definition(cls).operands)


@cache
def parameters_of(function: Callable[..., Any]) -> frozenset[str] | None:
    """The names a rule takes by keyword; None when it takes any (`**attrs`)."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


def call_rule(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a type rule or lowering with those of `values` that its signature names."""
    wanted = parameters_of(function)
    if wanted is None:
        return function(**values)
    return function(**{name: value for name, value in values.items() if name in wanted})


def bind_groups(cls: type[PdOp], groups: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Operand groups by field name: a value, None, or a tuple, as the field is declared."""
    bound: dict[str, Any] = {}
    for (name, field), group in zip(definition(cls).operands, groups, strict=True):
        if isinstance(field, OptOperandDef):
            bound[name] = group[0] if group else None
        elif isinstance(field, VarOperandDef):
            bound[name] = tuple(group)
        else:
            if len(group) != 1:
                raise ProgramError(f"'{cls.name}' needs one operand '{name}', got {len(group)}")
            bound[name] = group[0]
    return bound


def infer_types(
    cls: type[PdOp], groups: Sequence[Sequence[Attribute]], attrs: Mapping[str, Any]
) -> list[Tensor]:
    """Result types of an op class; ProgramError names the op and its operand types."""
    bound = bind_groups(cls, groups)
    missing = attr_kinds(cls).keys() - attrs.keys()
    if missing:
        raise ProgramError(f"'{cls.name}' needs the attribute '{min(missing)}'")
    unknown = attrs.keys() - attr_kinds(cls).keys()
    if unknown:
        raise ProgramError(
            f"'{cls.name}' has no attribute '{min(unknown)}'; "
            f"it has {', '.join(attr_kinds(cls)) or 'none'}"
        )
    try:
        types = call_rule(cls.infer, {**bound, **attrs})
    except ProgramError as error:
        raise ProgramError(f"{error} (operands: {_show_operands(cls, groups)})") from None
    return [types] if isinstance(types, TensorType) else list(types)


def encode_attrs(cls: type[PdOp], attrs: Mapping[str, Any]) -> dict[str, Attribute]:
    """Python property values as stored attributes; values equal to the default are left out."""
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


def as_group(operand: Any) -> list[SSAValue]:
    """One operand as given to `make` as the list of its values."""
    if operand is None:
        return []
    if isinstance(operand, SSAValue):
        return [operand]
    if isinstance(operand, Operation):
        return [operand.results[0]]
    return [SSAValue.get(item) for item in operand]


def segments(cls: type[PdOp], sizes: Sequence[int]) -> dict[str, Attribute]:
    if SEGMENTS not in definition(cls).options:
        return {}
    return {_SEGMENT_NAME: _sizes(tuple(sizes))}


@lru_cache(4096)
def _sizes(sizes: tuple[int, ...]) -> Attribute:
    return DenseArrayBase.from_list(i32, list(sizes))


def _show_operands(cls: type[PdOp], groups: Sequence[Sequence[Attribute]]) -> str:
    shown: list[str] = []
    for name, group in zip(operand_names(cls), groups, strict=True):
        types = ", ".join(show(t) for t in group)
        if group:
            shown.append(f"{name} {types}")
    return "; ".join(shown) or "none"
