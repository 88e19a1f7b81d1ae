"""Layers in a loop with sharded parameters: each computes while the next one's parameters arrive.

An iteration begins with the whole parameters that the previous one has gathered. The last layer is
computed after the loop, which would otherwise gather parameters that no layer reads. The derivative
keeps no whole parameters: in the backward pass each iteration gathers those of the preceding layer.
Differentiating the loop itself would keep the parameters of all layers, as they are loop-carried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.differentiated import gathered_again
from graphopt.ir.dialect.ops.comm import AllGather
from graphopt.ir.dialect.ops.control import Layers
from graphopt.ir.dialect.regions import captured_values, values_read
from graphopt.ir.dialect.types import element_count, shape_of
from graphopt.lowering.call import Array, Environment, Lanes
from graphopt.lowering.evaluate import Context, evaluate_block, evaluate_op

# JAX primitives that move or convert elements; `pd.all_gather` lowers to these
_MOVES = (
    *("all_gather", "broadcast_in_dim", "convert_element_type", "custom_vjp_call", "reshape"),
    *("slice", "squeeze", "transpose"),
)
# The values of a loop on each lane, or their gradients; None for the gradient of an integer.
Values = list[Lanes]
Tree = Any


@jax.tree_util.register_static
@dataclass(frozen=True)
class Gathered:
    """A placeholder for a whole parameter among the residuals, by its number."""

    number: int


class GatheredLayers:
    """A `pd.layers` that gathers parameters, on all lanes; `known` are constants of each lane."""

    def __init__(
        self, op: Layers, context: Context, known: Sequence[Mapping[SSAValue, Any]]
    ) -> None:
        self.op = op
        self.block = op.body.block
        self.context = replace(context, by_op=False)
        self.known = known
        self.captured = captured_values(op)
        self.count: int = shape_of(op.stacks[0].type)[0]
        self.items = list(self.block.args[len(op.carried) :])
        gathered = gathered_again(self.block.ops)
        self.gathers = list(dict.fromkeys(gathered.values()))
        read = {
            value
            for inner in self.block.ops
            if inner not in self.gathers
            for value in (*inner.operands, *values_read(inner))
        }
        self.whole = [value for value in gathered if value in read]
        # the element counts of gathered parameters and their shards
        self.sizes = {element_count(shape_of(value.type)) for value in gathered}
        for gather in self.gathers:
            if isinstance(gather, AllGather):
                own = element_count(shape_of(gather.operands[0].type))
                self.sizes |= {own, own * gather.attr("parts")}

    def __call__(self, values: Sequence[Lanes]) -> Values:
        """Compute the carried values after all layers, from the values that the op reads."""
        carried, operands = len(self.op.carried), len(self.op.operands)
        run = jax.custom_vjp(lambda *inputs: self._forward(*inputs, keep=False)[0])
        run.defvjp(lambda *inputs: self._forward(*inputs, keep=True), self._backward)
        return run(
            list(values[:carried]),
            list(values[carried:operands]),
            list(values[operands:]),
            self.context.key,
        )

    def _gather(self, items: Values) -> Values:
        """Gather the whole parameters of a layer."""
        env: Environment = dict(zip(self.items, items, strict=True))
        for op in self.gathers:
            evaluate_op(op, env, self.context)
        return [env[value] for value in self.whole]

    def _compute(
        self, state: Values, whole: Values, items: Values, outside: Values, key: Any, number: Any
    ) -> Values:
        """Compute the carried values after one layer."""
        env: Environment = {
            value: tuple(
                known.get(value, lane) for known, lane in zip(self.known, lanes, strict=True)
            )
            for value, lanes in zip(self.captured, outside, strict=True)
        }
        env |= dict(zip(self.block.args, (*state, *items), strict=True))
        env |= dict(zip(self.whole, whole, strict=True))
        shift = self.context.rng_shift + number * self.op.attr("rng_stride")
        inner = replace(self.context, key=key, rng_shift=shift)
        return evaluate_block(self.block, env, inner, self.gathers)

    def _forward(
        self, state: Values, stacks: Values, outside: Values, key: Any, *, keep: bool
    ) -> tuple[Values, Any]:
        """Compute the carried values after all layers, and the residuals of the derivative."""

        def layer(state: Values, whole: Values, items: Values, number: Any) -> tuple[Values, Tree]:
            if not keep:
                return self._compute(state, whole, items, outside, key, number), None
            return self._differentiable(state, whole, items, outside, key, number)

        def turn(carried: tuple[Values, Values], number: Any) -> tuple[tuple[Values, Values], Tree]:
            arriving = self._gather(_item(stacks, number + 1))
            state, kept = layer(*carried, _item(stacks, number), number)
            return (state, arriving), kept

        last = np.int32(self.count - 1)
        turns = jnp.arange(last, dtype="int32")
        (state, whole), kept = lax.scan(turn, (state, self._gather(_item(stacks, 0))), turns)
        state, kept_last = layer(state, whole, _item(stacks, last), last)
        return state, (kept, kept_last, stacks)

    def _differentiable(
        self, state: Values, whole: Values, items: Values, outside: Values, key: Any, number: Any
    ) -> tuple[Values, Tree]:
        """Compute a layer and its residuals, with numbers in place of whole parameters."""
        given = state, whole, items, outside

        def compute(floats: Any) -> Values:
            state, whole, items, outside = _join(floats, given)
            return self._compute(state, whole, items, outside, key, number)

        policy = None if self.op.attr("recompute") else self._keeps
        # XLA does not merge repeated computations inside a loop, so no barrier is needed
        once = jax.checkpoint(compute, prevent_cse=False, policy=policy)

        def forward(floats: Any) -> tuple[Any, Values]:
            found = once(floats)
            return _floats(found), found

        floats = _floats(given)
        _, pullback, found = jax.vjp(forward, floats, has_aux=True)
        numbers = {id(array): Gathered(at) for at, array in enumerate(jax.tree.leaves(whole))}
        return found, jax.tree.map(lambda array: numbers.get(id(array), array), pullback)

    def _keeps(self, primitive: Any, *operands: Any, **_: Any) -> bool:
        """True for residuals that are no moved or converted parameters."""
        return primitive.name not in _MOVES or all(v.size not in self.sizes for v in operands)

    def _backward(self, kept: Any, cotangents: Values) -> tuple[Any, Any, Any, None]:
        """Compute the gradients of the carried values, the stacks and the captured values."""
        kept, kept_last, stacks = kept
        last = self.count - 1
        # without a barrier, XLA would keep the parameters gathered in the forward pass
        items, state = lax.optimization_barrier((_item(stacks, last), _floats(cotangents)))
        state, of_items, outside = self._pull(kept_last, self._gather(items), items, state)
        # Each iteration writes into one buffer; concatenated pieces would need twice the memory.
        gradients = _with_item(jax.tree.map(jnp.zeros_like, _floats(stacks)), last, of_items)
        if last == 0:
            return state, gradients, outside, None

        def layer(carried: Any, number: Any) -> Any:
            state, whole, outside, gradients = carried
            items = _item(stacks, number)
            state, of_items, more = self._pull(_item(kept, number), whole, items, state)
            gradients = _with_item(gradients, number, of_items)
            return state, jax.tree.map(jnp.add, outside, more), gradients

        def turn(carried: Any, number: Any) -> tuple[Any, None]:
            arriving = self._gather(_item(stacks, number - 1))
            state, outside, gradients = layer(carried, number)
            return (state, arriving, outside, gradients), None

        start = state, self._gather(_item(stacks, last - 1)), outside, gradients
        carried, _ = lax.scan(turn, start, jnp.arange(1, last, dtype="int32"), reverse=True)
        state, outside, gradients = layer(carried, 0)
        return state, gradients, outside, None

    def _pull(self, kept: Tree, whole: Values, items: Values, state: Any) -> Any:
        """Compute the gradients of a layer's state, its items and the captured values."""
        arrays = jax.tree.leaves(whole)

        def back(leaf: Any) -> Any:
            return arrays[leaf.number] if isinstance(leaf, Gathered) else leaf

        pullback = jax.tree.map(back, kept, is_leaf=lambda leaf: isinstance(leaf, Gathered))
        ((state, of_whole, of_items, outside),) = pullback(state)

        def gather(parts: Any) -> Any:
            return _floats(self._gather(_join(parts, items)))

        _, scatter = jax.vjp(gather, _floats(items))
        (of_parts,) = scatter(of_whole)
        return state, jax.tree.map(jnp.add, of_items, of_parts), outside


def _is_float(array: Array) -> bool:
    return jnp.issubdtype(array.dtype, jnp.inexact)


def _floats(values: Tree) -> Tree:
    """Keep the values that have derivatives; None for the others."""
    return jax.tree.map(lambda array: array if _is_float(array) else None, values)


def _join(floats: Tree, values: Tree) -> Tree:
    """Replace the values that have derivatives by the values in `floats`."""
    return jax.tree.map(
        lambda own, array: array if own is None else own,
        *(floats, values),
        is_leaf=lambda leaf: leaf is None,
    )


def _item(stacks: Tree, at: Any) -> Tree:
    return jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, at, keepdims=False), stacks)


def _with_item(stacks: Tree, at: Any, items: Tree) -> Tree:
    return jax.tree.map(
        lambda stack, item: lax.dynamic_update_index_in_dim(stack, item, at, 0), stacks, items
    )
