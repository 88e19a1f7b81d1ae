"""Full forms compiled by a child process: its job, and its files on disk."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.runtime.devices.cache_place import machine_directory
from graphopt.runtime.disk import known
from graphopt.runtime.disk.summaries import key_on_disk
from graphopt.runtime.settings.flags import CACHE, TIER
from graphopt.runtime.state import generator
from graphopt.runtime.steps import facts, forms, in_child, policy, xla_forms
from graphopt.runtime.steps.in_child import Job, compile_in_child, has_children
from graphopt_tests.runtime.nets import Net, build

FEED = {"x": np.arange(12, dtype="float32").reshape(3, 4)}
FED = [("x", (3, 4), "float32")]


def training() -> Net:
    def make() -> tuple[Any, Any]:
        x = static.data("x", [None, 4], "float32")
        hidden = static.nn.fc(x, 8, activation="relu")
        loss = paddle.mean(paddle.square(static.nn.fc(hidden, 1)))
        paddle.optimizer.Adam(0.1).minimize(loss)
        return loss, hidden

    paddle.seed(1)
    generator.default_generator().seeded = False
    return build(make)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Treat programs as large, with their own cache, and run background work at once.

    A training runs in NumPy, and has its full form from the third run on.
    """
    monkeypatch.setattr(policy, "SMALL", 0)
    monkeypatch.setattr(policy, "PATIENCE", 0.0)
    monkeypatch.setattr(facts, "SHARE", 1e9)
    monkeypatch.setattr(forms, "submit", lambda work: work.work())
    monkeypatch.setattr(xla_forms, "least_seconds", lambda: 0.0)
    paddle.set_flags({TIER: "auto", CACHE: str(tmp_path / "kept")})
    folder = machine_directory()
    assert folder is not None
    of = known.KnownExecutables.of.__func__  # pyright: ignore[reportFunctionMemberAccess]
    monkeypatch.setitem(of.__globals__, "use_cache", lambda: folder)
    monkeypatch.setattr("graphopt.runtime.disk.summaries.our_directory", lambda: folder)
    yield folder
    paddle.set_flags({TIER: "full", CACHE: ""})


def run(net: Net, times: int) -> list[bytes]:
    return [net.run(FEED, net.loss)[0].tobytes() for _ in range(times)]


def form_of(net: Net) -> str:
    return list(net.executor.stats["tiers"])[-1]


@pytest.fixture
def jobs(large: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Record the jobs for children, and run none of them."""
    found = list[Job]()

    def leave(job: Job, _: int) -> list[Any]:
        found.append(job)
        return []

    monkeypatch.setattr(forms, "compile_in_child", leave)
    return found


@pytest.mark.parametrize("executable", ["", "/opt/application", "/usr/bin/python3.11"])
def test_a_program_with_python_in_it_starts_no_other(
    executable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_child.sys, "executable", executable)
    assert has_children() is (executable.endswith("python3.11") and os.name == "posix")


def test_the_thread_compiles_where_no_process_does(jobs: list[Job]) -> None:
    net = training()
    run(net, 4)
    (job,) = jobs
    assert form_of(net).startswith("full: from run 3 on")
    assert list(job.fed) == FED
    assert job.sizes == "x [3, 4]"


def test_a_job_is_the_program_that_another_process_finds(jobs: list[Job]) -> None:
    """A pickled copy has the same key, though a runner has a proxy of the program."""
    run(training(), 3)
    (job,) = jobs
    copy: Job = pickle.loads(pickle.dumps(job))
    program = copy.compilation.program
    assert program.global_block().program is program
    assert key_on_disk(copy.compilation) == job.key
    assert copy.flags[TIER] == "auto"


@pytest.mark.parametrize("start", ["raise SystemExit(1)", "print('no times')"])
def test_a_process_that_compiles_nothing_is_waited_for(
    start: str, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that compiles nothing is awaited, whatever its input and output."""
    run(training(), 3)
    monkeypatch.setattr(in_child, "_START", start)
    job = jobs[0]._replace(sizes="more than a pipe holds" * (1 << 16))
    assert compile_in_child(job, 0) == []
    assert has_children()


def test_a_process_that_a_signal_ends(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a signal ends the child, the step stays in its first form and reports the reason."""
    monkeypatch.setattr(in_child, "_START", "import os; os.abort()")
    net = training()
    run(net, 2)
    with pytest.warns(UserWarning, match="keeps its slower host form"):
        run(net, 1)
    why = "the compiling process was ended by signal SIGABRT"
    assert form_of(net) == f"host: the full form did not compile: {why}"


def test_a_process_that_cannot_begin(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError

    run(training(), 3)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert compile_in_child(jobs[0], 0) == []


def test_there_are_no_more_where_jax_has_settings_of_a_script(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a script's settings of JAX, keys differ, so no further child is started."""
    run(training(), 3)
    monkeypatch.setattr(in_child, "_is_other", [])
    assert compile_in_child(jobs[0]._replace(jax_settings=("others",)), 0) == []
    assert not has_children()


def test_the_bits_are_those_of_a_compilation_here(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[Any]()
    in_process: Callable[..., Any] = forms.compile_in_child

    def noted(*given: Any) -> Any:
        made.append(in_process(*given))
        return made[-1]

    with static.scope_guard(static.Scope()), monkeypatch.context() as context:
        context.setattr(forms, "has_children", lambda: False)
        wanted = run(training(), 6)
    for file in [each for folder in large.iterdir() for each in folder.iterdir()]:
        file.unlink()
    monkeypatch.setattr(forms, "compile_in_child", noted)
    monkeypatch.delenv("JAX_ENABLE_COMPILATION_CACHE")  # the child finds the folder by itself
    with static.scope_guard(static.Scope()):
        net = training()
        assert run(net, 6) == wanted
    assert [part.name for part in made[0]] == ["parse", "trace", "lower", "XLA"]
    assert form_of(net).startswith("full: from run 3 on")
