"""Beam search against all possible sequences, and decoders that a script defines."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static
from graphopt.nn.decode import Decoder
from graphopt_tests.frontend.programs import fresh, run

WORDS, END, STEPS = 3, 2, 3


class Chain(nn.RNNCellBase):
    """A cell whose logits depend only on the last word, by a table."""

    def __init__(self, table: Any) -> None:
        super().__init__()
        self.table = paddle.to_tensor(table)

    def forward(self, inputs: Any, states: Any) -> tuple[Any, Any]:
        return nn.functional.embedding(inputs, self.table), states + 1.0


def likeliest(table: Any) -> tuple[list[int], float]:
    """Find the best of all sequences, padded with the end word, and its score."""
    log_p = table - np.log(np.exp(table).sum(1, keepdims=True))
    scores = {}
    for words in itertools.product(range(WORDS), repeat=STEPS):
        score, last, ended = 0.0, 0, False
        for word in words:
            if ended and word != END:
                break
            score, last, ended = score + (0 if ended else log_p[last, word]), word, word == END
        else:
            scores[words] = score
    best = max(scores, key=lambda words: scores[words])
    return list(best), scores[best]


@pytest.mark.exhaustive
@pytest.mark.parametrize("time_major", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_a_wide_beam_finds_the_best_sequence(time_major: bool) -> None:
    """With as many beams as sequences none is lost; the batch is known only when fed."""
    table = np.random.default_rng(3).standard_normal((WORDS, WORDS)).astype("float32")
    with fresh():
        states = static.data("s", [-1, 1], "float32")
        decoder = nn.BeamSearchDecoder(Chain(table), 0, END, WORDS**STEPS)
        ids, final, lengths = nn.dynamic_decode(
            decoder, states, STEPS - 1, output_time_major=time_major, return_length=True
        )
        found = run([ids, final.log_probs, lengths], s=np.zeros((2, 1), "float32"))
    words, score = likeliest(table)
    sequences = found[0].transpose(1, 0, 2) if time_major else found[0]
    assert sequences.shape == (2, STEPS, WORDS**STEPS)
    assert sequences[:, :, 0].tolist() == [words, words]
    np.testing.assert_allclose(found[1][:, 0], score, rtol=1e-5)
    assert found[2][0, 0] == (words.index(END) + 1 if END in words else STEPS)


class Countdown(Decoder):
    """A decoder that counts each number down to 0; its states count the steps."""

    def initialize(self, inits: Any) -> tuple[Any, Any, Any]:
        return inits, paddle.zeros_like(inits), inits <= 0

    def step(self, time: Any, inputs: Any, states: Any, **kwargs: Any) -> Any:
        left = inputs - 1
        return {"left": left}, states + 1, left, left <= 0


def test_a_decoder_of_the_users_own() -> None:
    """With `impute_finished` an ended sequence keeps its state; lengths count its steps."""
    with fresh():
        start = static.data("n", [3], "int64")
        found = []
        for kept in (False, True):
            outs, state, length = nn.dynamic_decode(
                Countdown(), start, 2, impute_finished=kept, return_length=True
            )
            found += [outs["left"], state, length]
        values = run(found, n=np.array([1, 2, 5]))
    assert values[0].tolist() == [[0, -1, -2], [1, 0, -1], [4, 3, 2]]
    assert values[1].tolist() == [3, 3, 3] and values[4].tolist() == [1, 2, 3]
    assert values[2].tolist() == values[5].tolist() == [1, 2, 3]


@pytest.mark.exhaustive
def test_decoding_stops_when_all_has_ended() -> None:
    """Decoding stops when all sequences have ended, with or without a limit, as in Paddle."""
    with fresh():
        start = static.data("n", [2], "int64")
        found = [nn.dynamic_decode(Countdown(), start, most)[0]["left"] for most in (None, 7, 0)]
        values = run(found, n=np.array([1, 3]))
    assert values[0].tolist() == values[1].tolist() == [[0, -1, -2], [2, 1, 0]]
    assert values[2].tolist() == [[0], [2]]


def test_errors_say_what_to_do() -> None:
    """A negative number of steps, and an end token that is no word, are errors."""
    with fresh():
        states = static.data("s", [-1, 1], "float32")
        decoder = nn.BeamSearchDecoder(Chain(np.eye(3, dtype="float32")), 0, 7, 2)
        with pytest.raises(ValueError, match="max_step_num is negative"):
            nn.dynamic_decode(decoder, states, -1)
        with pytest.raises(ValueError, match="end token 7 is none of 3 words"):
            nn.dynamic_decode(decoder, states, 2)
