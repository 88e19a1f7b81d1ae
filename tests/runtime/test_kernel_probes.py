"""Kernels of GPUs by measurement: first numbers, then time, stored for each kind of device.

A CPU stands for the device, with a clock of the tests; kernels of rows are interpreted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from jax import numpy as jnp
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
from graphopt.debug.compare import assert_same_results
from graphopt.ir.dialect.differentiated import is_kept
from graphopt.ir.dialect.ops.control import FusionGroup, RowKernel
from graphopt.ir.dialect.ops.transformer import FusedDotProductAttention
from graphopt.lowering.kernels import attention_kernels, rows
from graphopt.passes.engine.fusion import Applied, Declined
from graphopt.passes.engine.measured import GAIN, KernelTime, refuse
from graphopt.passes.fusions.choose_attention import ChooseAttention
from graphopt.passes.table.conditions import kind_of_device, library
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import optimize
from graphopt.passes.target.choose_group_kernel import ChooseGroupKernel
from graphopt.runtime.compile import compilation, kernel_probes
from graphopt.runtime.compile.compilation import pass_context_for
from graphopt.runtime.compile.kernel_probes import KernelProbes
from graphopt.runtime.settings.flags import CACHE, KERNELS
from graphopt.testing import parse

NORM = """
func.func @main(feed %x: tensor<4x32xf32>, feed %y: tensor<4x32xf32>)
    -> (fetch "b": tensor<4x32xf32>) {
  %b = pd.fusion_group() -> tensor<4x32xf32> {
    %s = pd.add(%x, %y)
    %n, %mean, %variance = pd.layer_norm(%s)
    %h = pd.tanh(%n)
    pd.yield(values = [%h])
  }
  func.return %b : tensor<4x32xf32>
}
"""
TRAINED = """
func.func @main(feed %x: tensor<4x32xf32>, feed %y: tensor<4x32xf32>)
    -> (fetch "l": tensor<f32>, fetch "g": tensor<4x32xf32>) {
  %b = pd.fusion_group() -> tensor<4x32xf32> {
    %s = pd.add(%x, %y) attributes {pd.kept}
    %n, %mean, %variance = pd.layer_norm(%s)
    %h = pd.tanh(%n)
    pd.yield(values = [%h])
  }
  %l = pd.mean(%b)
  %one = pd.full() {shape = [], value = 1.0}
  %g = pd.grad(of = [%l], wrt = [%x], cotangents = [%one])
  func.return %l, %g : tensor<f32>, tensor<4x32xf32>
}
"""
CORE = """
func.func @main(feed %q: tensor<2x3x{0}x16xbf16>, feed %m: tensor<{0}x{0}xf32>)
    -> (fetch "o": tensor<2x3x{0}x16xbf16>) {{
  %o = pd.fused_dot_product_attention(%q, %q, %q, mask = %m) {{scaling_factor = 0.25{1}}}
  func.return %o : tensor<2x3x{0}x16xbf16>
}}
"""


class Clock:
    """A clock by which a kernel takes a fraction of the time of XLA's code."""

    def __init__(self, ratio: float) -> None:
        self.asked, self.time, self.ratio = 0, 0.0, ratio

    def __call__(self) -> float:
        self.asked += 1
        # the first pair is without the kernel; from then on they alternate
        is_end, pair = self.asked % 2 == 0, (self.asked - 1) // 2
        if is_end:
            self.time += self.ratio if pair % 2 else 1.0
        return self.time


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Store measurements in a folder of the test, and enable kernels of rows on CPUs."""
    monkeypatch.setattr(rows, "LANGUAGES", rows.INTERPRETED)
    monkeypatch.setattr(kernel_probes, "machine_directory", lambda: tmp_path)
    old = paddle.get_flags([KERNELS, CACHE])
    yield
    paddle.set_flags(old)


def probes(ratio: float) -> KernelProbes:
    return KernelProbes(jax.devices("cpu")[1], Clock(ratio))


def grouped(measure: Any) -> tuple[ModuleOp, list[Any]]:
    """Run the pass on the module with a norm; return module and outcomes."""
    module = parse(NORM)
    outcomes = ChooseGroupKernel(measure=measure).rewrite(module)
    module.verify()
    return module, outcomes


def test_a_kernel_that_is_quicker() -> None:
    module, (applied,) = grouped(probes(0.5))
    assert isinstance(applied, Applied)
    assert applied.note.endswith("at a time, in 0.50 of the time of XLA's own code")
    assert any(isinstance(op, RowKernel) for op in module.walk())


def test_a_kernel_that_is_not() -> None:
    """A slower kernel leaves the group unchanged, with the same uses of each value."""
    module, (declined,) = grouped(probes(GAIN + 0.01))
    assert isinstance(declined, Declined) and declined.reason.name == "not-quicker"
    assert "takes 0.98 of the time of XLA's own code" in declined.reason.text
    untouched = parse(NORM)
    assert str(module) == str(untouched)
    readers = [
        [len(list(result.uses)) for op in each.walk() for result in op.results]
        for each in (module, untouched)
    ]
    assert readers[0] == readers[1]


def test_wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel needs XLA's numbers, however fast it is."""
    _, run = rows.INTERPRETED["triton"]

    def wrong(*given: Any, **more: Any) -> Any:
        return tuple(array + 0.1 for array in run(*given, **more))

    monkeypatch.setattr(rows, "LANGUAGES", {"triton": ("cpu", wrong)})
    _, (declined,) = grouped(probes(0.1))
    assert declined.reason.name == "no-kernel"
    assert "result 0 differs from XLA's result by 0.1" in declined.reason.text


