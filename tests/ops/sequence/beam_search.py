"""Samples of the ops of beam search, as Paddle 1.8.5 computes them."""

from __future__ import annotations

from graphopt.ir.dialect.ops.sequence.beam_search import BeamSearch, BeamSearchDecode
from graphopt_tests.ops.base import f32, i64, sample

WORDS = [[4, 2, 5], [2, 1, 3], [3, 5, 2], [8, 2, 1]]
SCORES = [[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.9, 0.5, 0.1], [0.7, 0.5, 0.1]]
BEFORE = f32([[0.1], [0.2], [0.8], [0.4]])
PAIRS = [i64([2, 2]), i64([1, 1, 1, 1])]

SAMPLES = {
    BeamSearch: [
        # the third beam has ended
        sample(
            *(i64([[1], [2], [0], [4]]), BEFORE, i64(WORDS), f32(SCORES), [i64([2, 2])]),
            beam_size=2,
            end_id=0,
        ).gives(
            lambda *_: (
                *([[4], [2], [0], [8]], [[0.5], [0.6], [0.8], [0.7]], [0, 1, 2, 3]),
                *([2, 2], [1, 1, 1, 1]),
            )
        ),
        # both beams of the second sentence had ended before; of equal scores the later beam wins
        sample(
            *(i64([[1], [2], [0], [0]]), BEFORE, i64(WORDS)),
            *(f32([[0.5] * 3, [0.5] * 3, *SCORES[2:]]), PAIRS),
            beam_size=2,
            end_id=0,
        ).gives(lambda *_: ([[2], [3]], [[0.5], [0.5]], [1, 1], [2, 2], [0, 2, 0, 0])),
        sample(
            *(i64([[1], [2], [3], [4]]), f32([0.1, 0.2, 0.3, 0.4]), None, f32(SCORES), PAIRS),
            beam_size=3,
            end_id=0,
            is_accumulated=False,
        ).gives(
            lambda *_: (
                [[0], [0], [1], [0], [0], [1]],
                [[-0.593147], [-0.310826], [-1.003973], [0.194639], [0.043325], [-0.293147]],
                *([0, 1, 1, 2, 3, 3], [2, 2], [1, 2, 1, 2]),
            )
        ),
    ],
    BeamSearchDecode: [
        # two beams of one source; the first step's word goes on twice, and a sentence ends early
        sample(
            i64([[[7], [8]], [[3], [0]], [[4], [0]]]),
            f32([[[1.0], [1.0]], [[0.5], [0.9]], [[0.2], [0.9]]]),
            *(i64([[2], [2], [2]]), i64([[1, 1], [2, 0], [1, 1]])),
            end_id=0,
        ).gives(
            lambda *_: ([7, 0, 7, 3, 4], [1.0, 0.9, 1.0, 0.5, 0.2], [2], [2, 3]),
        ),
    ],
}
