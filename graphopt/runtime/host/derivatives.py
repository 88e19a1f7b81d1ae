"""Derivatives in NumPy: a `pd.grad` as a backward walk over the ops before it.

Most ops are differentiated through their reference rule, on arrays that record how they were
computed. The ops that take most of the time of networks have rules in `pullbacks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.differentiated import active_values, ops_before, path_of, segment_of
from graphopt.ir.dialect.families import family_of
from graphopt.ir.dialect.op import PdOp, bind_groups, call_rule
from graphopt.ir.dialect.ops.control import Fence
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.types import dtype_of
from graphopt.reference.interpreter import Run, is_random
from graphopt.reference.registry import RULES
from graphopt.reference.tape import TapeNode, pull_back, unbroadcast
from graphopt.runtime.host.draws import is_drawn
from graphopt.runtime.host.pullbacks import PULLBACKS, where

Array: TypeAlias = "np.ndarray[Any, Any]"
Slots: TypeAlias = "Mapping[SSAValue | Operation, int]"
# the op families differentiated through their reference rules
_FAMILIES = """
    activation crop elementary fused index linear loss math norm rearrange reduce scatter
    sequence/recurrent shape sort transformer vision
"""
# the exceptions: these ops lack a derivative, or theirs differs from the lowering's at a corner
_UNLIKE = """
    copysign data_norm dequantize_rows digamma erfinv fused_attention i0e lgamma minimum
    put_along_axis renorm write_rows
"""
FAMILIES, UNLIKE = frozenset(_FAMILIES.split()), frozenset(_UNLIKE.split())
Pull: TypeAlias = "Callable[[Sequence[Any], Sequence[Array | None]], Sequence[Array | None]]"
"""A map from all slot values and the results' cotangents to the active operands' cotangents."""
Rounds: TypeAlias = "Callable[[Array], Array]"


def is_differentiated(op: Grad) -> bool:
    """Return whether NumPy computes a derivative: all ops on its path have a pullback here."""
    return all(map(_has_pullback, _path_of(op)[1]))


def _has_pullback(op: PdOp) -> bool:
    if segment_of(op) is not None:  # recomputed segments are large
        return False
    if is_random(op) and not (isinstance(op, Dropout) and is_drawn(op)):
        return False
    dtypes = {dtype_of(value.type) for value in (*op.operands, *op.results)}
    if any(each.is_complex for each in dtypes):
        return False
    return isinstance(op, (Dropout, Fence)) or type(op) in PULLBACKS or is_taped(type(op))


def is_taped(op_class: type[PdOp]) -> bool:
    """Return whether an op's reference rule has the same derivative as its lowering."""
    return (
        op_class in RULES
        and family_of(op_class) in FAMILIES
        and op_class.name.removeprefix("pd.") not in UNLIKE
    )


def values_read_back(op: Grad) -> set[SSAValue]:
    """Collect the values that a derivative reads: operands and results on its path."""
    _, path = _path_of(op)
    return {value for inner in path for value in (*inner.operands, *inner.results)}


def _path_of(op: Grad) -> tuple[set[SSAValue], list[PdOp]]:
    """Find the values that depend on `wrt`, and the ops on the path to `of`."""
    region = ops_before(op)
    active = active_values(op, region)
    return active, path_of(op, region, active)


class _PathOp(NamedTuple):
    """An op on the path, with the slots of its results and of its active operands."""

    pull: Pull
    outs: Sequence[int]
    ins: Sequence[int]
    rounds: Sequence[Rounds]
    """Rounding to the dtype of each operand: in half precision, gradients overflow."""


class Derivative:
    """The step of a `pd.grad` on values in slots."""

    def __init__(self, op: Grad, slots: Slots, run: Run) -> None:
        active, path = _path_of(op)
        self._ops = [_path_op(inner, active, slots, run) for inner in reversed(path)]
        self._seeds = [
            (slots[target], slots[seed])
            for target, seed in zip(op.of, op.cotangents, strict=True)
            if target in active
        ]
        self._wrt = [slots[value] for value in op.wrt]
        self._kept = {*self._wrt}

    def __call__(self, values: Sequence[Any]) -> list[Array]:
        """Compute the gradients; zeros for a value that no target depends on."""
        found: dict[int, Array] = {}
        for target, seed in self._seeds:
            _accumulate(found, target, np.broadcast_to(values[seed], values[target].shape))
        for pull, outs, ins, rounds in self._ops:
            cotangents = [found.get(slot) for slot in outs]
            if all(each is None for each in cotangents):
                continue
            pulled = pull(values, cotangents)
            for slot, round_to, gradient in zip(ins, rounds, pulled, strict=True):
                if gradient is not None:
                    _accumulate(found, slot, unbroadcast(gradient, values[slot].shape), round_to)
            for slot in outs:  # all readers of these values have been differentiated
                if slot not in self._kept:
                    found.pop(slot, None)
        return [found[s] if s in found else np.zeros_like(values[s]) for s in self._wrt]


