"""The line about a long compilation: its text, its place, and its absence."""

from __future__ import annotations

import io
import os
import sys
import time
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.display import progress
from graphopt.runtime.settings.progress import announce
from graphopt.runtime.steps.xla_forms import XlaForms


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all work count as long."""
    monkeypatch.setattr(progress, "AFTER", 0.0)


def test_a_stream_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with announce(lambda: "compiling"):
        time.sleep(0.05)
    assert capsys.readouterr().err == "graphopt: compiling ...\n"


def test_a_terminal_counts_and_is_clean_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress.os, "get_terminal_size", lambda _: os.terminal_size((30, 24)))
    with announce(lambda: "compiling a program of many operators"):
        time.sleep(0.6)
    assert "graphopt: compiling a program" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")
    assert "\n" not in stream.getvalue()


def test_work_inside_shows_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Nested work shows only the line of the outer work."""
    with announce(lambda: "bisecting"), announce(lambda: "compiling"):
        time.sleep(0.05)
    assert capsys.readouterr().err == "graphopt: bisecting ...\n"


def test_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands report to terminals, or on request; the text is updated during the work."""
    with announce(lambda: "bisecting", files=False):
        time.sleep(0.05)
    assert not capsys.readouterr().err
    monkeypatch.setenv("FLAGS_graphopt_progress", "1")
    with announce(lambda: "bisecting", files=False):
        time.sleep(0.05)
    assert capsys.readouterr().err == "graphopt: bisecting ...\n"
    stream, counts = Terminal(), iter(range(9))
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress.os, "get_terminal_size", lambda _: os.terminal_size((60, 24)))
    with announce(lambda: f"bisecting: {next(counts)} runs", files=False):
        time.sleep(1.2)
    assert "bisecting: 1 runs" in stream.getvalue() and "bisecting: 2 runs" in stream.getvalue()


@pytest.mark.parametrize("how", ["flag", "glog", "no console"])
def test_it_can_be_quiet(
    how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if how == "flag":
        monkeypatch.setenv("FLAGS_graphopt_progress", "0")
    elif how == "glog":
        monkeypatch.setenv("GLOG_minloglevel", "1")
    else:
        monkeypatch.setattr(sys, "stderr", None)
    with announce(lambda: "compiling"):
        time.sleep(0.05)
    if how != "no console":
        assert not capsys.readouterr().err


def test_a_terminal_has_the_part_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line has the current part, and whether the next process has to wait, too."""
    stream, make = Terminal(), XlaForms.make

    def slow(self: XlaForms, name: str) -> Any:
        made = make(self, name)
        time.sleep(0.7)
        return made

    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress.os, "get_terminal_size", lambda _: os.terminal_size((80, 24)))
    monkeypatch.setattr(XlaForms, "make", slow)
    with static.program_guard(static.Program(), static.Program()):
        y = paddle.tanh(static.data("x", [2, 4], "float32"))
        static.Executor().run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[y])
    assert "graphopt: compiling the step: XLA, " in stream.getvalue()


def test_a_run_says_what_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [-1, 4], "float32")
        y = paddle.tanh(x)
    executor = static.Executor()
    for rows in (2, 3):
        executor.run(main, feed={"x": np.ones((rows, 4), "float32")}, fetch_list=[y])
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("operators with feeds x [2, 4] (new program) ...")
    assert second.endswith("operators with feeds x [3, 4] (other feed shape) ...")
