"""The properties of `pd` ops from legacy operators: attributes and tensors (`ir/ops/late.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.constants import known_numbers, partly_known
from graphopt.ir.legacy.table import TENSOR_PROPERTIES, Row
from graphopt.ir.op import PdOp, as_group, attr_kinds, definition, encode_attrs, segments
from graphopt.ir.ops.late import Late, decoded, infer_late
from graphopt.ir.ops.math import Cast
from graphopt.ir.ops.shape import Concat, Reshape
from graphopt.ir.program import EMPTY, AttrKind, Operator
from graphopt.ir.types import dtype_of, shape_of

if TYPE_CHECKING:
    from graphopt.ir.legacy.translator import Translator


def row_attrs(op: Operator, row: Row) -> dict[str, Any]:
    """The attributes of a legacy operator under the names of the `pd` op's properties."""
    attrs: dict[str, Any] = {}
    for name in attr_kinds(row.op):
        legacy_name = row.renamed.get(name, name)
        if legacy_name in op.attrs and not names_variables(op, legacy_name):
            attrs[name] = op.attrs[legacy_name]
    return attrs


def names_variables(op: Operator, attribute: str) -> bool:
    """True when the attribute holds names of variables that have its value."""
    return op.attr_kinds.get(attribute) in (AttrKind.VAR, AttrKind.VARS)


def tensor_properties(self: Translator, op: Operator, row: Row) -> dict[str, SSAValue]:
    """The properties that tensors give: through input slots, or attributes that name variables."""
    found: dict[str, SSAValue] = {}
    for slot, name in TENSOR_PROPERTIES.get(op.type, {}).items():
        names = [n for n in op.input(slot) if n != EMPTY]
        if names and name not in found:
            found[name] = joined(self, op, names)
    for name in attr_kinds(row.op):
        legacy_name = row.renamed.get(name, name)
        if names_variables(op, legacy_name):
            value = op.attrs[legacy_name]
            found[name] = joined(self, op, [value] if isinstance(value, str) else value)
    return found


def joined(self: Translator, op: Operator, names: Sequence[str]) -> SSAValue:
    """One vector of the elements of several tensors; the tensor itself when it is alone."""
    values = [self.read(name) for name in names]
    if len(values) == 1:
        return values[0]
    parts: list[SSAValue] = []
    for value in values:
        if dtype_of(value.type) != "int64":
            value = self.emit(Cast, op, value, dtype="int64").results[0]
        if shape_of(value.type) != (1,):
            value = self.emit(Reshape, op, value, shape=(1,)).results[0]
        parts.append(value)
    return self.emit(Concat, op, parts, axis=0).results[0]


def constant_property(op_class: type[PdOp], name: str, value: SSAValue) -> Any:
    """The property as a Python value when the program fixes it, else None."""
    numbers = known_numbers(value)
    return None if numbers is None else as_property(op_class, name, numbers)


def as_property(op_class: type[PdOp], name: str, numbers: Sequence[Any]) -> Any:
    """The elements of a tensor as the value of a property of this op class.

    Raises ProgramError when they do not fit, such as two numbers for one axis.
    """
    kind = attr_kinds(op_class)[name]
    if not kind.many and len(numbers) != 1:
        raise ProgramError(f"'{name}' of '{op_class.name}' is one number, found {list(numbers)}")
    value = list(numbers) if kind.many else numbers[0]
    return kind.decode(encode_attrs(op_class, {name: value}).get(name) or kind.encode(value))


def make_late(
    op_class: type[PdOp],
    operands: Sequence[Any],
    attrs: Mapping[str, Any],
    late: Mapping[str, SSAValue],
) -> Late:
    """`pd.late` for an op whose properties `late` are tensors; types as far as they are known."""
    groups = [as_group(operand) for operand in operands]
    groups += [[] for _ in definition(op_class).operands[len(groups) :]]
    flat = [value for group in groups for value in group]
    given = {name: value for name, value in attrs.items() if name not in late}
    sizes = [len(group) for group in groups]
    encoded = encode_attrs(op_class, given)
    types = infer_late(
        op_class,
        [[value.type for value in group] for group in groups],
        decoded(op_class, encoded),
        {name: _partial(value, attrs.get(name)) for name, value in late.items()},
    )
    properties = {"op": op_class.name, "groups": sizes, "late": list(late), "attrs": encoded}
    made = Late.create(
        operands=[*flat, *late.values()],
        result_types=list(types),
        properties=encode_attrs(Late, properties) | segments(Late, [len(flat), len(late)]),
    )
    made.verify_()
    return made


def _partial(value: SSAValue, stated: Any) -> tuple[int | None, ...] | None:
    """What is known of a tensor's elements; `stated`, the attribute, has -1 for the others."""
    found = partly_known(value)
    if found is None:
        return None
    partly = [None if number is None else int(number) for number in found]
    others: list[int] = list(stated) if isinstance(stated, (list, tuple)) else []  # pyright: ignore
    for position, other in enumerate(others if len(others) == len(partly) else ()):
        if partly[position] is None and other > 0:
            partly[position] = other
    return tuple(partly)
