"""A module's `@main` as a JAX function: each op by its rule, derivatives by `lowering/grad.py`.

It computes one replica's results and talks to the others only through `Replicas`;
`lowering/replication.py` runs it on one device or many. Ops that need more than their operands,
derivatives and ops with regions, have evaluators of their own in the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np
from jax import numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.core import Tracer
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.differentiated import KEPT, is_kept, segment_of
from graphopt.ir.dialect.op import PdOp, infer_types
from graphopt.ir.dialect.ops.control import RegionOp, Yield
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.dynamic import Dynamic, draws, group_operands, is_kind_of
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.sequence.recurrent import Rnn
from graphopt.ir.dialect.ops.transformer import (
    FusedAttention,
    FusedDotProductAttention,
    FusedFeedforward,
)
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.signature import (
    checks_finite,
    computes_in_full,
    function_signature,
    main_function,
    prepare_function,
)
from graphopt.ir.dialect.types import tensor
from graphopt.lowering.call import (
    Array,
    Call,
    Environment,
    Lanes,
    jit_call,
    jitted_with_pullback,
)
from graphopt.lowering.collectives import ALONE, Replicas
from graphopt.lowering.dynamic import call_of, calls_of
from graphopt.lowering.finite import Order, order_of, watch_block
from graphopt.lowering.hashing import fold_in, words_of
from graphopt.lowering.locations import scope_of
from graphopt.lowering.ops.creation import full_op_by_op
from graphopt.lowering.ops.random import shares_generator
from graphopt.lowering.region_derivatives import Wanted, differentiated_regions
from graphopt.lowering.registry import evaluator

DROPOUTS = (Dropout, FusedAttention, FusedDotProductAttention, FusedFeedforward, Rnn)
"""The ops with keys for `hashing.py`: arrays of two words."""
Compute: TypeAlias = "Callable[[Environment, Context], Sequence[Lanes]]"
T = TypeVar("T")
MOST_HELD = 1 << 16
"""The most bytes of a constant that is cached for all runs of a program that runs op by op."""
_COMPUTING = "while computing"
_NO_KEYS = [None]


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
    keeps_values: bool = False
    """With `by_op`, no value is freed before the end, for callers that inspect all values."""
    lane: int | None = None
    """The index of this lane inside a region; regions are evaluated lane by lane."""
    order: Order | None = None
    """The numbers of the ops whose results are checked for NaN and infinities; None for none."""
    shared: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """With `by_op`, the cache of all runs."""
    rng_shift: Any = 0
    """The offset of random op numbers, in a layer of a `pd.layers`."""

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Call `make`; cache its result for all runs of a program that runs op by op."""
        if not self.by_op:
            return make()
        found = self.shared.get(key)
        if found is None:
            found = self.shared[key] = make()
        return found

    def keys_for(self, op: Operation) -> list[Any]:
        """Derive the random keys of an op's lanes: one each, a tuple of several, or None."""
        find = self._words if is_kind_of(op, DROPOUTS) else self._keys
        several = [find(*drawn) for drawn in draws(op)]
        if not several:
            return [None] * self.lanes
        return several[0] if len(several) == 1 else list(zip(*several, strict=True))

    def keys_at(self, op: Operation, operands: Sequence[Sequence[Array]]) -> list[Any]:
        """Derive the keys as `keys_for`, usable only once the operands of each lane are computed.

        This is for recomputed ops: XLA would otherwise draw all random numbers of a program at its
        start, and keep those that the forward computation has drawn.
        """
        keys = self.keys_for(op)
        if self.by_op or segment_of(op) is None or not draws(op):
            return keys
        held, _ = jax.lax.optimization_barrier((keys, operands))
        return held

    def _keys(self, seed: int, rng_id: int) -> list[Array]:
        """Derive the JAX key of each lane: fixed by a non-zero seed, else new in each step."""
        if seed:
            return [jax.random.key(seed)] * self.lanes
        key = jax.random.fold_in(jax.random.wrap_key_data(self.key), rng_id + self.rng_shift)
        return [key if n is None else jax.random.fold_in(key, n) for n in self._numbers()]

    def _words(self, seed: int, rng_id: int) -> list[Array]:
        """Derive the key of each lane for dropout masks, two words for `hashing.py`."""
        if seed:
            return [jnp.asarray(words_of(seed))] * self.lanes
        key = _fold_in(self.key, rng_id + self.rng_shift)
        return [key if n is None else _fold_in(key, n) for n in self._numbers()]

    def _numbers(self) -> Sequence[Any]:
        """Return the index of each lane among the replicas; [None] for a single lane."""
        if self.replicas.axis is not None:
            return [self.replicas.index()]
        if self.lane is not None:
            return [self.lane]
        return [None] if self.lanes == 1 else range(self.lanes)


