"""Saved recurrent models in buckets: the rnn operator, and operators on sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.buckets import Buckets, multiples_of, powers_of_two
from graphopt.ir.formats import LoadedModel
from graphopt_tests.runtime.test_models import (
    CASES,
    load,
    put_parameters,
    recorded,
    sequence_case,
)


def assert_same(model: LoadedModel, feeds: list[dict[str, Any]], buckets: Buckets) -> None:
    """Check that buckets preserve the outputs of all feeds, with fewer programs."""
    exact = static.Executor(paddle.CPUPlace())
    padded = static.Executor(paddle.CPUPlace(), buckets=buckets)
    for feed in feeds:
        wanted = exact.run(model.program, feed, model.fetch_names)
        found = padded.run(model.program, feed, model.fetch_names)
        for new, old in zip(found, wanted, strict=True):
            assert new.shape == old.shape
            np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-6)
    assert padded.stats["exact"] == []
    assert padded.stats["padding"] > 0
    assert padded.stats["compiled_shapes"] < exact.stats["compiled_shapes"]


@pytest.mark.exhaustive
def test_a_saved_rnn_with_states_of_its_own() -> None:
    """Its initial states have the sizes of the feed, and get the added rows."""
    saved = CASES["infer_lstm_classifier/model_pir_v3.json"]
    model = load(saved)
    put_parameters(model)
    given, _ = recorded(saved)[0]
    rows = min(len(given[name]) for name in model.feed_names)
    counts = [count for count in (1, 2, 3) if count <= rows]
    feeds = [{name: given[name][:count] for name in model.feed_names} for count in counts]
    assert_same(model, feeds, Buckets({"batch": multiples_of(7)}))


@pytest.mark.exhaustive
def test_saved_sequences() -> None:
    """A model of Paddle 1.8 on sequences runs in buckets."""
    model, given, _ = sequence_case()
    words = given["words"]
    feeds = [
        {"words": words[: sum(lengths)], "words@lens": np.array(lengths)}
        for lengths in ([2, 1], [3], [1, 1, 2], [4, 2])
    ]
    assert_same(model, feeds, Buckets({"batch": powers_of_two(4), "rows": multiples_of(16)}))
