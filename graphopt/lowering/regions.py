"""Ops with regions -> `lax.cond`, `lax.scan`, `lax.while_loop`, `jax.checkpoint`.

Each is first a plain function of the arrays that it reads, operands and captured values alike, so
that one `jax.vjp` at the op itself serves every derivative that goes through it. Lanes (replicas in
lockstep) are evaluated one after the other, as each may take a branch of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.differentiated import KEPT, gathered_again
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.comm import AllGather, Collective
from graphopt.ir.dialect.ops.control import (
    FusionGroup,
    If,
    Layers,
    PyLayer,
    RegionOp,
    RowKernel,
    Scan,
    While,
)
from graphopt.ir.dialect.ops.dynamic import Dynamic, draws
from graphopt.ir.dialect.regions import captured_values, inner_ops, values_read
from graphopt.ir.dialect.types import dtype_of, rank_of, shape_of
from graphopt.lowering.call import Array, Environment, Lanes
from graphopt.lowering.choices import is_wide, pull_choice
from graphopt.lowering.dynamic import NeedsData, traced_numbers
from graphopt.lowering.evaluate import Context, evaluate_block
from graphopt.lowering.gathered_layers import GatheredLayers
from graphopt.lowering.locations import gradient_scope_of
from graphopt.lowering.loops import Step, fixed_loop, open_loop, stepped_loop
from graphopt.lowering.region_derivatives import Wanted
from graphopt.lowering.registry import evaluates
from graphopt.lowering.row_kernels import in_rows
from graphopt.lowering.sums import sum_of, zeros_of

Arrays = tuple[Array, ...]
# (captured values, key data) -> results
Function = Callable[[Sequence[Array], Array], Arrays]
Known = Mapping[SSAValue, np.ndarray[Any, Any]]


@evaluates(RegionOp)
def evaluate_region_op(
    op: RegionOp, env: Environment, context: Context, wanted: Wanted | None
) -> list[Lanes]:
    """Compute an op with regions; store its pullback in `env` when needed."""
    _refuse_collectives(op, context)
    read = values_read(op)
    if isinstance(op, Layers) and gathered_again(op.body.block.ops):
        return _together(op, env, context, wanted)
    by_lane: list[Arrays] = []
    pullbacks: list[Any] = []
    for lane in range(context.lanes):
        arrays = [env[value][lane] for value in read]
        inner = replace(context, lanes=1, lane=lane) if context.lanes > 1 else context
        results, pullback = _evaluate(op, inner, _known_values(op, env, lane), arrays, wanted)
        by_lane.append(results)
        pullbacks.append(pullback)
    if wanted is not None:
        env[op] = wanted, pullbacks
    return list(zip(*by_lane, strict=True))


def _together(op: Layers, env: Environment, context: Context, wanted: Wanted | None) -> list[Lanes]:
    """Compute layers that gather their parameters, for all lanes, a layer at a time."""
    known = [_known_values(op, env, lane) for lane in range(context.lanes)]
    function = GatheredLayers(op, context, known)
    values = [env[value] for value in values_read(op)]
    if wanted is None:
        return function(values)

    def forward(differentiated: Sequence[Lanes]) -> tuple[list[Lanes], list[Lanes]]:
        full = list(values)
        for index, lanes in zip(wanted.ins, differentiated, strict=True):
            full[index] = lanes
        results = function(full)
        return [results[i] for i in wanted.outs], results

    _, pullback, results = jax.vjp(forward, [values[i] for i in wanted.ins], has_aux=True)
    env[op] = wanted, pullback
    return results


def _evaluate(
    op: RegionOp, context: Context, known: Known, arrays: Sequence[Array], wanted: Wanted | None
) -> tuple[Arrays, Any]:
    """Compute an op for one lane, and its pullback if it is `wanted`.

    In a program that runs op by op, XLA compiles each op with regions as one function. Otherwise
    JAX would trace its regions again in every step. Only an op that needs data runs op by op
    inside, too.
    """
    if context.by_op and not known and not isinstance(op, If):
        if op not in context.shared:
            context.shared[op] = _jit(op, context, wanted)
        compute = context.shared[op]
        try:
            if compute is not None:
                results, pullback = compute(tuple(arrays), context.key)
                return results, partial(_pulled_back, pullback)
        except NeedsData:
            context.shared[op] = None
    function = _function(op, context, known)
    if wanted is None:
        return function(arrays, context.key), None
    if isinstance(op, If) and is_wide(op):
        values = dict(zip(values_read(op), arrays, strict=True))
        return function(arrays, context.key), _pullback_of_choice(op, context, values, wanted)
    return _with_pullback(function, arrays, context.key, wanted)


def _jit(op: RegionOp, context: Context, wanted: Wanted | None) -> Any:
    def compute(arrays: Arrays, key: Array) -> tuple[Arrays, Any]:
        inner = replace(context, by_op=False, key=key)
        return _evaluate(op, inner, {}, arrays, wanted)

    return jax.jit(compute)


@jax.jit
def _pulled_back(pullback: Any, seeds: Sequence[Array]) -> Any:
    return pullback(seeds)


def _known_values(op: RegionOp, env: Environment, lane: int) -> Known:
    """Fold the conditions and sizes that `op` reads where they follow from traced shapes."""
    wanted = [op.operands[0]] if isinstance(op, If) else []
    if any(isinstance(inner, Dynamic) for inner in inner_ops(op)):
        wanted += [v for v in captured_values(op) if _may_be_sizes(v)]
    found = {value: traced_numbers(value, env, lane) for value in wanted}
    return {value: numbers for value, numbers in found.items() if numbers is not None}


def _may_be_sizes(value: SSAValue) -> bool:
    return rank_of(value.type) <= 1 and not dtype_of(value.type).is_differentiable


def _with_pullback(
    function: Function, arrays: Sequence[Array], key: Array, wanted: Wanted
) -> tuple[Arrays, Any]:
    def forward(*differentiated: Array) -> tuple[list[Array], Arrays]:
        full = list(arrays)
        for index, value in zip(wanted.ins, differentiated, strict=True):
            full[index] = value
        results = function(full, key)
        return [results[i] for i in wanted.outs], results

    _, pullback, results = jax.vjp(forward, *(arrays[i] for i in wanted.ins), has_aux=True)
    return results, pullback


def _pullback_of_choice(
    op: If, context: Context, values: Mapping[SSAValue, Array], wanted: Wanted
) -> Callable[[Sequence[Array]], Arrays]:
    read = values_read(op)
    ins = [read[i] for i in wanted.ins]
    return lambda seeds: pull_choice(
        op, context, values, dict(zip(wanted.outs, seeds, strict=True)), ins
    )


def pull_back(op: PdOp, cotangents: Environment, env: Environment) -> Mapping[SSAValue, Lanes]:
    """Compute the gradients of the values that `op` reads from its results' cotangents."""
    assert op in env, f"{op.name} is differentiated and was computed without its pullback"
    wanted, pullbacks = env[op]
    if not any(op.results[i] in cotangents for i in wanted.outs):
        return {}
    outs = [op.results[i] for i in wanted.outs]
    seeds: list[Lanes] = [
        cotangents[r] if r in cotangents else tuple(map(zeros_of, env[r])) for r in outs
    ]
    with jax.named_scope(gradient_scope_of(op)):
        if not isinstance(pullbacks, list):  # one pullback for all lanes
            by_value: Any = pullbacks(seeds)[0]
        else:
            each = [
                pullback(list(seed))
                for pullback, seed in zip(pullbacks, zip(*seeds, strict=True), strict=True)
            ]
            by_value = list(zip(*each, strict=True))
    read = values_read(op)
    gradients: dict[SSAValue, Lanes] = {}
    for index, lanes in zip(wanted.ins, by_value, strict=True):
        held = gradients.get(read[index])
        gradients[read[index]] = lanes if held is None else tuple(map(sum_of, held, lanes))
    return gradients


