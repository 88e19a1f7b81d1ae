"""FLAGS_graphopt_kernels: verdicts on oneDNN's kernels, and programs with and without them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jax._src import config

import graphopt as paddle
from graphopt import static
from graphopt.lowering.kernels.onednn_here import why_not_half
from graphopt.passes.target.choose_kernel import (
    BATCHED,
    CONVOLUTION,
    EPILOGUE,
    FORMS,
    HALF,
    PRODUCT,
)
from graphopt.runtime.compile import kernel_forms, kernel_trial
from graphopt.runtime.compile.compiling import has_kernel
from graphopt.runtime.compile.kernel_forms import (
    KernelTrial,
    kernels,
    read_verdicts,
    write_verdicts,
)
from graphopt.runtime.devices.cache_place import _machine
from graphopt.runtime.settings.flags import for_other_machines, uses_kernels
from graphopt.runtime.steps.xla_forms import nothing_kept
from graphopt.testing import parse

GRADIENT = "kernels.w@GRAD"
GOOD: dict[str, str] = dict.fromkeys(FORMS, "")
SAYS = "import os, sys\nfor form in sys.argv[1:]:\n    print('begins', form, flush=True)\n"
DIES = SAYS + "    if form == 'batched': os.kill(os.getpid(), 4)\n    print('ends', form, '')"


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Request kernels, on a machine that may have them and has no verdict."""
    monkeypatch.setattr(kernel_forms, "why_not_here", lambda: "")
    monkeypatch.setattr(kernel_forms, "_own", {})
    monkeypatch.setattr(kernel_forms, "why_not_half", lambda: "")
    monkeypatch.setattr(kernel_forms, "_trial", Recorder)
    Recorder.started = 0
    old = paddle.get_flags(["FLAGS_graphopt_kernels", "FLAGS_graphopt_cache_dir"])
    paddle.set_flags({"FLAGS_graphopt_kernels": "on", "FLAGS_graphopt_cache_dir": str(tmp_path)})
    yield
    paddle.set_flags(old)


class Recorder:
    """A stand-in for a trial that counts its requests."""

    started = 0

    def start(self) -> None:
        Recorder.started += 1


def training() -> tuple[static.Program, Any]:
    """Build a program that trains a layer; return it with its loss."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [256, 32], "float32")
        w = static.create_parameter([32, 32], "float32", "kernels.w")
        loss = paddle.mean(paddle.matmul(x, w) ** 2)
        static.append_backward(loss)
    return main, loss


def refusals(program: static.Program, loss: Any) -> list[str]:
    rows = paddle.explain(program, fetch_list=[loss, GRADIENT]).refusals()
    return [row.text for row in rows if row.kind == "no-kernel"]


def test_off() -> None:
    """Without the flag no verdict is read, and the pass does not run."""
    paddle.set_flags({"FLAGS_graphopt_kernels": "off"})
    assert not uses_kernels()
    assert Recorder.started == 0
    main, loss = training()
    assert "choose-kernel" not in {row.pass_name for row in paddle.explain(main).table()}
    assert refusals(main, loss) == []
    paddle.set_flags({"FLAGS_graphopt_kernels": "yes"})
    with pytest.raises(ValueError, match="should be auto, on or off, found 'yes'"):
        uses_kernels()


def test_no_verdict_yet() -> None:
    """XLA computes, a trial is started, and explain reports it."""
    main, loss = training()
    (reason,) = refusals(main, loss)
    assert (
        "kernel of oneDNN for 'product' is not used: it is being tried in the background" in reason
    )
    assert Recorder.started >= 1


def test_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trial runs without oneDNN, for exported files, or if bits must repeat."""
    write_verdicts(GOOD)
    with for_other_machines():
        assert not uses_kernels()
    paddle.set_flags({"FLAGS_cpu_deterministic": True})
    found = kernels()
    paddle.set_flags({"FLAGS_cpu_deterministic": False})
    assert not found.forms and "the same bits" in found.why
    monkeypatch.setattr(kernel_forms, "why_not_here", lambda: "jaxlib has none on this machine")
    (reason,) = refusals(*training())
    assert reason.endswith("jaxlib has none on this machine")
    assert Recorder.started == 0


