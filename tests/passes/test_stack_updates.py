"""Half precision, merged gradients and a clipped norm: few ops for many parameters, equal bits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import nn, static
from graphopt.debug.compare import interpret_module
from graphopt.ir.dialect.signature import main_function, signature_of
from graphopt.ir.dialect.types import dtype_of, shape_of
from graphopt.runtime.compile.compilation import Compilation, Optimized
from graphopt_tests.frontend.programs import fresh

LAYERS = 4
FLAG = "FLAGS_graphopt_without"


def minimized() -> Any:
    """The loss of linear layers of one shape, whose optimizer is in the default program, too."""
    x = static.data("x", [2, 3], "float32")
    for _ in range(LAYERS):
        x = nn.Linear(3, 3)(x)
    loss = paddle.mean(x)
    adam = paddle.optimizer.AdamW(0.1, grad_clip=nn.ClipGradByGlobalNorm(1.0))
    scaled = static.amp.decorate(adam, init_loss_scaling=8.0, use_dynamic_loss_scaling=True)
    paddle.incubate.optimizer.GradientMergeOptimizer(scaled, k_steps=2).minimize(loss)
    return loss


def optimized(loss: Any) -> Optimized:
    """The program as it is compiled for a CPU."""
    program = static.default_main_program()
    places = (paddle.CPUPlace(),)
    return Compilation(program, ("x",), (loss.name,), places=places).optimize()


def counted(each: Optimized) -> Counter[str]:
    return Counter(op.name for op in each.module.walk())


def inputs_of(module: Any, extreme: float) -> dict[str, Any]:
    """State before the second of two steps; one sum of gradients has this number in it."""
    draw = np.random.default_rng(0)
    arguments = zip(
        signature_of(module).arguments, main_function(module).body.block.args, strict=True
    )
    found = {
        port.name: np.abs(draw.standard_normal(shape_of(a.type))).astype(dtype_of(a.type).numpy)
        for port, a in arguments
    }
    found["gradient_merge_k"][:], found["gradient_merge_step"][:] = 2, 1
    next(v for name, v in found.items() if name.endswith("@GradientMerge")).flat[0] = extreme
    return found


def test_few_ops_and_the_same_bits() -> None:
    """Weights become one update, and biases, with norms and choices; also if it is not finite."""
    with fresh():
        loss = minimized()
        stacked = optimized(loss)
        paddle.set_flags({FLAG: "stack-updates"})
        try:
            alone = optimized(loss)
        finally:
            paddle.set_flags({FLAG: ""})
    new, old = counted(stacked), counted(alone)
    assert (old["pd.adamw"], new["pd.adamw"], new["pd.fused_adam_"]) == (2 * LAYERS, 0, 2)
    assert (old["pd.squared_l2_norm"], new["pd.squared_l2_norm"]) == (2 * LAYERS, 0)
    assert old["pd.where"] - new["pd.where"] == (2 * LAYERS - 2) * 6
    for extreme in (1.0, np.inf):
        inputs = inputs_of(stacked.module, extreme)
        found = interpret_module(stacked.module, inputs)
        for name, value in interpret_module(alone.module, inputs).items():
            np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value), name)
        kept = [name for name, value in inputs.items() if name.endswith(".w_0")]
        assert kept
        for name in kept:
            same = np.array_equal(np.asarray(found[f"pd.state {name}"]), inputs[name])
            assert same == (extreme != 1.0), name


def test_ops_that_share_all_operands_are_no_stack() -> None:
    """A moving average casts its decay anew for each parameter: no item of a stack."""
    with fresh():
        x = static.data("x", [2, 3], "float32")
        for _ in range(LAYERS):
            x = nn.Linear(3, 3)(x)
        loss = paddle.mean(x)
        paddle.optimizer.Adam(0.1, grad_clip=nn.ClipGradByValue(0.1)).minimize(loss)
        static.ExponentialMovingAverage(0.8).update()
        stacked = optimized(loss)
        paddle.set_flags({FLAG: "stack-updates"})
        try:
            alone = optimized(loss)
        finally:
            paddle.set_flags({FLAG: ""})
    inputs = {
        port.name: np.full(shape_of(argument.type), 0.5, dtype_of(argument.type).numpy)
        for port, argument in zip(
            signature_of(alone.module).arguments,
            main_function(alone.module).body.block.args,
            strict=True,
        )
    }
    found = interpret_module(stacked.module, inputs)
    for name, value in interpret_module(alone.module, inputs).items():
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value), name)
