"""Attributes of PIR operators, under legacy names and with legacy values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphopt.ir.dtypes import as_dtype
from graphopt.ir.formats.pir.rows import NEWER, PirRow, base_name
from graphopt.ir.formats.pir_json.records import PirAttribute, PirOp, PirType

# Legacy's code for "the operand's dtype".
_NO_DTYPE = -1


def legacy_attributes(op: PirOp, row: PirRow) -> dict[str, Any] | None:
    """Convert the attributes to legacy ones; None when a value has no legacy form."""
    found: dict[str, Any] = {}
    newer = newer_attributes(op, row)
    for name, attribute in op.attributes.items():
        if attribute.kind in ("a_place", "NULL"):
            continue
        value = legacy_value(attribute)
        if name in newer and value == newer[name]:
            continue
        if value is None:
            return None
        found[row.renamed.get(name, name)] = value
    return found


def newer_attributes(op: PirOp, row: PirRow) -> Mapping[str, Any]:
    """Return the attributes that legacy lacks, with the values that have no effect."""
    return NEWER.get(row.forward or base_name(op.name.partition(".")[2]), {})


def legacy_value(attribute: PirAttribute) -> Any:
    """Convert a value to its legacy form, an element type to its number; None if impossible."""
    if attribute.kind == "a_dtype":
        return dtype_code(attribute.value)
    value = attribute.plain()
    return None if isinstance(value, PirType) else value


def dtype_code(name: str) -> int | None:
    """Return the number of an element type; -1 if undefined, None if unknown."""
    if name.lower().startswith("undefined"):
        return _NO_DTYPE
    try:
        return as_dtype(name).code
    except TypeError:
        return None
