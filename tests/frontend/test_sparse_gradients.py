"""Embeddings with sparse gradients: Adam moves Paddle's rows, on one device and several.

`data/sparse_adam.json` has a table [6, 2] after each of four steps, as recorded from Paddle 2.6.2.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static, utils
from graphopt.ir.program import VarKind
from graphopt.nn.functional import embedding
from graphopt.runtime.settings.strategies import BuildStrategy

Array = np.ndarray[Any, Any]
RECORDED = json.loads((Path(__file__).parent.parent / "data" / "sparse_adam.json").read_text())
ROWS = [[0, 2, 2, 5], [1, 1, 2, 3], [0, 2, 5, 5], [4, 4, 4, 0]]
TABLE = np.arange(12, dtype="float32").reshape(6, 2) / 10 + 0.1
Optimizer = Callable[[], Any]
Built = tuple[Any, Any, Any]


def lazy(**options: Any) -> Optimizer:
    return lambda: paddle.optimizer.Adam(0.1, lazy_mode=True, **options)


def build(
    optimizer: Optimizer,
    reduce: Callable[[Any], Any] = paddle.sum,
    *,
    sparse: bool = True,
    padding: int | None = None,
    twice: bool = False,
    shared: bool = False,
    batch: int | None = 4,
) -> Built:
    """Minimize the sum of cubed rows of one lookup, or of the products of two lookups."""
    with static.program_guard(static.Program(), static.Program()), utils.unique_name.guard():
        initial = paddle.ParamAttr("table", paddle.nn.initializer.Assign(TABLE))
        table = paddle.nn.Embedding(6, 2, padding, sparse, initial)
        e = table(static.data("ids", [batch], "int64"))
        if twice:
            e = e * embedding(static.data("more", [batch], "int64"), table.weight, sparse=sparse)
        loss = reduce(e * e * e)
        if shared:
            loss = loss + reduce(table.weight)
        optimizer().minimize(loss)
        return static.default_main_program(), static.default_startup_program(), loss


def tables(built: Built, *, twice: bool = False, program: Any = None) -> list[Array]:
    """Return the table after each step."""
    (main, startup, loss), exe, scope = built, static.Executor(paddle.CPUPlace()), static.Scope()
    found: list[Array] = []
    with static.scope_guard(scope):
        exe.run(startup)
        for rows in ROWS:
            feed = {"ids": np.array(rows)} | ({"more": np.array(rows[::-1])} if twice else {})
            exe.run(program or main, feed=feed, fetch_list=[loss])
            found.append(scope.var("table").numpy())
    return found


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("case", "optimizer", "options"),
    [
        ("lazy", lazy(), {}),
        ("not lazy", lambda: paddle.optimizer.Adam(0.1), {}),
        ("padding", lazy(), {"padding": 2}),
        ("two lookups", lazy(), {"twice": True}),
        ("global norm", lazy(grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5)), {}),
        ("norm", lazy(grad_clip=paddle.nn.ClipGradByNorm(0.5)), {}),
        ("decay", lazy(weight_decay=0.1), {}),
        ("dense", lazy(), {"sparse": False}),
    ],
)
def test_as_paddle(case: str, optimizer: Optimizer, options: dict[str, Any]) -> None:
    """Rows are looked up, skipped, looked up again; decay makes a gradient dense, a clip not."""
    found = tables(build(optimizer, **options), twice=options.get("twice", False))
    for step, (table, wanted) in enumerate(zip(found, RECORDED[case], strict=True)):
        np.testing.assert_allclose(table.ravel(), wanted, atol=3e-6, err_msg=f"step {step}")


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_lazy_adamw(decay: float) -> None:
    """Only rows that are looked up move and decay, and they do as in AdamW."""
    rows, plain = (
        tables(
            build(
                lambda: paddle.optimizer.AdamW(0.1, weight_decay=decay, lazy_mode=True),
                sparse=sparse,
            )
        )
        for sparse in (True, False)
    )
    np.testing.assert_array_equal(rows[0][[1, 3, 4]], TABLE[[1, 3, 4]])
    np.testing.assert_allclose(rows[0][[0, 2, 5]], plain[0][[0, 2, 5]], atol=1e-6)
    np.testing.assert_array_equal(rows[1][[0, 4, 5]], rows[0][[0, 4, 5]])


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, VarKind.SELECTED_ROWS),
        ({"twice": True}, VarKind.SELECTED_ROWS),
        ({"sparse": False}, VarKind.DENSE_TENSOR),
        ({"shared": True}, VarKind.DENSE_TENSOR),
    ],
)
def test_declared(options: dict[str, Any], kind: int) -> None:
    """A gradient is sparse if only sparse lookups read the table."""
    main, *_ = build(lazy(), **options)
    assert main.global_block().var("table@GRAD").kind == kind


@pytest.mark.every(5)
@pytest.mark.parametrize(
    "optimizer",
    [
        lazy(),
        lambda: paddle.optimizer.Adam(0.1),
        lambda: paddle.optimizer.AdamW(0.1, lazy_mode=True),
    ],
)
@pytest.mark.parametrize("reduce", ["AllReduce", "Reduce"])
def test_devices(optimizer: Optimizer, reduce: str) -> None:
    """A row that one of two devices looks up moves on both."""
    alone = tables(build(optimizer, paddle.mean, batch=None))
    built = build(optimizer, paddle.mean, batch=None)
    strategy = BuildStrategy()
    strategy.reduce_strategy = getattr(BuildStrategy.ReduceStrategy, reduce)
    compiled = static.CompiledProgram(built[0], build_strategy=strategy)
    compiled.with_data_parallel(built[2].name, places=[paddle.CPUPlace()] * 2)
    for found, wanted in zip(tables(built, program=compiled), alone, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)
