"""The properties of `pd` ops from operators: attributes, and tensors (`pd.dynamic`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.ir import SSAValue

from graphopt.ir.dialect.definition import (
    as_property,
    attr_kinds,
    definition,
    encode_attrs,
    segments,
)
from graphopt.ir.dialect.known import KnownValues, known_numbers
from graphopt.ir.dialect.op import PdOp, as_group
from graphopt.ir.dialect.ops.dynamic import Dynamic, decode_properties, infer_dynamic
from graphopt.ir.dialect.size_rules import amounts
from graphopt.ir.program import AttrKind, Operator
from graphopt.ir.translate.operators.table import DialectRow


def row_attrs(op: Operator, row: DialectRow) -> dict[str, Any]:
    """Collect the attributes of a legacy operator under the names of the `pd` op's properties."""
    attrs: dict[str, Any] = {}
    for name in attr_kinds(row.op):
        legacy_name = row.renamed.get(name, name)
        if legacy_name in op.attrs and not names_variables(op, legacy_name):
            attrs[name] = op.attrs[legacy_name]
    return attrs


def names_variables(op: Operator, attribute: str) -> bool:
    """True when the attribute holds names of variables that have its value."""
    return op.attr_kinds.get(attribute) in (AttrKind.VAR, AttrKind.VARS)


def constant_property(op_class: type[PdOp], name: str, value: SSAValue) -> Any:
    """Return a property as a Python value if the program fixes it; None otherwise."""
    numbers = known_numbers(value)
    return None if numbers is None else as_property(op_class, name, numbers)


def make_dynamic(
    op_class: type[PdOp],
    operands: Sequence[Any],
    attrs: Mapping[str, Any],
    dynamic: Mapping[str, SSAValue],
) -> Dynamic:
    """Build a `pd.dynamic` for an op with the tensors `dynamic`, typed as far as known."""
    groups = [as_group(operand) for operand in operands]
    groups += [[] for _ in definition(op_class).operands[len(groups) :]]
    flat = [value for group in groups for value in group]
    given = {name: value for name, value in attrs.items() if name not in dynamic}
    sizes = [len(group) for group in groups]
    encoded = encode_attrs(op_class, given)
    types = infer_dynamic(
        op_class,
        [[value.type for value in group] for group in groups],
        decode_properties(op_class, encoded),
        {name: _partial(value, attrs.get(name)) for name, value in dynamic.items()},
    )
    properties = {"op": op_class.name, "groups": sizes, "dynamic": list(dynamic), "attrs": encoded}
    made = Dynamic.create(
        operands=[*flat, *dynamic.values()],
        result_types=list(types),
        properties=encode_attrs(Dynamic, properties) | segments(Dynamic, [len(flat), len(dynamic)]),
    )
    made.verify_()
    return made


def _partial(value: SSAValue, stated: Any) -> tuple[int | None, ...] | None:
    """Collect the known elements of a tensor; the attribute `stated` may have unknown ones."""
    found = KnownValues().elements(value)
    if found is None:
        return None
    partly = [size if isinstance(size, int) else None for size in amounts(found)]
    others: list[int] = list(stated) if isinstance(stated, (list, tuple)) else []  # pyright: ignore
    for position, other in enumerate(others if len(others) == len(partly) else ()):
        if partly[position] is None and other > 0:
            partly[position] = other
    return tuple(partly)
