"""The benchmark of first results: its tasks, and its report on recorded numbers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("first_result")


def numbers(first: float, result: Any) -> dict[str, Any]:
    times = [[0.2, 0.1], [0.4, 0.3], [0.3, 0.2]]
    return {"first": [2 * first, first], "new": times, "known": times[:1], "results": [result]}


def test_tasks_of_models(benchmark: Any) -> None:
    """Each inference model has a task with the sizes of its bundle; open sizes are drawn."""
    tasks = {task.name: task for task in benchmark.model_tasks([benchmark.MODELS], 2, 0)}
    lenet = tasks["infer_lenet"]
    shapes = [shape["x"][1] for shape in lenet.given["shapes"]]
    assert len(shapes) == 3 and shapes[0][0] == 1
    assert all(1 <= rows <= 8 and picture == [1, 28, 28] for rows, *picture in shapes)
    assert lenet.sizes == "x=" + "x".join(map(str, shapes[0]))
    assert all(Path(file).exists() for task in tasks.values() for file in task.given["files"])


def test_the_report_has_what_misses_and_what_failed(benchmark: Any) -> None:
    task = benchmark.Task("words", "sentences", 2)
    found = {
        "words": {
            benchmark.EMPTY: [numbers(3.0, "a")],
            benchmark.PADDLE: [numbers(1.0, "b")],
            benchmark.FULL: [numbers(0.5, "b"), "it ended without a result"],
        }
    }
    lines = benchmark.report([task], found)
    empty, theirs, full = lines[2:5]
    assert "| 6.00 (3.00), 3.0 x | 6.90 (3.60) | 0.30 (0.20) | 0.40 (0.30) | 0.20 (0.10) |" in empty
    assert " x |" not in theirs + full
    assert "- words, full cache: it ended without a result" in lines
    assert "- words, empty cache: 1 of 1 results are not Paddle's" in lines


def test_results_that_are_alike(benchmark: Any) -> None:
    assert benchmark.alike([["a", 0.5]], [["a", 0.5002]])
    assert not benchmark.alike([["a", 0.5]], [["b", 0.5]])
    assert not benchmark.alike([0.5, 0.5], [0.5])


def test_tasks_of_trainings(benchmark: Any) -> None:
    """Each network and script has a task with a seed and one without; their goals differ."""
    tasks = {task.name: task for task in benchmark.training_tasks(5)}
    assert len(tasks) == 2 * (len(benchmark.NETWORKS) + len(benchmark.SCRIPTS))
    assert tasks["deepfm"].given["seed"] is None and tasks["deepfm, seed"].given["seed"] == 3
    scripts = [task.given["path"] for task in tasks.values() if task.kind == "script"]
    assert all(Path(path).exists() for path in scripts)
    assert {task.goals[benchmark.EMPTY] for task in tasks.values()} == {2.5}