def _refuse_collectives(op: RegionOp, context: Context) -> None:
    if context.replicas.are_one_device and context.lanes == 1:
        return
    for inner in inner_ops(op):
        if isinstance(op, Layers) and isinstance(inner, AllGather):
            continue  # all devices have equally many layers
        if isinstance(inner, Collective) or ("sync" in inner.properties and inner.attr("sync")):  # pyright: ignore
            raise UnsupportedError(
                f"{inner.name} inside {op.name} combines the values of all devices, but each may "
                "take another branch; move it out, or run the program on one place"
            )


def _function(op: RegionOp, context: Context, known: Known) -> Function:
    """Build a function of the values that `op` reads; `known` ones are constants."""
    count = len(op.operands)
    captured = captured_values(op)

    def region(index: int) -> Callable[..., Arrays]:
        block = op.regions[index].block

        def run(
            arguments: Sequence[Array], outside: Sequence[Array], key: Array, shift: Any = 0
        ) -> Arrays:
            env: Environment = {
                v: (known.get(v, a),) for v, a in zip(captured, outside, strict=True)
            }
            env |= {v: (a,) for v, a in zip(block.args, arguments, strict=True)}
            inner = replace(context, key=key, rng_shift=context.rng_shift + shift)
            lanes = evaluate_block(block, env, inner)
            return tuple(lane for (lane,) in lanes)

        return run

    def function(arrays: Sequence[Array], key: Array) -> Arrays:
        operands, outside = tuple(arrays[:count]), tuple(arrays[count:])
        if isinstance(op, If):
            if op.operands[0] in known:
                taken = 0 if known[op.operands[0]].all() else 1
                return region(taken)((), outside, key)
            return _branch(operands[0], (region(0), region(1)), outside, key)
        if isinstance(op, While):
            return _loop(op, operands[0], operands[1:], _step(op, region(0)), outside, key)
        if isinstance(op, Layers):
            return _layers(op, operands, region(0), outside, key)
        if isinstance(op, PyLayer):
            return _with_own_derivative(op, operands, (region(0), region(1)), outside, key)
        if isinstance(op, FusionGroup):
            return _group(region(0))((), outside, key)
        if isinstance(op, RowKernel):
            loose = context.order is not None or context.by_op
            return in_rows(op, partial(region(0), ()), outside, key, loose=loose)
        assert isinstance(op, Scan)
        return _scan(op, operands, _step(op, region(0)), outside, key)

    return function


