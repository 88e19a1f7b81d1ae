"""Beam search with NumPy, where arrays have values (see `lowering/dynamic.py`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jax import numpy as jnp

from graphopt.ir.dialect.ops.sequence.beam_search import BeamSearch, BeamSearchDecode
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.dynamic import elements_of
from graphopt.lowering.registry import lowers

Numbers = np.ndarray[Any, Any]
_WHAT = "the number of beams"


class _Item(NamedTuple):
    """A candidate; the better one has the larger score, or else comes from a later beam."""

    score: Any
    beam: int
    word: int

    @property
    def rank(self) -> tuple[Any, int]:
        return self.score, self.beam


@lowers(BeamSearch)
def beam_search(
    pre_ids: Array,
    pre_scores: Array,
    ids: Array | None,
    scores: Array,
    lengths: tuple[Array, ...],
    beam_size: int,
    end_id: int,
    level: int,
    is_accumulated: bool,
) -> tuple[Array, ...]:
    words, before = (concrete(x, _WHAT).reshape(-1) for x in (pre_ids, pre_scores))
    marks = concrete(scores, _WHAT)
    marks = marks.reshape(len(marks), -1)
    names = np.broadcast_to(np.arange(marks.shape[1]), marks.shape)
    names = names if ids is None else concrete(ids, _WHAT).reshape(marks.shape)
    if not is_accumulated:
        marks = before[:, None] + np.log(marks)
    sizes = _beams_of_each([concrete(x, _WHAT) for x in lengths], level)
    if sizes.sum() != len(marks) or len(words) != len(marks):
        raise ValueError(
            f"beam_search: {len(words)} beams with {len(marks)} rows of scores, but the lengths "
            f"{sizes.tolist()} add up to {sizes.sum()}"
        )
    chosen: list[list[_Item]] = [[] for _ in words]
    ends = np.cumsum(sizes)
    for start, end in zip((ends - sizes).tolist(), ends.tolist(), strict=True):
        beams = range(start, end)
        candidates = list[_Item]()
        for beam in beams:
            if words[beam] == end_id:
                candidates.append(_Item(before[beam], beam, end_id))
            else:
                candidates += map(_Item, marks[beam], [beam] * len(marks[beam]), names[beam])
        best = _best(candidates, beam_size)
        if all(item.word == end_id == words[item.beam] for item in best):
            continue
        for item in best:
            chosen[item.beam].append(item)
    items = [item for row in chosen for item in row]
    return (
        jnp.asarray([[item.word] for item in items], "int64").reshape(-1, 1),
        jnp.asarray(np.array([[item.score] for item in items], before.dtype).reshape(-1, 1)),
        jnp.asarray([item.beam for item in items], "int32"),
        jnp.asarray(sizes, "int64"),
        jnp.asarray([len(row) for row in chosen], "int64"),
    )


def _beams_of_each(levels: list[Numbers], level: int) -> Numbers:
    """Count the rows that belong to each item of a level."""
    sizes = levels[-1]
    for outer in reversed(levels[level:-1]):
        sums = np.concatenate([[0], np.cumsum(sizes)])
        ends = np.cumsum(outer)
        sizes = sums[ends] - sums[ends - outer]
    return sizes


def _best(candidates: list[_Item], count: int) -> list[_Item]:
    """Select the best `count` candidates, best first, equal ones in Paddle's order.

    Paddle inserts one candidate after the other, and of equal ones in the last place the later
    stays. Candidates below the `count` best scores have no influence and are left out first.
    """
    if len(candidates) > count:
        marks = np.array([item.score for item in candidates])
        least = np.partition(marks, -count)[-count]
        candidates = [item for item in candidates if not item.score < least]
    found: list[_Item] = []
    for item in candidates:
        if len(found) == count:
            if item.rank < found[-1].rank:
                continue
            found.pop()
        at = next((i for i, other in enumerate(found) if other.rank < item.rank), len(found))
        found.insert(at, item)
    return found


@lowers(BeamSearchDecode)
def beam_search_decode(
    ids: Array, scores: Array, sentence_lengths: Array, beam_lengths: Array, end_id: int
) -> tuple[Array, ...]:
    words, marks, sources, beams = (
        [concrete(x, _WHAT).reshape(-1) for x in elements_of(array)]
        for array in (ids, scores, sentence_lengths, beam_lengths)
    )
    steps = [_Step(*step) for step in zip(words, marks, sources, beams, strict=True)]
    sentences = [_backtrace(steps, at, end_id) for at in range(len(sources[0]))]
    for found in sentences:
        found.sort(key=lambda sentence: -sentence[0][1])
    every = [sentence[::-1] for found in sentences for sentence in found]
    return (
        jnp.asarray([word for sentence in every for word, _ in sentence], "int64"),
        jnp.asarray([mark for sentence in every for _, mark in sentence], marks[0].dtype),
        jnp.asarray([len(found) for found in sentences], "int64"),
        jnp.asarray([len(sentence) for sentence in every], "int64"),
    )


class _Step(NamedTuple):
    """The candidates of one step, with the beams of each source and the candidates of each beam."""

    words: Numbers
    marks: Numbers
    sources: Numbers
    beams: Numbers


def _backtrace(steps: list[_Step], source: int, end_id: int) -> list[list[tuple[int, Any]]]:
    """Collect the sentences of a source, last word first, each word with its score.

    They start at the last step at which the source has candidates. Of the words that end a sentence
    one is kept.
    """
    sentences: list[list[tuple[int, Any]]] = []
    at: list[int] = []
    for step in reversed(steps):
        ends = np.cumsum(step.beams)
        if not sentences:
            first = int(step.sources[:source].sum())
            last = first + int(step.sources[source])
            at = list(range(int(step.beams[:first].sum()), int(step.beams[:last].sum())))
            sentences = [[] for _ in at]
        for sentence, candidate in zip(sentences, at, strict=True):
            word = int(step.words[candidate])
            if word != end_id or not sentence:
                sentence.append((word, step.marks[candidate]))
        at = [int(np.searchsorted(ends, candidate, side="right")) for candidate in at]
    return sentences
