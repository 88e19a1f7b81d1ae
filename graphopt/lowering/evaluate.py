"""A module's `@main` as a JAX function: each op by its rule, derivatives by `lowering/grad.py`.

It computes one replica's results and talks to the others only through `Replicas`;
`lowering/mappers.py` runs it on one device or many. A value is a tuple of lanes: one array
normally, one per replica when uneven replicas run in lockstep (one program, no mapped axis).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import jax
from jax import numpy as jnp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation

import graphopt.lowering.ops  # noqa: F401  (registers the rules)
from graphopt.errors import UnsupportedError
from graphopt.ir.differentiated import segment_of
from graphopt.ir.op import PdOp, bind_groups, call_rule
from graphopt.ir.ops.base import DataSizedOp
from graphopt.ir.ops.comm import Collective, WeighByRows
from graphopt.ir.ops.control import RegionOp, Yield
from graphopt.ir.ops.grad import Grad
from graphopt.ir.ops.late import Late, class_of, draws
from graphopt.ir.ops.random import Dropout, RandomOp
from graphopt.ir.ops.transformer import FusedAttention, FusedDotProductAttention, FusedFeedforward
from graphopt.ir.signature import (
    function_signature,
    hashes_dropout,
    main_function,
    prepare_function,
)
from graphopt.lowering.collectives import AXIS, Replicas
from graphopt.lowering.hashing import by_hash
from graphopt.lowering.late import late_properties
from graphopt.lowering.registry import RULES

DROPOUTS = (Dropout, FusedAttention, FusedDotProductAttention, FusedFeedforward)
Array = Any
Lanes = tuple[Array, ...]
Environment = dict[Any, Any]
"""The lanes of each SSA value, and the pullbacks of ops with regions by op."""


@dataclass(frozen=True)
class Wanted:
    """What derivatives need of an op with regions: positions in what it reads and its results."""

    ins: tuple[int, ...]
    outs: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One op ready to be computed: its class, properties and operand grouping; hashable."""

    op_class: type[PdOp]
    attrs: tuple[tuple[str, Any], ...]
    groups: tuple[int, ...]
    replicas: Replicas

    @classmethod
    def of(cls, op: PdOp, replicas: Replicas, env: Environment | None = None) -> Call:
        """The call that computes `op`; `env` has the values that a `pd.late` reads."""
        if isinstance(op, Late):
            properties = tuple(sorted(late_properties(op, env or {}).items()))
            return cls(class_of(op.attr("op")), properties, op.attr("groups"), replicas)
        attrs = tuple(sorted(_read_by_rules(op).items()))
        groups = tuple(len(group) for group in op.operand_groups())
        return cls(type(op), attrs, groups, replicas)

    def __call__(self, operands: Sequence[Array], key: Array | None) -> tuple[Array, ...]:
        """The results for these operands (flat, in the op's order)."""
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
        """True when one trace serves all ops that are computed alike.

        Not with data-sized results, which need values, nor with -0.0, which equals 0.0 as a key.
        Collectives stay where they are, so that they can be counted.
        """
        alone = self.data_sized or self.communicates
        return not alone and "-0.0" not in repr(self.attrs)

    @property
    def communicates(self) -> bool:
        """True when the op combines values of all replicas."""
        if issubclass(self.op_class, Collective):
            return True
        return ("sync", True) in self.attrs or ("in_parts", True) in self.attrs

    def on_lanes(
        self, lanes: Sequence[Sequence[Array]], keys: Sequence[Array | None]
    ) -> list[tuple[Array, ...]]:
        """The results of each lane for the operands and the key of each lane."""
        if len(lanes) > 1 and self.communicates:
            return combine(self, lanes)
        return [self(operands, key) for operands, key in zip(lanes, keys, strict=True)]


def _read_by_rules(op: PdOp) -> dict[str, Any]:
    """The properties without those that only say which numbers are drawn: keys do that."""
    values = op.attr_values()
    if isinstance(op, RandomOp):
        values = {name: value for name, value in values.items() if name not in ("seed", "rng_id")}
    return values


@lru_cache(maxsize=4096)
def _jitted(call: Call) -> Any:
    """The call as a function that JAX traces once for all ops with operands of the same types."""
    return jax.jit(call.on_lanes)


def _rule(op_class: type[PdOp]) -> Any:
    try:
        return RULES[op_class]
    except KeyError:
        family = op_class.__module__.rpartition(".")[2]
        raise UnsupportedError(
            f"{op_class.name} has no lowering: add one to lowering/ops/{family}.py"
        ) from None