def _group(region: Callable[..., Arrays]) -> Callable[..., Arrays]:
    """Checkpoint the body of a group: its derivative starts from operands and kept results."""
    return jax.checkpoint(region, policy=jax.checkpoint_policies.save_only_these_names(KEPT))


def _with_own_derivative(
    op: PyLayer, operands: Arrays, regions: tuple[Any, Any], outside: Arrays, key: Array
) -> Arrays:
    """Compute the first region; the second one computes the gradients of the operands."""

    @jax.custom_vjp
    def results(operands: Arrays, outside: Arrays, key: Array) -> Arrays:
        return regions[0]((), outside, key)

    def forward(operands: Arrays, outside: Arrays, key: Array) -> tuple[Arrays, Any]:
        return results(operands, outside, key), (operands, outside, key)

    def backward(kept: Any, cotangents: Arrays) -> tuple[Any, None, None]:
        operands, outside, key = kept
        block = op.backward.block
        # JAX represents an integer's gradient by an empty type, the region by zeros
        seeds = [
            given if dtype_of(wanted.type).is_differentiable else jnp.zeros(given.shape, own)
            for given, wanted in zip(cotangents, block.args, strict=True)
            for own in [dtype_of(wanted.type).numpy]
        ]
        found = regions[1](seeds, outside, key)
        for number, (gradient, value) in enumerate(zip(found, operands, strict=True)):
            if gradient.shape != value.shape:
                raise ProgramError(
                    f"backward_fn of static_pylayer gives a gradient of shape "
                    f"{list(gradient.shape)} for input {number}, which is {list(value.shape)}; "
                    "give it the shape of the input"
                )
        return (
            tuple(
                gradient if jnp.issubdtype(value.dtype, jnp.inexact) else None
                for gradient, value in zip(found, operands, strict=True)
            ),
            None,
            None,
        )

    results.defvjp(forward, backward)
    return results(operands, outside, key)


