"""The registry of ONNX rules: op class -> a function from values to values.

A rule is called as a lowering rule is: operands by field name, properties by name. If its signature
has them, it also gets `emit` (the `Nodes` of the graph), `types` (the result types) and `used`
(which results are read). A property in `open` may be a vector of the graph instead of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

import onnx_ir as ir

from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.op import PdOp, call_rule
from graphopt.ir.dialect.types import Tensor
from graphopt.ir.dialect.types import dtype_of as element_type
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Parts, Value, dtype_of, is_half

Rule: TypeAlias = Callable[..., Any]
R = TypeVar("R", bound=Rule)


@dataclass(frozen=True)
class OnnxRule:
    """A rule; with `wide` it computes half types in float32, so that a result rounds only once."""

    rule: Rule
    wide: bool = False
    open: Collection[str] = ()


ENTRIES: dict[type[PdOp], OnnxRule] = {}
"""The rules for real numbers."""
COMPLEX: dict[type[PdOp], OnnxRule] = {}
"""The rules for complex operands or results, which are `Parts`."""
APART: set[type[PdOp]] = set()
"""The ops whose rule for real numbers applies to either part of complex ones."""


def exports(
    *op_classes: type[PdOp],
    wide: bool = False,
    open: Collection[str] = (),
    complex: bool = False,
) -> Callable[[R], R]:
    """Register a function as the rule of op classes, with `complex` for their complex operands."""

    def register(rule: R) -> R:
        for op_class in op_classes:
            entries = COMPLEX if complex else ENTRIES
            assert op_class not in entries, f"{op_class.name} has two rules for ONNX"
            entries[op_class] = OnnxRule(rule, wide, open)
        return rule

    return register


def can_be_written(op_class: type[PdOp]) -> bool:
    """True for an op with a rule."""
    return op_class in ENTRIES or op_class in COMPLEX


def exports_each(rules: Mapping[type[PdOp], Rule], wide: bool = False) -> None:
    """Register rules of one expression."""
    for op_class, rule in rules.items():
        exports(op_class, wide=wide)(rule)


def exports_as(operators: Mapping[type[PdOp], str]) -> None:
    """Register ops that map to one operator with the same operands and no attributes."""
    exports_each({op_class: _one_node(name) for op_class, name in operators.items()})


def _one_node(name: str) -> Rule:
    def rule(emit: Nodes, x: Value, y: Value | None = None) -> Value:
        return emit(name, x) if y is None else emit(name, x, y)

    return rule


def write_op(
    emit: Nodes,
    op_class: type[PdOp],
    values: Mapping[str, Any],
    types: Sequence[Tensor],
    used: Sequence[bool],
) -> tuple[Value | Parts | None, ...]:
    """Write an op from operands and properties by name; results that nothing reads may be None.

    Raises NotInOnnx if there is no rule, or the rule does not support this use.
    """
    is_complex = any(element_type(type_).is_complex for type_ in types)
    if not (is_complex or any(isinstance(v, Parts) for v in _flat(values.values()))):
        return _by_rule(emit, ENTRIES.get(op_class), op_class, values, types, used)
    if op_class in APART:
        halves = [
            _by_rule(emit, ENTRIES[op_class], op_class, _one_part(values, part), types, used)
            for part in ("real", "imag")
        ]
        return tuple(map(_as_parts, *halves))
    if op_class not in COMPLEX:
        raise NotInOnnx("ONNX has no operators on complex numbers")
    return _by_rule(emit, COMPLEX[op_class], op_class, values, types, used)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)


def _one_part(values: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Replace complex operands by one of their parts; raise NotInOnnx if others are real floats."""
    if any(isinstance(v, ir.Value) and dtype_of(v).is_floating for v in _flat(values.values())):
        raise NotInOnnx("the operands mix complex and real numbers")

    def one(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(one, cast("tuple[Any, ...]", value)))
        return getattr(value, part) if isinstance(value, Parts) else value

    return {name: one(value) for name, value in values.items()}


def _as_parts(real: Any, imag: Any) -> Parts | None:
    return None if real is None else Parts(real, imag)


def _by_rule(
    emit: Nodes,
    entry: OnnxRule | None,
    op_class: type[PdOp],
    values: Mapping[str, Any],
    types: Sequence[Tensor],
    used: Sequence[bool],
) -> tuple[Any, ...]:
    if entry is None:
        raise NotInOnnx("ONNX has no equivalent operator")
    for name, value in values.items():
        is_open = isinstance(value, ir.Value) and name in attr_kinds(op_class)
        if is_open and name not in entry.open:
            raise NotInOnnx(f"'{name}' is known only when the model runs")
    given = {name: _widen(emit, v) for name, v in values.items()} if entry.wide else values
    found = call_rule(entry.rule, {**given, "emit": emit, "types": types, "used": used})
    results = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
    return tuple(
        emit.cast(value, element_type(type_))
        if entry.wide and isinstance(value, ir.Value) and not element_type(type_).is_complex
        else value
        for value, type_ in zip(results, types, strict=True)
    )


def _widen(emit: Nodes, operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(_widen(emit, each) for each in cast("tuple[Any, ...]", operand))
    if isinstance(operand, ir.Value) and is_half(operand):
        return emit.cast(operand, "float32")
    return operand
