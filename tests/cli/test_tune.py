"""`graphopt tune` runs a model until its kernels are chosen, and reports them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import graphopt as paddle
from graphopt.cli.main import main
from graphopt.passes.target.choose_kernel import FORMS
from graphopt.runtime.compile import kernel_forms
from graphopt.runtime.compile.kernel_forms import write_verdicts
from graphopt.runtime.disk import known
from graphopt.runtime.settings.flags import CACHE, KERNELS
from graphopt.runtime.steps import forms, policy

RESNET = Path(__file__).parents[1] / "data" / "models" / "infer_resnet18"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Compile the other form at the first run, and refuse all kernels."""
    monkeypatch.setattr(policy, "RUNS", 0)
    monkeypatch.setattr(policy, "SECONDS", -1.0)
    monkeypatch.setattr(forms, "submit", lambda work: work.work())
    monkeypatch.setattr(kernel_forms, "why_not_here", lambda: "")
    monkeypatch.setattr(kernel_forms, "_own", {})
    monkeypatch.setattr(known, "use_cache", lambda: tmp_path)
    old = paddle.get_flags([KERNELS, CACHE])
    paddle.set_flags({KERNELS: "auto", CACHE: str(tmp_path)})
    write_verdicts(dict.fromkeys(FORMS, "it was refused"))
    yield
    paddle.set_flags(old)


def tuned(*more: str) -> int:
    return main(["tune", str(RESNET), "--random", "--dim", "1", *more])


@pytest.mark.exhaustive
def test_an_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuned() == 0
    assert capsys.readouterr().out.endswith("no operator has a kernel of oneDNN\n")


@pytest.mark.exhaustive
def test_under_a_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuned("--build-strategy", "fuse_elewise_add_act_ops") == 0
    assert capsys.readouterr().out.endswith("no operator has a kernel of oneDNN\n")


@pytest.mark.exhaustive
def test_no_outcome_in_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "RUNS", 1000)
    assert tuned("--seconds", "0.01") == 1
    assert "no outcome after 0.01 s" in capsys.readouterr().out


def test_nothing_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    paddle.set_flags({KERNELS: "off"})
    assert tuned() == 1
    assert "FLAGS_graphopt_kernels=auto" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_bits_that_must_repeat(capsys: pytest.CaptureFixture[str]) -> None:
    """Under FLAGS_cpu_deterministic, no other form is compared."""
    paddle.set_flags({"FLAGS_cpu_deterministic": True})
    try:
        assert tuned() == 1
    finally:
        paddle.set_flags({"FLAGS_cpu_deterministic": False})
    assert "nothing was compared" in capsys.readouterr().out