def _branch(condition: Array, sides: tuple[Any, Any], outside: Arrays, key: Array) -> Arrays:
    traced: list[Arrays] = []

    # Trace each side once: twice at every level would make 2 ** depth traces for nested branches.
    def branch(side: Any, values: Arrays) -> Arrays:
        results = side((), values, key)
        traced.append(results)
        for yes, no in zip(traced[0], results, strict=True):
            if (yes.shape, yes.dtype) != (no.shape, no.dtype):
                raise NeedsData(f"a shape, which is {list(yes.shape)} or {list(no.shape)},")
        return results

    branches = [partial(branch, side) for side in sides]
    return lax.cond(condition.reshape(()), branches[0], branches[1], outside)


def _step(op: RegionOp, region: Any) -> Step:
    """Build a function of one iteration; its random ops draw new numbers in each iteration."""
    is_random = any(draws(inner) for inner in inner_ops(op))

    def step(arguments: Arrays, outside: Arrays, key: Array, number: Array) -> Arrays:
        if is_random:
            fresh = jax.random.fold_in(jax.random.wrap_key_data(key), number)
            key = jax.random.key_data(fresh)
        return region(arguments, outside, key)

    return step


def _loop(
    op: While, condition: Array, carried: Arrays, step: Step, outside: Arrays, key: Array
) -> Arrays:
    # Trace it once: a derivative uses it five times, and nested loops 5 ** depth times.
    once = jax.jit(step, inline=True)
    if _changes_shapes(carried, once, outside, key):
        return stepped_loop(step, condition, carried, outside, key)
    trips = op.attr("trips")
    if trips is not None:
        return fixed_loop(once, trips, carried, outside, key)
    return open_loop(once, condition.reshape(()), carried, outside, key)


def _changes_shapes(carried: Arrays, step: Step, outside: Arrays, key: Array) -> bool:
    """True when a step changes shapes, or its shapes depend on data."""
    try:
        after = jax.eval_shape(step, carried, outside, key, np.int32(0))[1:]
    except NeedsData:
        return True
    pairs = zip(carried, after, strict=True)
    return any((a.shape, a.dtype) != (b.shape, b.dtype) for a, b in pairs)


def _scan(op: Scan, operands: Arrays, step: Step, outside: Arrays, key: Array) -> Arrays:
    count = len(op.memories)
    memories, sequences = operands[:count], operands[count:]
    lengths = {sequence.shape[0] for sequence in sequences}
    if len(lengths) != 1:
        raise UnsupportedError(
            f"pd.scan walks over sequences of one length, found {sorted(lengths)}"
        )
    (length,) = lengths

    def body(state: Arrays, item: tuple[Array, Arrays]) -> tuple[Arrays, Arrays]:
        number, items = item
        results = step((*state, *items), outside, key, number)
        return results[:count], results[count:]

    numbers = jnp.arange(length, dtype="int32")
    return lax.scan(body, memories, (numbers, sequences), reverse=op.attr("reverse"))[1]


def _layers(op: Layers, operands: Arrays, region: Any, outside: Arrays, key: Array) -> Arrays:
    count, stride = len(op.carried), op.attr("rng_stride")
    carried, stacks = operands[:count], operands[count:]

    def body(state: Arrays, item: tuple[Array, Arrays]) -> tuple[Arrays, None]:
        number, items = item
        return region((*state, *items), outside, key, number * stride), None

    if op.attr("recompute"):
        # XLA does not merge repeated computations inside a loop, so no barrier is needed
        body = jax.checkpoint(body, prevent_cse=False)
    numbers = jnp.arange(shape_of(op.stacks[0].type)[0], dtype="int32")
    return lax.scan(body, carried, (numbers, stacks))[0]
