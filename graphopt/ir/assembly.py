"""The text form of `pd` ops, one for all of them.

`%y = pd.name(%x, bias = %b, rest = [%c, %d]) {axis = 1} : (types) -> types`: single operands are
bare, optional and variadic ones have their name, properties that have their default are left out,
and a type that all operands and the result share is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import OptOperandDef, OptResultDef, VarOperandDef, VarResultDef
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from graphopt.ir.op import PdOp, attr_kinds, definition, encode_attrs, segments
from graphopt.ir.ops.control import RegionOp
from graphopt.ir.text import type_text

OpT = TypeVar("OpT", bound=PdOp)


def print_op(op: PdOp, printer: Printer) -> None:
    """Print everything that comes after the op's name."""
    with printer.in_parens():
        for position, (label, group) in enumerate(_labelled_groups(op)):
            if position:
                printer.print_string(", ")
            _print_group(printer, label, group)
    _print_properties(printer, op)
    printer.print_op_attributes(op.attributes, print_keyword=True)
    printer.print_string(" : ")
    types = [value.type for value in op.operands]
    results = [result.type for result in op.results]
    printer.print_string(_types_text(types, results))
    if isinstance(op, RegionOp):
        for word, region in zip(op.REGIONS, op.regions, strict=True):
            printer.print_string(f" {word}")
            printer.print_region(region)


def _types_text(operands: Sequence[Attribute], results: Sequence[Attribute]) -> str:
    """What operands and results have in common, or all types as those of a function."""
    if operands and len(results) == 1 and all(type_ == results[0] for type_ in operands):
        return type_text(results[0])
    taken, given = (", ".join(map(type_text, types)) for types in (operands, results))
    return f"({taken}) -> {given}" if len(results) == 1 else f"({taken}) -> ({given})"


def parse_op(cls: type[OpT], parser: Parser) -> OpT:
    """Parse what `print_op` prints; errors carry the position in the text."""
    start = parser.pos
    groups = _parse_groups(parser, cls)
    properties = _parse_properties(parser, cls)
    attributes = parser.parse_optional_attr_dict_with_keyword()
    parser.parse_punctuation(":")
    flat = [operand for group in groups for operand in group]
    position = parser.pos
    types, results = _parse_types(parser, cls, len(flat))
    operands = parser.resolve_operands(flat, types, position)
    regions: list[Region] = []
    for word in cls.REGIONS if issubclass(cls, RegionOp) else ():
        if word:
            parser.parse_keyword(word.strip())
        regions.append(parser.parse_region())
    op = cls.create(
        operands=operands,
        result_types=results,
        properties=properties | segments(cls, [len(group) for group in groups]),
        attributes={} if attributes is None else attributes.data,
        regions=regions,
    )
    try:
        op.verify_()
    except VerifyException as error:
        parser.raise_error(str(error), start, parser.pos)
    return op


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


def _print_group(printer: Printer, label: str | None, group: Sequence[SSAValue] | SSAValue) -> None:
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

    if parser.parse_optional_punctuation("{") and not parser.parse_optional_punctuation("}"):
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
    optional = sum(isinstance(field, OptResultDef) for _, field in fields)
    fits = len(fields) - optional <= len(outputs) <= len(fields)
    if len(inputs) != operands or not (variadic or fits):
        parser.raise_error(
            f"expected {operands} operand and {len(fields)} result types, "
            f"found {len(inputs)} and {len(outputs)}"
        )
    return list(inputs), list(outputs)
