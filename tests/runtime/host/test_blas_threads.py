"""The threads of BLAS: one while other cores are busy, and the previous number outside of runs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.runtime.host import blas_threads as module
from graphopt.runtime.host import body, form
from graphopt.runtime.host.blas_threads import BlasThreads
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


def test_one_thread_while_cores_are_taken(library: Library) -> None:
    threads = BlasThreads()
    with threads.watch_run(has_all=False):
        assert library.threads == 1
    with threads.watch_run(has_all=True):
        assert library.threads == 2
        threads.judge(0.010, 0.009)
        assert library.threads == 2
        with threads.watch_run(has_all=False):
            assert library.threads == 1, "another run may have one only"
        assert library.threads == 2
        threads.judge(0.010, 0.004)
        assert (threads.is_crowded, library.threads) == (True, 1)
    assert library.threads == 2, "outside of runs nothing is changed"
    threads.judge(0.010, 0.004)  # an op of a startup program, which has no products
    assert library.threads == 2
    with threads.watch_run(has_all=True):
        assert (threads.is_crowded, library.threads) == (False, 2)


@pytest.mark.parametrize(("idle", "threads"), [(0.01, 1), (0.99, 2)])
def test_a_core_that_another_process_has_is_not_free(
    idle: float, threads: int, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The idle time of the cores since the last run decides the number of threads."""
    clock = [10.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(module.time, "process_time", lambda: clock[0])
    monkeypatch.setattr(module, "idle_seconds", lambda: idle * clock[0])
    watched = BlasThreads()
    for passed, wanted in ((0.0, 1), (module.WATCHED / 2, 1), (module.WATCHED, threads)):
        clock[0] += passed
        with watched.watch_run(has_all=True):
            assert library.threads == wanted


@pytest.mark.parametrize(
    ("seeded", "layer", "wanted"),
    [
        (False, "fc", [1, 2, 2]),
        (False, "softmax", [1, 1, 1]),
        (True, "fc", [1, 1, 1]),
    ],
)
def test_products_have_all_threads_from_the_second_run_on(
    seeded: bool,
    layer: str,
    wanted: list[int],
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Runs that must repeat bit by bit keep one thread, as more would add in another order."""
    monkeypatch.setattr(module, "idle_seconds", lambda: None)  # other processes may have all cores
    monkeypatch.setattr(body, "LONG", 0.0)
    monkeypatch.setattr(form, "blas_threads", BlasThreads())
    seen = list[int]()
    run = body.Body.run

    def noted(*given: Any) -> Any:
        seen.append(library.threads)
        return run(*given)

    monkeypatch.setattr(body.Body, "run", noted)
    paddle.set_flags({TIER: "host"})
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        x = static.data("x", [256, 512], "float32")
        if layer == "softmax":
            out = paddle.nn.functional.softmax(paddle.nn.functional.softmax(x))
        else:
            out = paddle.mean(static.nn.fc(x, 512))
            paddle.optimizer.SGD(0.1).minimize(out)
        main.random_seed = 3 if seeded else 0
        exe = static.Executor(paddle.CPUPlace())
        if layer == "fc":
            exe.run(startup)
        seen.clear()
        for _ in wanted:
            exe.run(main, {"x": np.ones((256, 512), "float32")}, [out])
    assert seen == wanted


def test_the_host_form_looks_at_ops_that_take_long(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long ops show that cores are taken: the clock of a thread without a core stands still."""
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
    assert seen[:2] == [1, 2]


def test_the_library_of_numpy_is_found() -> None:
    """NumPy's BLAS library is found, with its number of threads."""
    found = module._libraries()
    assert all(each.get_num_threads() >= 1 for each in found)
