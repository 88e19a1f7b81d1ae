"""TracedLayer: a layer traced once, run and saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.jit import TracedLayer

X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.fixture(autouse=True)
def _own_scope() -> Iterator[None]:
    """Enter a scope of its own: layers of other tests have parameters of the same names."""
    with static.scope_guard(static.Scope()):
        yield


def test_a_layer_is_traced_run_and_saved(tmp_path: Path) -> None:
    layer = paddle.nn.Linear(3, 2)
    first, traced = TracedLayer.trace(layer, [X])
    strategy = static.BuildStrategy()
    strategy.fuse_gemm_epilogue = True
    traced.set_strategy(strategy)
    (again,) = traced([X])
    np.testing.assert_allclose(first, again, 1e-6)
    assert any(op.type.startswith("matmul") for op in traced.program.global_block().ops)
    traced.save_inference_model(str(tmp_path / "net"), feed=[0], fetch=[0])
    loaded = paddle.jit.load(str(tmp_path / "net"))(X)
    np.testing.assert_allclose(loaded, first, 1e-6)


def test_only_layers_are_traced() -> None:
    with pytest.raises(TypeError, match="should be a Layer"):
        TracedLayer.trace(lambda x: x, [X])  # pyright: ignore[reportArgumentType]
