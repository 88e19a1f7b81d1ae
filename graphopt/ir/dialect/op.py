"""The base class of every `pd` operation: building from Python values, type rules, text form.

A concrete op declares operands, results and properties with xDSL's field definitions and one static
method `infer`. `infer` and the op's lowering are called the same way, by keyword: one argument per
operand (a type here, an array there; None for an absent optional, a tuple for a variadic) and one
per property. Each gets only the arguments that its signature names.
"""

from __future__ import annotations

import inspect
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    OptOperandDef,
    VarOperandDef,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from graphopt.errors import ProgramError
from graphopt.ir.dialect.assembly import parse_op, print_op
from graphopt.ir.dialect.definition import (
    attr_kinds,
    attr_values,
    default_attrs,
    definition,
    encode_attrs,
    of_op,
    operand_groups,
    operand_names,
    segments,
)
from graphopt.ir.dialect.types import UNKNOWN, Tensor, compatible, like, rank_of, show

# the types of operands and results, the properties, and the attributes
Facts = tuple[
    tuple[Attribute, ...],
    tuple[Attribute, ...],
    tuple[tuple[str, Attribute], ...],
    tuple[tuple[str, Attribute], ...],
]

# one operand group: a value, None (an absent optional operand) or a list (variadic)
Operand = SSAValue | Sequence[SSAValue] | None


_CLASSES: dict[str, type[PdOp]] = {}


class PdOp(IRDLOperation, ABC):
    """An operation of the `pd` dialect on tensors; `infer` returns the result types.

    A subclass with a `name` is registered under it for `class_of`.
    """

    REGIONS: ClassVar[tuple[str, ...]] = ()
    """The keyword before each region in the text form."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            _CLASSES[cls.name] = cls

    @staticmethod
    def infer(*args: Any, **kwargs: Any) -> Any:
        """Infer the result type, or a tuple of them, from operand types and property values."""
        raise NotImplementedError

    @staticmethod
    def infer_partly(*args: Any, **values: Any) -> Any:
        """Infer the result types when some properties are known in part only (`Partial`).

        By default the result has the rank of the first operand, and open sizes.
        """
        first: Tensor | tuple[Tensor, ...] = next(iter(values.values()))
        x = first[0] if isinstance(first, tuple) else first
        return like(x, shape=(UNKNOWN,) * rank_of(x))

    @classmethod
    def make(cls, *operands: Operand, location: Any = None, **attrs: Any) -> Self:
        """Build the op from SSA values and Python property values; result types are inferred.

        Raises ProgramError when operands or properties do not fit the op.
        """
        fields = definition(cls).operands
        operands = operands + (None,) * (len(fields) - len(operands))
        groups = [as_group(operand) for operand in operands]
        values = {**default_attrs(cls), **attrs}
        types = infer_types(cls, [[value.type for value in group] for group in groups], values)
        op = cls.create(
            operands=[value for group in groups for value in group],
            result_types=types,
            properties=encode_attrs(cls, attrs) | segments(cls, [len(g) for g in groups]),
        )
        if location is not None:
            op.location = location
        return op

    def attr_values(self) -> dict[str, Any]:
        """Decode all properties to Python values, with defaults filled in."""
        return attr_values(type(self), self.properties)

    def attr(self, name: str) -> Any:
        """Return one property as a Python value."""
        found = self.properties.get(name)
        if found is None:
            return default_attrs(type(self))[name]
        return attr_kinds(type(self))[name].decode(found)

    def operand_groups(self) -> list[Sequence[SSAValue]]:
        """Group the operands by declared field; an absent optional is an empty group."""
        return operand_groups(self)

    def verify(self, verify_nested_ops: bool = True) -> None:
        """Verify as xDSL does, but skip an op that has not changed since it was last valid.

        Validity follows from types and properties, except for an op with regions and for the last
        op of a block, which are always checked.
        """
        if self.next_op is None or self.regions:
            super().verify(verify_nested_ops)
            return
        facts, own = self._facts(), vars(self)
        if own.get("valid") != facts:
            super().verify(verify_nested_ops)
            own["valid"] = facts

    def _facts(self) -> Facts:
        return (
            tuple(value.type for value in self.operands),
            tuple(value.type for value in self.results),
            tuple(self.properties.items()),
            tuple(self.attributes.items()),
        )

    def verify_(self) -> None:
        try:
            types = infer_types(
                type(self),
                [[value.type for value in group] for group in self.operand_groups()],
                self.attr_values(),
            )
        except ProgramError as error:
            raise VerifyException(of_op(self.name, error)) from error
        if len(self.results) != len(types):
            raise VerifyException(
                f"'{self.name}' has {len(self.results)} results but its type rule gives "
                f"{len(types)}"
            )
        for result, wanted in zip(self.results, types, strict=True):
            if not compatible(result.type, wanted):
                raise VerifyException(
                    f"'{self.name}' declares the result type {result.type} "
                    f"but its type rule gives {wanted}"
                )

    def print(self, printer: Printer) -> None:
        """Print `pd.name(%x, bias = %b, rest = [%c]) {axis = 1} -> types`; see `assembly.py`."""
        print_op(self, printer, self.REGIONS, partial(infer_types, type(self)))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse the text that `print` prints; errors carry the position in the text."""
        return parse_op(cls, parser, cls.REGIONS, partial(infer_types, cls))


def class_of(name: str) -> type[PdOp]:
    """Look up the op class of a name; raise ProgramError when there is none."""
    if name not in _CLASSES:
        raise ProgramError(f"'{name}' is not an op")
    return _CLASSES[name]


@cache
def parameters_of(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names that a rule takes by keyword; None if it takes any (`**attrs`)."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


def call_rule(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a type rule or lowering with the `values` that its signature names."""
    wanted = parameters_of(function)
    if wanted is None:
        return function(**values)
    return function(**{name: value for name, value in values.items() if name in wanted})


def bind_groups(cls: type[PdOp], groups: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Bind operand groups to field names: a value, None or a tuple, as the field declares."""
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
    """Infer the result types of an op class; a ProgramError names the operand types.

    The error is an OperandError, also a TypeError, for a dtype that the op does not support.
    """
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
        raise type(error)(f"{error} (operands: {_show_operands(cls, groups)})") from None
    return [types] if isinstance(types, TensorType) else list(types)


def as_group(operand: Any) -> list[SSAValue]:
    """Convert one operand of `make` to the list of its values."""
    if operand is None:
        return []
    if isinstance(operand, SSAValue):
        return [operand]
    if isinstance(operand, Operation):
        return [operand.results[0]]
    return [SSAValue.get(item) for item in operand]


def _show_operands(cls: type[PdOp], groups: Sequence[Sequence[Attribute]]) -> str:
    shown: list[str] = []
    for name, group in zip(operand_names(cls), groups, strict=True):
        types = ", ".join(show(t) for t in group)
        if group:
            shown.append(f"{name} {types}")
    return "; ".join(shown) or "none"
