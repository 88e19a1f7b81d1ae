"""Values of a PIR program that the file itself fixes: `full`, `full_int_array` and lists of them.

Legacy operators have these values as attributes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

from graphopt.ir.formats.pir_json.records import PirOp

# A constant of more elements, too long for a list of sizes, stays a tensor.
_MOST_ELEMENTS = 64


class PirConstant(NamedTuple):
    """A number, or a list of numbers."""

    value: Any

    def as_list(self) -> list[Any]:
        """Return the numbers of the constant as a list."""
        return cast("list[Any]", self.value) if isinstance(self.value, list) else [self.value]


def constant_of(op: PirOp) -> PirConstant | None:
    """Return the constant that an operator creates; None when it creates none, or a large one."""
    if op.name == "pd_op.full":
        if math.prod(op.attribute("shape", [])) != 1:
            return None
        return PirConstant(as_number(op.attribute("value"), op.attribute("dtype")))
    if op.name == "pd_op.full_int_array":
        return PirConstant(list(op.attribute("value", [])))
    if op.name in ("pd_op.assign_value", "pd_op.assign_value_"):
        values = op.attribute("values", [])
        if len(values) > _MOST_ELEMENTS:
            return None
        numbers = [as_number(value, op.attribute("dtype")) for value in values]
        return PirConstant(numbers if op.attribute("shape") else numbers[0] if numbers else None)
    return None


def as_number(value: Any, dtype: Any) -> Any:
    """Convert a number to this element type: files store every number of `full` as a float."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        name = f"{dtype}"
        if "int" in name:
            return int(value)
        if name == "bool":
            return bool(value)
    return value
