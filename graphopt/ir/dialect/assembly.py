"""The text form of `pd` ops, one for all of them.

`%y = pd.name(%x, bias = %b, rest = [%c, %d]) {axis = 1}`: single operands are bare, optional and
variadic ones have their name, and properties that have their default are left out. The types of
results follow from the op's type rule. Where they differ from it, and before regions, they are
written: `-> tensor<2x4xf32>`. A printer can write all types, `: (types) -> types`, and a type that
all operands and the result share once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import IRDLOperation, OptOperandDef, OptResultDef, VarOperandDef, VarResultDef
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from graphopt.errors import ProgramError, comes_again
from graphopt.ir.dialect.definition import (
    attr_kinds,
    attr_values,
    definition,
    encode_attrs,
    of_op,
    operand_groups,
    segments,
)
from graphopt.ir.dialect.text import ModulePrinter, type_text

OpT = TypeVar("OpT", bound=IRDLOperation)

# maps the operand types of each field, and all property values, to the result types
TypeRule = Callable[[Sequence[Sequence[Attribute]], Mapping[str, Any]], Sequence[Attribute]]


def print_op(op: IRDLOperation, printer: Printer, words: Sequence[str], rule: TypeRule) -> None:
    """Print an op after its name; `words` stand before its regions."""
    groups = operand_groups(op)
    with printer.in_parens():
        for position, (label, group) in enumerate(_label_operands(op, groups)):
            if position:
                printer.print_string(", ")
            _print_group(printer, label, group)
    _print_properties(printer, op)
    printer.print_op_attributes(op.attributes, print_keyword=True)
    results = [result.type for result in op.results]
    if isinstance(printer, ModulePrinter) and printer.print_types:
        printer.print_string(" : ")
        printer.print_string(_types_text([value.type for value in op.operands], results))
    elif op.regions or not _follow(op, groups, rule):
        printer.print_string(f" -> {_results_text(results)}")
    for word, region in zip(words, op.regions, strict=True):
        printer.print_string(f" {word}")
        printer.print_region(region)


def _types_text(operands: Sequence[Attribute], results: Sequence[Attribute]) -> str:
    """Format the type that operands and results share, or all types as a function type."""
    if operands and len(results) == 1 and all(type_ == results[0] for type_ in operands):
        return type_text(results[0])
    taken = ", ".join(map(type_text, operands))
    return f"({taken}) -> {_results_text(results)}"


def _results_text(results: Sequence[Attribute]) -> str:
    given = ", ".join(map(type_text, results))
    return given if len(results) == 1 else f"({given})"


def _follow(op: IRDLOperation, groups: Sequence[Sequence[SSAValue]], rule: TypeRule) -> bool:
    """Return whether the result types equal the ones that the type rule infers."""
    if not op.results:
        return True
    types = [[value.type for value in group] for group in groups]
    infer = partial(rule, types, attr_values(type(op), op.properties))
    try:
        inferred = infer()
    except Exception as error:  # print the op even if its type rule fails
        if not comes_again(infer, error):
            raise
        return False
    return [result.type for result in op.results] == list(inferred)


def parse_op(cls: type[OpT], parser: Parser, words: Sequence[str], rule: TypeRule) -> OpT:
    """Parse what `print_op` prints; errors carry the position in the text."""
    start = parser.pos
    groups = _parse_groups(parser, cls)
    properties = _parse_properties(parser, cls)
    attributes = parser.parse_optional_attr_dict_with_keyword()
    operands, results = _parse_values(parser, cls, groups)
    sizes = [len(group) for group in groups]
    follows = results is None
    if results is None:
        values = iter(value.type for value in operands)
        types = [[next(values) for _ in range(size)] for size in sizes]
        try:
            results = rule(types, attr_values(cls, properties))
        except ProgramError as error:
            parser.raise_error(of_op(cls.name, error), start, _end(parser))
    regions: list[Region] = []
    for word in words:
        if word:
            parser.parse_keyword(word.strip())
        regions.append(parser.parse_region())
    op = cls.create(
        operands=operands,
        result_types=results,
        properties=properties | segments(cls, sizes),
        attributes={} if attributes is None else attributes.data,
        regions=regions,
    )
    if follows and not regions:
        return op  # the type rule, called above, has verified it
    try:
        op.verify_()
    except VerifyException as error:
        parser.raise_error(str(error), start, _end(parser))
    return op


def _label_operands(
    op: IRDLOperation, groups: Sequence[Sequence[SSAValue]]
) -> list[tuple[str | None, Sequence[SSAValue] | SSAValue]]:
    """Label the operands of each field: single operands bare, others with their name."""
    shown: list[tuple[str | None, Sequence[SSAValue] | SSAValue]] = []
    fields = definition(type(op)).operands
    for (name, field), group in zip(fields, groups, strict=True):
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


def _print_properties(printer: Printer, op: IRDLOperation) -> None:
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


def _parse_groups(parser: Parser, cls: type[IRDLOperation]) -> list[list[Any]]:
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


def _parse_properties(parser: Parser, cls: type[IRDLOperation]) -> dict[str, Attribute]:
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


def _parse_values(
    parser: Parser, cls: type[IRDLOperation], groups: Sequence[Sequence[UnresolvedOperand]]
) -> tuple[Sequence[SSAValue], Sequence[Attribute] | None]:
    """Resolve the operands and parse the result types; None for result types not written."""
    flat = [operand for group in groups for operand in group]
    if parser.parse_optional_punctuation(":"):
        position = parser.pos
        types, results = _parse_types(parser, cls, len(flat))
        return parser.resolve_operands(flat, types, position), results
    operands = [_known_value(parser, operand) for operand in flat]
    if parser.parse_optional_punctuation("->"):
        return operands, _parse_results(parser, cls)
    return operands, None


def _end(parser: Parser) -> int:
    """Return where the parsed text ends; the parser is at the next token, maybe on another line."""
    return len(parser.lexer.input.content[: parser.pos].rstrip())


def _known_value(parser: Parser, operand: UnresolvedOperand) -> SSAValue:
    """Look up an operand by name; it must be defined before, because its type is not written."""
    values = parser.ssa_values.get(operand.operand_name, ())
    if operand.index >= len(values):
        parser.raise_error(
            f"the value %{operand.operand_name} is not known here; "
            "write the types of the op where it comes later",
            operand.span,
        )
    return values[operand.index]


def _parse_types(
    parser: Parser, cls: type[IRDLOperation], operands: int
) -> tuple[list[Attribute], list[Attribute]]:
    """Parse `T`, one type shared by all operands and the one result, or a function type."""
    start = parser.pos
    inputs = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    if inputs is None:
        shared = parser.parse_type()
        return [shared] * operands, [shared]
    if len(inputs) != operands:
        found = f"expected {operands} operand types, found {len(inputs)}"
        parser.raise_error(found, start, _end(parser))
    parser.parse_punctuation("->")
    return list(inputs), _parse_results(parser, cls)


def _parse_results(parser: Parser, cls: type[IRDLOperation]) -> list[Attribute]:
    start = parser.pos
    outputs = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    if outputs is None:
        outputs = [parser.parse_type()]
    fields = definition(cls).results
    variadic = any(isinstance(field, VarResultDef) for _, field in fields)
    optional = sum(isinstance(field, OptResultDef) for _, field in fields)
    if not (variadic or len(fields) - optional <= len(outputs) <= len(fields)):
        found = f"expected {len(fields)} result types, found {len(outputs)}"
        parser.raise_error(found, start, _end(parser))
    return list(outputs)
