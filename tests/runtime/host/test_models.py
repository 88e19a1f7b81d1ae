"""Saved inference models give the same outputs in every form, exact and padded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.buckets import automatic
from graphopt.ir.formats import LoadedModel
from graphopt.runtime.compile import compiled
from graphopt.runtime.settings.flags import TIER
from graphopt_tests.runtime.test_models import (
    CASES,
    check,
    is_slow,
    load,
    put_parameters,
    recorded,
)

NAMES = [
    pytest.param(name, marks=pytest.mark.slow if is_slow(saved) else ())
    for name, saved in CASES.items()
]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no run exceed its time limit."""
    monkeypatch.setattr(compiled, "SECONDS", 60.0)
    yield
    paddle.set_flags({TIER: "full"})


@pytest.mark.every(2)
@pytest.mark.parametrize("name", NAMES)
def test_recorded_outputs(name: str) -> None:
    """NumPy gives Paddle's recorded outputs."""
    model = load(CASES[name])
    put_parameters(model)
    paddle.set_flags({TIER: "host"})
    check(CASES[name], model, model.program)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_all_forms(name: str) -> None:
    """Three sizes agree in the host, the quick and the full form, and padded in these."""
    model = load(CASES[name])
    put_parameters(model)
    sizes = list(feeds_of(model, recorded(CASES[name])[0][0]))
    wanted = outputs(model, sizes, "full", None)
    for tier in ("host", "fast", "full"):
        for buckets in (None, automatic()) if tier != "full" else (automatic(),):
            found = outputs(model, sizes, tier, buckets)
            for news, olds in zip(found, wanted, strict=True):
                for new, old in zip(news, olds, strict=True):
                    assert (new.shape, new.dtype) == (old.shape, old.dtype)
                    np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5, err_msg=tier)


def feeds_of(model: LoadedModel, given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the recorded feed, and feeds of 1 and 3 rows if the batch is open."""
    feed = {name: given[name] for name in model.feed_names}
    yield feed
    block = model.program.global_block()
    if feed and all(block.var(name).shape[:1] == (-1,) for name in feed):
        for rows in (1, 3):
            yield {name: np.resize(x, (rows, *x.shape[1:])) for name, x in feed.items()}


def outputs(model: LoadedModel, feeds: list[Any], tier: str, buckets: Any) -> list[list[Any]]:
    paddle.set_flags({TIER: tier})
    executor = static.Executor(paddle.CPUPlace(), buckets=buckets)
    return [executor.run(model.program, feed, model.fetch_names) for feed in feeds]