def combine(call: Call, lanes: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
    """A communicating op on lanes of one program, where there is no axis to sum over."""
    count = len(lanes)
    if call.op_class is WeighByRows:
        rows = [operands[1].shape[0] for operands in lanes]
        return [(x * (own / sum(rows)),) for (x, _), own in zip(lanes, rows, strict=True)]
    if ("sync", True) not in call.attrs:
        # what replicas exchange has one shape everywhere, so that it can be stacked
        mapped = replace(call, replicas=Replicas(AXIS, count))
        stacked = [jnp.stack(values) for values in zip(*lanes, strict=True)]
        results = jax.vmap(lambda *values: mapped(values, None), axis_name=AXIS)(*stacked)
        return [tuple(result[lane] for result in results) for lane in range(count)]
    # synchronised batch normalisation is batch normalisation of all lanes' rows; each lane keeps
    # its own ones, made with its own scale and bias, which so get this lane's gradient
    joined = jnp.concatenate([operands[0] for operands in lanes])
    by_lane: list[tuple[Array, ...]] = []
    start = 0
    for operands in lanes:
        out, *statistics = call([joined, *operands[1:]], None)
        end = start + operands[0].shape[0]
        by_lane.append((out[start:end], *statistics))
        start = end
    return by_lane


def differentiated_regions(block: Block) -> dict[Operation, Wanted]:
    """The ops with regions through which a `pd.grad` of this block goes."""
    if not any(isinstance(op, RegionOp) for op in block.ops):
        return {}
    from graphopt.lowering.grad import regions_on_path

    ins: dict[Operation, set[int]] = {}
    outs: dict[Operation, set[int]] = {}
    for grad in block.ops:
        if isinstance(grad, Grad):
            for op, wanted in regions_on_path(grad).items():
                ins.setdefault(op, set()).update(wanted.ins)
                outs.setdefault(op, set()).update(wanted.outs)
    return {op: Wanted(tuple(sorted(ins[op])), tuple(sorted(outs[op]))) for op in ins}


@dataclass(frozen=True)
class Context:
    """What the ops of one replica share: the other replicas and this step's random key.

    `key` is the uint32 data of a JAX key, different for every step. `lanes` is the number of
    replicas that run in lockstep. With `by_op` arrays have values, and XLA compiles each op alone.
    """

    replicas: Replicas
    key: Array
    lanes: int = 1
    by_op: bool = False
    hashes: bool = False
    """True when dropouts draw by a quicker generator than the other ops."""
    lane: int | None = None
    """Which of several lanes this is, inside a region, which is evaluated lane by lane."""
    rng_shift: Any = 0
    """What is added to the numbers of random ops, in the layer of a `pd.layers`."""

    def keys_for(self, op: Operation) -> list[Any]:
        """The random keys of an op's lanes: one, a tuple when it takes several, None for none."""
        several = [self._keys(*drawn) for drawn in draws(op)]
        if self.hashes and isinstance(op, DROPOUTS):
            several = [[by_hash(key) for key in keys] for keys in several]
        if not several:
            return [None] * self.lanes
        return several[0] if len(several) == 1 else list(zip(*several, strict=True))

    def keys_at(self, op: Operation, operands: Sequence[Sequence[Array]]) -> list[Any]:
        """`keys_for`, of use only when the operands of each lane are there too.

        This is for ops that derivatives compute again: XLA would draw all random numbers of a
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

    What `@prepare` gives is computed, too, unless it is among the inputs.
    """
    context = replace(context, hashes=hashes_dropout(module))
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
    return evaluate_block(block, env, context)


def evaluate_block(block: Block, env: Environment, context: Context) -> list[Lanes]:
    """What the end of a block returns or yields; `env` has its arguments and what it captures."""
    differentiated = differentiated_regions(block)
    for op in block.ops:
        if isinstance(op, (ReturnOp, Yield)):
            return [env[value] for value in op.operands]
        evaluate_op(op, env, context, differentiated.get(op))
    raise ValueError("the block has no end")


def operands_by_lane(op: Operation, env: Environment, lanes: int) -> list[list[Array]]:
    """The operands of an op, for each lane, without those that are read as properties."""
    read = op.inputs if isinstance(op, Late) else op.operands
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
        with jax.named_scope(op.name):
            if isinstance(op, Grad):
                from graphopt.lowering.grad import evaluate_grad

                results: Sequence[Lanes] = evaluate_grad(op, env, context)
            elif isinstance(op, RegionOp):
                from graphopt.lowering.regions import evaluate_region_op

                results = evaluate_region_op(op, env, context, wanted)
            else:
                call = Call.of(op, context.replicas, env)
                operands = operands_by_lane(op, env, context.lanes)
                compute = _jitted(call) if call.is_memoized else call.on_lanes
                by_lane = compute(operands, context.keys_at(op, operands))
                results = list(zip(*by_lane, strict=True))
    except Exception as error:
        if not getattr(error, "__notes__", None):
            error.add_note(f"while computing {op!s} at {op.location}")
        raise
    env.update(zip(op.results, results, strict=True))
