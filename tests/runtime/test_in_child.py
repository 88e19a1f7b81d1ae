"""Compilations in a process of their own: what it is given, and what it writes."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.runtime.disk import in_child
from graphopt.runtime.disk.in_child import CODE, Job
from graphopt.runtime.disk.known import KnownExecutables, _compilation_of  # pyright: ignore
from graphopt.runtime.settings.flags import TIER
from graphopt.runtime.state import generator
from graphopt.runtime.steps import forms, policy, xla_forms
from graphopt_tests.runtime.nets import Net, build


@pytest.mark.parametrize("size", [0, 10, 1 << 17])
def test_code_takes_its_place_in_a_record(size: int) -> None:
    """However long it is, and what is around it."""
    code, around = bytes(range(256)) * (size // 256 + 1), ["x" * 70_000, {"a": (1, 2)}, b"y" * 99]
    record = pickle.dumps([*around, CODE, *around])
    assert pickle.loads(in_child._with_code(record, code[:size])) == [*around, code[:size], *around]


@pytest.mark.parametrize("executable", ["", "/opt/application", "/usr/bin/python3.11"])
def test_a_program_with_python_in_it_starts_no_other(
    executable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_child.sys, "executable", executable)
    assert in_child.has_children() is (executable.endswith("python3.11") and os.name == "posix")


def test_a_process_that_ends_at_once_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves no zombie, and its exit code says that there is no entry."""
    monkeypatch.setattr(in_child, "_START", "raise SystemExit(3)")
    job = Job(b"more than a pipe holds" * (1 << 16), b"", 0, 1, b"", "", 0)
    assert in_child.start(job, 0).wait() == 3


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
    """Programs count as large, have a cache of their own, and work is done at once.

    None runs in NumPy.
    """
    monkeypatch.setattr(policy, "SMALL", 0)
    monkeypatch.setattr(policy, "TINY", 1 << 30)
    monkeypatch.setattr(forms, "submit", lambda work: work.work())
    monkeypatch.setattr(xla_forms, "least_seconds", lambda: 0.0)
    of = KnownExecutables.of.__func__  # pyright: ignore[reportFunctionMemberAccess]
    folder = tmp_path / "kept"
    folder.mkdir(0o700)
    monkeypatch.setitem(of.__globals__, "use_cache", lambda: folder)
    paddle.set_flags({TIER: "auto"})
    yield folder
    paddle.set_flags({TIER: "full"})


def run(net: Net, times: int) -> list[bytes]:
    feed = {"x": np.arange(12, dtype="float32").reshape(3, 4)}
    return [net.run(feed, net.loss)[0].tobytes() for _ in range(times)]


def form_of(net: Net) -> str:
    return list(net.executor.stats["tiers"])[-1]


@pytest.mark.parametrize("way", ["no process", pytest.param("it fails", marks=pytest.mark.slow)])
def test_the_thread_compiles_where_no_process_does(
    way: str, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended:
        def wait(self) -> int:
            return 1

    def start(job: Job, _: int) -> Ended:
        jobs.append(job)
        if way == "no process":
            raise OSError
        return Ended()

    jobs = list[Job]()
    monkeypatch.setattr(xla_forms, "start_child", start)
    net = training()
    run(net, 3)
    (job,) = jobs
    assert form_of(net).startswith("full: from run 3 on")
    assert job.module and job.options and CODE in job.record
    assert Path(job.file).parent.parent == large


def test_a_module_without_work_has_the_results_of_the_other() -> None:
    """Zeros of every kind of number; it is compiled to know how an executable is called."""

    def compute(x: Any) -> Any:
        return [x.astype(name) for name in ("complex64", "bool", "uint8", "bfloat16", "int64")]

    with jax.enable_x64(True):
        lowered = jax.jit(compute).lower(jax.ShapeDtypeStruct((2, 3), "float64"))
        found = _compilation_of(lowered, None)
        assert found is not None
        results = found[2](np.ones((2, 3)))
        wanted = lowered.compile()(np.ones((2, 3)))
    assert [(each.shape, each.dtype) for each in results] == [
        (each.shape, each.dtype) for each in wanted
    ]
    assert not any(np.asarray(each).any() for each in results)


@pytest.mark.slow
def test_the_bits_are_those_of_a_compilation_here(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[Any]()
    in_process: Callable[..., Any] = xla_forms.XlaForms.make_in_child

    def noted(self: Any, *given: Any) -> Any:
        made.append(in_process(self, *given))
        return made[-1]

    with static.scope_guard(static.Scope()):
        monkeypatch.setattr(xla_forms, "has_children", lambda: False)
        wanted = run(training(), 6)
    for file in (large / "steps").iterdir():
        file.unlink()
    monkeypatch.setattr(xla_forms, "has_children", in_child.has_children)
    monkeypatch.setattr(xla_forms.XlaForms, "make_in_child", noted)
    with static.scope_guard(static.Scope()):
        net = training()
        assert run(net, 6) == wanted
    assert isinstance(made[0], jax.stages.Compiled)
    assert form_of(net).startswith("full:")
