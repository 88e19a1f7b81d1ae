"""Rival forms of steps: their start, their numbers, the choice of the winner, and its record."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.lowering.kernels.onednn_here import why_not_here
from graphopt.passes.target.choose_kernel import FORMS
from graphopt.runtime.compile import kernel_forms
from graphopt.runtime.compile.kernel_forms import write_verdicts
from graphopt.runtime.disk import known
from graphopt.runtime.settings.flags import CACHE, FULL, KERNELS
from graphopt.runtime.state import generator
from graphopt.runtime.steps import forms, policy, with_kernels
from graphopt.runtime.steps.forms import Form, Forms, read_ratio, write_ratio
from graphopt.runtime.steps.policy import GAIN, NOT_YET, RUNS, TURNS
from graphopt.runtime.steps.policy import KERNELS as KERNELS_FORM
from graphopt.runtime.steps.xla_forms import XlaForms
from graphopt_tests.runtime.nets import Net, build, close, value

WHOLE = 2 + 2 * (TURNS + 1)
"""The runs until a rival that is made at the first one has won or lost."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Compile a rival at the first run, with all kernels available and no seed."""
    monkeypatch.setattr(policy, "RUNS", 0)
    monkeypatch.setattr(policy, "SECONDS", -1.0)
    monkeypatch.setattr(forms, "submit", lambda work: work.work())
    monkeypatch.setattr(kernel_forms, "why_not_here", lambda: "")
    monkeypatch.setattr(kernel_forms, "_own", {})
    monkeypatch.setattr(generator.default_generator(), "seeded", False)
    monkeypatch.setattr(known, "use_cache", lambda: tmp_path)
    old = paddle.get_flags([KERNELS, CACHE])
    paddle.set_flags({KERNELS: "auto", CACHE: str(tmp_path)})
    write_verdicts(dict.fromkeys(FORMS, ""))
    yield
    paddle.set_flags(old)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that sets the time of the rival's runs relative to the others'."""

    def by(ratio: float) -> None:
        def ended(self: Forms, results: Any) -> None:
            original(self, results)
            rival = self.seen.rival
            assert rival is not None
            rival.own[:] = [1.0] * len(rival.own)
            rival.other[:] = [ratio] * len(rival.other)

        monkeypatch.setattr(Forms, "end_run", ended)

    original = Forms.end_run
    return by


def network() -> Net:
    """Build a layer whose weight's gradient has a kernel, trained with momentum."""

    def make() -> tuple[Any, Any]:
        x = static.data("x", [None, 32], "float32")
        loss = paddle.mean(paddle.square(static.nn.fc(x, 32)))
        paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
        return loss, loss

    paddle.seed(3)
    generator.default_generator().seeded = False
    with paddle.utils.unique_name.guard():  # the same program each time
        return build(make)


FEED = {"x": np.random.default_rng(0).normal(size=(256, 32)).astype("float32")}


def trained(runs: int) -> tuple[Net, list[Any]]:
    """Train a network for some steps; return it with its losses and weights."""
    with static.scope_guard(static.Scope()):
        net = network()
        found: list[Any] = [net.run(FEED, net.loss)[0] for _ in range(runs)]
        found += [value(p.name) for p in net.main.all_parameters()]
    return net, found


def form(net: Net) -> str:
    return list(net.executor.stats["tiers"])[-1]


@pytest.mark.exhaustive
def test_a_rival_that_wins(timed: Callable[[float], None]) -> None:
    """The training continues with the winner, and the next process begins with it."""
    paddle.set_flags({KERNELS: "off"})
    _, wanted = trained(WHOLE + 2)
    paddle.set_flags({KERNELS: "auto"})
    timed(0.5)
    net, found = trained(WHOLE + 2)
    assert form(net).endswith("oneDNN computes 1 operator, in 0.50 of the time")
    for one, other in zip(found, wanted, strict=True):
        close(one, other)
    net, found = trained(3)
    assert form(net).endswith("oneDNN computes 1 operator, in 0.50 of the time")
    close(found[2], wanted[2])