def test_verdicts_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Verdicts are on disk for other processes; a damaged file is ignored."""
    write_verdicts({**GOOD, HALF: "wrong numbers"})
    monkeypatch.setattr(kernel_forms, "_own", {})
    found = kernels()
    assert (found.forms, found.why) == (
        (PRODUCT, BATCHED, CONVOLUTION, EPILOGUE),
        "half: wrong numbers",
    )
    (file,) = tmp_path.rglob("onednn-*.json")
    file.write_text('{"product": ""}', "utf-8")
    monkeypatch.setattr(kernel_forms, "_own", {})
    assert read_verdicts() is None


def test_a_trial_that_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A form that ends its process is refused; another process tries the others."""
    monkeypatch.setattr(kernel_forms, "COMMAND", (sys.executable, "-c", DIES))
    KernelTrial().work()
    assert read_verdicts() == {**GOOD, BATCHED: "its trial ended with signal 4"}
    monkeypatch.setattr(kernel_forms, "COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    KernelTrial().work()
    assert read_verdicts() == dict.fromkeys(FORMS, "its trial ended with 3")
    main, loss = training()
    (reason,) = refusals(main, loss)
    assert "product: its trial ended with 3" in reason
    assert np.isfinite(run(main, loss)).all()


def test_a_trial_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial that the end of the process stops stores no verdict."""
    trial = KernelTrial()
    trial.stop()
    trial.work()
    assert read_verdicts() is None


def test_no_instructions_for_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in bfloat16 need their instructions."""
    monkeypatch.setattr(kernel_forms, "why_not_half", lambda: "it has none")
    monkeypatch.setattr(kernel_forms, "COMMAND", (sys.executable, "-c", DIES))
    KernelTrial().work()
    verdicts = read_verdicts()
    assert verdicts is not None
    assert verdicts[HALF] == "it has none"


def test_limits_of_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer instructions oneDNN is another library, with its own verdicts."""
    before = _machine()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert _machine() != before
    why_not_half.cache_clear()
    try:
        assert why_not_half()
    finally:
        why_not_half.cache_clear()


def test_wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A form whose numbers differ from XLA's is refused."""
    assert kernel_trial.wrong(PRODUCT) == ""
    (own, xla, shapes, dtype), *_ = kernel_trial._cases()[PRODUCT]
    case = (lambda *v: own(*v) * 1.001, xla, shapes, dtype)
    monkeypatch.setattr(kernel_trial, "_cases", lambda: {PRODUCT: [case]})
    assert "differs from XLA's result by" in kernel_trial.wrong(PRODUCT)


def run(main: static.Program, loss: Any) -> Any:
    """Run one step; return the loss and the gradient."""
    x = np.random.default_rng(0).normal(size=(256, 32)).astype("float32")
    scope = static.Scope()
    with static.scope_guard(scope):
        scope.var("kernels.w").get_tensor().set(np.eye(32, dtype="float32") * 0.5)
        fetches = [loss, GRADIENT]
        found: Any = static.Executor().run(main, {"x": x}, fetches)
        return np.concatenate([each.ravel() for each in found])


def test_a_program_with_kernels() -> None:
    """A program with kernels computes the numbers of one without."""
    main, loss = training()
    wanted = run(main, loss)
    write_verdicts(GOOD)
    main, loss = training()
    assert paddle.explain(main, fetch_list=[loss, GRADIENT]).applied("choose-kernel") == 1
    np.testing.assert_allclose(run(main, loss), wanted, rtol=1e-5, atol=1e-6)


def test_what_is_kept() -> None:
    """A module with a kernel is not stored on disk, neither here nor by JAX."""
    text = """
    func.func @main(
      feed %x: tensor<4x4xf32>
    ) -> (fetch "y": tensor<4x4xf32>) {{
      %y = pd.matmul(%x, %x) {{{} transpose_x = true}}
      func.return %y : tensor<4x4xf32>
    }}
    """
    assert not any(map(has_kernel, parse(text.format("")).walk()))
    assert any(map(has_kernel, parse(text.format('kernel = "onednn",')).walk()))
    least = config.persistent_cache_min_compile_time_secs
    before = least.value
    with nothing_kept():
        assert least.value == math.inf
    assert least.value == before
