"""The representations of objects at a prompt, and as tables in a notebook."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static

pytestmark = pytest.mark.usefixtures("fresh_state")


def trained() -> static.Variable:
    x = static.data("x", [None, 4], "float32")
    loss = paddle.mean(static.nn.fc(x, 3))
    paddle.optimizer.Adam(0.1).minimize(loss)
    return loss


def test_a_program_and_its_runs() -> None:
    """The representation counts a program's contents and runs; `str` is Paddle's text."""
    loss = trained()
    main = static.default_main_program()
    facts = "operators=7, parameters=2 of 15 elements, data=[x [-1, 4] float32]"
    assert repr(main) == f"Program({facts})"
    assert str(main).startswith("{ // block 0\n") and main.to_string() == str(main)
    assert "<td" in main._repr_html_() and "adam" in main._repr_html_()
    exe = static.Executor(paddle.CPUPlace())
    nothing = "compiled=0 programs for 0 feed shapes, runs=0"
    assert repr(exe) == f"Executor(place=Place(cpu:0), {nothing})"
    exe.run(static.default_startup_program())
    strategy = static.BuildStrategy()
    strategy.fuse_gemm_epilogue = True
    compiled = static.CompiledProgram(main, strategy)
    chosen = "build_strategy=BuildStrategy(fuse_gemm_epilogue=True)"
    assert repr(compiled) == f"CompiledProgram({facts}, {chosen}, {nothing})"
    exe.run(compiled, feed={"x": np.ones((2, 4), "float32")}, fetch_list=[loss])
    assert repr(compiled).endswith("compiled=1 program for 1 feed shape, runs=1)")
    assert "fuse_gemm_epilogue" in compiled._repr_html_()
    exe.close()
    assert repr(exe).endswith("closed=True)")


def test_a_scope() -> None:
    """Shapes need no copies, even of stacked and transposed values."""
    scope = static.global_scope()
    assert repr(scope) == "Scope(variables=0, bytes=0 bytes)"
    trained()
    static.Executor(paddle.CPUPlace()).run(static.default_startup_program())
    scope.var("empty")
    scope.new_scope()
    assert repr(scope) == "Scope(variables=11, bytes=200 bytes, without value=1, kids=1)"
    assert "fc_0.w_0" in scope._repr_html_() and "[4, 3]" in scope._repr_html_()


@pytest.mark.exhaustive
def test_types_of_stored_values() -> None:
    """Types are those of `numpy()`, whatever the layout that a step stores."""
    x = static.data("x", [None, 3, 8, 8], "float32")
    h = x
    for _ in range(9):
        h = nn.functional.relu(static.nn.batch_norm(static.nn.conv2d(h, 4, 3, padding=1)))
    loss = paddle.mean(h)
    paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    exe.run(feed={"x": np.ones((2, 3, 8, 8), "float32")}, fetch_list=[loss])
    scope = static.global_scope()
    for name, (shape, dtype) in scope._types().items():
        slot = scope.find_var(name)
        assert slot is not None
        value = slot.numpy()
        assert (value.shape, value.dtype) == (shape, dtype), name


def test_strategies_and_optimizers() -> None:
    """The representation shows the settings that differ from the defaults."""
    strategy = static.BuildStrategy()
    assert repr(strategy) == "BuildStrategy()"
    strategy.fuse_adamw = True
    assert repr(strategy) == "BuildStrategy(fuse_adamw=True)"
    assert strategy._repr_html_().count("<tr>") > 30
    clip = nn.ClipGradByGlobalNorm(1.0)
    made = paddle.optimizer.AdamW(1e-3, beta1=0.8, grad_clip=clip)
    assert repr(made) == "AdamW(learning_rate=0.001, grad_clip=ClipGradByGlobalNorm, beta1=0.8)"
    rate = paddle.optimizer.lr.ExponentialDecay(0.5, 0.9)
    momentum = paddle.optimizer.Momentum(rate, 0.8, weight_decay=1e-4)
    assert repr(momentum).startswith(
        "Momentum(learning_rate=ExponentialDecay(last_lr=0.5, last_epoch=0), weight_decay=L2Decay("
    )
    assert "momentum" in momentum._repr_html_()
