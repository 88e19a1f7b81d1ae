"""Whole data-parallel runs against the numbers of Paddle 1.8.5 (tests/data/goldens)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Program, Variable
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import ExecutionStrategy
from graphopt_tests.runtime.nets import Net, build, parameter, strategy, value

FOLDER = Path(__file__).parents[1] / "data" / "goldens" / "data-parallel"
CASES = [json.loads(line) for line in (FOLDER / "cases.jsonl").read_text().splitlines()]
Array = np.ndarray[Any, Any]


def arrays(references: dict[str, Any]) -> dict[str, Array]:
    """Resolve references `name: [dtype, start, shape]` to arrays."""
    with np.load(FOLDER / "arrays.npz") as stored:
        vectors = {name: stored[name] for name in stored.files}
    found: dict[str, Array] = {}
    for name, (dtype, start, shape) in references.items():
        found[name] = vectors[dtype][start : start + int(np.prod(shape))].reshape(shape)
    return found


def network(feeds: dict[str, Array], params: dict[str, Any]) -> tuple[Net, Program]:
    """Build a linear layer, a loss and an optimizer; return it with its test program."""
    tests: list[Program] = []

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, feeds["w"].shape[0]], "float32")
        y = static.data("y", [None, feeds["w"].shape[1]], "float32")
        out = paddle.matmul(x, parameter("w", feeds["w"])) + parameter("b", feeds["b"])
        error = out - y
        if params.get("batch_norm"):
            out = static.nn.batch_norm(out, moving_mean_name="mm", moving_variance_name="mv")
            error = out
        loss = paddle.mean(paddle.square(error))
        if params.get("loss_kind") == "sum":
            loss = paddle.sum(paddle.square(out))
        tests.append(static.default_main_program().clone(for_test=True))
        momentum = params.get("opt") == "momentum"
        chosen = paddle.optimizer.Momentum(0.1, 0.9) if momentum else paddle.optimizer.SGD(0.1)
        chosen.minimize(loss)
        return loss, out

    return build(make), tests[0]


def run_case(case: dict[str, Any], mapper: str) -> dict[str, Array]:
    """Run a case, and return its results under their recorded names."""
    params, feeds = case.get("params", {}), arrays(case["feeds"])
    devices, steps = params.get("devices", 2), params.get("steps", 2)
    net, test = network(feeds, params)
    places = static.cpu_places(devices)
    scale = strategy(gradient_scale_strategy=params.get("scale", "CoeffNumDevice"))
    execution = ExecutionStrategy()
    execution.mapper = mapper
    train = CompiledProgram(net.main).with_data_parallel(
        net.loss.name, scale, execution, places=places
    )
    batch = {"x": feeds["x"], "y": feeds["y"]}
    feed: Any = batch
    if params.get("feed_list"):
        rows = len(feeds["x"]) // devices
        feed = [{n: a[i * rows :][:rows] for n, a in batch.items()} for i in range(devices)]
    fetch = {"loss": net.loss.name}
    if params.get("fetch_grads", True):
        fetch["wgrad"] = "w@GRAD"
    if params.get("fetch_pred"):
        fetch["pred"] = net.out.name
    results: dict[str, Array] = {}
    for step in range(steps):
        found = net.run(feed, list(fetch.values()), train)
        results |= {f"{name}{step}": array for name, array in zip(fetch, found, strict=True)}
        results[f"w{step}"] = value("w")
    if params.get("batch_norm"):
        results |= {"mm": value("mm"), "mv": value("mv")}
    if params.get("with_test"):
        compiled = CompiledProgram(test).with_data_parallel(
            exec_strategy=execution, share_vars_from=train, places=places
        )
        results["test_pred"] = net.run(batch, net.out, compiled)[0]
    if len(feeds["x"]) % devices:
        mapper = "lockstep"
    assert train.stats["mapper"] == (mapper if devices > 1 else "alone")
    return results


@pytest.mark.every(4)
@pytest.mark.filterwarnings("ignore:mapper. lockstep, as the replicas have different numbers")
@pytest.mark.parametrize("mapper", ["pmap", "shard_map", "vmap"])
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_recorded_run(case: dict[str, Any], mapper: str) -> None:
    """Losses, gradients, parameters, moving statistics and predictions of every step agree."""
    found, wanted = run_case(case, mapper), arrays(case["results"])
    assert found.keys() == wanted.keys()
    relative, absolute = case["tol"]
    for name, array in wanted.items():
        assert found[name].shape == array.shape and found[name].dtype == array.dtype, name
        np.testing.assert_allclose(found[name], array, relative, absolute, err_msg=name)
