"""A module's `@main` as a JAX function: each op by its rule, derivatives by `lowering/grad.py`.

It computes one replica's results and talks to the others only through `Replicas`;
`lowering/replication.py` runs it on one device or many. Ops that need more than their operands,
derivatives and ops with regions, have evaluators of their own in the registry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation

from graphopt.errors import ProgramError
from graphopt.ir.dialect.differentiated import KEPT, is_kept, segment_of
from graphopt.ir.dialect.op import PdOp, infer_types
from graphopt.ir.dialect.ops.control import RegionOp, Yield
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.dynamic import Dynamic, draws
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.transformer import (
    FusedAttention,
    FusedDotProductAttention,
    FusedFeedforward,
)
from graphopt.ir.dialect.signature import (
    checks_finite,
    function_signature,
    hashes_dropout,
    main_function,
    prepare_function,
)
from graphopt.ir.dialect.types import tensor
from graphopt.lowering.call import Array, Environment, Lanes, jitted
from graphopt.lowering.collectives import Replicas
from graphopt.lowering.dynamic import call_of
from graphopt.lowering.finite import Order, order_of, watch_block
from graphopt.lowering.hashing import by_hash
from graphopt.lowering.locations import scope_of
from graphopt.lowering.masks import draw_masks
from graphopt.lowering.ops.creation import full_op_by_op
from graphopt.lowering.ops.random import shares_generator
from graphopt.lowering.region_derivatives import Wanted, differentiated_regions
from graphopt.lowering.registry import evaluator

DROPOUTS = (Dropout, FusedAttention, FusedDotProductAttention, FusedFeedforward)
_COMPUTING = "while computing"


@dataclass(frozen=True)
class Context:
    """State shared by the ops of one replica: the other replicas and this step's random key.

    `key` is the uint32 data of a JAX key, different for every step. `lanes` is the number of
    replicas that run in lockstep. With `by_op` arrays have values, and XLA compiles each op alone.
    """

    replicas: Replicas
    key: Array
    lanes: int = 1
    by_op: bool = False
    hashes: bool = False
    """True when dropouts draw from a faster generator than the other ops."""
    lane: int | None = None
    """Index of this lane inside a region, which is evaluated lane by lane."""
    order: Order | None = None
    """The numbers of the ops whose results are checked for NaN and infinities, if any."""
    compiled: dict[Operation, Any] = field(default_factory=dict[Operation, Any])
    """With `by_op`, the ops with regions that XLA compiles; None for one that needs data."""
    rng_shift: Any = 0
    """Offset of the numbers of random ops, in the layer of a `pd.layers`."""
    masks: Mapping[Operation, Array] = field(default_factory=dict[Operation, Array])
    """The elements that dropouts keep, where those are drawn already, in place of keys."""

    @property
    def is_plain(self) -> bool:
        """True for one replica in one program of XLA, with the generator of all random ops."""
        return self.replicas.axis is None and self.lanes == 1 and not (self.by_op or self.hashes)

    def keys_for(self, op: Operation) -> list[Any]:
        """The random keys of an op's lanes: one, a tuple when it takes several, None for none."""
        if op in self.masks:
            return [self.masks[op]]
        several = [self._keys(*drawn) for drawn in draws(op)]
        if self.hashes and isinstance(op, DROPOUTS):
            several = [[by_hash(key) for key in keys] for keys in several]
        if not several:
            return [None] * self.lanes
        return several[0] if len(several) == 1 else list(zip(*several, strict=True))

    def keys_at(self, op: Operation, operands: Sequence[Sequence[Array]]) -> list[Any]:
        """`keys_for`, usable only once the operands of each lane are computed.

        This is for recomputed ops: XLA would draw all random numbers of a
        program at its start, and keep those that it has drawn before.
        """
        keys = self.keys_for(op)
        if self.by_op or segment_of(op) is None or not draws(op):
            return keys
        data = jax.tree.map(jax.random.key_data, keys)
        held, _ = jax.lax.optimization_barrier((data, operands))
        return jax.tree.map(
            lambda key, words: jax.random.wrap_key_data(words, impl=jax.random.key_impl(key)),
            keys,
            held,
        )

    def _keys(self, seed: int, rng_id: int) -> list[Array]:
        """The key of each lane: fixed by a non-zero seed, else new for each step."""
        if seed:
            return [jax.random.key(seed)] * self.lanes
        key = jax.random.fold_in(jax.random.wrap_key_data(self.key), rng_id + self.rng_shift)
        if self.replicas.axis is not None:
            return [jax.random.fold_in(key, self.replicas.index())]
        if self.lane is not None:
            return [jax.random.fold_in(key, self.lane)]
        if self.lanes == 1:
            return [key]
        return [jax.random.fold_in(key, lane) for lane in range(self.lanes)]


