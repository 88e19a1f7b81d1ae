"""Learning-rate schedules without recordings: state, metrics, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from graphopt.optimizer import lr


def rates(schedule: lr.LRScheduler, count: int) -> list[float]:
    """Return the first rates, one per epoch."""
    found: list[float] = []
    for _ in range(count):
        found.append(schedule())
        schedule.step()
    return found


@pytest.mark.parametrize(
    ("schedule", "formula"),
    [
        (lr.LambdaDecay(0.5, lambda e: 0.9**e), lambda e: 0.5 * 0.9**e),
        (lr.MultiplicativeDecay(0.5, lambda e: 0.9), lambda e: 0.5 * 0.9**e),
        (lr.ExponentialDecay(0.5, 0.9), lambda e: 0.5 * 0.9**e),
        (lr.NaturalExpDecay(0.5, 0.1), lambda e: 0.5 * math.exp(-0.1 * e)),
        (lr.InverseTimeDecay(0.5, 0.1), lambda e: 0.5 / (1 + 0.1 * e)),
        (lr.StepDecay(0.5, 3, 0.1), lambda e: 0.5 * 0.1 ** (e // 3)),
        (
            lr.CosineAnnealingDecay(0.5, 8, 0.1),
            lambda e: 0.1 + 0.4 * (1 + math.cos(math.pi * e / 8)) / 2,
        ),
        (
            lr.CosineAnnealingWarmRestarts(0.5, 4),
            lambda e: 0.5 * (1 + math.cos(math.pi * (e % 4) / 4)) / 2,
        ),
        (lr.PolynomialDecay(0.5, 10, 0.1), lambda e: 0.1 + 0.4 * (1 - min(e, 10) / 10)),
        (lr.LinearLR(0.5, 4, 0.2, 1.0), lambda e: 0.1 + 0.1 * min(e, 4)),
        (lr.LinearWarmup(0.5, 4, 0.1, 0.5), lambda e: min(0.1 + 0.1 * e, 0.5)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_formulas(schedule: lr.LRScheduler, formula: Any) -> None:
    """The first twenty rates follow the closed formula."""
    np.testing.assert_allclose(rates(schedule, 20), [formula(e) for e in range(20)], rtol=1e-9)


def test_state_continues_a_schedule() -> None:
    """A schedule with the state dict of another continues it."""

    def make() -> lr.LinearWarmup:
        return lr.LinearWarmup(lr.CosineAnnealingDecay(0.5, 10), 3, 0.0, 0.5)

    first, second = make(), make()
    rates(first, 7)
    second.set_state_dict(first.state_dict())
    assert rates(second, 5) == rates(first, 5)
    with pytest.raises(RuntimeError, match="last_lr"):
        second.set_state_dict({"last_epoch": 3})


def test_warmup_starts_the_inner_schedule_afterwards() -> None:
    """The first rate after the warm-up is the inner schedule's first."""
    schedule = lr.LinearWarmup(lr.PiecewiseDecay([2], [1.0, 0.5]), 2, 0.0, 0.8)
    np.testing.assert_allclose(rates(schedule, 6), [0.0, 0.4, 1.0, 1.0, 0.5, 0.5])


def test_reduce_on_plateau_waits_and_cools_down() -> None:
    """The rate falls after more than `patience` bad epochs, not counting cooldown epochs."""
    schedule = lr.ReduceOnPlateau(1.0, factor=0.5, patience=1, cooldown=2, min_lr=0.2)
    found: list[float] = []
    for metric in [3.0, 2.0, 2.0, np.float32(2.0), 2.0, [2.0], 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]:
        schedule.step(metric)
        found.append(schedule())
    assert found == [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.2]
    with pytest.raises(TypeError, match="metrics"):
        schedule.step()
    with pytest.raises(TypeError, match="number"):
        schedule.step("better")


def test_step_to_an_epoch() -> None:
    """`step(epoch)` sets the epoch."""
    schedule = lr.CosineAnnealingDecay(1.0, 10)
    schedule.step(5)
    assert (schedule.last_epoch, schedule()) == (5, pytest.approx(0.5))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: lr.ExponentialDecay("1", 0.5), TypeError, "learning rate must be float"),
        (lambda: lr.StepDecay(-1.0, 2), ValueError, "Invalid learning rate: -1"),
        (lambda: lr.ExponentialDecay(1.0, 1.5), AssertionError, r"'gamma'.*\(0.0, 1.0\).*1.5"),
        (lambda: lr.NaturalExpDecay(1.0, -0.1), AssertionError, r"'gamma'.*\(0.0, inf\).*-0.1"),
        (lambda: lr.PiecewiseDecay([1, 2], [1.0]), ValueError, "need 3 values"),
        (lambda: lr.MultiStepDecay(1.0, [3, 2]), ValueError, "increasing"),
        (lambda: lr.StepDecay(1.0, 0), ValueError, "step_size"),
        (lambda: lr.LambdaDecay(1.0, 3), TypeError, "callable"),
        (lambda: lr.LinearWarmup(1.0, 5, 1.0, 0.5), ValueError, "end_lr"),
        (lambda: lr.OneCycleLR(1.0, 10, anneal_strategy="sin"), ValueError, "anneal_strategy"),
        (lambda: lr.CyclicLR(0.1, 1.0, 5, mode="square"), ValueError, "mode"),
        (lambda: lr.ReduceOnPlateau(1.0, mode="mean"), ValueError, "mode"),
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception], text: str) -> None:
    """Each error names the wrong argument."""
    with pytest.raises(error, match=text):
        make()


def test_a_linear_schedule_goes_on_from_its_rate() -> None:
    """As in Paddle 2.6.2, each rate follows from the last, even after a jump or a load."""
    schedule = lr.LinearLR(0.5, 4, 0.5, 0.1)
    schedule.step(3)
    assert schedule() == pytest.approx(0.16666667)
    schedule.step(1)
    assert schedule() == pytest.approx(0.13333333)
    other = lr.LinearLR(0.5, 4, 0.5, 0.1)
    other.set_state_dict(schedule.state_dict())
    assert rates(other, 3) == rates(schedule, 3)
    assert rates(lr.LinearLR(0.5, 2, last_epoch=1), 3) == pytest.approx([0.75] * 3)
    for wrong in ({"start_factor": 0}, {"start_factor": 1.5}, {"end_factor": -0.1}):
        with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be greater than 0"):
            lr.LinearLR(0.5, 2, **wrong)
    with pytest.raises(ValueError, match="`total_steps` must be greater than 0, but got 0"):
        lr.LinearLR(0.5, 0)
