"""The registry of rules for ONNX's operators: operator -> a function from values to values.

A rule is called with the operands of a node by position, None for absent ones, and with the
attributes of the node by name; its signature has their defaults. An attribute that the signature
lacks is refused, so that none is ignored. The rule returns the results of the node in order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from xdsl.ir import SSAValue

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.program import EMPTY
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, rank
from graphopt.ir.translate.onnx.naming import OPSET, operator_type
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates

Rule: TypeAlias = Callable[..., "SSAValue | Sequence[SSAValue]"]
R = TypeVar("R", bound=Rule)


@dataclass(frozen=True)
class _Entry:
    """A rule, and the attributes that it knows."""

    rule: Rule
    attributes: frozenset[str]

    def __call__(self, emitter: Emitter) -> Written:
        emit = OnnxEmitter(emitter.builder, emitter.op)
        op = emitter.op
        operands = [None if n == EMPTY else emit.read(n) for n in op.input("X")]
        attrs = {
            name: _fixed_number(value) for name, value in op.attrs.items() if name not in _NOTES
        }
        if emit.opset < 7:
            operands = _as_today(emit, operands, attrs, self.attributes)
        unknown = sorted(attrs.keys() - self.attributes)
        if unknown:
            raise UnsupportedError(
                f"{op.type}: the attribute '{unknown[0]}' is not supported; remove the attribute, "
                "or replace the node by others"
            )
        found = self.rule(emit, *operands, **attrs)
        results = [found] if isinstance(found, SSAValue) else list(found)
        names = op.output("Out")
        if len(names) > len(results):
            raise UnsupportedError(f"{op.type}: output {len(results)} is not supported")
        pairs = zip(names, results, strict=False)
        return {name: value for name, value in pairs if name != EMPTY}


# Attributes that describe the origin of an operator.
_NOTES = frozenset((OPSET, "op_role", "op_callstack", "op_namescope", "op_device"))


def _as_today(
    emit: OnnxEmitter,
    operands: list[SSAValue | None],
    attrs: dict[str, Any],
    known: frozenset[str],
) -> list[SSAValue | None]:
    """Convert the operands of a node of version 6 or before to the form of later versions.

    Such a node requests broadcasting, from an axis on, and lists the operands it overwrites.
    """
    attrs.pop("consumed_inputs", None)
    if "is_test" not in known and attrs.get("is_test") == 1:
        del attrs["is_test"]
    is_broadcast = "broadcast" not in known and attrs.pop("broadcast", 0)
    axis = attrs.pop("axis", None) if "axis" not in known else None
    x, y = (*operands, None, None)[:2]
    if not is_broadcast or axis is None or x is None or y is None:
        return operands
    after = rank(x) - emit.axis(axis, rank(x)) - rank(y)
    places = range(rank(y), rank(y) + max(after, 0))
    return [x, emit.unsqueeze(y, *places) if places else y, *operands[2:]]


def _fixed_number(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value  # pyright: ignore


def reads(*operators: str, domain: str = "") -> Callable[[R], R]:
    """Register the decorated function as the rule of these operators."""

    def register(rule: R) -> R:
        kinds = inspect.signature(rule).parameters.values()
        attributes = frozenset(p.name for p in kinds if p.kind == p.KEYWORD_ONLY)
        entry = _Entry(rule, attributes)
        translates(*(operator_type(domain, name) for name in operators))(entry)
        return rule

    return register


def reads_as(operators: Mapping[str, type[PdOp]]) -> None:
    """Register operators that are one op with the same operands and no attributes."""
    for name, op_class in operators.items():
        reads(name)(_one_op(op_class))


def _one_op(op_class: type[PdOp]) -> Rule:
    def rule(emit: OnnxEmitter, *operands: SSAValue) -> SSAValue:
        return emit(op_class, *operands)

    return rule
