"""The masks of the dropouts of a step: one loop draws them all, a block in each iteration.

XLA compiles a generator for each draw, which takes it half a second in a training step, and
computes that in passes over memory. The numbers here are those of `jax.random.bernoulli`: each
follows from the key of its dropout and its place alone. Masks take a byte per element, as long as
their derivatives need them. What recomputes its dropouts draws them by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.differentiated import segment_of
from graphopt.ir.dialect.op import PdOp, infer_types
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.types import UNKNOWN, shape_of, tensor
from graphopt.lowering.call import Array, Environment
from graphopt.lowering.host_draws import PARITY, ROTATIONS

BLOCK = 4096
"""The numbers of an iteration: its counters fit into the cache of a core."""


class _Draw(NamedTuple):
    """A dropout, with what decides on its mask."""

    op: Operation
    shape: tuple[int, ...]
    kept: float
    seed: int
    number: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def blocks(self) -> int:
        return -(-self.size // BLOCK)


def draw_masks(block: Block, env: Environment, step: Array) -> dict[Operation, Array]:
    """The elements that each dropout keeps, for the arguments of a block and the key of a step.

    Those in regions are not among them, nor those whose sizes are unknown before they run.
    """
    draws = list(_draws(block, env))
    if not draws:
        return {}
    count = np.array([draw.blocks for draw in draws])
    which = np.repeat(np.arange(len(draws)), count)
    firsts = BLOCK * (np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count))
    keys = [each[which] for each in _keys(draws, step)]
    kept = np.array([draw.kept for draw in draws], np.float32)[which]

    def draw_block(given: tuple[Array, ...]) -> Array:
        *key, first, kept = given
        places = first + lax.iota(np.uint32, BLOCK)
        one, other = _threefry(key, jnp.zeros_like(places), places)
        # 23 bits, as those of a number in [1, 2)
        bits = ((one ^ other) >> np.uint32(9)) | np.uint32(0x3F800000)
        return lax.bitcast_convert_type(bits, np.float32) - np.float32(1) < kept

    numbers = lax.map(draw_block, (*keys, firsts.astype(np.uint32), kept)).reshape(-1)
    found: dict[Operation, Array] = {}
    begin = 0
    for draw in draws:
        found[draw.op] = numbers[begin : begin + draw.size].reshape(draw.shape)
        begin += draw.blocks * BLOCK
    return found


def _draws(block: Block, env: Environment) -> Iterable[_Draw]:
    dropouts = {op for op in block.ops if isinstance(op, Dropout) and _is_drawn(op)}
    if not dropouts:
        return
    types = _types(block, env, dropouts)
    for op in block.ops:
        if isinstance(op, Dropout) and op in dropouts:
            shape = shape_of(types[op.x])
            if UNKNOWN not in shape and 0 < math.prod(shape) < 1 << 32:
                ((seed, number),) = op.draws()
                yield _Draw(op, shape, 1 - op.attr("p"), seed, number)


def _is_drawn(op: Dropout) -> bool:
    return not op.attr("is_test") and 0 < op.attr("p") < 1 and segment_of(op) is None


def _types(
    block: Block, env: Environment, wanted: Iterable[Operation]
) -> Mapping[SSAValue, Attribute]:
    """The types of the values of a block up to the last of some ops, for arguments that came."""
    left = set(wanted)
    types: dict[SSAValue, Attribute] = {value: _type_of(lanes[0]) for value, lanes in env.items()}
    for op in block.ops:
        found: list[Any] = [result.type for result in op.results]
        if not all(map(_is_known, found)) and isinstance(op, PdOp):
            found = _infer_types(op, types) or found
        types.update(zip(op.results, found, strict=True))
        left.discard(op)
        if not left:
            break
    return types


def _type_of(array: Array) -> Attribute:
    """The type of an array, some sizes of which may be symbols, as in an export."""
    sizes = [size if isinstance(size, int) else UNKNOWN for size in array.shape]
    return tensor(sizes, array.dtype.name)


def _is_known(found: Attribute) -> bool:
    return isinstance(found, TensorType) and UNKNOWN not in shape_of(found)


def _infer_types(op: PdOp, types: Mapping[SSAValue, Attribute]) -> list[Any] | None:
    """The types of the results; None for an op that has to run for them."""
    if isinstance(op, (RegionOp, Dynamic)):
        return None
    groups = [[types.get(value, value.type) for value in group] for group in op.operand_groups()]
    if not all(_is_known(each) for group in groups for each in group):
        return None
    try:
        return infer_types(type(op), groups, op.attr_values())
    except ProgramError:
        return None


def _keys(draws: list[_Draw], step: Array) -> tuple[Array, Array]:
    """The two words of the key of each draw: those of its seed, or of its number in this step."""
    numbers = np.array([draw.number for draw in draws], np.uint32)
    key = _threefry((step[0], step[1]), jnp.zeros_like(numbers), jnp.asarray(numbers))
    seeds = np.array([draw.seed for draw in draws], np.int64)
    if not seeds.any():
        return key
    own = (seeds >> 32).astype(np.uint32), seeds.astype(np.uint32)
    return tuple(jnp.where(seeds != 0, *pair) for pair in zip(own, key, strict=True))  # pyright: ignore


@jax.disable_jit()  # else JAX makes a function of each operator first
def _threefry(key: Any, first: Array, second: Array) -> tuple[Array, Array]:
    """The hash of counters of two uint32 words, written out: one kernel computes all rounds."""
    words = (*key, key[0] ^ key[1] ^ PARITY)
    first, second = first + words[0], second + words[1]
    for group in range(5):
        for by in ROTATIONS[group % 2]:
            first = first + second
            second = (second << np.uint32(by)) | (second >> np.uint32(32 - by))
            second = second ^ first
        first = first + words[(group + 1) % 3]
        second = second + words[(group + 2) % 3] + np.uint32(group + 1)
    return first, second