def _accumulate(
    found: dict[int, Array], slot: int, gradient: Array, round_to: Rounds = np.asarray
) -> None:
    gradient, held = round_to(gradient), found.get(slot)
    found[slot] = gradient if held is None else round_to(held + gradient)


def _path_op(op: PdOp, active: set[SSAValue], slots: Slots, run: Run) -> _PathOp:
    at = [index for index, value in enumerate(op.operands) if value in active]
    ins = [slots[op.operands[index]] for index in at]
    outs = [slots[result] if result in active else -1 for result in op.results]
    dtypes = [dtype_of(op.operands[index].type) for index in at]
    rounds = [partial(run.round_to, dtype=dtype) for dtype in dtypes]
    if isinstance(op, Dropout) and is_drawn(op):
        pull = _dropout_pull(op, slots[op])
    elif isinstance(op, Fence):
        pull = _fence_pull(op, at)
    else:
        pull = _tape_pull(op, at, slots, run)
        if type(op) in PULLBACKS:
            pull = _quick_pull(op, at, slots, pull)
    return _PathOp(pull, outs, ins, rounds)


def _dropout_pull(op: Dropout, kept: int) -> Pull:
    factor = 1 / (1 - op.attr("p")) if op.attr("mode") == "upscale_in_train" else 1

    def pull(values: Sequence[Any], cotangents: Sequence[Array | None]) -> Sequence[Array | None]:
        (g,) = cotangents
        assert g is not None
        return [where(values[kept], g * np.asarray(factor, g.dtype))]

    return pull


def _fence_pull(op: Fence, at: Sequence[int]) -> Pull:
    count = len(op.values)
    return lambda _, cotangents: [cotangents[index] if index < count else None for index in at]


def _quick_pull(op: PdOp, at: Sequence[int], slots: Slots, otherwise: Pull) -> Pull:
    """Build the pullback of the op's class; call `otherwise` for gradients that it lacks."""
    number, rule = PULLBACKS[type(op)]
    groups = [[slots[value] for value in group] for group in op.operand_groups()]
    bound = bind_groups(type(op), groups)
    names = [name for name, slot in bound.items() if slot is not None]
    wanted = [names[index] for index in at]
    fixed, results = op.attr_values(), [slots[result] for result in op.results]

    def pull(values: Sequence[Any], cotangents: Sequence[Array | None]) -> Sequence[Array | None]:
        g = cotangents[number]
        if g is None or any(each is not None for each in cotangents if each is not g):
            return otherwise(values, cotangents)
        given = {name: None if slot is None else values[slot] for name, slot in bound.items()}
        outs = [values[slot] for slot in results]
        found = call_rule(rule, {**fixed, **given, "g": g, "outs": outs})
        if any(name not in found for name in wanted):
            return otherwise(values, cotangents)
        return [found[name]() for name in wanted]

    return pull


def _tape_pull(op: PdOp, at: Sequence[int], slots: Slots, run: Run) -> Pull:
    """Build a pullback that evaluates the op's reference rule again on a tape."""
    rule, fixed = RULES[type(op)], op.attr_values() | run.helpers(op)
    groups = [[slots[value] for value in group] for group in op.operand_groups()]
    active = {slots[op.operands[index]] for index in at}
    order = [slots[op.operands[index]] for index in at]

    def pull(values: Sequence[Any], cotangents: Sequence[Array | None]) -> Sequence[Array | None]:
        nodes = {slot: TapeNode(values[slot]) for slot in active}
        given = [[nodes.get(slot, values[slot]) for slot in group] for group in groups]
        found = call_rule(rule, bind_groups(type(op), given) | fixed)
        results = found if isinstance(found, tuple) else (found,)
        pairs = [
            (result, np.broadcast_to(g, result.shape))
            for result, g in zip(results, cotangents, strict=True)
            if g is not None and isinstance(result, TapeNode)
        ]
        pulled = pull_back(pairs)
        # an operand in several positions gets its whole gradient once
        firsts = [slot not in order[:index] for index, slot in enumerate(order)]
        return [
            pulled.get(id(nodes[slot])) if is_first else None
            for slot, is_first in zip(order, firsts, strict=True)
        ]

    return pull