@partial(jax.jit, inline=True)
def _fold_in(key: Array, number: Any) -> Array:
    """Fold a number into a key of `hashing.py`."""
    return fold_in(key, jnp.asarray(number).astype(np.uint32))


def evaluate(
    module: ModuleOp, inputs: Mapping[tuple[str, str], Lanes], context: Context
) -> list[Lanes]:
    """Evaluate `@main` on inputs by (kind, name) and return its results in order.

    The results of `@prepare` are computed, too, unless they are among the inputs.
    """
    order, in_full, prepare, results, main = context.once(module, lambda: _parts_of(module))
    context = replace(context, order=order)
    with jax.default_matmul_precision("highest") if in_full else nullcontext():
        if prepare is not None and any(key not in inputs for key in results):
            values = evaluate_function(prepare, inputs, context)
            inputs = {**inputs, **dict(zip(results, values, strict=True))}
        return evaluate_function(main, inputs, context)


def _parts_of(
    module: ModuleOp,
) -> tuple[Order | None, bool, FuncOp | None, list[tuple[str, str]], FuncOp]:
    """Collect the parts of a module that `evaluate` uses.

    These are the order of its ops if results are checked, True if it computes in full precision,
    `@prepare` with its results, and `@main`.
    """
    prepare = prepare_function(module)
    ports = () if prepare is None else function_signature(prepare).results
    return (
        order_of(module) if checks_finite(module) else None,
        computes_in_full(module),
        prepare,
        [(port.kind, port.name) for port in ports],
        main_function(module),
    )


def evaluate_function(
    function: FuncOp, inputs: Mapping[tuple[str, str], Lanes], context: Context
) -> list[Lanes]:
    """Evaluate one function on inputs by (kind, name) and return its results in order."""
    block = function.body.block
    ports = context.once(function, lambda: function_signature(function).arguments)
    env: Environment = {
        argument: inputs[port.kind, port.name]
        for argument, port in zip(block.args, ports, strict=True)
    }
    return evaluate_block(block, env, context)


def evaluate_block(
    block: Block, env: Environment, context: Context, done: Container[Operation] = ()
) -> list[Lanes]:
    """Evaluate a block and return the values that it returns or yields.

    `env` has its arguments, its captured values, and the results of the ops that are `done`.
    """
    end = block.last_op
    if not isinstance(end, (ReturnOp, Yield)):
        raise ValueError("the block has no end")
    if context.by_op:
        _evaluate_by_op(block, env, context)
    else:
        differentiated = differentiated_regions(block)
        for op in block.ops:
            if op is not end and op not in done:
                evaluate_op(op, env, context, differentiated.get(op))
    if context.order is not None:
        watch_block(block, env, context.order, alone=context.replicas.size == 1)
    return [env[value] for value in end.operands]


