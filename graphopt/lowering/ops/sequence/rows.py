"""Sequences concatenated, sliced, repeated and reordered, in JAX."""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.sequence import rows as ops
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.ops.sequence.layers import ends_of, numbers_of
from graphopt.lowering.registry import lowers


@lowers(ops.SequenceConcat)
def sequence_concat(xs: tuple[Array, ...], lengths: tuple[Array, ...]) -> Array:
    # The target of each row: after the earlier sequences, and after its sequence in earlier
    # tensors.
    whole = sum(own.astype(np.int64) for own in lengths)
    starts = jnp.cumsum(whole) - whole
    before = jnp.zeros_like(starts)
    out = jnp.zeros((sum(x.shape[0] for x in xs), *xs[0].shape[1:]), xs[0].dtype)
    for x, own in zip(xs, lengths, strict=True):
        sizes = own.astype(np.int64)
        if x.shape[0]:
            numbers = numbers_of(own, x.shape[0])
            inside = jnp.arange(x.shape[0]) - jnp.take(ends_of(own) - sizes, numbers)
            to = jnp.take(starts + before, numbers) + inside
            out = out.at[to].set(x, mode="drop", unique_indices=True)
        before = before + sizes
    return out


@lowers(ops.SequenceRepeat)
def sequence_expand(x: Array, lengths: Array, counts: Array) -> tuple[Array, Array]:
    sizes = concrete(lengths, "the number of rows of sequence_expand")
    times = concrete(counts, "the number of rows of sequence_expand")
    if len(sizes) != len(times):
        raise ValueError(
            f"sequence_expand: x has {len(sizes)} sequences, but there are {len(times)} counts"
        )
    starts = np.cumsum(sizes) - sizes
    chosen = np.repeat(np.arange(len(sizes)), times)
    rows = [np.arange(starts[i], starts[i] + sizes[i]) for i in chosen]
    at = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    return jnp.take(x, at.astype(np.int64), 0), jnp.asarray(sizes[chosen], lengths.dtype)


