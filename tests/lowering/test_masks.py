"""The masks of all dropouts of a step: the numbers of JAX's generator, drawn in one loop."""

from __future__ import annotations

import jax
import numpy as np
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
from graphopt import static
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.masks import BLOCK, draw_masks
from graphopt.lowering.plan import Plan
from graphopt.lowering.replication import replica_function

STEP = np.array([5, 9], np.uint32)
ROWS = BLOCK // 3 + 5
PROBABILITIES = 0.25, 0.5, 0.1, 0.7


def network() -> ModuleOp:
    """Dropouts of x with an open size, one of them from a seed, and one whose mask is no draw."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = y = static.data("x", [None, 3], "float32")
        for p in PROBABILITIES:
            y = paddle.tanh(paddle.nn.functional.dropout(y, p))
        none = paddle.nn.functional.dropout(y, 1.0)
    dropouts = [op for op in main.global_block().ops if op.type == "dropout"]
    dropouts[1].attrs.update(seed=77 + (3 << 32), fix_seed=True)
    return parse_program(main, (x.name,), (y.name, none.name))


def test_numbers_are_those_of_jax() -> None:
    module = network()
    block = main_function(module).body.block
    env = {block.args[0]: (np.ones((ROWS, 3), np.float32),)}
    with jax.enable_x64(True):
        found = jax.jit(lambda step: [*draw_masks(block, env, step).values()])(STEP)
        *dropouts, _ = [op for op in block.ops if isinstance(op, Dropout)]
        assert len(found) == len(dropouts) == len(PROBABILITIES)
        for op, p, mask in zip(dropouts, PROBABILITIES, found, strict=True):
            ((seed, number),) = op.draws()
            key = jax.random.fold_in(jax.random.wrap_key_data(jax.numpy.asarray(STEP)), number)
            key = jax.random.key(seed) if seed else key
            expected = jax.random.bernoulli(key, np.float32(1 - p), (ROWS, 3))
            np.testing.assert_array_equal(mask, expected)


def test_a_step_has_one_generator() -> None:
    module = network()
    function = replica_function(module, Plan.of(module, 1, frozenset()), ALONE)
    with jax.enable_x64(True):
        lowered = jax.jit(function).lower((), (), (np.ones((ROWS, 3), np.float32),), STEP)
    assert lowered.as_text().count("stablehlo.while") == 1
