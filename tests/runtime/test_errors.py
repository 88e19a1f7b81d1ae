"""The error catalogue: class and key text of each error, and the name of the culprit.

Other files test some rows with their subject: 1-3, 5-8, 11 (test_executor, test_fetch),
14-17 (test_feed_splitting), 18 (test_fetch), 24-28, 31 (test_sharing), 29, 30 (test_places),
32-35 (test_strategies), 37, 38 (test_loss_scale). Rows 19 (LoD), 39 (control flow) and 40 (3.x)
are about features that do not exist here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphopt import static
from graphopt.errors import FeedError, FeedSizeError, ScopeError
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt_tests.runtime.nets import (
    Net,
    close,
    fc_mean,
    regression,
    regression_feed,
    rows,
    value,
)

FEED = rows(0, 1, 2, 3)
MODES = ["plain", "compiled", "parallel"]


def program_of(net: Net, mode: str) -> Any:
    """Return the program in one of the three ways of running it."""
    if mode == "plain":
        return net.main
    return CompiledProgram(net.main) if mode == "compiled" else net.parallel(2)


def test_not_a_program() -> None:
    """Row 2: an object that is no Program is refused."""
    net = fc_mean()
    with pytest.raises(TypeError, match=r"Executor requires Program as its Parameter.*str"):
        net.run(FEED, net.loss, "program")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("feed", ["text", np.zeros((4, 1), "float32"), 3])
def test_feed_is_no_dict(mode: str, feed: Any) -> None:
    """Row 3: other feeds are refused; data-parallel runs reuse no older data, as Paddle's do."""
    net = fc_mean()
    with pytest.raises(TypeError, match="feed requires dict"):
        net.run(feed, net.loss, program_of(net, mode))


@pytest.mark.parametrize("mode", ["plain", "compiled"])
@pytest.mark.parametrize("count", [0, 2])
def test_list_feeds_need_data_parallelism(mode: str, count: int) -> None:
    """Row 4: list feeds need a data-parallel program."""
    net = fc_mean()
    with pytest.raises(FeedError, match="Not compiled with data parallel"):
        net.run([FEED] * count, net.loss, program_of(net, mode))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("feed", "text"),
    [
        (np.zeros((4, 1)), r"The data type of fed Variable 'X' must be 'float32'.*'float64'"),
        (np.zeros((4, 2), "float32"), r"fed Variable 'X' should have dimensions = 2"),
        (np.zeros((4, 1, 1), "float32"), r"'X' should have dimensions = 2"),
        (np.zeros((), "float32"), r"'X' should have dimensions = 2"),
    ],
    ids=["dtype", "shape", "rank", "lower-rank"],
)
def test_feeds_that_do_not_fit(mode: str, feed: Any, text: str) -> None:
    """Rows 9 to 11: wrong shapes and dtypes are refused before the step runs."""
    net = fc_mean()
    with pytest.raises(ValueError, match=text):
        net.run({"X": feed}, net.loss, program_of(net, mode))
    close(value("w"), [[2.0]])


@pytest.mark.parametrize("mode", MODES)
def test_last_axes_of_size_1_may_be_missing(mode: str) -> None:
    """Numbers [n] are rows [n, 1] of the variable, like the labels of many scripts."""
    numbers = np.arange(4, dtype="float32")
    found = []
    for rows_ in (numbers, numbers[:, None]):
        net = fc_mean()
        found.append(np.mean(net.run({"X": rows_}, net.loss, program_of(net, mode))))
    assert found == [3.0, 3.0]


