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
from functools import cache
from typing import Any, Self

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    OpDef,
    OptOperandDef,
    VarOperandDef,
    VarResultDef,
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
        groups = [_as_group(operand) for operand in operands]
        values = {**default_attrs(cls), **attrs}
        types = infer_types(cls, [[value.type for value in group] for group in groups], values)
        op = cls.create(
            operands=[value for group in groups for value in group],
            result_types=types,
            properties=encode_attrs(cls, attrs) | _segments(cls, [len(g) for g in groups]),
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
        for result, wanted in zip(self.results, types, strict=True):
            if not compatible(result.type, wanted):
                raise VerifyException(
                    f"'{self.name}' declares the result type {result.type} "
                    f"but its type rule gives {wanted}"
                )

    def print(self, printer: Printer) -> None:
        """`pd.name(%x, bias = %b, rest = [%c]) {axis = 1} : (types) -> types`."""
        with printer.in_parens():
            first = True
            for label, group in _labelled_groups(self):
                if not first:
                    printer.print_string(", ")
                first = False
                _print_group(printer, label, group)
        _print_properties(printer, self)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        types = [value.type for value in self.operands]
        results = [result.type for result in self.results]
        if types and len(results) == 1 and len(set(types + results)) == 1:
            printer.print_attribute(results[0])
        else:
            printer.print_function_type(types, results)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """The inverse of `print`; errors carry the position in the text."""
        start = parser.pos
        groups = _parse_groups(parser, cls)
        properties = _parse_properties(parser, cls)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        flat = [operand for group in groups for operand in group]
        position = parser.pos
        types, results = _parse_types(parser, cls, len(flat))
        operands = parser.resolve_operands(flat, types, position)
        op = cls.create(
            operands=operands,
            result_types=results,
            properties=properties | _segments(cls, [len(group) for group in groups]),
            attributes={} if attributes is None else attributes.data,
        )
        try:
            op.verify_()
        except VerifyException as error:
            parser.raise_error(str(error), start, parser.pos)
        return op


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
    kinds, defaults = attr_kinds(cls), default_attrs(cls)
    encoded: dict[str, Attribute] = {}
    for name, value in attrs.items():
        try:
            attribute = kinds[name].encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ProgramError(
                f"attribute '{name}' of '{cls.name}' must be {kinds[name].name}, found {value!r}"
            ) from error
        if name not in defaults or kinds[name].encode(defaults[name]) != attribute:
            encoded[name] = attribute
    return encoded


def _as_group(operand: Any) -> list[SSAValue]:
    if operand is None:
        return []
    if isinstance(operand, SSAValue):
        return [operand]
    if isinstance(operand, Operation):
        return [operand.results[0]]
    return [SSAValue.get(item) for item in operand]


def _segments(cls: type[PdOp], sizes: Sequence[int]) -> dict[str, Attribute]:
    if SEGMENTS not in definition(cls).options:
        return {}
    return {_SEGMENT_NAME: DenseArrayBase.from_list(i32, list(sizes))}


def _show_operands(cls: type[PdOp], groups: Sequence[Sequence[Attribute]]) -> str:
    shown: list[str] = []
    for name, group in zip(operand_names(cls), groups, strict=True):
        types = ", ".join(show(t) for t in group)
        if group:
            shown.append(f"{name} {types}")
    return "; ".join(shown) or "none"


def _labelled_groups(op: PdOp) -> list[tuple[str | None, Sequence[SSAValue] | SSAValue]]:
    """What to print of each operand field: single operands bare, others with their name."""
    shown: list[tuple[str | None, Sequence[SSAValue] | SSAValue]] = []
    fields = definition(type(op)).operands
    for (name, field), group in zip(fields, op.operand_groups(), strict=True):
        if isinstance(field, OptOperandDef):
            shown += [(name, group[0])] if group else []
        elif isinstance(field, VarOperandDef):
            shown += [(name, group)] if group else []
        else:
            shown.append((None, group[0]))
    return shown


def _print_group(
    printer: Printer, label: str | None, group: Sequence[SSAValue] | SSAValue
) -> None:
    if label is not None:
        printer.print_string(f"{label} = ")
    if isinstance(group, SSAValue):
        printer.print_ssa_value(group)
    else:
        with printer.in_square_brackets():
            printer.print_list(group, printer.print_ssa_value)


def _print_properties(printer: Printer, op: PdOp) -> None:
    kinds = attr_kinds(type(op))
    declared = definition(type(op)).properties
    shown = [
        (name, attr)
        for name, attr in op.properties.items()
        if name in kinds and attr != declared[name].default_value
    ]
    if not shown:
        return
    printer.print_string(" ")

    def entry(item: tuple[str, Attribute]) -> None:
        name, attr = item
        printer.print_string(f"{name} = ")
        kinds[name].print_value(printer, kinds[name].decode(attr))

    with printer.in_braces():
        printer.print_list(sorted(shown), entry)


def _parse_groups(parser: Parser, cls: type[PdOp]) -> list[list[Any]]:
    fields = definition(cls).operands
    groups: dict[str, list[Any]] = {name: [] for name, _ in fields}
    required = [name for name, f in fields if not isinstance(f, (OptOperandDef, VarOperandDef))]
    bare = iter(required)

    def entry() -> None:
        operand = parser.parse_optional_unresolved_operand()
        if operand is not None:
            name = next(bare, None)
            if name is None:
                parser.raise_error(f"'{cls.name}' takes {len(required)} unnamed operands")
            groups[name] = [operand]
            return
        name = parser.parse_identifier()
        if name not in groups or name in required:
            parser.raise_error(f"'{cls.name}' has no named operand '{name}'")
        parser.parse_punctuation("=")
        single = parser.parse_optional_unresolved_operand()
        if single is not None:
            groups[name] = [single]
        else:
            groups[name] = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_unresolved_operand
            )

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, entry)
    for name in required:
        if not groups[name]:
            parser.raise_error(f"'{cls.name}' needs an operand '{name}'")
    return list(groups.values())


def _parse_properties(parser: Parser, cls: type[PdOp]) -> dict[str, Attribute]:
    kinds = attr_kinds(cls)
    values: dict[str, Any] = {}

    def entry() -> None:
        name = parser.parse_identifier()
        if name not in kinds:
            parser.raise_error(f"'{cls.name}' has no attribute '{name}'")
        parser.parse_punctuation("=")
        values[name] = kinds[name].parse_value(parser)

    if parser.parse_optional_punctuation("{"):
        if not parser.parse_optional_punctuation("}"):
            entry()
            while parser.parse_optional_punctuation(","):
                entry()
            parser.parse_punctuation("}")
    return encode_attrs(cls, values)


def _parse_types(
    parser: Parser, cls: type[PdOp], operands: int
) -> tuple[list[Attribute], list[Attribute]]:
    """`T` for a single type shared by all operands and the one result, else a function type."""
    inputs = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    if inputs is None:
        shared = parser.parse_type()
        return [shared] * operands, [shared]
    parser.parse_punctuation("->")
    outputs = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    if outputs is None:
        outputs = [parser.parse_type()]
    fields = definition(cls).results
    variadic = any(isinstance(field, VarResultDef) for _, field in fields)
    if len(inputs) != operands or (not variadic and len(outputs) != len(fields)):
        parser.raise_error(
            f"expected {operands} operand and {len(fields)} result types, "
            f"found {len(inputs)} and {len(outputs)}"
        )
    return list(inputs), list(outputs)
