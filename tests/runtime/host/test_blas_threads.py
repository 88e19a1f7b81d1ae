"""The threads of BLAS: one while cores are taken, and as many as before outside of runs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.runtime.host import blas_threads as module
from graphopt.runtime.host import body, form
from graphopt.runtime.host.blas_threads import ENOUGH, BlasThreads
from graphopt.runtime.settings.flags import TIER


class Library:
    """A library with BLAS, of two threads."""

    def __init__(self) -> None:
        self.threads = 2

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, threads: int) -> None:
        self.threads = threads


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    monkeypatch.setattr(module, "_libraries", lambda: (found,))
    monkeypatch.setattr(module, "idle_seconds", lambda: None)
    return found


def show_free_cores(threads: BlasThreads) -> None:
    for _ in range(ENOUGH):
        threads.judge(0.010, 0.0099)


def test_one_thread_while_cores_are_taken(library: Library) -> None:
    threads = BlasThreads()
    with threads.watch_run():
        assert library.threads == 1, "nothing has shown that cores are free"
        show_free_cores(threads)
        assert library.threads == 2
        threads.judge(0.010, 0.009)
        assert library.threads == 2
        threads.judge(0.010, 0.004)
        assert library.threads == 1
        with threads.watch_run():
            assert library.threads == 1
        assert library.threads == 1
    assert library.threads == 2, "outside of runs nothing is changed"
    with threads.watch_run():
        assert library.threads == 1
        threads.judge(0.010, 0.008)
        assert library.threads == 1
        for _ in range(ENOUGH - 1):
            threads.judge(0.010, 0.0099)
        threads.judge(0.010, 0.008)
        threads.judge(0.010, 0.0099)
        assert library.threads == 1, "not enough of them in a row"
        show_free_cores(threads)
        assert library.threads == 2
    assert library.threads == 2
    threads.judge(0.010, 0.004)  # an op of a startup program, which has no products
    assert (threads.is_crowded, library.threads) == (True, 2)


@pytest.mark.parametrize(("idle", "threads"), [(0.01, 1), (0.99, 2)])
def test_a_core_that_another_process_has_is_not_free(
    idle: float, threads: int, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread with a core for all of its time says nothing of the other cores."""
    clock = [10.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(module, "idle_seconds", lambda: idle * clock[0])
    watched = BlasThreads()
    with watched.watch_run():
        show_free_cores(watched)
        assert library.threads == 1, "nothing is known yet"
        clock[0] += module.WATCHED / 2
        show_free_cores(watched)
        assert library.threads == 1, "too short a time"
        clock[0] += module.WATCHED
        show_free_cores(watched)
        assert library.threads == threads


def test_the_host_form_looks_at_ops_that_take_long(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of a thread that has no core stands still."""
    threads = BlasThreads()
    monkeypatch.setattr(body, "blas_threads", threads)
    monkeypatch.setattr(form, "blas_threads", threads)
    monkeypatch.setattr(body, "LONG", 0.0)
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    paddle.set_flags({TIER: "host"})
    main = static.Program()
    with static.program_guard(main), static.scope_guard(static.Scope()):
        x = static.data("x", [None, 8], "float32")
        out = x
        for _ in range(12):
            out = paddle.nn.functional.relu(paddle.matmul(out, paddle.ones([8, 8])))
        exe = static.Executor(paddle.CPUPlace())
        seen: list[Any] = []
        monkeypatch.setattr(library, "set_num_threads", seen.append)
        exe.run(main, {"x": np.ones((2, 8), "float32")}, [out])
    assert threads.is_crowded
    assert seen == [1, 2]


def test_the_library_of_numpy_is_found() -> None:
    """What NumPy computes products with has a number of threads."""
    found = module._libraries()
    assert all(each.get_num_threads() >= 1 for each in found)