@pytest.mark.every(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("feed", [None, {}, {"y": np.zeros((4, 2), "float32")}])
def test_missing_feeds(mode: str, feed: Any) -> None:
    """Row 12: the message names operator and line, also after a run that had the data."""
    net = regression()
    program = program_of(net, mode)
    net.run(regression_feed(4), net.loss, program)
    before = value("w")
    with pytest.raises(ValueError, match=r"Need feed data for variable x: operator .*nets\.py"):
        net.run(feed, net.loss, program)
    close(value("w"), before)


def test_too_few_rows() -> None:
    """Row 14: the error is an instance of both classes that versions of Paddle raise."""
    net = fc_mean()
    for kind in (ValueError, RuntimeError, FeedSizeError):
        with pytest.raises(
            kind, match=r"The number\(1\) of samples\[X\] of current batch is less than the count"
        ):
            net.run(rows(1), net.loss, net.parallel(2))


def test_not_a_program_to_compile() -> None:
    """Row 20: an object that is no Program is not compiled."""
    with pytest.raises(TypeError, match="expected Graph or Program, but received <class 'str'>"):
        CompiledProgram("program")


@pytest.mark.parametrize(
    ("loss_name", "kind", "text"),
    [
        (None, AssertionError, "loss name should be set"),
        ("", ValueError, "loss_name ''"),
        (
            "nonsense",
            ValueError,
            "loss_name 'nonsense' is not .*set loss_name to mean_0",
        ),
        ("X", ValueError, "loss_name 'X'"),
        (3, TypeError, "loss_name must be the name of the loss"),
    ],
)
def test_loss_names(loss_name: Any, kind: type[Exception], text: str) -> None:
    """Rows 22 and 23: a wrong loss name is refused."""
    net = fc_mean()
    with pytest.raises(kind, match=text):
        CompiledProgram(net.main).with_data_parallel(loss_name)
    variable: Any = net.loss
    with pytest.raises(TypeError, match=r"loss_name.*\(loss\.name\)"):
        CompiledProgram(net.main).with_data_parallel(variable)


def test_inference_needs_no_loss_name() -> None:
    """An inference program accepts any loss name, and ignores it."""
    net = fc_mean(train=False)
    for name in (None, "", "nonsense", net.loss.name):
        program = CompiledProgram(net.main).with_data_parallel(name)
        close(net.run(FEED, net.loss, program)[0], [3.0])


@pytest.mark.parametrize("mode", MODES)
def test_parameters_without_a_value(mode: str) -> None:
    """Row 36: the message says that the startup program was not run."""
    net = fc_mean()
    with pytest.raises(ScopeError, match=r"'w' has not been initialized.*startup_program"):
        net.run(FEED, net.loss, program_of(net, mode), scope=static.Scope())


def test_graphviz_folder_is_missing(tmp_path: Path) -> None:
    """Row 41: with the folder, three graphs, three drawings and three texts are written."""
    net = fc_mean()
    path = tmp_path / "missing" / "graph"
    program = net.parallel(2, debug_graphviz_path=str(path))
    with pytest.raises(OSError, match="missing"):
        net.run(FEED, net.loss, program)
    path.parent.mkdir()
    net.run(FEED, net.loss, program)
    stages = ("_original_graph", "_fused_graph", "_multi_devices_graph")
    wanted = {f"graph{stage}{end}" for stage in stages for end in (".dot", ".svg", ".mlir")}
    assert {file.name for file in path.parent.iterdir()} == wanted
    assert (path.parent / "graph_multi_devices_graph.dot").read_text().startswith("digraph G {")
    assert "pd.all_reduce" in (path.parent / "graph_multi_devices_graph.mlir").read_text()


def test_a_failed_run_leaves_the_state() -> None:
    """Errors come before donation, so the next run works."""
    net = fc_mean()
    program = net.parallel(2)
    for target in (None, program):
        net.run(FEED, net.loss, target)
        before = value("w")
        for feed, fetch in (({"X": np.zeros(3)}, net.loss), (FEED, "nope"), (None, net.loss)):
            with pytest.raises((ValueError, KeyError)):
                net.run(feed, fetch, target)
        close(value("w"), before)
        net.run(FEED, net.loss, target)
        close(value("w"), before - 0.15)
