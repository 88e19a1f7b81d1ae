"""One op as a function of arrays: its rule with its properties, and its derivative.

A value is a tuple of lanes: one array normally, one per replica when uneven replicas run in
lockstep (one program, no mapped axis).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import jax
from jax import numpy as jnp

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.families import family_of
from graphopt.ir.dialect.op import PdOp, bind_groups, call_rule
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.comm import Collective, WeighByRows
from graphopt.ir.dialect.ops.elementary import Polygamma
from graphopt.ir.dialect.ops.random import Dropout, RandomOp
from graphopt.ir.dialect.ops.sequence.layers import SequenceReverse
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.traits import Elementwise, Movement, Reduction
from graphopt.lowering.collectives import AXIS, Replicas
from graphopt.lowering.registry import RULES

Array = Any
Lanes = tuple[Array, ...]
Environment = dict[Any, Any]
"""The lanes of each SSA value, and the pullbacks of each op with regions."""
_WITH_LOOPS = (Polygamma, SequenceReverse)


@dataclass(frozen=True)
class Call:
    """One op ready to be computed: its class, properties and operand grouping; hashable."""

    op_class: type[PdOp]
    attrs: tuple[tuple[str, Any], ...]
    groups: tuple[int, ...]
    replicas: Replicas

    @classmethod
    def of(cls, op: PdOp, replicas: Replicas) -> Call:
        """Build the call that computes `op`; for a `pd.dynamic` see `dynamic.call_of`."""
        attrs = tuple(sorted(_read_by_rules(op).items()))
        groups = tuple(len(group) for group in op.operand_groups())
        return cls(type(op), attrs, groups, replicas)

    def __call__(self, operands: Sequence[Array], key: Array | None) -> tuple[Array, ...]:
        """Compute the results from the operands, flat and in the op's order."""
        grouped: list[Sequence[Array]] = []
        start = 0
        for size in self.groups:
            grouped.append(operands[start : start + size])
            start += size
        values = bind_groups(self.op_class, grouped) | dict(self.attrs)
        values |= {"key": key, "replicas": self.replicas}
        result = call_rule(_rule(self.op_class), values)
        return result if isinstance(result, tuple) else (result,)

    @property
    def data_sized(self) -> bool:
        """True when the sizes of the results depend on the elements of the operands."""
        return issubclass(self.op_class, DataSizedOp)

    @property
    def is_memoized(self) -> bool:
        """True when equal calls share one trace.

        Ops with data-sized results need values, and -0.0 equals 0.0 as a key, so both are traced
        alone. Collectives are traced in place, so that they can be counted.
        """
        alone = self.data_sized or self.communicates
        return not alone and "-0.0" not in repr(self.attrs)

    @property
    def communicates(self) -> bool:
        """True when the op combines values of all replicas."""
        if issubclass(self.op_class, Collective):
            return True
        return ("sync", True) in self.attrs or ("in_parts", True) in self.attrs

    @property
    def is_short(self) -> bool:
        """True for an op whose rule is a few operators of JAX, without a loop."""
        traits = (Elementwise, Movement, Reduction)
        short = issubclass(self.op_class, (Update, Dropout)) or any(
            self.op_class.has_trait(trait) for trait in traits
        )
        return short and not issubclass(self.op_class, _WITH_LOOPS)

    def jit(self, function: Callable[..., Any]) -> Any:
        """Jit a function of this op or of its derivative, so that JAX traces it once.

        To trace and lower a function takes JAX as long as five to ten operators, and `a * b` in a
        rule is one operator. So the function of a short op and those in its rule are inlined.
        `disable_jit` would unroll a `lax.scan` in the rule.
        """
        if not self.is_short:
            return jax.jit(function)
        return jax.jit(jax.disable_jit()(function), inline=True)

    def on_lanes(
        self, lanes: Sequence[Sequence[Array]], keys: Sequence[Array | None]
    ) -> list[tuple[Array, ...]]:
        """Compute the results of each lane from its operands and its key."""
        if len(lanes) > 1 and self.communicates:
            return combine(self, lanes)
        return [self(operands, key) for operands, key in zip(lanes, keys, strict=True)]


