"""Feeds: what a script hands to `run`, checked and cut into one part per replica.

Each feed is cut by itself in chunks of ceil(rows / D), as Paddle's ParallelExecutor does (not as
its page says); one with lengths is cut between its outermost sequences.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphopt.errors import FeedError, FeedSizeError
from graphopt.ir.program import GRAD_SUFFIX, LENGTHS, Program, Variable
from graphopt.ir.program.location import caller_level
from graphopt.runtime.blame import nearest

Array = Any


@dataclass(frozen=True)
class SplitFeed:
    """The feeds of one run for `count` replicas.

    `whole` has all rows of each variable when every replica gets equally many; otherwise it is
    None and `chunks` has one dictionary per replica. Variables in `stacked` have a batch for each
    step of the run, along axis 1. `samples` says how many rows or sequences were split of each
    feed, `rows` how many rows of it each replica gets.
    """

    count: int
    whole: dict[str, Array] | None
    chunks: tuple[dict[str, Array], ...] = ()
    stacked: frozenset[str] = frozenset()
    samples: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass
class _Steps:
    """The number of steps of a run, and the feeds that have a batch for each."""

    count: int
    stacked: set[str]

    def rows_first(self, variable: Variable, array: Array) -> Array:
        """A feed of [steps, rows, …] as [rows, steps, …]; other feeds unchanged."""
        batched = bool(variable.shape) and not _is_shared(variable)
        if self.count < 2 or not batched or len(array.shape) != len(variable.shape) + 1:
            return array
        if array.shape[0] != self.count:
            raise FeedError(
                f"'{variable.name}' was fed {list(array.shape)}, one dimension more than it has, "
                f"so the first one should be num_iteration_per_run = {self.count} batches"
            )
        self.stacked.add(variable.name)
        return array.swapaxes(0, 1)

    def one(self, variable: Variable, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what one step is fed."""
        return (*shape[:1], *shape[2:]) if variable.name in self.stacked else tuple(shape)


def single_feed(program: Program, feed: Any) -> dict[str, Array]:
    """The checked feeds of a run on one device.

    `feed` is a dict, or a list of one dict. Unknown names are warned about and left out.
    """
    if feed is None:
        return {}
    if isinstance(feed, (list, tuple)):
        if len(feed) != 1:
            raise FeedError(
                f"Not compiled with data parallel, so the feed must be one dict, not {len(feed)}"
            )
        feed = feed[0]
    if not isinstance(feed, dict):
        raise TypeError(f"feed requires dict as its Parameter. But you passed in {type(feed)}")
    return dict(_checked(program, feed))


def split_feed(
    program: Program, feed: Any, count: int, *, training: bool, steps: int = 1
) -> SplitFeed:
    """The feeds of a data-parallel run of `steps` steps on up to `count` replicas.

    A dict is split, each feed by its own rows, or by its sequences when lengths come with it; a
    list has one dict per replica. Fewer chunks than replicas raise FeedSizeError in a training
    program and run on fewer replicas in an inference one, where all feeds need equally many chunks.
    An array of one dimension more than its variable has a batch for each step.
    """
    found = _Steps(steps, set())
    parts = _split(program, feed, count, found, training=training)
    return replace(parts, stacked=frozenset(found.stacked))


def _split(program: Program, feed: Any, count: int, steps: _Steps, *, training: bool) -> SplitFeed:
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
    program: Program, feed: Sequence[Any], count: int, steps: _Steps, *, training: bool
) -> SplitFeed:
    for element in feed:
        if not isinstance(element, dict):
            raise TypeError("Each element of feed list should be a dict")
    filled = [element for element in feed if element]
    if len(filled) != count if training else not 0 < len(filled) <= count:
        raise FeedError(
            f"The feed data number {len(filled)} does not match the count of devices {count}; give "
            "one dict for each device"
        )
    chunks = tuple(dict(_checked(program, element, steps)) for element in filled)
    names = {tuple(sorted(chunk)) for chunk in chunks}
    if len(names) > 1:
        raise FeedError("Each element of feed list should be a dict with the same names")
    return _join(chunks)


