"""What GPUs get: programs lowered for CUDA on a CPU, beside plain JAX; and the precision."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import graphopt as paddle
from graphopt.fluid import core
from graphopt.ir.dialect.signature import FEED, compute_in_full
from graphopt.passes.table.context import FLOAT32, TF32, PassContext
from graphopt.passes.table.explain import as_text
from graphopt.passes.table.manager import optimize
from graphopt.runtime.compile import compilation
from graphopt.runtime.compile.compilation import pass_context_for
from graphopt.runtime.settings.flags import TF32 as FLAG
from graphopt.testing import parse

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
    from graphopt.lowering.collectives import ALONE
    from graphopt.lowering.evaluate import Context, evaluate

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
