"""The derivative of a choice among many branches: nested `pd.if` ops.

For the derivative of a `cond`, JAX keeps the residuals of every branch, zeros for those not taken,
and transforms nested conditionals again at every level. With a thousand branches it keeps a
thousand times the residuals of one. Here the derivative is a choice by the same conditions, whose
branches recompute the taken branch and differentiate it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jax import lax
from xdsl.ir import Block, OpResult, SSAValue

from graphopt.ir.dialect.ops.callback import Assert, Print, PyFunc
from graphopt.ir.dialect.ops.control import If
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.shape import Assign
from graphopt.ir.dialect.regions import captured_values, inner_ops
from graphopt.ir.dialect.types import dtype_of
from graphopt.lowering.call import Array, Environment
from graphopt.lowering.evaluate import Context, evaluate_block, evaluate_op
from graphopt.lowering.sums import sum_of, zeros_of

_MANY = 16
"""From more branches on, one is recomputed: residuals for every branch would cost more."""

Values = Mapping[SSAValue, Array]


def is_wide(op: If) -> bool:
    """True for a choice among many branches that give the same results when recomputed."""
    if _count_branches(op) <= _MANY:
        return False
    return not any(isinstance(inner, (Assert, Dynamic, Print, PyFunc)) for inner in inner_ops(op))


def _count_branches(op: If) -> int:
    inside = [_decided_in(region.block) for region in op.regions]
    return sum(1 if inner is None else _count_branches(inner.op) for inner in inside)


@dataclass(frozen=True)
class _Inner:
    """The nested `pd.if` that computes all yielded values of a region.

    `places` has the index of its result for each yielded value.
    """

    op: If
    places: tuple[int, ...]


def _decided_in(block: Block) -> _Inner | None:
    """Find the `pd.if` whose results a region yields.

    None if another op of the region makes a differentiable value.
    """
    end = block.last_op
    assert end is not None
    yielded = [_skip_copies(value) for value in end.operands]
    op = yielded[0].owner if yielded else None
    if not isinstance(op, If) or op.parent is not block:
        return None
    if any(value.owner is not op for value in yielded):
        return None
    made = [result for each in block.ops for result in each.results]
    others = [result for result in made if _skip_copies(result).owner is not op]
    if any(dtype_of(result.type).is_differentiable for result in others):
        return None
    return _Inner(op, tuple(value.index for value in yielded if isinstance(value, OpResult)))


def _skip_copies(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, Assign):
        value = value.owner.operands[0]
    return value


def pull_choice(
    op: If,
    context: Context,
    values: Values,
    seeds: Mapping[int, Array],
    wanted: Sequence[SSAValue],
) -> tuple[Array, ...]:
    """Compute the gradients of the captured values `wanted`.

    `seeds` are the cotangents of the results by position.
    """
    read = captured_values(op)

    def side(block: Block, arrays: Sequence[Array], seeds: Mapping[int, Array]) -> Any:
        return _pull_region(block, context, dict(zip(read, arrays, strict=True)), seeds, wanted)

    sides = [partial(side, region.block) for region in op.regions]
    return lax.cond(values[op.condition].reshape(()), *sides, [values[v] for v in read], seeds)


def _pull_region(
    block: Block,
    context: Context,
    values: Values,
    seeds: Mapping[int, Array],
    wanted: Sequence[SSAValue],
) -> tuple[Array, ...]:
    env: Environment = {value: (array,) for value, array in values.items()}
    read = {operand for op in block.walk() for operand in op.operands}
    own = [value for value in wanted if value in read]
    inner = _decided_in(block)
    if not own:
        pulled: tuple[Array, ...] = ()
    elif inner is None:
        pulled = _pull_branch(block, context, env, seeds, own)
    else:
        for op in block.ops:
            if op is inner.op:
                break
            evaluate_op(op, env, context)
        inside = {value: array for value, (array,) in env.items()}
        pulled = pull_choice(inner.op, context, inside, _sum_gradients(seeds, inner.places), own)
    found = dict(zip(own, pulled, strict=True))
    return tuple(found[v] if v in found else zeros_of(values[v]) for v in wanted)


def _sum_gradients(seeds: Mapping[int, Array], places: Sequence[int]) -> dict[int, Array]:
    """Map cotangents of the yielded values to the inner op's results, and sum repeated ones."""
    found: dict[int, Array] = {}
    for at, seed in seeds.items():
        place = places[at]
        found[place] = sum_of(found[place], seed) if place in found else seed
    return found


def _pull_branch(
    block: Block,
    context: Context,
    env: Environment,
    seeds: Mapping[int, Array],
    wanted: Sequence[SSAValue],
) -> tuple[Array, ...]:
    def branch(*differentiated: Array) -> list[Array]:
        given = {value: (array,) for value, array in zip(wanted, differentiated, strict=True)}
        lanes = evaluate_block(block, {**env, **given}, context)
        return [lanes[at][0] for at in seeds]

    _, pullback = jax.vjp(branch, *(env[value][0] for value in wanted))
    return pullback([seeds[at] for at in seeds])
