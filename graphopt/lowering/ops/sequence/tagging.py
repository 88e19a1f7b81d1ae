"""Conditional random fields and chunks, in JAX: scans over the steps, and flags of each row."""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.scipy.special import logsumexp

from graphopt.errors import FeedError
from graphopt.ir.dialect.ops.sequence.tagging import (
    ChunkEval,
    CrfDecoding,
    LinearChainCrf,
    ViterbiDecode,
)
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.ops.sequence.layers import ends_of, numbers_of
from graphopt.lowering.registry import lowers


class _Steps:
    """Scores with the time first, [n, tags] or [steps, sequences, tags], and masks of the steps.

    `first` and `last` mark the ends of each sequence, `inside` the steps that belong to one.
    """

    def __init__(self, emission: Array, lengths: Array) -> None:
        self.is_padded = emission.ndim == 3
        self.lengths = lengths.astype(np.int64)
        if self.is_padded:
            self.scores = jnp.swapaxes(wide(emission), 0, 1)
            at = jnp.arange(emission.shape[1])
            self.first = jnp.broadcast_to((at == 0)[:, None], self.scores.shape[:2])
            self.last = at[:, None] == self.lengths - 1
            self.inside = at[:, None] < self.lengths
        else:
            self.scores = wide(emission)
            self.numbers = numbers_of(lengths, emission.shape[0])
            at, ends = jnp.arange(emission.shape[0]), ends_of(lengths)
            own = jnp.take(ends, self.numbers)
            self.first = at == own - jnp.take(self.lengths, self.numbers)
            self.last = at == own - 1
            self.inside = jnp.ones(emission.shape[0], bool)

    def tags(self, label: Array) -> Array:
        """Put the time axis of labels first."""
        rank = self.first.ndim
        flat = label.reshape(label.shape[:rank]).astype(np.int64)
        return flat.T if self.is_padded else flat

    def at_last(self, values: Array) -> Array:
        """Take the value at the last step of each sequence; of any step for an empty one."""
        if self.is_padded:
            at = jnp.maximum(self.lengths - 1, 0)
            return values[at, jnp.arange(values.shape[1])]
        return jnp.take(values, jnp.maximum(ends_of(self.lengths) - 1, 0), 0)

    def sums(self, values: Array) -> Array:
        """Sum the values of the steps of each sequence."""
        values = jnp.where(self.inside, values, 0.0)
        if self.is_padded:
            return values.sum(0)
        zero = jnp.zeros(self.lengths.shape[0], values.dtype)
        return zero.at[self.numbers].add(values, mode="drop")