def _checked(
    program: Program, feed: Mapping[str, Any], steps: _Steps | None = None
) -> Iterable[tuple[str, Array]]:
    steps = steps or _Steps(1, set())
    for variable, value in _variables(program, _with_lengths(program, feed)[0]):
        array = steps.rows_first(variable, as_array(variable, value))
        if not variable.shape and array.shape == (1,):
            array = array.reshape(())
        check_feed(variable, steps.one(variable, array.shape), array.dtype)
        yield variable.name, array


def _join(chunks: tuple[dict[str, Array], ...]) -> SplitFeed:
    """Equal chunks side by side, so that one SPMD program can run them."""
    first = chunks[0]
    if any(chunk[name].shape != first[name].shape for chunk in chunks for name in first):
        return SplitFeed(len(chunks), None, chunks)
    whole = {name: side_by_side([chunk[name] for chunk in chunks]) for name in first}
    return SplitFeed(len(chunks), whole, chunks)


def side_by_side(arrays: Sequence[Array]) -> Array:
    """Chunks of one length as one array; a number for each chunk as an array of them."""
    return np.concatenate(arrays) if arrays[0].shape else np.stack(arrays)


def _from_dict(
    program: Program, feed: Mapping[str, Any], count: int, steps: _Steps, *, training: bool
) -> SplitFeed:
    found, levels = _with_lengths(program, feed)
    known = [
        (v, steps.rows_first(v, as_array(v, value))) for v, value in _variables(program, found)
    ]
    samples = {
        v.name: len(levels[v.name][0]) if v.name in levels else array.shape[0]
        for v, array in known
        if array.shape and not _is_shared(v) and not _of_lengths(v.name, levels)
    }
    used = _chunk_count(samples, count, training=training)
    rows: dict[str, tuple[int, ...]] = {}
    for name, size in samples.items():
        rows |= _cut(name, _ceil_chunks(size, used), levels.get(name, ()))
    whole: dict[str, Array] = {}
    for variable, array in known:
        check_dtype(variable, array.dtype)
        shared = _is_shared(variable)
        whole[variable.name] = _repeat(variable, array, used) if shared else array
        shape = steps.one(variable, whole[variable.name].shape)
        sizes = [shape[0] // used] if shared else rows.get(variable.name, (0,))
        for size in sorted(set(sizes), reverse=True):
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
    """The feed of one replica: its rows of split feeds, its own one of the others."""
    found: dict[str, Array] = {}
    for name, array in whole.items():
        sizes = rows.get(name, (1,) * (index + 1))
        start = sum(sizes[:index])
        found[name] = array[start : start + sizes[index]]
    return found


def _ceil_chunks(size: int, count: int) -> tuple[int, ...]:
    """The sizes of `count` chunks: ceil(size / count) as long as there is something left."""
    step = -(-size // count)
    return tuple(max(min(step, size - start * step), 0) for start in range(count))


def _cut(
    name: str, sizes: tuple[int, ...], levels: Sequence[np.ndarray[Any, Any]]
) -> dict[str, tuple[int, ...]]:
    """The number of rows of a feed, and of its lengths, that belong to so many of its samples."""
    found: dict[str, tuple[int, ...]] = {}
    for at, lengths in enumerate(levels):
        last = at == len(levels) - 1
        found[f"{name}{LENGTHS}" if last else f"{name}{LENGTHS}{at}"] = sizes
        ends = np.cumsum(sizes)
        sizes = tuple(
            int(np.sum(lengths[end - n : end])) for n, end in zip(sizes, ends, strict=True)
        )
    return {**found, name: sizes}


def _of_lengths(name: str, levels: Mapping[str, Any]) -> bool:
    """True for a feed that is the lengths of another one."""
    owner, at, level = name.rpartition(LENGTHS)
    return bool(at) and owner in levels and (not level or level.isdigit())


def _is_shared(variable: Variable) -> bool:
    """Values that belong to the replicas and not to the batch: state, numbers, loss gradients."""
    return variable.persistable or not variable.shape or _is_loss_grad(variable)


def _is_loss_grad(variable: Variable) -> bool:
    return variable.name.endswith(GRAD_SUFFIX) and variable.shape in ((), (1,))


def _check_part(variable: Variable, shape: Sequence[int], size: int) -> None:
    """`check_feed` of the shape that a device gets: `size` rows, or its own number."""
    part = (size, *shape[1:]) if shape and variable.shape else ()
    check_feed(variable, part, variable.dtype.numpy)


def _chunk_count(samples: Mapping[str, int], count: int, *, training: bool) -> int:
    """The number of replicas that the feeds give something to."""
    chunks = {name: _chunks_of(size, count) for name, size in samples.items()}
    for name, number in chunks.items():
        if number < count and training:
            size = samples[name]
            raise FeedSizeError(
                f"The number({number}) of samples[{name}] of current batch is less than the "
                f"count({count}) of devices: {size} rows are cut into chunks of "
                f"{-(-size // count)}, which feeds {number} of {count} devices; feed a multiple of "
                f"{count} rows, or use fewer places"
            )
    if len(set(chunks.values())) > 1:
        shown = ", ".join(
            f"{name} {samples[name]} (on {number})" for name, number in chunks.items()
        )
        raise FeedError(
            f"the feeds are split over different numbers of devices: {shown}; feed equally many "
            "rows, or use fewer places"
        )
    return max(next(iter(chunks.values()), count), 1)


def _chunks_of(size: int, count: int) -> int:
    return -(-size // max(-(-size // count), 1))


def _repeat(variable: Variable, array: Array, count: int) -> Array:
    """One row or number for each replica."""
    loss_grad = _is_loss_grad(variable)
    if array.shape == (count,):
        return array
    if not array.shape and (count == 1 or not loss_grad):
        return np.repeat(array, count)
    if loss_grad:
        raise FeedError(
            f"'{variable.name}' was fed {list(array.shape)}: as loss@GRAD it needs the shape "
            f"[{count}], one number for each device"
        )
    if variable.shape and (count == 1 or array.shape[:1] == (count,)):
        return array
    if variable.shape and array.shape[:1] == (1,):
        return np.repeat(array, count, axis=0)
    raise FeedError(
        f"'{variable.name}' was fed {list(array.shape)}, whose first dimension does not match the "
        f"count of devices {count}; feed one row for all of them or one for each"
    )


def lengths_fed(value: Any) -> list[Any]:
    """The lengths that come with the rows of a feed, a list for each level: those of a LoDTensor,
    or of a tuple (rows, lengths). [] for plain rows.
    """
    if isinstance(value, tuple) and len(value) == 2 and hasattr(value[0], "shape"):
        given: Any = value[1]
        nested = len(given) > 0 and isinstance(given[0], (list, tuple))
        return list(given) if nested else [given]
    return getattr(value, "recursive_sequence_lengths", list)()


Levels = dict[str, tuple[np.ndarray[Any, Any], ...]]


def _with_lengths(program: Program, feed: Mapping[str, Any]) -> tuple[dict[str, Any], Levels]:
    """The feed with the lengths that come with rows, for a program that has variables for them;
    and all lengths of each feed of sequences, outermost first.

    FeedError when they are missing, negative, or do not add up to the rows.
    """
    block, found, known = program.global_block(), dict(feed), Levels()
    for name, value in feed.items():
        if not block.has_var(name):
            continue
        variable = block.vars[name]
        levels = [np.asarray(level, "int64") for level in lengths_fed(value)]
        if isinstance(value, tuple) and levels and variable.lod_level:
            found[name] = value[0]
        elif not variable.lod_level and not hasattr(value, "recursive_sequence_lengths"):
            continue
        rows = as_array(variable, found[name]).shape[:1]
        lengths = f"{name}{LENGTHS}"
        if variable.lod_level:
            # the outer of two levels counts the sequences of the inner one
            for at in range(len(levels) - 2, -1, -1):
                outer = f"{name}{LENGTHS}{at}"
                if block.has_var(outer) and outer not in feed:
                    found[outer] = levels[at]
                    _check_lengths(name, outer, found, (len(levels[at + 1]),))
            if block.has_var(lengths):
                if levels and lengths not in feed:
                    found[lengths] = levels[-1]
                _check_lengths(name, lengths, found, rows)
                levels = [*_outer(name, levels, found), np.asarray(found[lengths])]
        if levels:
            _check_lengths(name, lengths, {lengths: levels[-1]}, rows)
            known[name] = tuple(levels)
    return found, known


def _outer(name: str, levels: Sequence[Any], found: Mapping[str, Any]) -> list[Any]:
    """The lengths outside of the innermost ones: those fed by name, else those of the tensor."""
    named = [found.get(f"{name}{LENGTHS}{at}") for at in range(max(len(levels) - 1, 1))]
    return [np.asarray(level) for level in named if level is not None] or list(levels[:-1])


def _check_lengths(
    name: str, lengths: str, found: Mapping[str, Any], rows: tuple[int, ...]
) -> None:
    given = found.get(lengths)
    if given is None or (np.sum(given),) != rows or np.any(np.asarray(given) < 0):
        raise FeedError(
            f"'{name}' has sequences of different lengths: feed a LoDTensor "
            f"(fluid.create_lod_tensor), a tuple (rows, lengths), or the int64 lengths as "
            f"'{lengths}' beside the rows; none may be negative, and they must add up to "
            f"{list(rows)} rows, found {'none' if given is None else given}"
        )


def _variables(program: Program, feed: Mapping[str, Any]) -> Iterable[tuple[Variable, Any]]:
    block = program.global_block()
    for name, value in feed.items():
        variable = block.find_var(name)
        if variable is None:
            text = f"the variable {name} is not found in program. It is ignored"
            warnings.warn(f"{text}; {nearest(program, name)}", stacklevel=caller_level())
        else:
            yield variable, value


def as_array(variable: Variable, value: Any) -> Array:
    """A feed as an array; lists and numbers take the variable's dtype.

    A number fed to a variable of rank 1 counts as one row.
    """
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return value
    if hasattr(value, "__array__"):
        return np.asarray(value)
    try:
        array = np.array(value, dtype=variable.dtype.numpy)
    except (TypeError, ValueError) as error:
        raise FeedError(f"the feed of '{variable.name}' is not an array: {error}") from None
    return array.reshape(1) if not array.shape and len(variable.shape) == 1 else array


def check_feed(variable: Variable, shape: Sequence[int], dtype: Any) -> None:
    """FeedError unless an array of this shape and dtype may be fed to the variable.

    `shape` is what one device gets; -1 in the variable's shape accepts any size.
    """
    check_dtype(variable, dtype)
    declared = variable.shape
    if len(shape) != len(declared) or any(
        want >= 0 and want != got for want, got in zip(declared, shape, strict=True)
    ):
        raise FeedError(
            f"The fed Variable '{variable.name}' should have dimensions = {len(declared)}, "
            f"shape = {declared}, but received fed shape {list(shape)} on each device"
        )


def check_dtype(variable: Variable, dtype: Any) -> None:
    """FeedError unless the dtypes are equal; nothing is cast."""
    if dtype != variable.dtype.numpy:
        raise FeedError(
            f"The data type of fed Variable '{variable.name}' must be '{variable.dtype!s}', but "
            f"received '{np.dtype(dtype).name}'; convert the array with "
            f".astype('{variable.dtype!s}')"
        )