@lowers(ops.SequenceReshape)
def sequence_reshape(x: Array, lengths: Array, new_dim: int) -> tuple[Array, Array]:
    numbers = concrete(lengths, "whether sequence_reshape makes whole rows") * x.shape[1]
    if np.any(numbers % new_dim):
        raise ValueError(
            f"sequence_reshape to rows of {new_dim}: sequences of {numbers.tolist()} numbers do "
            "not all make whole rows"
        )
    return x.reshape(-1, new_dim), jnp.asarray(numbers // new_dim, lengths.dtype)


@lowers(ops.SequenceScatter)
def sequence_scatter(x: Array, index: Array, updates: Array, lengths: Array) -> Array:
    numbers = numbers_of(lengths, index.shape[0])
    places = (numbers, index.reshape(-1))
    sums = jnp.asarray(wide(x)).at[places].add(wide(updates).reshape(-1), mode="drop")
    return sums.astype(x.dtype)


@lowers(ops.SequenceEnumerate)
def sequence_enumerate(x: Array, lengths: Array, win_size: int, pad_value: int) -> Array:
    rows = x.shape[0]
    if not rows:
        return jnp.zeros((0, win_size), x.dtype)
    at = jnp.arange(rows)[:, None] + np.arange(win_size)
    ends = jnp.take(ends_of(lengths), numbers_of(lengths, rows))
    found = jnp.take(x.reshape(-1), jnp.clip(at, 0, rows - 1))
    return jnp.where(at < ends[:, None], found, jnp.asarray(pad_value, x.dtype))


@lowers(ops.SequenceSlice)
def sequence_slice(x: Array, lengths: Array, offset: Array, length: Array) -> Array:
    what = "the number of rows of sequence_slice"
    sizes, begin, wanted = (concrete(each, what) for each in (lengths, offset, length))
    if not len(sizes) == len(begin) == len(wanted):
        raise ValueError(
            f"sequence_slice: {len(sizes)} sequences, {len(begin)} offsets, {len(wanted)} lengths"
        )
    if np.any(begin < 0) or np.any(wanted < 0) or np.any(begin + wanted > sizes):
        raise ValueError(
            f"sequence_slice: sequences of {sizes.tolist()} rows do not have {wanted.tolist()} "
            f"rows from {begin.tolist()} on"
        )
    starts = np.cumsum(sizes) - sizes + begin
    rows = [np.arange(s, s + n) for s, n in zip(starts, wanted, strict=True)]
    at = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    return jnp.take(x, at.astype(np.int64), 0)


@lowers(ops.SequenceErase)
def sequence_erase(x: Array, lengths: Array, tokens: tuple[int, ...]) -> tuple[Array, Array]:
    numbers = concrete(x, "the number of rows of sequence_erase")
    sizes = concrete(lengths, "the number of rows of sequence_erase")
    kept = ~np.isin(numbers.reshape(-1), tokens)
    before = np.concatenate([[0], np.cumsum(kept)])
    ends = np.cumsum(sizes)
    left = before[ends] - before[ends - sizes]
    return jnp.asarray(numbers[kept]), jnp.asarray(left, lengths.dtype)


@lowers(ops.SequenceAlign)
def sequence_align(
    x: Array, lengths: Array, blank: int, merge_repeated: bool
) -> tuple[Array, Array]:
    tokens = concrete(x, "the number of rows of ctc_align").reshape(-1)
    sizes = concrete(lengths, "the number of rows of ctc_align")
    ends = np.cumsum(sizes)
    kept = tokens != blank
    if merge_repeated:
        first = np.zeros(len(tokens) + 1, bool)
        first[ends - sizes] = True
        kept &= first[:-1] | (tokens != np.concatenate([tokens[:1], tokens[:-1]]))
    before = np.concatenate([[0], np.cumsum(kept)])
    left = before[ends] - before[ends - sizes]
    found = tokens[kept] if kept.any() else np.full(1, -1, tokens.dtype)
    return jnp.asarray(found.reshape(-1, *x.shape[1:])), jnp.asarray(left, lengths.dtype)


@lowers(ops.SequenceEditDistance)
def sequence_edit_distance(
    hyps: Array, refs: Array, hyps_lengths: Array, refs_lengths: Array, normalized: bool
) -> tuple[Array, Array]:
    count = refs_lengths.shape[0]
    if hyps_lengths.shape[0] != count:
        raise ValueError(
            f"edit_distance: there are {hyps_lengths.shape[0]} sequences and {count} references"
        )
    # The tables of all sequences side by side: a cell for each reference token, and one before
    # them.
    sizes = refs_lengths.astype(np.int64) + 1
    cells = refs.shape[0] + count
    owners, index = numbers_of(sizes, cells), jnp.arange(cells)
    at = index - jnp.take(ends_of(sizes) - sizes, owners)
    wanted = jnp.pad(refs.reshape(-1), (1, 0))
    wanted = jnp.take(wanted, jnp.where(at == 0, 0, index - owners))
    infinite = cells + hyps.shape[0]

    def step(row: Array, now: tuple[Array, Array]) -> tuple[Array, None]:
        token, owner = now
        changed = jnp.roll(row, 1) + (wanted != token)
        new = jnp.where(at == 0, row + 1, jnp.minimum(changed, row + 1))
        # an insertion costs 1 for each cell to the right, within the sequence's own cells
        own = owners == owner
        new = lax.cummin(jnp.where(own, new, 2 * infinite) - index) + index
        return jnp.where(own, new, row), None

    row, _ = lax.scan(step, at, (hyps.reshape(-1), numbers_of(hyps_lengths, hyps.shape[0])))
    distance = jnp.take(row, ends_of(sizes) - 1).astype(np.float32)
    if normalized:
        distance = distance / refs_lengths.astype(np.float32)
    return distance.reshape(-1, 1), jnp.full(1, count, np.int64)


@lowers(ops.SequenceReorder)
def sequence_reorder(x: Array, lengths: Array, order: Array) -> Array:
    if not x.shape[0]:
        return x
    sizes = jnp.take(lengths.astype(np.int64), order)
    starts = jnp.take(ends_of(lengths) - lengths.astype(np.int64), order)
    numbers = numbers_of(sizes, x.shape[0])
    inside = jnp.arange(x.shape[0]) - jnp.take(ends_of(sizes) - sizes, numbers)
    return jnp.take(x, jnp.take(starts, numbers) + inside, 0)
