"""The paper estimate of communication: its formulas against a simulated ring."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "communication_model.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Load benchmarks/communication_model.py as a module."""
    spec = importlib.util.spec_from_file_location("communication_model", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules["communication_model"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("devices", [1, 2, 3, 4, 8])
def test_bytes(script: ModuleType, devices: int) -> None:
    """The bytes that each device sends are equal by count and formula, for both strategies."""
    elements = 24 * devices
    scatter, gather = script.simulate(devices, elements)
    model = script.Model(parameters=elements, tensors=1, compute=1.0)
    link = script.LINKS[0]
    assert script.all_reduce(model, devices, link).sent == pytest.approx(4 * (scatter + gather))
    assert script.reduce(model, devices, link).sent == pytest.approx(4 * (scatter + gather))
    assert script.reduce(model, devices, link).state_bytes == 8 * elements / devices
    parts = script.in_parts(model, devices, link)
    assert parts.sent == pytest.approx(4 * (scatter + 2 * gather))
    assert (parts.state_bytes, parts.parameter_bytes) == (
        8 * elements / devices,
        4 * elements / devices,
    )


def test_growth(script: ModuleType) -> None:
    """Bytes stay below twice the gradients; latency grows with devices and collectives."""
    model = script.Model(parameters=1e6, tensors=100, compute=0.1)
    link = script.LINKS[1]
    costs = [script.all_reduce(model, devices, link) for devices in script.DEVICES]
    assert all(cost.sent < 8e6 for cost in costs)
    assert costs == sorted(costs, key=lambda cost: cost.seconds)
    apart = script.all_reduce(model, 64, link, combined=False)
    assert apart.seconds - script.all_reduce(model, 64, link).seconds == pytest.approx(
        99 * 2 * 63 * link.latency
    )


def test_beside_what_others_measured(script: ModuleType) -> None:
    """Each step is within 20 % of the measured one when half of the gathers is hidden."""
    assert len(script.PUBLISHED) == 13
    for case in script.PUBLISHED:
        least, most = case.predicted()
        assert least <= case.expected <= most
        assert case.expected == pytest.approx(case.measured, rel=0.2), case


def test_slow_devices(script: ModuleType) -> None:
    """The mean of the largest of n normal numbers is as in tables: 1.54 of ten, 2.51 of 100."""
    assert script.slowest(1, 0.1) == pytest.approx(1.0, abs=1e-4)
    assert script.slowest(10, 1.0) == pytest.approx(1 + 1.5388, abs=1e-3)
    assert script.slowest(100, 1.0) == pytest.approx(1 + 2.5076, abs=1e-3)


def test_lost_devices(script: ModuleType) -> None:
    """No other interval loses less; 16,384 devices keep the 90 % that were published."""
    failures = script.LLAMA
    assert failures.apart / 16384 / 3600 == pytest.approx(3.1, abs=0.05)
    best = failures.useful(16384)
    assert 0.9 <= best < 1.0
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert failures.useful(16384, factor * failures.interval(16384)) < best
    assert failures.useful(8) > best