def _evaluate_by_op(block: Block, env: Environment, context: Context) -> None:
    """Compute the ops of a block one by one, with the functions built in the first run."""
    doing: PdOp | None = None
    try:
        for op, compute, over in context.once(block, lambda: _computations_of(block, context)):
            doing = op
            for result, lanes in zip(op.results, compute(env, context), strict=True):
                env[result] = lanes
            for value in over:
                # tracers supply shapes, and hold no memory
                if not isinstance(env[value][0], Tracer):
                    del env[value]
    except Exception as error:
        if doing is not None:
            _note_place(error, doing, env)
        raise


def _computations_of(
    block: Block, context: Context
) -> list[tuple[PdOp, Compute, Sequence[SSAValue]]]:
    """List each op with its computation and the values to free after it."""
    differentiated, ops = differentiated_regions(block), [*map(as_pd, list(block.ops)[:-1])]
    keeps = context.keeps_values or context.order is not None
    over: Mapping[Operation, Sequence[SSAValue]] = {} if keeps else _last_read(block)
    return [
        (op, _computation_of(op, context, differentiated.get(op)), over.get(op, ())) for op in ops
    ]


def _last_read(block: Block) -> dict[Operation, list[SSAValue]]:
    """Map each op to the values of the block that no later op reads.

    A `pd.grad` may read any value before it, so the last one ends the walk.
    """
    *ops, end = block.ops
    inside, later = set(ops), set(end.operands)
    over: dict[Operation, list[SSAValue]] = {}
    for at, op in reversed([*enumerate(ops)]):
        is_derivative = isinstance(op, Grad)
        seen: list[SSAValue] = [*op.results, *values_read(op)]
        if is_derivative:
            seen += [result for before in ops[:at] for result in before.results]
        own = [value for value in dict.fromkeys(seen) if value.owner in inside]
        over[op] = [value for value in own if value not in later]
        later.update(own)
        if is_derivative:
            break
    return over


def _computation_of(op: PdOp, context: Context, wanted: Wanted | None) -> Compute:
    """Build a function that computes the lanes of an op's results, for any run."""
    if (own := evaluator(type(op))) is not None:
        return lambda env, context: own(op, env, context, wanted)
    if wanted is not None:
        return lambda env, context: _with_pullback(op, env, context, wanted)
    if isinstance(op, Dynamic):
        made = calls_of(op, context.replicas)
        return lambda env, context: _call_rule(op, made(env), env, context)
    call, operands, has_keys = Call.of(op, context.replicas), tuple(op.operands), bool(draws(op))
    if call.op_class is Full:
        return _constant(dict(call.attrs))
    function = _function_of(call, context)

    def compute(env: Environment, context: Context) -> Sequence[Lanes]:
        given = [[env[value][0] for value in operands]]
        (results,) = function(given, context.keys_at(op, given) if has_keys else _NO_KEYS)
        return [*zip(results)]

    return compute if not is_kept(op) else lambda env, context: _keep_results(compute(env, context))


def operands_by_lane(op: Operation, env: Environment, lanes: int) -> list[list[Array]]:
    """Collect the operands of an op for each lane, without those read as properties."""
    read = op.inputs if isinstance(op, Dynamic) else op.operands
    values = [env[value] for value in read]
    return [[value[lane] for value in values] for lane in range(lanes)]


def _with_pullback(op: PdOp, env: Environment, context: Context, wanted: Wanted) -> Sequence[Lanes]:
    """Compute an op's results by its rule, and store its pullback in `env`."""
    call = call_of(op, context.replicas, env)
    operands = operands_by_lane(op, env, context.lanes)
    compute = jitted_with_pullback(call, wanted.ins, wanted.outs)
    keys = context.keys_at(op, operands)
    computed = [compute(lane, key) for lane, key in zip(operands, keys, strict=True)]
    env[op] = wanted, [pullback for _, pullback in computed]
    return list(zip(*(results for results, _ in computed), strict=True))


