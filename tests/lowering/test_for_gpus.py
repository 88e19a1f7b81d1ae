"""Programs lowered for CUDA on a CPU, compared with plain JAX; and their precision."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import graphopt as paddle
from graphopt import static
from graphopt.fluid import core
from graphopt.ir.dialect.signature import (
    FEED,
    compute_in_full,
    main_function,
    prepare_function,
)
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.evaluate import Context, evaluate
from graphopt.passes.table.context import FLOAT32, TF32, PassContext
from graphopt.passes.table.explain import as_text
from graphopt.passes.table.manager import optimize
from graphopt.runtime.compile import compilation
from graphopt.runtime.compile.compilation import pass_context_for
from graphopt.runtime.settings.flags import TF32 as FLAG
from graphopt.testing import parse

ROOT = Path(__file__).parents[2]
PRODUCTS = """
func.func @main(feed %x: tensor<2x3x8x8xf32>, feed %f: tensor<4x3x3x3xf32>,
    feed %w: tensor<6x5xf32>) -> (fetch "y": tensor<2x4x6x5xf32>) {
  %c = pd.conv2d(%x, %f)
  %y = pd.matmul(%c, %w)
  func.return %y : tensor<2x4x6x5xf32>
}
"""


@pytest.fixture
def switches() -> Iterator[None]:
    yield
    core.set_cublas_switch(True)
    core.set_cudnn_switch(True)


def lowered(module: Any) -> str:
    """Lower a module with three feeds to StableHLO for CUDA."""
    types = [(2, 3, 8, 8), (4, 3, 3, 3), (6, 5)]

    def computed(*arrays: Any) -> Any:
        names = ((FEED, "x"), (FEED, "f"), (FEED, "w"))
        inputs = {name: (array,) for name, array in zip(names, arrays, strict=True)}
        return evaluate(module, inputs, Context(ALONE, jnp.zeros(2, "uint32")))

    given = [jax.ShapeDtypeStruct(shape, np.float32) for shape in types]
    return jax.jit(computed).trace(*given).lower(lowering_platforms=("cuda",)).as_text()


def test_products_in_full_precision() -> None:
    """In full precision each product and convolution is marked; else GPUs may use TF32."""
    module = parse(PRODUCTS)
    assert "HIGHEST" not in lowered(module)
    compute_in_full(module)
    text = lowered(module)
    found = [line for line in text.splitlines() if re.search("dot_general|convolution", line)]
    assert len(found) == 2
    assert all("HIGHEST" in line for line in found)


@pytest.mark.usefixtures("switches")
def test_paddles_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """TF32 is on, as in Paddle, unless a switch, the flag or NVIDIA's variable is off."""
    monkeypatch.setattr(compilation, "devices_of", lambda platform: ())

    def precision() -> str:
        return pass_context_for(None, "gpu").precision

    assert precision() == TF32
    assert core.get_cublas_switch() and core.get_cudnn_switch()
    core.set_cublas_switch(False)
    assert precision() == FLOAT32
    core.set_cudnn_switch(False)
    core.set_cublas_switch(True)
    assert (core.get_cublas_switch(), core.get_cudnn_switch()) == (True, False)
    assert precision() == FLOAT32
    core.set_cudnn_switch(True)
    assert precision() == TF32
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert precision() == FLOAT32
    assert pass_context_for(None, "cpu").precision == ""
    assert paddle.get_flags([FLAG]) == {FLAG: True}


@pytest.mark.parametrize("precision", [TF32, FLOAT32])
def test_explain_says_which(precision: str) -> None:
    report = optimize(parse(PRODUCTS), PassContext({}, platform="gpu", precision=precision))
    assert f"float32 products are computed in {precision}" in as_text(report)


NORMED = """
func.func @main(feed %x: tensor<2x3x8x8xf32>, state "f" %f: tensor<4x3x3x3xf32>,
    state "m" %mean: tensor<4xf32>, state "v" %var: tensor<4xf32>,
    state "s" %s: tensor<4xf32>, state "b" %b: tensor<4xf32>)
    -> (fetch "y": tensor<2x4x6x6xf32>) {
  %c = pd.conv2d(%x, %f)
  %n, %m1, %v1, %m2, %v2 = pd.batch_norm(%c, %mean, %var, scale = %s, bias = %b) {is_test = true}
  %y = pd.relu(%n)
  func.return %y : tensor<2x4x6x6xf32>
}
"""


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_batch_norms_are_folded_for_devices(platform: str) -> None:
    """A step has the convolution, a sum and the relu; the rest is prepared once, from parameters.

    Only on one device: replicas keep their parameters.
    """
    module = parse(NORMED)
    optimize(module, PassContext({}, platform=platform))
    names = [op.name for op in main_function(module).body.block.ops]
    assert names == ["pd.conv2d", "pd.add", "pd.relu", "func.return"]
    assert prepare_function(module) is not None
    module = parse(NORMED)
    several = PassContext({"num_trainers": 1}, platform=platform, replicas=2, data_parallel=True)
    optimize(module, several)
    assert prepare_function(module) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "resnet50-bf16", "resnet50-training-bf16"])
def test_no_more_than_plain_jax(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For CUDA, ResNet-50 has no more products, transposes and converts than in plain JAX."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from suite import for_gpu  # pyright: ignore
    from suite.engines.job import Job  # pyright: ignore
    from suite.workloads import ON_GPU  # pyright: ignore

    job = Job(ON_GPU[f"gpu-{name}"], "toy", Path(), "", 1)
    ours, plain = (
        Counter(for_gpu.stablehlo_ops(traced(job)))
        for traced in (for_gpu.traced_program, for_gpu.traced_jax)
    )
    for op in ("convolution", "dot_general", "transpose", "convert"):
        assert ours[op] <= plain[op], f"{op}: {ours[op]}, plain JAX has {plain[op]}"


@pytest.mark.exhaustive
def test_counters_of_adam_are_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step for GPUs has one array for each beta; each power can still be read by its name."""

    def for_gpu(*given: Any, **more: Any) -> PassContext:
        return replace(pass_context_for(*given, **more), platform="gpu")

    plain = trained_powers()
    assert len(plain) == 8 and np.unique([power.item() for power in plain.values()]).size == 2
    monkeypatch.setattr(compilation, "pass_context_for", for_gpu)
    stacked = trained_powers()
    assert stacked == plain


def trained_powers() -> dict[str, Any]:
    """Train a small perceptron for two steps, and return the powers of the betas."""
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with static.program_guard(main, startup), static.scope_guard(scope):
        with paddle.utils.unique_name.guard():
            x = static.data("x", [4, 3])
            loss = paddle.mean(static.nn.fc(static.nn.fc(x, 5), 2))
            paddle.optimizer.Adam(0.1).minimize(loss)
        executor = static.Executor()
        executor.run(startup)
        for _ in range(2):
            executor.run(main, {"x": np.ones((4, 3), "float32")}, [loss])
        held = {v.name: scope.find_var(v.name) for v in main.list_vars() if "_pow" in v.name}
        return {name: np.array(slot.get_tensor()) for name, slot in held.items() if slot}