def test_a_kernel_that_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*given: Any, **more: Any) -> Any:
        raise NotImplementedError("no such instruction\non this device")

    monkeypatch.setattr(rows, "LANGUAGES", {"triton": ("cpu", broken)})
    _, (declined,) = grouped(probes(0.1))
    assert declined.reason.text.endswith("NotImplementedError: no such instruction")
    assert not (tmp_path / kernel_probes.FOLDER).exists()  # another process tries it again


@pytest.mark.exhaustive
def test_what_was_measured_is_kept(tmp_path: Path) -> None:
    """Measurements are stored for other processes, by kind of device; a damaged file is redone."""
    grouped(probes(0.5))
    (file,) = (tmp_path / kernel_probes.FOLDER).iterdir()
    assert file.name.startswith("cpu-")
    second = Clock(2.0)
    _, (applied,) = grouped(KernelProbes(jax.devices("cpu")[0], second))
    assert isinstance(applied, Applied) and not second.asked
    for text in ('{"layer": [0.5]}', '{"layer": [-1.0, ""]}', "[]", "{"):
        file.write_text(text)
        _, (found,) = grouped(probes(2.0))
        assert isinstance(found, Declined)


@pytest.mark.parametrize(
    ("length", "attrs", "times", "chosen"),
    [
        (64, "", {"cudnn": 0.8, "xla": 0.9}, "cudnn"),
        (64, "", {"cudnn": 0.9, "xla": 0.8}, "xla"),
        (64, "", {"cudnn": 1.0, "xla": 1.1}, ""),
        (64, ", dropout_probability = 0.1", {"xla": 0.5}, "xla"),
        (65, "", {"xla": 0.9}, "xla"),  # cuDNN takes masks of even lengths
    ],
)
def test_the_quickest_attention(
    length: int, attrs: str, times: dict[str, float], chosen: str
) -> None:
    """Attention of any length and dropout is measured with each kernel that supports it."""
    asked: dict[str, float] = {}

    def measure(op: Any, trained: bool) -> KernelTime:
        name = op.attr("algorithm")
        asked[name] = times[name]
        return KernelTime(times[name])

    module = parse(CORE.format(length, attrs))
    (outcome,) = ChooseAttention(measure=measure).rewrite(module)
    (op,) = (op for op in module.walk() if isinstance(op, FusedDotProductAttention))
    assert (op.attr("algorithm"), asked) == (chosen, times)
    assert isinstance(outcome, Applied if chosen else Declined)


@pytest.mark.exhaustive
def test_attention_in_its_own_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's products in bfloat16 match float32, with a mask and with dropout."""
    kernels = {**attention_kernels.KERNELS, "xla": ("cpu", attention_kernels.KERNELS["xla"][1])}
    monkeypatch.setattr(attention_kernels, "KERNELS", kernels)
    for attrs in ("", ", dropout_probability = 0.3"):
        module = parse(CORE.format(24, attrs))
        (outcome,) = ChooseAttention(kernel="", measure=probes(0.5)).rewrite(module)
        assert isinstance(outcome, Applied), outcome
        module.verify()


