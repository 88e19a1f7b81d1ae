"""Filters stored as convolutions read them: properties, scopes, strategies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import static
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.text import text_of
from graphopt.ir.program import unique_name
from graphopt.passes.engine.fusion import Applied, Declined, Outcome
from graphopt.passes.storage.store_filters import StoreFilters
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.flags import set_flags
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.steps.run_hook import watching
from graphopt.testing import check_preserves_meaning, parse
from graphopt_tests.example_counts import examples

W, Y = "tensor<4x2x3x2xf32>", "tensor<2x3x4x4xf32>"
# how an update is written: what it takes besides, and its line, with and without state
UPDATES = {
    "sgd": ((), "%n = pd.sgd(%w, {g}, %lr) : ({W}, {W}, tensor<1xf32>) -> {W}"),
    "momentum": (
        ("m",),
        "%n, %nm = pd.momentum(%w, {g}, %m, %lr) {{mu = 0.9}} : "
        "({W}, {W}, {W}, tensor<1xf32>) -> ({W}, {W})",
    ),
    "adagrad": (
        ("m",),
        "%n, %nm = pd.adagrad(%w, {g}, %lr, %m) {{epsilon = 0.001}} : "
        "({W}, {W}, tensor<1xf32>, {W}) -> ({W}, {W})",
    ),
}
# what may happen to a gradient %g on its way to the update, which reads %e
BETWEEN = (
    f"%d = pd.scale(%w) {{scale = 0.1}} : {W}\n  %e = pd.add(%g, %d) : {W}",
    f"%d = pd.sum(%g) {{axis = [], keepdim = false}} : ({W}) -> tensor<f32>\n"
    f"  %e = pd.multiply(%g, %d) : ({W}, tensor<f32>) -> {W}",
    f"%d = pd.flip(%g) {{axis = [0]}} : {W}\n  %e = pd.add(%g, %d) : {W}",
    f"%d = pd.softmax(%g) {{axis = 1}} : {W}\n  %e = pd.add(%g, %d) : {W}",
    f"%d = pd.tanh(%g) : {W}\n  %e = pd.multiply(%d, %w) : {W}",
)


def model(update: str, between: str, twice: bool, fetched: bool) -> str:
    """Format a convolution that is read once or twice, and the update of its filter."""
    kept, line = UPDATES[update]
    state = ["w", *kept]
    takes = "".join(f', %{name}: {W} {{pd.state = "{name}"}}' for name in state)
    gives = "".join(f', {W} {{pd.state = "{name}"}}' for name in state)
    extra = f', {W} {{pd.fetch = "w"}}, {W} {{pd.fetch = "g"}}' if fetched else ""
    news = ["n" if name == "w" else f"n{name}" for name in state]
    results = ["y", *(("n", "g") if fetched else ()), *news]
    types = [Y, *[W] * (len(results) - 1)]
    second = (
        f'%z = pd.conv2d(%x, %w) {{data_format = "NHWC"}} : (tensor<2x5x5x2xf32>, {W}) -> {Y}\n'
        f"  %y = pd.multiply(%z, %c) : {Y}"
        if twice
        else f"%y = pd.sin(%c) : {Y}"
    )
    return f"""
