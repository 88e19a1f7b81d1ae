"""The paper estimate of communication: its formulas against a ring that is really run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "communication_model.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """benchmarks/communication_model.py as a module."""
    spec = importlib.util.spec_from_file_location("communication_model", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules["communication_model"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("devices", [1, 2, 3, 4, 8])
def test_bytes(script: ModuleType, devices: int) -> None:
    """What each device sends, counted and by the formula, for both strategies."""
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
    """The measured share is between the bounds, or within 20 % of them, for some usual step."""
    for (devices, share), cases in grouped(script.PUBLISHED).items():
        fits = [case.tokens for case in cases if close_to(case.predicted(), share)]
        assert fits, (devices, share)


def grouped(cases: Any) -> dict[tuple[int, float], list[Any]]:
    found: dict[tuple[int, float], list[Any]] = {}
    for case in cases:
        found.setdefault((case.devices, case.share), []).append(case)
    return found


def close_to(bounds: tuple[float, float], share: float) -> bool:
    """True when nothing hidden is within 20 % of what was measured, and all hidden is no less."""
    least, most = bounds
    return abs(least / share - 1) <= 0.2 and most >= share * 0.8
