"""Decoders with helpers against plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static
from graphopt.fluid import layers
from graphopt_tests.frontend.programs import fresh, run

TABLE = np.array([[0, 3, 1, 0], [0, 0, 4, 1], [0, 1, 0, 5], [6, 0, 0, 0]], "float32")


class Sum(layers.RNNCell):
    """A cell whose state, and output, is the sum of the inputs."""

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any]:
        return inputs + states, inputs + states


class Last(layers.RNNCell):
    """A cell whose output is the input."""

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any]:
        return inputs, states


def embedded(words: Any) -> Any:
    return nn.functional.embedding(words, paddle.to_tensor(TABLE))


@pytest.mark.exhaustive
def test_given_inputs() -> None:
    """Each sequence ends at its length, and decoding ends with the longest."""
    x = np.random.default_rng(0).standard_normal((2, 4, 3)).astype("float32")
    for time_major in (False, True):
        with fresh():
            inputs = static.data("x", [4, 2, 3] if time_major else [-1, 4, 3], "float32")
            lengths, start = static.data("n", [-1], "int64"), static.data("s", [-1, 3], "float32")
            helper = layers.TrainingHelper(inputs, lengths, time_major)
            decoder = layers.BasicDecoder(Sum(), helper)
            outputs, final, counted = layers.dynamic_decode(
                decoder, start, impute_finished=True, return_length=True
            )
            fed = {"x": x.transpose(1, 0, 2) if time_major else x}
            found = run(
                [outputs.cell_outputs, outputs.sample_ids, final, counted],
                **fed,
                n=np.array([3, 2]),
                s=np.zeros((2, 3), "float32"),
            )
        sums = np.cumsum(x, 1)
        assert found[0].shape == (2, 3, 3)
        np.testing.assert_allclose(found[0][0], sums[0, :3], rtol=1e-5)
        np.testing.assert_allclose(found[0][1, :2], sums[1, :2], rtol=1e-5)
        assert found[1][0].tolist() == sums[0, :3].argmax(-1).tolist()
        np.testing.assert_allclose(found[2], [sums[0, 2], sums[1, 1]], rtol=1e-5)
        assert found[3].tolist() == [3, 2]


def test_likeliest_words() -> None:
    """Decoding follows the table from word to word until the end token."""
    with fresh():
        words, start = static.data("w", [-1], "int64"), static.data("s", [-1, 4], "float32")
        helper = layers.GreedyEmbeddingHelper(embedded, words, 3)
        decoder = layers.BasicDecoder(Last(), helper)
        outputs, _ = layers.dynamic_decode(decoder, start, max_step_num=9)
        fed = {"w": np.array([0, 2]), "s": np.zeros((2, 4), "float32")}
        (found,) = run([outputs.sample_ids], **fed)
    assert found.tolist() == [[1, 2, 3], [3, 0, 1]]


def test_drawn_words() -> None:
    """Near temperature 0 the drawn words are the likeliest."""
    with fresh():
        words, start = static.data("w", [-1], "int64"), static.data("s", [-1, 4], "float32")
        helper = layers.SampleEmbeddingHelper(embedded, words, 3, softmax_temperature=0.01)
        decoder = layers.BasicDecoder(Last(), helper)
        outputs, _ = layers.dynamic_decode(decoder, start, max_step_num=1)
        fed = {"w": np.array([0, 2]), "s": np.zeros((2, 4), "float32")}
        (found,) = run([outputs.sample_ids], **fed)
    assert found.tolist() == [[1, 2], [3, 0]]
