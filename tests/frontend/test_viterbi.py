"""Viterbi decoding in scripts: numbers of Paddle 2.6.2, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import static, text
from graphopt.errors import FeedError, ProgramError

Array = np.ndarray[Any, Any]
GENERATOR = np.random.default_rng(0)
POTENTIALS = GENERATOR.normal(size=(3, 4, 4)).astype("float32")
TRANSITION = GENERATOR.normal(size=(4, 4)).astype("float32")


def run(lengths: list[int], framed: bool) -> list[Array]:
    with static.program_guard(main := static.Program(), static.Program()):
        potentials = static.data("potentials", [None, None, 4], "float32")
        decoder = text.ViterbiDecoder(static.data("transition", [4, 4], "float32"), framed)
        found = decoder(potentials, static.data("lengths", [None], "int64"))
    feed = {"potentials": POTENTIALS, "transition": TRANSITION, "lengths": np.array(lengths)}
    return static.Executor().run(main, feed=feed, fetch_list=list(found))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("lengths", "framed", "scores", "tags"),
    [
        ([4, 2, 1], True, [5.164239, 4.9095473, 0.769909], ["2001", "2100", "2000"]),
        ([2, 0, 3], True, [4.133471, 2.1509984, 5.386897], ["210", "000", "211"]),
        ([4, 2, 1], False, [3.9707081, 2.4741368, 0.5408456], ["3201", "2100", "1000"]),
        ([2, 0, 3], False, [3.148268, 1.0425134, 5.514642], ["320", "000", "132"]),
    ],
)
def test_paths_are_paddles(
    lengths: list[int], framed: bool, scores: list[float], tags: list[str]
) -> None:
    found = run(lengths, framed)
    np.testing.assert_allclose(found[0], scores, rtol=1e-6)
    assert found[1].tolist() == [[int(tag) for tag in row] for row in tags]
    assert (found[0].dtype, found[1].dtype) == (np.float32, np.int64)


@pytest.mark.parametrize("lengths", [[5, 2, 1], [0, 0, 0], [-1, 2, 1]])
def test_lengths_that_the_steps_do_not_have(lengths: list[int]) -> None:
    with pytest.raises(FeedError, match="sequences of 4 steps need lengths from 0 to that"):
        run(lengths, True)


def test_shapes_that_do_not_fit() -> None:
    with static.program_guard(static.Program(), static.Program()):
        potentials, lengths = static.data("p", [2, 3, 4]), static.data("n", [2], "int64")
        with pytest.raises(
            ProgramError, match=r"transitions \[5, 5\] .* do not fit scores \[2, 3, 4\]"
        ):
            text.viterbi_decode(potentials, static.data("t", [5, 5]), lengths)