def evaluate_op(
    op: Operation, env: Environment, context: Context, wanted: Wanted | None = None
) -> None:
    """Compute one op and enter its results in the environment.

    With `wanted`, its pullback is entered as well.
    """
    op = as_pd(op)
    try:
        with jax.named_scope(scope_of(op)):
            if (own := evaluator(type(op))) is not None:
                results: Sequence[Lanes] = own(op, env, context, wanted)
            elif wanted is not None:
                results = _with_pullback(op, env, context, wanted)
            else:
                results = _call_rule(op, call_of(op, context.replicas, env), env, context)
            if is_kept(op):
                results = _keep_results(results)
    except Exception as error:
        _note_place(error, op, env)
        raise
    env.update(zip(op.results, results, strict=True))


def _constant(attrs: Mapping[str, Any]) -> Compute:
    """Build a function that returns a constant; a small one is made once and reused."""
    held: list[Lanes] = []

    def compute(env: Environment, context: Context) -> Sequence[Lanes]:
        # another program may donate the buffer, if the constant has become state
        if not held or held[0][0].is_deleted():
            array = full_op_by_op(**attrs)
            if isinstance(array, Tracer) or array.nbytes > MOST_HELD:
                return [(array,)]
            held[:] = [(array,)]
        return held

    return compute


def as_pd(op: Operation) -> PdOp:
    """Narrow an op to the class of Paddle's dialect."""
    assert isinstance(op, PdOp), f"{op.name} is not a pd op"
    return op


def _call_rule(op: PdOp, call: Call, env: Environment, context: Context) -> Sequence[Lanes]:
    """Compute an op that needs only its operands and its key."""
    if context.by_op and call.op_class is Full:
        return [(full_op_by_op(**dict(call.attrs)),) * context.lanes]
    operands = operands_by_lane(op, env, context.lanes)
    by_lane = _function_of(call, context)(operands, context.keys_at(op, operands))
    return list(zip(*by_lane, strict=True))


def _function_of(call: Call, context: Context) -> Any:
    """Return the function from each lane's operands and key to its results, jitted if shared."""
    alone = not call.is_memoized or (context.by_op and shares_generator(call))
    return call.on_lanes if alone else jit_call(call)


def _keep_results(results: Sequence[Lanes]) -> Sequence[Lanes]:
    """Mark results that a derivative does not recompute."""
    return [checkpoint_name(lanes, KEPT) for lanes in results]


def _note_place(error: Exception, op: PdOp, env: Environment) -> None:
    """Add the op to an error, of nested ops the innermost; JAX adds notes of its own."""
    if not any(note.startswith(_COMPUTING) for note in getattr(error, "__notes__", ())):
        location = op.location
        known = isinstance(location, FileLineColLoc)
        at = f" at {location.filename.data}:{location.line.data}" if known else ""
        error.add_note(f"{_COMPUTING} {op!s}{at}{_refusal(op, env)}")


def _refusal(op: PdOp, env: Environment) -> str:
    """Compose a line with the type rule's error for the actual operands; "" without one."""
    if isinstance(op, RegionOp):
        return ""
    dynamic = isinstance(op, Dynamic)
    operands = group_operands(op.inputs, op.attr("groups")) if dynamic else op.operand_groups()
    groups = [[env[value][0] for value in group] for group in operands]
    if not all(_is_of_numbers(array) for group in groups for array in group):
        return ""
    types = [[tensor(array.shape, array.dtype.name) for array in group] for group in groups]
    try:
        call = call_of(op, ALONE, env)
        infer_types(call.op_class, types, dict(call.attrs) if dynamic else op.attr_values())
    except ProgramError as refusal:
        return f"\n{refusal}"
    except UnsupportedError:  # there are no numbers while tracing, or several from replicas
        pass
    return ""


def _is_of_numbers(array: Any) -> bool:
    """True for one array, whose sizes are numbers and no symbols."""
    return isinstance(array, (jax.Array, np.ndarray)) and all(
        isinstance(size, int) for size in array.shape
    )