func.func @main(
  %x: tensor<2x5x5x2xf32> {{pd.feed = "x"}}{takes}, %lr: tensor<1xf32> {{pd.state = "lr"}}
) -> ({Y} {{pd.fetch = "y"}}{extra}{gives}) {{
  %c = pd.conv2d(%x, %w) {{data_format = "NHWC"}} : (tensor<2x5x5x2xf32>, {W}) -> {Y}
  {second}
  %one = pd.full_like(%y) {{value = 1.0}} : {Y}
  %g = pd.grad(of = [%y], wrt = [%w], cotangents = [%one]) {{parameters = [0]}}
    : ({Y}, {W}, {Y}) -> {W}
  {between}
  {line.format(g="%e" if between else "%g", W=W)}
  func.return {", ".join("%" + name for name in results)} : {", ".join(types)}
}}
"""


@pytest.mark.exhaustive
@settings(
    max_examples=examples(30),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    st.sampled_from(sorted(UPDATES)),
    st.sampled_from(["", *BETWEEN]),
    st.booleans(),
    st.booleans(),
)
def test_generated_programs(update: str, between: str, twice: bool, fetched: bool) -> None:
    """Outputs, gradients and updated state are preserved, and the pass fires each time."""

    def transform(module: ModuleOp) -> list[Outcome]:
        outcomes = StoreFilters().rewrite(module)
        assert text_of(parse_text(text_of(module))) == text_of(module)
        assert "pd.order" in text_of(module)
        return outcomes

    outcomes = check_preserves_meaning(parse(model(update, between, twice, fetched)), transform)
    assert sum(isinstance(outcome, Applied) for outcome in outcomes) == 1


def test_an_order_must_name_each_axis() -> None:
    text = model("sgd", "", False, False).replace('"w"}', '"w", pd.order = array<i64: 0, 1, 1>}')
    with pytest.raises(ValueError, match="order must be an order of its axes"):
        StoreFilters().rewrite(parse(text))


def test_refused_where_state_lies_apart() -> None:
    """The pipeline declines with several trainers, or with sharded state."""
    outcomes = StoreFilters(apart="because").rewrite(parse(model("sgd", "", False, False)))
    (declined,) = [outcome for outcome in outcomes if isinstance(outcome, Declined)]
    assert (declined.reason.name, declined.reason.text) == ("state-apart", "because")


def trained(folder: Path, without: str, **parallel: Any) -> list[np.ndarray[Any, Any]]:
    """Train a network whose scope is read and written between steps; return losses and filters."""
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    main.random_seed = startup.random_seed = 3
    with unique_name.guard(), static.program_guard(main, startup), static.scope_guard(scope):
        set_flags({"FLAGS_graphopt_without": without})
        x = static.data("x", [None, 2, 6, 5], "float32")
        h = static.nn.conv2d(x, 4, 3, act="relu", bias_attr=False)
        out = static.nn.fc(static.nn.conv2d(h, 3, (2, 1), bias_attr=False), 1)
        test = main.clone(for_test=True)
        loss = paddle.mean(F.square_error_cost(out, paddle.ones_like(out)))
        paddle.optimizer.Momentum(0.05, 0.9, weight_decay=0.01).minimize(loss)
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        program: Any = main
        if parallel:
            strategy = BuildStrategy()
            strategy.reduce_strategy = parallel["reduce"]
            program = CompiledProgram(main).with_data_parallel(
                loss.name, strategy, places=static.cpu_places(parallel["devices"])
            )
        rows = parallel.get("rows", 4)
        feed = {"x": np.random.default_rng(0).normal(size=(rows, 2, 6, 5)).astype("float32")}
        found: list[Any] = []
        (name, *_) = [p.name for p in main.all_parameters()]
        for step in range(4):
            found += executor.run(program, feed=feed, fetch_list=[loss, name])
            found += executor.run(test, feed=feed, fetch_list=[out])
            tensor = scope.find_var(name).get_tensor()
            found.append(np.array(tensor))
            assert tensor.shape() == [4, 2, 3, 3]
            if step == 1:
                tensor.set(np.array(tensor) * 2)
            if step == 2:
                static.save(main, str(folder / "model"))
                static.load(main, str(folder / "model"), executor)
        set_flags({"FLAGS_graphopt_without": ""})
        return found


@pytest.mark.exhaustive
def test_who_watches_sees_variables_as_they_are(tmp_path: Path) -> None:
    """`graphopt bisect` gets variables in the program's own layout."""
    shapes: dict[str, tuple[int, ...]] = {}

    def watch(compiled: Any, inputs: dict[str, Any], key: Any) -> None:
        shapes.update({name: array.shape for name, array in inputs.items()})

    with watching(watch):
        trained(tmp_path, "")
    filters = [shape for shape in shapes.values() if len(shape) == 4]
    assert filters.count((4, 2, 3, 3)) == filters.count((3, 4, 2, 1)) == 2


REDUCE = BuildStrategy.ReduceStrategy


@pytest.mark.every(4)
@pytest.mark.parametrize(
    "parallel",
    [
        {},
        {"devices": 2, "reduce": REDUCE.AllReduce},
        {"devices": 2, "reduce": REDUCE.Reduce},
        {"devices": 2, "reduce": REDUCE.AllReduce, "rows": 5},
    ],
    ids=["one", "two", "parts", "uneven"],
)
def test_scopes_show_variables_as_they_are(parallel: dict[str, Any], tmp_path: Path) -> None:
    """Training, tests, writes and files see the same numbers, however the filters are stored."""
    found = trained(tmp_path, "", **parallel)
    wanted = trained(tmp_path, "store-filters", **parallel)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
