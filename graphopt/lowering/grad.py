"""`pd.grad` -> JAX: the reverse walk over the ops between `wrt` and `of`.

Per op it calls one jitted `jax.vjp` of the op's own lowering rule, memoized by op class, properties
and grouping; XLA removes the forward computation that this repeats. Where XLA cannot, the forward
pass keeps the pullback of the op (`region_derivatives.py`). When the walk meets another `pd.grad`
(a second derivative) the whole region is differentiated at once instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jax import numpy as jnp
from xdsl.ir import Operation, SSAValue

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.differentiated import active_values, ops_before, path_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.regions import values_read
from graphopt.lowering.call import Call, Environment, Lanes, jitted_pullback, pullback
from graphopt.lowering.dynamic import call_of
from graphopt.lowering.evaluate import Context, evaluate_op, operands_by_lane
from graphopt.lowering.locations import gradient_scope_of
from graphopt.lowering.recompute import Replay
from graphopt.lowering.region_derivatives import Wanted, differentiated_regions, keeps_pullback
from graphopt.lowering.regions import pull_back
from graphopt.lowering.registry import evaluates
from graphopt.lowering.sums import sum_of, zeros_of


@evaluates(Grad)
def evaluate_grad(
    op: Grad, env: Environment, context: Context, wanted: Wanted | None
) -> list[Lanes]:
    """Compute the results of a `pd.grad`, zeros where no target depends on a value.

    Paddle's gradient of a complex value is the conjugate of JAX's.
    """
    seeds = [_conjugate(env[seed]) for seed in op.cotangents]
    return [_conjugate(lanes) for lanes in _gradients(op, seeds, env, context)]


def _conjugate(lanes: Lanes) -> Lanes:
    return tuple(jnp.conj(x) if jnp.iscomplexobj(x) else x for x in lanes)


def _gradients(op: Grad, seeds: list[Lanes], env: Environment, context: Context) -> list[Lanes]:
    region, active, path, is_nested = context.once(op, lambda: _path_of(op))
    if is_nested:
        return _differentiate_region(op, region, seeds, env, context)
    cotangents: Environment = {}
    for target, seed in zip(op.of, seeds, strict=True):
        pairs = zip(seed, env[target], strict=True)
        _accumulate(cotangents, target, tuple(jnp.broadcast_to(s, t.shape) for s, t in pairs))
    replay = Replay(path, region, env, context)
    summed: set[SSAValue] = set(op.wrt) if op.attr("addto") and not context.by_op else set()
    for inner in reversed(path):
        if summed:
            _finish_sums(inner, summed, cotangents)
        _step_back(inner, active, cotangents, replay.values_for(inner, cotangents), context)
    return [
        cotangents[value] if value in cotangents else tuple(map(zeros_of, env[value]))
        for value in op.wrt
    ]


def _path_of(op: Grad) -> tuple[Sequence[PdOp], set[SSAValue], Sequence[PdOp], bool]:
    """Find the ops before `op`, the active values, the path, and True if it has a `pd.grad`."""
    region = ops_before(op)
    active = active_values(op, region)
    path = path_of(op, region, active)
    return region, active, path, any(isinstance(inner, Grad) for inner in path)


def _finish_sums(op: PdOp, summed: set[SSAValue], cotangents: Environment) -> None:
    """Let the derivative of `op` wait for the present sums of the gradients that it adds to.

    XLA would keep all the parts of a gradient and add them up at the end.
    """
    begun: list[SSAValue] = [v for v in dict.fromkeys(values_read(op)) if v in summed]
    begun = [value for value in begun if value in cotangents]
    arrived: list[SSAValue] = [result for result in op.results if result in cotangents]
    if begun and arrived:
        values = [*begun, *arrived]
        held = jax.lax.optimization_barrier([cotangents[value] for value in values])
        cotangents.update(zip(values, held, strict=True))


def _step_back(
    op: PdOp,
    active: set[SSAValue],
    cotangents: Environment,
    env: Environment,
    context: Context,
) -> None:
    """Propagate the cotangents of an op's results to its active operands."""
    if keeps_pullback(op):
        for value, gradient in pull_back(op, cotangents, env).items():
            if value in active:
                _accumulate(cotangents, value, gradient)
        return
    outs = tuple(i for i, r in enumerate(op.results) if r in active and r in cotangents)
    read = op.inputs if isinstance(op, Dynamic) else op.operands
    ins = tuple(i for i, value in enumerate(read) if value in active)
    if not outs or not ins:
        return
    operands = operands_by_lane(op, env, context.lanes)
    keys = context.keys_at(op, operands)
    seeds = [[cotangents[op.results[i]][lane] for i in outs] for lane in range(context.lanes)]
    with jax.named_scope(gradient_scope_of(op)):
        call, pull = _pull_of(op, ins, outs, env, context)
        if call.communicates:
            by_lane = pull(operands, keys, seeds)
        else:
            by_lane = [
                pull([lane], [key], [seed])[0]
                for lane, key, seed in zip(operands, keys, seeds, strict=True)
            ]
    for index, gradient in zip(ins, zip(*by_lane, strict=True), strict=True):
        _accumulate(cotangents, op.operands[index], gradient)


