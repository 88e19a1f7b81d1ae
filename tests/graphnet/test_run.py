"""The runner of GraphNet's graphs: its choice of graphs, the comparison, and the page."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphopt
from graphopt_tests.graphnet.in_graphopt import compare
from graphopt_tests.graphnet.run import (
    PAGE,
    Worker,
    cells_of,
    describe,
    folders_of,
    found_of,
    read_page,
    summary,
)

EQUAL = {"read": True, "optimized": True, "ops": 9, "ops_after": 3, "plain": 1e-6, "flags": 2e-6}


def test_halves(tmp_path: Path) -> None:
    """Places count from 1, in the order of the bytes of the paths."""
    for name in ("b", "a/sub", "B", "a/sub-2"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "model.py").touch()
    assert folders_of(tmp_path, "odd") == ["B", "a/sub-2"]
    assert folders_of(tmp_path, "even") == ["a/sub", "b"]


@pytest.mark.parametrize(
    ("ours", "theirs", "share"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], 0.0),
        ([2.0, 4.0], [2.0, 5.0], 0.2),
        ([np.nan], [1.0], np.inf),
        ([1.0], [[1.0]], np.inf),
    ],
)
def test_differences(ours: list[float], theirs: list[float], share: float) -> None:
    """Differences are relative to the largest number; special values and shapes must agree."""
    assert compare([np.array(ours)], [np.array(theirs)]) == pytest.approx(share)


def test_share_of_whole_numbers() -> None:
    """The difference of integers is the share of unequal elements."""
    assert compare([np.array([1, 2, 3, 4])], [np.array([1, 2, 3, 5])]) == 0.25


def made_input(monkeypatch: pytest.MonkeyPatch, **described: Any) -> np.ndarray[Any, Any]:
    """Make the array of an input with this description."""
    monkeypatch.setitem(sys.modules, "paddle", graphopt)
    make = import_module("graphopt_tests.graphnet.in_paddle").make_input
    return make(SimpleNamespace(dtype="float32", **described), np.random.default_rng(0))


def test_boxes_have_their_corners_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    boxes = made_input(monkeypatch, shape=[64, 4], min_val=0, max_val=9, mean=4, std=3)
    assert (boxes[:, :2] <= boxes[:, 2:]).all()
    assert np.unique(boxes).size > 200


@pytest.mark.parametrize(("low", "high"), [(-4.0, np.inf), (-np.inf, 2.5), (-np.inf, np.inf)])
def test_numbers_of_an_infinite_range(
    low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some numbers are infinite; the others are within the finite bound."""
    made = made_input(monkeypatch, shape=[64, 3], min_val=low, max_val=high, std=np.nan)
    finite = made[np.isfinite(made)]
    assert made.dtype == np.float32
    assert made.size / 2 < finite.size < made.size
    assert {made.min(), made.max()} >= {end for end in (low, high) if np.isinf(end)}
    assert np.abs(finite).max() <= min(abs(low), abs(high), 4.0)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (EQUAL, ""),
        ({**EQUAL, "flags": 0.1}, "other numbers"),
        ({**EQUAL, "ms": (2.0, 3.0)}, "with flags 1.50 of the time without"),
        ({"paddle": "ended with -11"}, "Paddle: ended with -11"),
        ({"read": True, "error": "FeedError: no"}, "FeedError: no"),
    ],
)
def test_words_of_a_row(found: dict[str, object], words: str) -> None:
    """A row describes the outcome of its graph."""
    assert describe(found) == words


def test_page(tmp_path: Path) -> None:
    """The page has the counts, and a row for each graph that was taken."""
    file = tmp_path / "page.md"
    page = read_page(file)
    page.add("a", {**EQUAL, "fired": {"cse": 2}})
    page.add("b", {"paddle": "ended with -11"})
    page.write(file, 3)
    text = file.read_text("utf-8")
    assert "| graphs | 3 |" in text
    assert "| saved by Paddle | 1 |" in text
    assert "| cse | 2 | 1 |" in text
    assert "| b |  |  |  |  | Paddle: ended with -11 |" in text


def test_a_later_run_adds_to_the_page(tmp_path: Path) -> None:
    """Two runs write the same page as one run over all their graphs."""
    first = {"b": {**EQUAL, "ms": (2.0, 3.0), "fired": {"cse": 2}, "declined": {"cse: sizes": 1}}}
    second = {
        "a": {**EQUAL, "fired": {"cse": 1, "simplify": 4}},
        "c": {"read": True, "ops": 3, "plain": 0.5, "error": "FeedError: a|b"},
    }
    for name, parts in (("one", [{**first, **second}]), ("two", [first, second])):
        for part in parts:
            page = read_page(tmp_path / name)
            for graph, found in part.items():
                page.add(graph, found)
            page.write(tmp_path / name, 3)
    assert (tmp_path / "one").read_text("utf-8") == (tmp_path / "two").read_text("utf-8")


def test_the_page_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Reading the repository's page and writing it again loses nothing."""
    read_page(PAGE).write(tmp_path / "page.md", 491)
    assert (tmp_path / "page.md").read_text("utf-8") == PAGE.read_text("utf-8")


@pytest.mark.parametrize(
    "found",
    [
        EQUAL,
        {**EQUAL, "draws": True, "ms": (2.0, 3.0)},
        {**EQUAL, "flags": 0.5, "ms": (2.0, 1.0)},
        {**EQUAL, "error": "took longer than 600 s"},
        {"read": True, "ops": 9, "error": "FeedError: no"},
        {"paddle": "RuntimeError: a|b"},
        {"error": "ParseError: no"},
    ],
)
def test_a_row_says_what_was_found(found: dict[str, object]) -> None:
    """A row that is read gives the same row and counts again."""
    again = found_of(cells_of(found))
    assert cells_of(again) == cells_of(found)
    assert summary({"a": again}, 1) == summary({"a": found}, 1)


def test_a_worker_that_ends() -> None:
    """A worker that ended is started again for the next question."""
    code = "import sys\nfor line in sys.stdin:\n    if '1' in line: sys.exit(3)\n    print('true')"
    worker = Worker([sys.executable, "-u", "-c", code], 60, 4)
    assert worker.ask(0) is True
    with pytest.raises(RuntimeError, match="ended with 3"):
        worker.ask(1)
    assert worker.ask(0) is True
    worker.end()


def test_a_worker_that_hangs() -> None:
    """A worker that hangs is ended at its time limit."""
    worker = Worker([sys.executable, "-c", "import time; time.sleep(60)"], 0.2, 4)
    with pytest.raises(RuntimeError, match="longer than"):
        worker.ask(0)
