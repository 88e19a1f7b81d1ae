"""Lengths of feeds that declare none, of joined rows, and of gradients."""

from __future__ import annotations

import numpy as np
import pytest

from graphopt import fluid
from graphopt.errors import FeedError, UnsupportedError
from graphopt.fluid import layers
from graphopt_tests.frontend.test_fluid_sequences import ROWS, fed, fresh, rows_of, run


def test_a_feed_without_lod_level_brings_its_lengths() -> None:
    """The lengths are those of the fed tensor, as in Paddle."""
    with fresh():
        x = layers.data("x", [2])
        total = layers.sequence_pool(layers.scale(x, 2.0), "sum")
        assert run({"x": fed(ROWS, [2, 3])}, total)[0][0] == [[4, 8], [36, 42]]
        with pytest.raises(
            FeedError, match=r"'x' has .*, which sequence_pool\(\) at .*\.py:\d+ needs"
        ):
            run({"x": ROWS}, total)
    with fresh(), pytest.raises(UnsupportedError, match="which has no sequence lengths"):
        layers.sequence_pool(layers.reduce_sum(layers.data("x", [2]), 0), "sum")


def test_joined_rows_are_the_sequences_of_all_parts() -> None:
    with fresh():
        x, y = rows_of(), fluid.data("y", [None, 2], lod_level=1)
        both = layers.concat([x, y, x], axis=0)
        assert both.lod_level == 1
        feed = {"x": fed(ROWS, [2, 3]), "y": fed(ROWS[:3], [1, 2])}
        joined, total = run(feed, both, layers.sequence_pool(both, "sum"))
        assert joined[1] == [[2, 3, 1, 2, 2, 3]]
        assert total[0] == [[2, 4], [18, 21], [0, 1], [6, 8], [2, 4], [18, 21]]
        wide = layers.concat([x, x], axis=1)
        assert run(feed, wide)[0][1] == [[2, 3]]
        plain = layers.concat([x, fluid.data("z", [None, 2])], axis=0)
        assert plain.lod_level == 0


def test_joined_sequences_of_sequences() -> None:
    with fresh():
        x = fluid.data("x", [None, 2], lod_level=2)
        value = fluid.create_lod_tensor(ROWS, [[1, 2], [2, 1, 2]], fluid.CPUPlace())
        found = run({"x": value}, layers.concat([x, x]))
    assert found[0][1] == [[1, 2, 1, 2], [2, 1, 2, 2, 1, 2]]


def test_gradients_are_sequences_like_their_variables() -> None:
    with fresh():
        x = rows_of()
        x.stop_gradient = False
        loss = layers.mean(layers.sequence_pool(x, "last"))
        fluid.backward.append_backward(loss)
        ((values, lengths),) = run({"x": fed(ROWS, [2, 3])}, x.grad_name)
    assert lengths == [[2, 3]]
    np.testing.assert_allclose(values, np.isin(range(5), [1, 4])[:, None] / 4 + np.zeros(2))


def test_positions_in_sequences() -> None:
    """The second pair of columns has a ten thousandth of the first pair's angles."""
    rows = np.arange(20, dtype="float32").reshape(5, 4)
    with fresh():
        x, steps = (
            fluid.data("x", [None, 4], lod_level=1),
            fluid.data("steps", [None, None, 4]),
        )
        outs = [layers.add_position_encoding(value, 0.5, 2.0) for value in (x, steps)]
        feed = {"x": fed(rows, [2, 3]), "steps": rows[None]}
        (found, lengths), (whole, _) = run(feed, *outs)
    for places, values in (([0, 1, 0, 1, 2], found), (range(5), whole[0])):
        angles = np.array(places)[:, None] * [1, 1e-4]
        wanted = 0.5 * rows + 2 * np.concatenate([np.sin(angles), np.cos(angles)], 1)
        np.testing.assert_allclose(values, wanted, 1e-6)
    assert lengths == [[2, 3]]