def evaluate(
    module: ModuleOp, inputs: Mapping[tuple[str, str], Lanes], context: Context
) -> list[Lanes]:
    """The results of `@main` in order, for inputs by (kind, name).

    The results of `@prepare` are computed, too, unless they are among the inputs.
    """
    order = order_of(module) if checks_finite(module) else None
    context = replace(context, hashes=hashes_dropout(module), order=order)
    prepare = prepare_function(module)
    if prepare is not None:
        results = function_signature(prepare).results
        if any((port.kind, port.name) not in inputs for port in results):
            values = evaluate_function(prepare, inputs, context)
            named = ((port.kind, port.name) for port in results)
            inputs = {**inputs, **dict(zip(named, values, strict=True))}
    return evaluate_function(main_function(module), inputs, context)


def evaluate_function(
    function: FuncOp, inputs: Mapping[tuple[str, str], Lanes], context: Context
) -> list[Lanes]:
    """The results of one function in order, for inputs by (kind, name)."""
    block = function.body.block
    ports = function_signature(function).arguments
    env: Environment = {
        argument: inputs[port.kind, port.name]
        for argument, port in zip(block.args, ports, strict=True)
    }
    if context.is_plain:
        context = replace(context, masks=draw_masks(block, env, context.key))
    return evaluate_block(block, env, context)


def evaluate_block(block: Block, env: Environment, context: Context) -> list[Lanes]:
    """The values that a block returns or yields; `env` has its arguments and captured values."""
    differentiated = differentiated_regions(block)
    for op in block.ops:
        if isinstance(op, (ReturnOp, Yield)):
            if context.order is not None:
                alone = context.replicas.size == 1
                watch_block(block, env, context.order, alone=alone)
            return [env[value] for value in op.operands]
        evaluate_op(op, env, context, differentiated.get(op))
    raise ValueError("the block has no end")


def operands_by_lane(op: Operation, env: Environment, lanes: int) -> list[list[Array]]:
    """The operands of an op, for each lane, without those that are read as properties."""
    read = op.inputs if isinstance(op, Dynamic) else op.operands
    values = [env[value] for value in read]
    return [[value[lane] for value in values] for lane in range(lanes)]


def evaluate_op(
    op: Operation, env: Environment, context: Context, wanted: Wanted | None = None
) -> None:
    """Compute one op and enter its results in the environment.

    An op with regions also enters the pullback that is `wanted`.
    """
    assert isinstance(op, PdOp), f"{op.name} is not a pd op"
    try:
        with jax.named_scope(scope_of(op)):
            if (own := evaluator(type(op))) is not None:
                results: Sequence[Lanes] = own(op, env, context, wanted)
            else:
                call = call_of(op, context.replicas, env)
                operands = operands_by_lane(op, env, context.lanes)
                if context.by_op and call.op_class is Full:
                    by_lane = [(full_op_by_op(**dict(call.attrs)),)] * context.lanes
                else:
                    alone = not call.is_memoized or (context.by_op and shares_generator(call))
                    compute = call.on_lanes if alone else jitted(call)
                    by_lane = compute(operands, context.keys_at(op, operands))
                results = list(zip(*by_lane, strict=True))
            if is_kept(op):
                results = [checkpoint_name(lanes, KEPT) for lanes in results]
    except Exception as error:
        # of nested ops the innermost; JAX adds notes of its own
        if not any(note.startswith(_COMPUTING) for note in getattr(error, "__notes__", ())):
            error.add_note(f"{_COMPUTING} {op!s} at {op.location}{_refusal(op, env)}")
        raise
    env.update(zip(op.results, results, strict=True))


def _refusal(op: PdOp, env: Environment) -> str:
    """A line with what the type rule says to the sizes that came; "" where it takes them."""
    groups = [[env[value][0] for value in group] for group in op.operand_groups()]
    arrays = [array for group in groups for array in group]
    if isinstance(op, (RegionOp, Dynamic)) or not all(map(_is_of_numbers, arrays)):
        return ""
    types = [[tensor(array.shape, array.dtype.name) for array in group] for group in groups]
    try:
        infer_types(type(op), types, op.attr_values())
    except ProgramError as refusal:
        return f"\n{refusal}"
    return ""


def _is_of_numbers(array: Any) -> bool:
    """True for one array, whose sizes are numbers and no symbols."""
    return isinstance(array, jax.Array) and all(isinstance(size, int) for size in array.shape)