def _read_by_rules(op: PdOp) -> dict[str, Any]:
    """Collect the properties that rules read: all but the seeds, which the keys already reflect."""
    values = op.attr_values()
    if isinstance(op, RandomOp):
        values = {name: value for name, value in values.items() if name not in ("seed", "rng_id")}
    return values


@lru_cache(maxsize=4096)
def jit_call(call: Call) -> Any:
    """Jit a call; JAX traces it once for all ops with operands of the same types."""
    return call.jit(call.on_lanes)


@lru_cache(maxsize=4096)
def jitted_pullback(call: Call, ins: tuple[int, ...], outs: tuple[int, ...]) -> Any:
    """Jit `pullback`; all equal calls share one trace."""
    return call.jit(pullback(call, ins, outs))


def pullback(call: Call, ins: tuple[int, ...], outs: tuple[int, ...]) -> Any:
    """Build a function (operands, keys, cotangents of `outs`) -> gradients of the operands `ins`.

    All three have one entry per lane, and so has the result.
    """

    def pullback(
        operands: list[list[Array]], keys: list[Array], cotangents: list[list[Array]]
    ) -> list[list[Array]]:
        def forward(differentiated: list[list[Array]]) -> list[list[Array]]:
            full = [list(lane) for lane in operands]
            for lane, values in zip(full, differentiated, strict=True):
                for index, value in zip(ins, values, strict=True):
                    lane[index] = value
            return [[results[i] for i in outs] for results in call.on_lanes(full, keys)]

        _, vjp = jax.vjp(forward, [[lane[i] for i in ins] for lane in operands])
        return vjp(cotangents)[0]

    return pullback


@lru_cache(maxsize=4096)
def jitted_with_pullback(call: Call, ins: tuple[int, ...], outs: tuple[int, ...]) -> Any:
    """Jit a function (operands, key) of one lane -> its results and their pullback.

    The pullback maps cotangents of the results `outs` to gradients of the operands `ins`. Equal
    calls share one trace.
    """

    def compute(operands: list[Array], key: Array) -> tuple[tuple[Array, ...], Any]:
        def forward(*differentiated: Array) -> tuple[list[Array], tuple[Array, ...]]:
            full = list(operands)
            for index, value in zip(ins, differentiated, strict=True):
                full[index] = value
            results = call(full, key)
            return [results[i] for i in outs], results

        _, vjp, results = jax.vjp(forward, *(operands[i] for i in ins), has_aux=True)
        return results, vjp

    return jax.jit(compute)


def _rule(op_class: type[PdOp]) -> Any:
    try:
        return RULES[op_class]
    except KeyError:
        raise UnsupportedError(
            f"{op_class.name} has no lowering: add one to lowering/ops/{family_of(op_class)}.py"
        ) from None


def combine(call: Call, lanes: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
    """Compute a communicating op on lanes of one program, which has no mapped axis."""
    count = len(lanes)
    if call.op_class is WeighByRows:
        rows = [operands[1].shape[0] for operands in lanes]
        return [(x * (own / sum(rows)),) for (x, _), own in zip(lanes, rows, strict=True)]
    if ("sync", True) not in call.attrs:
        # All replicas exchange values of one shape, so the lanes can be stacked.
        mapped = replace(call, replicas=Replicas(AXIS, count))
        stacked = [jnp.stack(values) for values in zip(*lanes, strict=True)]
        results = jax.vmap(lambda *values: mapped(values, None), axis_name=AXIS)(*stacked)
        return [tuple(result[lane] for result in results) for lane in range(count)]
    # Synchronized batch norm is batch norm over the rows of all lanes. Each lane keeps the rows
    # that its own scale and bias produced, so that these get this lane's gradient.
    joined = jnp.concatenate([operands[0] for operands in lanes])
    by_lane: list[tuple[Array, ...]] = []
    start = 0
    for operands in lanes:
        out, *statistics = call([joined, *operands[1:]], None)
        end = start + operands[0].shape[0]
        by_lane.append((out[start:end], *statistics))
        start = end
    return by_lane