@lowers(LinearChainCrf)
def linear_chain_crf(emission: Array, transition: Array, label: Array, lengths: Array) -> Array:
    if not emission.size:
        return jnp.zeros((lengths.shape[0], 1), emission.dtype)
    steps, scores = _Steps(emission, lengths), jnp.asarray(wide(transition))
    start, end, between = scores[0], scores[1], scores[2:]

    def step(before: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        own, first = now
        carried = logsumexp(before[..., :, None] + between, axis=-2)
        out = own + jnp.where(first[..., None], start, carried)
        return out, out

    _, forward = lax.scan(step, jnp.zeros_like(steps.scores[0]), (steps.scores, steps.first))
    whole = logsumexp(steps.at_last(forward) + end, axis=-1)
    tags = steps.tags(label)
    before = jnp.concatenate([tags[:1], tags[:-1]])
    found = jnp.take_along_axis(steps.scores, tags[..., None], -1)[..., 0]
    found += jnp.where(steps.first, start[tags], between[before, tags])
    found += jnp.where(steps.last, end[tags], 0.0)
    out = jnp.where(steps.lengths > 0, whole - steps.sums(found), 0.0)
    return out[:, None].astype(emission.dtype)


@lowers(CrfDecoding)
def crf_decoding(emission: Array, transition: Array, lengths: Array, label: Array | None) -> Array:
    if not emission.size:
        shape = emission.shape[:2] if emission.ndim == 3 else (0, 1)
        return jnp.zeros(shape, np.int64)
    steps, scores = _Steps(emission, lengths), jnp.asarray(wide(transition))
    start, end, between = scores[0], scores[1], scores[2:]

    def forwards(before: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        own, first = now
        ways = before[..., :, None] + between
        out = own + jnp.where(first[..., None], start, ways.max(-2))
        return out, (out, ways.argmax(-2))

    def backwards(after: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        best, last, back = now
        tag = jnp.where(last, best, after)
        return jnp.take_along_axis(back, tag[..., None], -1)[..., 0], tag

    zero = jnp.zeros_like(steps.scores[0])
    _, (found, back) = lax.scan(forwards, zero, (steps.scores, steps.first))
    best = (found + end).argmax(-1)
    _, tags = lax.scan(backwards, best[0], (best, steps.last, back), reverse=True)
    if label is not None:
        tags = tags == steps.tags(label)
    tags = jnp.where(steps.inside, tags, 0).astype(np.int64)
    return tags.T if steps.is_padded else tags[:, None]


@lowers(ViterbiDecode)
def viterbi_decode(
    potentials: Array, transition: Array, lengths: Array, include_bos_eos_tag: bool
) -> tuple[Array, Array]:
    sizes = concrete(lengths, "the number of steps of viterbi_decode").astype(np.int64)
    longest = int(sizes.max(initial=0))
    if not 0 < longest <= potentials.shape[1] or sizes.min() < 0:
        raise FeedError(
            f"viterbi_decode: sequences of {potentials.shape[1]} steps need lengths from 0 to "
            f"that, at least one of them above 0; found {sizes.tolist()}"
        )
    scores, between = jnp.swapaxes(wide(potentials), 0, 1)[:longest], jnp.asarray(wide(transition))
    inside = jnp.asarray(np.arange(longest)[:, None] < sizes)
    start = scores[0] + between[-1] if include_bos_eos_tag else scores[0]

    def forwards(before: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        own, is_inside = now
        ways = before[:, :, None] + between
        out = jnp.where(is_inside[:, None], own + ways.max(1), before)
        return out, ways.argmax(1)

    def backwards(after: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        back, is_inside = now
        tag = jnp.take_along_axis(back, after[:, None], 1)[:, 0]
        return (found := jnp.where(is_inside, tag, after)), found

    whole, back = lax.scan(forwards, start, (scores[1:], inside[1:]))
    if include_bos_eos_tag:
        whole += jnp.where(sizes[:, None] > 0, between[-2], 0)
    last = whole.argmax(1)
    _, tags = lax.scan(backwards, last, (back, inside[1:]), reverse=True)
    path = jnp.where(inside, jnp.concatenate([tags, last[None]]), 0)
    return whole.max(1).astype(potentials.dtype), path.T.astype(np.int64)


# scheme -> the number of tag kinds, and the tags for begin, inside, end and single
_TAGS = {
    "IOB": (2, 0, 1, -1, -1),
    "IOE": (2, -1, 0, 1, -1),
    "IOBES": (4, 0, 1, 2, 3),
    "plain": (1, -1, -1, -1, -1),
}


def _chunks(labels: Array, first: Array, inside: Array, types: int, scheme: str) -> list[Array]:
    """Find each row's type, a mark where a chunk starts, and the end of its chunk."""
    kinds, begin, within, end, single = _TAGS[scheme]
    tag, kind = labels % kinds, jnp.where(inside, labels // kinds, types)
    tag_before = jnp.concatenate([tag[:1], tag[:-1]])
    before = jnp.where(first, types, jnp.concatenate([kind[:1], kind[:-1]]))
    in_chunk, after_chunk = kind != types, before != types
    closed = (tag_before == end) | (tag_before == single)
    opens = (tag == begin) | (tag == single) | (((tag == within) | (tag == end)) & closed)
    starts = in_chunk & (~after_chunk | (kind != before) | opens)
    reopened = (tag == begin) | (tag == single)
    stays = ((tag_before == begin) | (tag_before == within)) & reopened
    ends = after_chunk & (~in_chunk | (kind != before) | stays | closed)
    last = jnp.concatenate([first[1:], jnp.ones(1, bool)])
    closes = jnp.concatenate([ends[1:], jnp.ones(1, bool)]) | last
    rows = jnp.arange(len(labels))
    return [kind, starts, lax.cummin(jnp.where(closes, rows, len(labels)), reverse=True)]


@lowers(ChunkEval)
def chunk_eval(
    inference: Array,
    label: Array,
    lengths: Array,
    num_chunk_types: int,
    chunk_scheme: str,
    excluded_chunk_types: tuple[int, ...],
    steps: int,
) -> tuple[Array, ...]:
    rows = inference.reshape(-1)
    if steps:
        at = jnp.arange(inference.shape[1])
        first = jnp.broadcast_to(at == 0, inference.shape[:2]).reshape(-1)
        inside = (at < lengths[:, None]).reshape(-1)
    else:
        numbers = numbers_of(lengths, rows.shape[0])
        first = jnp.concatenate([jnp.ones(1, bool), numbers[1:] != numbers[:-1]])[: len(rows)]
        inside = jnp.ones(rows.shape[0], bool)
    if not rows.shape[0]:
        counts = [jnp.zeros((), np.int64)] * 3
    else:
        found = _chunks(rows, first, inside, num_chunk_types, chunk_scheme)
        there = _chunks(label.reshape(-1), first, inside, num_chunk_types, chunk_scheme)
        out = np.array(excluded_chunk_types, np.int64)
        ours, theirs = (c[1] & ~jnp.isin(c[0], out) for c in (found, there))
        both = ours & theirs & (found[0] == there[0]) & (found[2] == there[2])
        counts = [each.sum().astype(np.int64) for each in (ours, theirs, both)]
    precision, recall = (_share(counts[2], whole) for whole in counts[:2])
    f1 = _share(2 * precision * recall, precision + recall)
    return tuple(each.reshape(1) for each in (precision, recall, f1, *counts))


def _share(part: Array, whole: Array) -> Array:
    """Compute part / whole in float32, 0 for an empty whole."""
    part, whole = part.astype(np.float32), whole.astype(np.float32)
    return jnp.where(whole > 0, part / jnp.where(whole > 0, whole, 1.0), 0.0)
