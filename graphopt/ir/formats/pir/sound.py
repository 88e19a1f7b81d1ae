"""Check the operands and attributes that the import itself reads.

The reader does not know operators, so a file may have a `full` without a value, or a list without
elements. For all other operators their translation reports missing parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from graphopt.errors import FormatError
from graphopt.ir.formats.pir.inplace import operators
from graphopt.ir.formats.pir.rows import base_name
from graphopt.ir.formats.pir_json.records import PirAttribute, PirOp, PirProgram
from graphopt.ir.formats.quote import quote


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float | complex)


def _list_of(test: Callable[[object], bool]) -> Callable[[object], bool]:
    def is_list(value: object) -> bool:
        return isinstance(value, list) and all(map(test, cast("list[Any]", value)))

    return is_list


_TESTS: Mapping[str, Callable[[object], bool]] = {
    "a text": _is_text,
    "an integer": _is_integer,
    "a number": _is_number,
    "integers": _list_of(_is_integer),
    "numbers": _list_of(_is_number),
}


class _Needs(NamedTuple):
    """The minimum numbers of operands and results, and attributes of these kinds."""

    operands: int
    results: int
    attributes: Mapping[str, str] = {}
    alone: bool = False
    """True for exactly `results` results, not more."""


_ONE = _Needs(1, 1)
_FULL = {"shape": "integers", "value": "a number", "dtype": "a text"}
_VALUES = {"shape": "integers", "values": "numbers", "dtype": "a text"}
_ON_ONE = (
    *("flatten", "repeat_interleave", "reshape", "set_value", "set_value_with_tensor"),
    *("shape64", "squeeze", "transpose", "unsqueeze"),
    *(
        "scale",
        "clip",
        "masked_fill",
        "sigmoid_cross_entropy_with_logits",
        "median",
        "round",
        "rms_norm",
        "swiglu",
    ),
)
_NEEDS: Mapping[str, _Needs] = {
    "builtin.parameter": _Needs(0, 1, {"parameter_name": "a text"}, alone=True),
    "builtin.set_parameter": _Needs(1, 0, {"parameter_name": "a text"}),
    "builtin.shadow_output": _Needs(1, 0, {"output_name": "a text"}),
    "builtin.combine": _Needs(0, 1, alone=True),
    "builtin.split": _Needs(1, 0),
    "builtin.slice": _Needs(1, 1, {"index": "an integer"}, alone=True),
    "pd_op.data": _Needs(0, 1, {"name": "a text"}, alone=True),
    "pd_op.fetch": _Needs(1, 0, {"col": "an integer"}),
    "pd_op.full": _Needs(0, 1, _FULL, alone=True),
    "pd_op.full_int_array": _Needs(0, 1, {"value": "integers"}, alone=True),
    "pd_op.assign_value": _Needs(0, 1, _VALUES, alone=True),
    "pd_op.create_array": _Needs(0, 1, alone=True),
    "pd_op.linear_v2": _Needs(3, 1, alone=True),
    "pd_op.linear_v2_grad": _Needs(4, 0),
    **{f"pd_op.{name}": _ONE for name in _ON_ONE},
}


def check_operators(program: PirProgram) -> None:
    """Raise FormatError, naming the operator, for an operator that its import cannot read."""
    for number, op in enumerate(operators(program.block)):
        needs = _NEEDS.get(base_name(op.name))
        problem = None if needs is None else _problem(op, needs)
        if problem:
            raise FormatError(
                f"{program.source}: operator {number} ({quote(op.name)}): expected {problem}"
            )


def _problem(op: PirOp, needs: _Needs) -> str:
    if len(op.operands) < needs.operands or 0 in op.operands[: needs.operands]:
        return f"{needs.operands} operands, found {list(op.operands)}"
    given = [result.is_there for result in op.results[: needs.results]]
    if len(given) < needs.results or not all(given):
        return f"{needs.results} results, found {sum(given)}"
    if needs.alone and len(op.results) > needs.results:
        return f"{needs.results} results, found {len(op.results)}"
    for name, kind in needs.attributes.items():
        value = op.attributes.get(name, PirAttribute("", None)).plain()
        if not _TESTS[kind](value):
            return f"an attribute {name!r} that is {kind}, found {quote(value)}"
    return ""
