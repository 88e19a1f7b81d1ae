"""Operators that update several parameters at once, as optimizers with `use_multi_tensor` have."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from graphopt.errors import ProgramError
from graphopt.ir.program import Operator
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.updates import update

_MERGED = "merged_"
# attributes that may be lists with one element per parameter
_LISTS = ("regularization_method", "regularization_coeff")


@translates("merged_momentum", "merged_adam")
def translate_merged(emit: Emitter) -> Written:
    """Emit one update per parameter; a slot with one variable serves all of them."""
    written: Written = {}
    for i in range(len(emit.op.input("Param"))):
        written |= update(Emitter(emit.builder, _own(emit.op, i)))
    return written


def _own(op: Operator, i: int) -> Operator:
    """Extract the operator that updates the i-th parameter alone."""
    own = copy(op)
    own.type = op.type.removeprefix(_MERGED)
    own.inputs = {slot: _one(op, slot, names, i) for slot, names in op.inputs.items()}
    own.outputs = {slot: _one(op, slot, names, i) for slot, names in op.outputs.items()}
    own.attrs = {name: _of(name, value, i) for name, value in op.attrs.items()}
    return own


def _one(op: Operator, slot: str, names: Sequence[str], i: int) -> list[str]:
    count = len(op.input("Param"))
    if len(names) not in (0, 1, count):
        raise ProgramError(
            f"operator {op.type} has {count} parameters and {len(names)} variables in the slot "
            f"'{slot}'; give one for each parameter, or one for all"
        )
    return list(names[i : i + 1] if len(names) > 1 else names)


def _of(name: str, value: Any, i: int) -> Any:
    if name not in _LISTS or isinstance(value, (str, float, int)):
        return value
    # as in Paddle, an empty list means no regularization
    return value[i] if value else "" if name == _LISTS[0] else 0.0