def _pull_of(
    op: PdOp, ins: tuple[int, ...], outs: tuple[int, ...], env: Environment, context: Context
) -> tuple[Call, Any]:
    """Build the call of an op and its pullback."""

    def make() -> tuple[Call, Any]:
        call = call_of(op, context.replicas, env)
        return call, (jitted_pullback if call.is_memoized else pullback)(call, ins, outs)

    return make() if isinstance(op, Dynamic) else context.once((op, ins, outs), make)


def _differentiate_region(
    op: Grad, region: Sequence[PdOp], seeds: list[Lanes], env: Environment, context: Context
) -> list[Lanes]:
    """Differentiate all ops before `op` by one `jax.vjp`.

    Each `wrt` value gets a zero added, and the derivative is taken with respect to these zeros, so
    that a value in the middle of the region still passes gradients on to its operands.
    """
    outside = {value: env[value] for value in _defined_outside(region, op.of)}
    block = op.parent
    assert block is not None
    differentiated = differentiated_regions(block)
    blocked = set(op.no_grad)

    def forward(*zeros: Lanes) -> list[Lanes]:
        delta = dict(zip(op.wrt, zeros, strict=True))
        inner_env: Environment = {
            value: _add_gradients(lanes, delta[value]) if value in delta else lanes
            for value, lanes in outside.items()
        }
        for inner in region:
            if not inner.results:
                continue  # prints and asserts have run in the forward pass
            evaluate_op(inner, inner_env, context, differentiated.get(inner))
            for result in inner.results:
                if result in blocked:
                    inner_env[result] = jax.lax.stop_gradient(inner_env[result])
                if result in delta:
                    inner_env[result] = _add_gradients(inner_env[result], delta[result])
        return [inner_env[value] for value in op.of]

    zeros = [tuple(map(jnp.zeros_like, env[value])) for value in op.wrt]
    try:
        _, vjp = jax.vjp(forward, *zeros)
        return list(vjp(seeds))
    except ValueError as error:
        if "Reverse-mode differentiation does not work" not in str(error):
            raise
        raise UnsupportedError(
            "the second derivative of a loop whose number of iterations is not known before the "
            "program runs; make it a constant of the program"
        ) from None


def _add_gradients(a: Lanes, b: Lanes) -> Lanes:
    return tuple(map(sum_of, a, b))


def _defined_outside(region: Sequence[Operation], also: Iterable[SSAValue]) -> set[SSAValue]:
    inside = {result for op in region for result in op.results}
    read = {value for op in region for value in values_read(op)} | set(also)
    return read - inside


def _accumulate(cotangents: Environment, value: SSAValue, gradient: Lanes) -> None:
    held = cotangents.get(value)
    cotangents[value] = gradient if held is None else _add_gradients(held, gradient)
