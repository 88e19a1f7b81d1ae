"""The activations that fused ops apply: elementwise ops on one floating-point tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphopt.ir.dialect.definition import default_attrs
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import activation
from graphopt.ir.dialect.ops.base import FloatUnary

ACTIVATIONS: tuple[type[PdOp], ...] = tuple(
    op
    for op in vars(activation).values()
    if isinstance(op, type) and issubclass(op, FloatUnary) and "name" in vars(op)
)


def activation_name(op: PdOp) -> str:
    """Return the name of an activation in fused ops."""
    return op.name.removeprefix("pd.")


def activation_attrs(op: PdOp, *own: str) -> Mapping[str, Any]:
    """Collect the properties of an activation as a fused op holds them.

    Properties in `own` are properties of the fused op; others, where they differ from the defaults,
    are in its `act_attrs`.
    """
    defaults = default_attrs(type(op))
    attrs: dict[str, Any] = {name: op.attr(name) for name in defaults if name in own}
    changed = {
        name: op.properties[name]
        for name in defaults
        if name not in own and op.attr(name) != defaults[name]
    }
    return {**attrs, "act_attrs": changed}
