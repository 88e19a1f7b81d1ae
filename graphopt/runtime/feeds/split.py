"""The split of feeds into one part per replica.

Each feed is split by itself into chunks of ceil(rows / D), as Paddle's ParallelExecutor does (not
as
its page says); one with lengths is split between its outermost sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from graphopt.display.units import several
from graphopt.errors import FeedError, FeedSizeError
from graphopt.ir.program import LENGTHS, Program, Variable
from graphopt.ir.program.lengths import fed_name
from graphopt.runtime.feeds.feed import (
    StepsOfRun,
    as_array,
    check_dtype,
    check_feed,
    checked_feed,
    fed_variables,
    is_loss_grad,
    is_shared,
    with_lengths,
)
from graphopt.runtime.state.arrays import Array, Feed, Feeds, HostArray, unchanging


@dataclass(frozen=True)
class SplitFeed:
    """The feeds of one run for `count` replicas.

    `whole` has all rows of each variable if every replica gets equally many; otherwise it is None
    and `chunks` has one dictionary per replica. Variables in `stacked` have a batch for each step
    of the run, along axis 1. `samples` maps each split feed to its number of rows or sequences,
    `rows` to the number of its rows on each replica.
    """

    count: int
    whole: dict[str, Array] | None
    chunks: tuple[dict[str, Array], ...] = ()
    stacked: frozenset[str] = frozenset()
    samples: Mapping[str, int] = field(default_factory=dict[str, int])
    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def feeds(self) -> Feeds:
        """Return the feeds of a step; unequal chunks become a list with an array per replica."""
        if self.whole is not None:
            return self.whole
        return {name: [unchanging(chunk[name]) for chunk in self.chunks] for name in self.chunks[0]}

    def device_shapes(self) -> list[dict[str, tuple[int, ...]]]:
        """List the feed shapes of each replica, or of the first if all are equal."""
        if self.whole is None or self.count == 1:
            chunks = [self.whole] if self.whole is not None else self.chunks
            return [{name: tuple(a.shape) for name, a in chunk.items()} for chunk in chunks]
        shapes = {name: tuple(array.shape) for name, array in self.whole.items()}
        return [{n: (s[0] // self.count, *s[1:]) if s else s for n, s in shapes.items()}]


def split_feed(
    program: Program,
    feed: Feed,
    count: int,
    *,
    training: bool,
    steps: int = 1,
    any_shape: bool = False,
) -> SplitFeed:
    """Split the feeds of a data-parallel run of `steps` steps on up to `count` replicas.

    A dict is split, each feed by its own rows, or by its sequences when lengths come with it; a
    list has one dict per replica. Fewer chunks than replicas raise FeedSizeError in a training
    program. An inference program runs on fewer replicas then, where all feeds need equally many
    chunks. An array of one dimension more than its variable has a batch for each step. With
    `any_shape` and one step, variables that take any shape are not checked.
    """
    found = StepsOfRun(steps, set(), any_shape and steps == 1)
    parts = _split(program, feed, count, found, training=training)
    return replace(parts, stacked=frozenset(found.stacked))


def _split(
    program: Program, feed: Feed, count: int, steps: StepsOfRun, *, training: bool
) -> SplitFeed:
    if feed is None:
        return SplitFeed(count, {})
    if isinstance(feed, (list, tuple)):
        return _from_list(program, feed, count, steps, training=training)
    if not isinstance(feed, dict):
        raise TypeError(
            f"feed requires dict or list of dicts as its Parameter. But you passed in {type(feed)}"
        )
    return _from_dict(program, feed, count, steps, training=training)


def _from_list(
    program: Program,
    feed: Sequence[Mapping[str, object]],
    count: int,
    steps: StepsOfRun,
    *,
    training: bool,
) -> SplitFeed:
    for element in feed:
        if not isinstance(element, dict):
            raise TypeError("Each element of feed list should be a dict")
    filled = [element for element in feed if element]
    if len(filled) != count if training else not 0 < len(filled) <= count:
        raise FeedError(
            f"The feed data number {len(filled)} does not match the count of devices {count}; give "
            "one dict for each device (a DataLoader gives one for each of its `places`), or one "
            "dict whose rows are split"
        )
    chunks = tuple(
        dict(checked_feed(program, element, steps, any_shape=steps.any_shape)) for element in filled
    )
    names = {tuple(sorted(chunk)) for chunk in chunks}
    if len(names) > 1:
        raise FeedError("Each element of feed list should be a dict with the same names")
    return _join(chunks)


def _join(chunks: tuple[dict[str, Array], ...]) -> SplitFeed:
    """Concatenate equal chunks, so that one SPMD program can run them; leave unequal ones."""
    first = chunks[0]
    if any(chunk[name].shape != first[name].shape for chunk in chunks for name in first):
        return SplitFeed(len(chunks), None, chunks)
    whole = {name: side_by_side([chunk[name] for chunk in chunks]) for name in first}
    return SplitFeed(len(chunks), whole, chunks)


def side_by_side(arrays: Sequence[Array]) -> Array:
    """Concatenate chunks of one length; stack a number for each chunk."""
    return np.concatenate(arrays) if arrays[0].shape else np.stack(arrays)


def _from_dict(
    program: Program, feed: Mapping[str, object], count: int, steps: StepsOfRun, *, training: bool
) -> SplitFeed:
    found, levels = with_lengths(program, feed)
    known = [
        (v, steps.rows_first(v, as_array(v, value))) for v, value in fed_variables(program, found)
    ]
    samples = {
        v.name: len(levels[v.name][0]) if v.name in levels else array.shape[0]
        for v, array in known
        if array.shape and not is_shared(v) and not _of_lengths(v.name, levels)
    }
    used = _chunk_count(samples, count, training=training)
    rows: dict[str, tuple[int, ...]] = {}
    for name, size in samples.items():
        rows |= _cut(name, _ceil_chunks(size, used), levels.get(name, ()))
    whole: dict[str, Array] = {}
    for variable, array in known:
        check_dtype(variable, array.dtype)
        shared = is_shared(variable)
        whole[variable.name] = _repeat(variable, array, used) if shared else array
        shape = steps.one(variable, whole[variable.name].shape)
        sizes = [shape[0] // used] if shared else rows.get(variable.name, (0,))
        for size in sorted(set(sizes), reverse=True):
            if not (steps.any_shape and variable.takes_any_shape and shape):
                _check_part(variable, shape, size)
    split = {name: sizes for name, sizes in rows.items() if name in whole}
    parts = SplitFeed(used, whole, samples=samples, rows=split)
    if all(len(set(sizes)) == 1 for sizes in split.values()):
        return parts
    chunks = tuple(_chunk(whole, split, i) for i in range(used))
    return replace(parts, whole=None, chunks=chunks)


def _chunk(
    whole: Mapping[str, Array], rows: Mapping[str, tuple[int, ...]], index: int
) -> dict[str, Array]:
    """Build the feed of one replica: its rows of split feeds, its one row of shared ones."""
    found: dict[str, Array] = {}
    for name, array in whole.items():
        sizes = rows.get(name, (1,) * (index + 1))
        start = sum(sizes[:index])
        found[name] = array[start : start + sizes[index]]
    return found


def _ceil_chunks(size: int, count: int) -> tuple[int, ...]:
    """Compute the sizes of `count` chunks: ceil(size / count) while rows are left."""
    step = -(-size // count)
    return tuple(max(min(step, size - start * step), 0) for start in range(count))


def _cut(
    name: str, sizes: tuple[int, ...], levels: Sequence[HostArray]
) -> dict[str, tuple[int, ...]]:
    """Count the rows of a feed, and of its lengths, for these numbers of its samples."""
    found: dict[str, tuple[int, ...]] = {}
    for at, lengths in enumerate(levels):
        found[fed_name(name, at, len(levels))] = sizes
        ends = np.cumsum(sizes)
        sizes = tuple(
            int(np.sum(lengths[end - n : end])) for n, end in zip(sizes, ends, strict=True)
        )
    return {**found, name: sizes}


def _of_lengths(name: str, levels: Mapping[str, object]) -> bool:
    """Return whether a feed holds the lengths of another one."""
    owner, at, level = name.rpartition(LENGTHS)
    return bool(at) and owner in levels and (not level or level.isdigit())


def _check_part(variable: Variable, shape: Sequence[int], size: int) -> None:
    """Check the shape that a device gets: `size` rows, or a number of its own."""
    part = (size, *shape[1:]) if shape and variable.shape else ()
    check_feed(variable, part, variable.dtype.numpy)


def _chunk_count(samples: Mapping[str, int], count: int, *, training: bool) -> int:
    """Count the replicas that get a part of the feeds."""
    chunks = {name: _chunks_of(size, count) for name, size in samples.items()}
    for name, number in chunks.items():
        if number < count and training:
            size = samples[name]
            raise FeedSizeError(
                f"The number({number}) of samples[{name}] of current batch is less than the "
                f"count({count}) of devices: a batch of {several(size, 'row')} is cut into chunks "
                f"of {-(-size // count)}, which feeds {number} of {count} devices; feed a multiple "
                f"of {count} rows, or use fewer places"
            )
    if len(set(chunks.values())) > 1:
        shown = ", ".join(
            f"{name} {samples[name]} (on {number})" for name, number in chunks.items()
        )
        raise FeedError(
            f"the feeds are split over different numbers of devices: {shown}; feed the same number "
            "of rows to each variable, or use fewer places"
        )
    return max(next(iter(chunks.values()), count), 1)


def _chunks_of(size: int, count: int) -> int:
    """Count the devices that get a part; an empty feed gives each an empty one, as in Paddle."""
    return -(-size // -(-size // count)) if size else count


def _repeat(variable: Variable, array: Array, count: int) -> Array:
    """Repeat a shared value to one row or number per replica."""
    loss_grad = is_loss_grad(variable)
    if array.shape == (count,):
        return array
    if not array.shape and (count == 1 or not loss_grad):
        return np.repeat(array, count)
    if loss_grad:
        raise FeedError(
            f"'{variable.name}' was fed shape {list(array.shape)}: the gradient of the loss should "
            f"have the shape [{count}], one number for each device"
        )
    if variable.shape and (count == 1 or array.shape[:1] == (count,)):
        return array
    if variable.shape and array.shape[:1] == (1,):
        return np.repeat(array, count, axis=0)
    raise FeedError(
        f"'{variable.name}' was fed shape {list(array.shape)}, whose first dimension does not "
        f"match the count of devices {count}; feed one row for all devices, or one for each"
    )
