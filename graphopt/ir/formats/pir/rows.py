"""The operators of PIR and their gradients, from the table of operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphopt.ir.operators import OperatorSignature, operators

GRAD = "_grad"


class Operand(NamedTuple):
    """The position of an operand in the legacy operator: a slot, or an attribute for a constant."""

    slot: str = ""
    attribute: str = ""


@dataclass(frozen=True)
class PirRow:
    """One PIR operator and its legacy form; a result without a slot has the slot ""."""

    type: str
    operands: tuple[Operand, ...]
    results: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """PIR attribute -> legacy attribute."""
    forward: str = ""
    """The PIR name of a gradient's forward operator."""


# Attributes newer than legacy; with any other value the operator has no legacy form.
NEWER: Mapping[str, Mapping[str, Any]] = {
    "adam": {"amsgrad": False},
    "adamw": {"amsgrad": False},
    "cumprod": {"exclusive": False, "reverse": False},
    "kldiv_loss": {"log_target": False},
    "max_pool2d_with_index": {"ceil_mode": False},
    "max_pool3d_with_index": {"ceil_mode": False},
    "nanmedian": {"mode": "avg"},
    "repeat_interleave": {"output_size": -1},
    "repeat_interleave_with_tensor_index": {"output_size": -1},
    "round": {"decimals": 0},
    "thresholded_relu": {"value": 0.0},
}


def row_of(name: str) -> PirRow | None:
    """Find the row of a PIR operator, named without its dialect; None when there is none.

    A trailing underscore only marks an operator that writes in place, unless the tables have a name
    with it.
    """
    return ROWS.get(name) or ROWS.get(name.removesuffix("_"))


def base_name(name: str) -> str:
    """Strip the mark of operators that write in place from a name."""
    return name.removesuffix("_")


def _rows() -> dict[str, PirRow]:
    rows: dict[str, PirRow] = {}
    for row in operators().values():
        for each in row.pir:
            rows[each.name] = _row(row.type, each, each.renamed)
            if (gradient := row.pir_gradients.get(each.name)) is not None:
                name = each.name + GRAD
                rows[name] = _row(row.type + GRAD, gradient, each.renamed, each.name)
    return rows


def _row(
    type: str, stated: OperatorSignature, renamed: Mapping[str, str], forward: str = ""
) -> PirRow:
    slots = tuple("" if slot == "-" else slot for slot in stated.outputs)
    # `struct_name` is the layer that created the operator
    names = {"struct_name": "op_namescope", **renamed}
    return PirRow(type, tuple(map(_operand, stated.inputs)), slots, names, forward)


def _operand(text: str) -> Operand:
    if text == "-":
        return Operand()
    attribute, equals, slot = text.partition("=")
    return Operand(slot, attribute) if equals else Operand(text)


ROWS: Mapping[str, PirRow] = _rows()