def test_a_rival_that_wins_beside_a_run(
    timed: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another thread settles the rival during a run, no state is lost."""
    timed(0.5)
    original = Forms.next

    def late(self: Forms, scope: static.Scope) -> Form:
        found, rival = original(self, scope), self.seen.rival
        if found.name == FULL and rival is not None and KERNELS_FORM in self.seen.ready:
            rival.known = 0.5
            assert original(self, scope).name == KERNELS_FORM
        return found

    monkeypatch.setattr(Forms, "next", late)
    net, _ = trained(6)
    (executable,) = (each for each in net.executor._runner.executables() if each.fed)
    assert executable.form is not None
    assert executable.form.name == KERNELS_FORM


def inference() -> tuple[Any, Any, Any]:
    """Build a convolution with a bias and a relu; return its run, executor and program."""
    main, start = static.Program(), static.Program()
    with static.program_guard(main, start), paddle.utils.unique_name.guard():
        x = static.data("image", [None, 16, 9, 9], "float32")
        y = static.nn.conv2d(x, 40, 3, padding=1, act="relu")
    executor = static.Executor()
    executor.run(start)
    image = np.random.default_rng(0).normal(size=(2, 16, 9, 9)).astype("float32")
    test = main.clone(for_test=True)
    return lambda: executor.run(test, {"image": image}, [y])[0], executor, main


def test_packed_filters(timed: Callable[[float], None]) -> None:
    """The winner reads filters in its kernel's layout, also when weights change."""
    timed(0.5)
    paddle.seed(5)
    generator.default_generator().seeded = False
    with static.scope_guard(static.Scope()):
        run, executor, main = inference()
        wanted = run()
        for _ in range(WHOLE + 2):
            close(run(), wanted)
        assert "oneDNN computes 1 operator" in list(executor.stats["tiers"])[-1]
        ((_, made),) = static.global_scope().prepared.values()
        assert any(array.ndim == 5 for array in made) == (not why_not_here())
        (weight,) = [p for p in main.all_parameters() if len(p.shape) == 4]
        tensor = static.global_scope().find_var(weight.name).get_tensor()
        tensor.set(np.zeros(weight.shape, "float32"))
        assert not np.any(run() > np.max(np.abs(wanted)) * 1e-6)


def test_a_rival_that_loses(timed: Callable[[float], None]) -> None:
    """The step does not change, and no other process tries again."""
    timed(1.25)
    net, _ = trained(WHOLE)
    assert form(net).endswith("oneDNN was tried, which takes 1.25 of the time")
    timed(0.5)
    net, _ = trained(WHOLE)
    assert form(net).endswith("oneDNN was tried, which takes 1.25 of the time")


def test_little_gain(timed: Callable[[float], None]) -> None:
    timed(GAIN + 0.01)
    assert "was tried" in form(trained(WHOLE)[0])


def test_no_operator_with_a_kernel() -> None:
    write_verdicts(dict.fromkeys(FORMS, "it was refused"))
    assert form(trained(4)[0]).endswith("no operator has a kernel of oneDNN")


def test_a_rival_that_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no more memory")

    monkeypatch.setattr(with_kernels, "alone", fails)
    net, found = trained(3)
    assert form(net).endswith("with oneDNN it did not compile: no more memory")
    assert np.isfinite(found[2])


@pytest.mark.exhaustive
def test_a_step_that_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """After few runs, or a short time, a step has no rival."""
    monkeypatch.setattr(policy, "RUNS", RUNS)
    assert form(trained(4)[0]).endswith(NOT_YET)
    monkeypatch.setattr(policy, "RUNS", 0)
    monkeypatch.setattr(policy, "SECONDS", 1000.0)
    assert form(trained(4)[0]).endswith(NOT_YET)


@pytest.mark.exhaustive
def test_what_is_lowered_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowered module is released when the full form is ready, also if oneDNN follows."""
    lowered: list[weakref.ref[Any]] = []
    original = XlaForms._lower

    def noting(self: XlaForms) -> Any:
        found = original(self)
        lowered.append(weakref.ref(found))
        return found

    monkeypatch.setattr(policy, "RUNS", RUNS)
    monkeypatch.setattr(XlaForms, "_lower", noting)
    net, _ = trained(3)
    assert form(net).endswith(NOT_YET)
    gc.collect()
    assert lowered
    assert not [each for each in lowered if each() is not None]


NONE: Mapping[str, Mapping[str, Any]] = {
    "off": {KERNELS: "off"},
    "deterministic": {"FLAGS_cpu_deterministic": True},
}


@pytest.mark.parametrize("flags", NONE.values(), ids=NONE)
def test_flags_that_allow_none(flags: Mapping[str, Any]) -> None:
    old = paddle.get_flags(list(flags))
    paddle.set_flags(dict(flags))
    assert "oneDNN" not in form(trained(4)[0])
    paddle.set_flags(old)


@pytest.mark.exhaustive
def test_steps_without_a_rival() -> None:
    """A seeded training keeps its bits in every run, and replicas run one form: no rival."""
    net = network()
    net.main.random_seed = 5
    for _ in range(4):
        net.run(FEED, net.loss)
    assert "oneDNN" not in form(net)
    net = network()
    parallel = net.parallel(2)
    for _ in range(4):
        net.run(FEED, net.loss, parallel)
    assert not any("oneDNN" in text for text in parallel.stats["tiers"])


def test_an_outcome_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file is no outcome; a damaged one is removed."""

    file = tmp_path / "rivals" / "a"
    assert read_ratio(None) is None
    write_ratio(file, 0.5)
    assert read_ratio(file) == 0.5
    forms.write_entry(file, b"[]", 1000)
    assert read_ratio(file) is None
    assert not file.exists()
