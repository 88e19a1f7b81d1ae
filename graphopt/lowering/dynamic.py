"""Values that must be numbers while a program is traced: shapes, axes, counts.

Inside a jitted program arrays have no values yet, but many follow from shapes that are known by
then: `shape(x)[0] * 2` is computed here. Other values raise `NeedsData`, and the runtime then runs
the program op by op (`replication.by_op`), where arrays have values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from xdsl.ir import OpResult, SSAValue

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.data_sized import gives_numbers
from graphopt.ir.dialect.definition import as_property
from graphopt.ir.dialect.op import PdOp, class_of
from graphopt.ir.dialect.ops.dynamic import Dynamic, decode_properties
from graphopt.ir.dialect.ops.shape import ShapeOf
from graphopt.lowering.call import Call
from graphopt.lowering.collectives import ALONE, Replicas
from graphopt.lowering.needs_data import NeedsData as NeedsData

Numbers = np.ndarray[Any, Any]


def concrete(array: Any, what: str) -> Numbers:
    """Return the elements of an array; raise NeedsData while tracing."""
    if isinstance(array, Tracer):
        raise NeedsData(what)
    return np.asarray(array)


def call_of(op: PdOp, replicas: Replicas, env: Mapping[SSAValue, Any]) -> Call:
    """Build the call that computes `op`; `env` has the values that a `pd.dynamic` reads."""
    return calls_of(op, replicas)(env) if isinstance(op, Dynamic) else Call.of(op, replicas)


def calls_of(op: Dynamic, replicas: Replicas) -> Callable[[Mapping[SSAValue, Any]], Call]:
    """Build a function from the values that a `pd.dynamic` reads to the call that computes it."""
    op_class, groups = class_of(op.attr("op")), op.attr("groups")
    known = decode_properties(op_class, op.attr("attrs"))
    late = [*zip(op.attr("dynamic"), op.values, strict=True)]

    def call(env: Mapping[SSAValue, Any]) -> Call:
        properties = dict(known)
        for name, value in late:
            lanes = [_number(value, env, lane, op_class, name) for lane in range(len(env[value]))]
            if any(not np.array_equal(lane, lanes[0]) for lane in lanes[1:]):
                raise UnsupportedError(
                    f"'{name}' of {op_class.name} differs between the replicas of an uneven batch; "
                    "feed the same number of rows to each"
                )
            properties[name] = as_property(op_class, name, lanes[0].reshape(-1).tolist())
        return Call(op_class, tuple(sorted(properties.items())), groups, replicas)

    return call


def traced_numbers(value: SSAValue, env: Mapping[SSAValue, Any], lane: int) -> Numbers | None:
    """Return the elements of a value if they are known, also while tracing; else None."""
    array = env[value][lane]
    return _fold_value(value, env, lane, {}) if isinstance(array, Tracer) else np.asarray(array)


def _number(
    value: SSAValue, env: Mapping[SSAValue, Any], lane: int, op_class: type[PdOp], name: str
) -> Numbers:
    found = traced_numbers(value, env, lane)
    return concrete(env[value][lane], f"'{name}' of {op_class.name}") if found is None else found


def _fold_value(
    value: SSAValue, env: Mapping[SSAValue, Any], lane: int, memo: dict[SSAValue, Numbers | None]
) -> Numbers | None:
    """Fold a value that follows from shapes and constants; None for any other."""
    if value not in memo:
        memo[value] = None
        memo[value] = _compute(value, env, lane, memo)
    return memo[value]


def _compute(
    value: SSAValue, env: Mapping[SSAValue, Any], lane: int, memo: dict[SSAValue, Numbers | None]
) -> Numbers | None:
    op = value.owner
    if not isinstance(value, OpResult) or not isinstance(op, PdOp) or not gives_numbers(op):
        return None
    if isinstance(op, ShapeOf):
        if op.input not in env:  # inside a region, which binds only captured values
            return None
        return np.asarray(env[op.input][lane].shape, np.int32)
    operands: list[Numbers] = []
    for operand in op.operands:
        found = _fold_value(operand, env, lane, memo)
        if found is None:  # return at once: a condition may depend on a thousand others
            return None
        operands.append(found)
    with jax.ensure_compile_time_eval():
        results = Call.of(op, ALONE)(operands, None)
    return np.asarray(results[value.index])