def test_a_causal_kernel_is_measured_with_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """A causal kernel does not read its mask, so it is measured with a causal one."""

    def causal(operands: Any, how: Any) -> Any:
        scores = jnp.matmul(operands.q, operands.k.mT) * how.scale
        seen = jnp.tri(scores.shape[-1], dtype=bool)
        return jnp.matmul(jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)), operands.v)

    monkeypatch.setattr(attention_kernels, "has_cudnn", lambda: True)
    kernels = {**attention_kernels.KERNELS, "cudnn-causal": ("cpu", causal)}
    monkeypatch.setattr(attention_kernels, "KERNELS", kernels)
    text = CORE.format(24, "").replace("feed %m: tensor<24x24xf32>", "feed %z: tensor<1xf32>")
    mask = "%f = pd.full() {shape = [24, 24], value = -1.0e4}\n"
    mask += "%m = pd.tril_triu(%f) {diagonal = 1, lower = false}\n"
    module = parse(text.replace("  %o =", f"  {mask}  %o ="))
    (outcome,) = ChooseAttention(measure=probes(0.5)).rewrite(module)
    (op,) = (op for op in module.walk() if isinstance(op, FusedDotProductAttention))
    assert isinstance(outcome, Applied), outcome
    assert op.attr("algorithm") == "cudnn-causal"


def test_scores_that_are_too_many() -> None:
    """Attention with too many scores is not measured, as XLA's code needs all at once."""
    module = parse(CORE.format(8192, ""))
    (declined,) = ChooseAttention(kernel="", measure=probes(0.5)).rewrite(module)
    assert isinstance(declined, Declined) and declined.reason.name == "kernel-scores"


@pytest.mark.parametrize("setting", ["auto", "on", "off"])
def test_what_the_flag_says(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag selects measurement, rules, or no kernels: on GPUs as on CPUs."""
    monkeypatch.setattr(compilation, "devices_of", lambda platform: jax.devices("cpu")[:1])
    paddle.set_flags({KERNELS: setting})
    context = pass_context_for(None, "gpu")
    measure = context.measure
    if setting == "auto":
        assert isinstance(measure, KernelProbes)
    elif setting == "on":
        assert measure is None
    else:
        assert measure is not None
        assert measure(parse(NORM), False).refusal == f"{KERNELS}=off"  # type: ignore[arg-type]


def test_trainers_choose_alike() -> None:
    """Several processes compile the same program, whatever each would measure."""

    def never(op: Any, trained: bool) -> KernelTime:
        raise AssertionError("nothing is measured")

    context = PassContext({"num_trainers": 2}, platform="gpu", measure=never)
    assert library(context)["measure"] is None
    measure: Callable[..., KernelTime] = kind_of_device(context)["measure"]
    assert "several trainers" in measure(None, False).refusal


def test_explain_says_what_was_measured() -> None:
    flags = {"build_cinn_pass": True}
    slow = PassContext(flags, platform="gpu", measure=lambda op, trained: KernelTime(1.07))
    module = parse(NORM)
    report = optimize(module, slow)
    reasons = {o.reason.name for o in report.outcomes if isinstance(o, Declined)}
    assert "not-quicker" in reasons
    none = PassContext(flags, platform="gpu", measure=refuse("nobody looks"))
    report = optimize(parse(NORM), none)
    assert any("nobody looks" in o.reason.text for o in report.outcomes if isinstance(o, Declined))


@pytest.mark.every(3)
@pytest.mark.parametrize(("kernel", "group"), [(2.0, 0.9), (0.5, 1.1), (2.0, 1.1), (2.0, 1.02)])
def test_groups_that_cost_time(kernel: float, group: float) -> None:
    """A group stays if it is not slower than its ops, and a kernel in it if it is faster."""

    def measure(op: Any, trained: bool) -> KernelTime:
        assert trained
        return KernelTime(kernel if isinstance(op, RowKernel) else group)

    module, wanted = parse(TRAINED), parse(TRAINED)
    outcomes = ChooseGroupKernel(measure=measure).rewrite(module)
    module.verify()
    kinds = {type(op) for op in module.walk()}
    assert (RowKernel in kinds, FusionGroup in kinds) == (kernel < 1, group < 1.03)
    notes = [outcome.note for outcome in outcomes if isinstance(outcome, Applied)]
    assert any("dissolved: a derivative that computes" in note for note in notes) == (group > 1.03)
    assert any(map(is_kept, module.walk())) == (group < 1.03)
    assert_same_results(wanted, module)


def test_a_group_is_measured_beside_its_ops() -> None:
    """A group is measured with its derivative, which it computes from its operands."""
    module = parse(TRAINED)
    (group,) = (op for op in module.walk() if isinstance(op, FusionGroup))
    found = probes(1.25)(group, True)
    assert (found.ratio, found.refusal) == (1.25, "")
