"""What GPUs get: programs lowered for CUDA on a CPU, beside plain JAX; and the precision."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import compress
from operator import not_
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
from graphopt.ir.dialect.types import dtype_of, shape_of
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.evaluate import Context, evaluate
from graphopt.lowering.plan import Plan
from graphopt.lowering.replication import replica_function
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
    """A module with two feeds as StableHLO for CUDA."""
    types = [(2, 3, 8, 8), (4, 3, 3, 3), (6, 5)]

    def computed(*arrays: Any) -> Any:
        names = ((FEED, "x"), (FEED, "f"), (FEED, "w"))
        inputs = {name: (array,) for name, array in zip(names, arrays, strict=True)}
        return evaluate(module, inputs, Context(ALONE, jnp.zeros(2, "uint32")))

    given = [jax.ShapeDtypeStruct(shape, np.float32) for shape in types]
    return jax.jit(computed).trace(*given).lower(lowering_platforms=("cuda",)).as_text()


def test_products_in_full_precision() -> None:
    """Every product and convolution says so; without it none does, which lets GPUs use TF32."""
    module = parse(PRODUCTS)
    assert "HIGHEST" not in lowered(module)
    compute_in_full(module)
    text = lowered(module)
    found = [line for line in text.splitlines() if re.search("dot_general|convolution", line)]
    assert len(found) == 2
    assert all("HIGHEST" in line for line in found)


@pytest.mark.usefixtures("switches")
def test_paddles_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """TF32 is on, as in Paddle, until a switch, the flag or NVIDIA's variable is off."""
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
    """A step has the convolution, a sum and the relu; the rest is prepared of parameters, once.

    It is that of one device: replicas keep their parameters.
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
@pytest.mark.parametrize("kind", ["", "-bf16", "-training-bf16"])
def test_no_more_than_plain_jax(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowered for CUDA, ResNet-50 has no more products, transposes and converts than there."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    name = f"gpu-resnet50{kind}"
    ours, plain = Counter(ops_of_program(name)), Counter(ops_of_jax(name))
    for op in ("convolution", "dot_general", "transpose", "convert"):
        assert ours[op] <= plain[op], f"{op}: {ours[op]}, plain JAX has {plain[op]}"


def job_of(name: str) -> Any:
    """A workload of the suite with toy sizes."""
    from suite.engines.job import Job  # pyright: ignore
    from suite.workloads import ON_GPU  # pyright: ignore

    return Job(ON_GPU[name], "toy", Path(), "", 1)


def ops_of_program(name: str) -> list[str]:
    """The ops of a workload's step, after the passes for a GPU."""
    from suite.engines.programs import append_model  # pyright: ignore

    job, strategy = job_of(name), static.BuildStrategy()
    for flag in job.workload.flags:
        setattr(strategy, flag, True)
    main = static.Program()
    with static.program_guard(main, static.Program()), paddle.utils.unique_name.guard():
        fetch = append_model(paddle, job).fetch
    main = main if job.workload.training else main.clone(for_test=True)
    made = compilation.Compilation(main, tuple(sorted(job.feed)), (fetch.name,), strategy)
    module = made.parsed()
    optimize(module, strategy.pass_context(platform="gpu"))
    plan = Plan.of(module, apart=True)

    def types(ports: Any) -> Any:
        return tuple(jax.ShapeDtypeStruct(shape_of(p.type), dtype_of(p.type).numpy) for p in ports)

    fed = tuple(job.feed[port.name] for port in plan.feeds)
    state = types(plan.updated), types((*plan.read_only, *plan.prepared))
    with jax.enable_x64(True):
        traced = jax.jit(replica_function(module, plan, ALONE)).trace(
            *state, fed, np.zeros(2, "u4")
        )
        return inlined(traced.lower(lowering_platforms=("cuda",)).as_text())


def ops_of_jax(name: str) -> list[str]:
    """The same of the suite's plain JAX."""
    from suite.engines import graphopt_engine, jax_engine  # pyright: ignore
    from suite.layers import plain_jax  # pyright: ignore

    with tempfile.TemporaryDirectory() as folder:
        job = replace(job_of(name), weights=Path(folder) / "weights.npz")
        graphopt_engine.start(job)
        arrays, trained = jax_engine.load_weights(job.weights)
    weights, state = list(compress(arrays, trained)), list(compress(arrays, map(not_, trained)))
    feed = {n: a.astype("int32") if a.dtype == "int64" else a for n, a in job.feed.items()}
    kind = job.workload.optimizer

    def step(weights: Any, moments: Any) -> Any:
        def loss(weights: Any) -> Any:
            return jax_engine.values(job, weights, state, feed)

        if kind is None:
            return loss(weights)
        found, grads = jax.value_and_grad(loss, has_aux=True)(weights)
        return found, plain_jax.update(kind.kind, kind.rate, weights, grads, moments)

    moments = plain_jax.start(kind.kind, weights) if kind is not None else ()
    traced = jax.jit(step).trace(weights, moments)
    return inlined(traced.lower(lowering_platforms=("cuda",)).as_text())


def inlined(text: str) -> list[str]:
    """The names of the ops of StableHLO, those of a function as often as it is called."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    name = ""
    for line in text.splitlines():
        if begun := re.search(r"func\.func (?:public |private )?@([\w.]+)", line):
            name = begun[1]
            found[name] = [], []
        elif name:
            found[name][0].extend(re.findall(r"= \"?stablehlo\.(\w+)", line))
            found[name][1].extend(re.findall(r" call @([\w.]+)", line))

    def all_of(name: str) -> list[str]:
        ops, called = found[name]
        return [*ops, *(op for inner in called for op in all_of(inner))]

    return all_of("main")
