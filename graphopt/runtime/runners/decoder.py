"""Decoders: programs whose fetches are fed back, with rows appended in each step.

Such a program has other sizes in each step. Once two steps have shown which sizes grow, it is
compiled for buffers with room for more rows (`passes/padding/growing`), one program for each size
of buffers, and `state/buffers` keeps them between steps. A program for which this cannot be proven
correct runs as before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from graphopt.errors import GraphoptError
from graphopt.ir.program import Block, Program
from graphopt.passes.padding.dims import Axes, CannotPad, Dim, Grown
from graphopt.passes.padding.masked import PAST, FedCache, buffer_name, count_name, mask_name
from graphopt.runtime.compile.background import submit
from graphopt.runtime.feeds.buckets import powers_of_two
from graphopt.runtime.feeds.padded_rows import Rows, count_of, cut, mask_of, rows_of
from graphopt.runtime.settings.flags import pads_sizes, revision
from graphopt.runtime.state.arrays import Array, Arrays, Feed, Fetched, is_of_jax, unchanging
from graphopt.runtime.state.bound import scope_slot
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.buffers import Buffer, HeldRows, rows_of_copy
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.slots import Slot, Tensor
from graphopt.runtime.state.uninterrupted import Uninterrupted

if TYPE_CHECKING:
    from graphopt.runtime.steps.executable import Executable, Executables

Names = tuple[str, ...]
# the name, shape (-1 for sizes that grow) and dtype of each feed
Types = tuple[tuple[str, tuple[int, ...], str], ...]
Make = Callable[[Types], "Executables"]

Shapes = Mapping[str, tuple[int, ...]]

LEAST = 64
"""The rows of the smallest buffers."""
fit = powers_of_two(LEAST)
MOST_IN_TURNS = 4
"""The sequences of different sizes whose first steps may alternate."""
MOST_REFUSED = 4
"""The most sets of sizes that are tried before a program counts as no decoder."""
MOST_KINDS = 16
"""The most sets of sizes, such as numbers of sequences, that one program is compiled for."""


class CachedDecoder:
    """The steps of a program whose feeds have these types."""

    def __init__(
        self, types: Types, names: Names, executables: Executables, *, runs_at_once: bool
    ) -> None:
        """Bind the caches; with `runs_at_once` a step without buffers waits for no compilation."""
        self._runs_at_once = runs_at_once
        self._making: dict[int, _Making] = {}
        masked = executables.compiled.masked
        assert masked is not None
        self.names, self.masked, self._executables = names, masked, executables
        shapes = {name: (shape, np.dtype(dtype)) for name, shape, dtype in types}
        self._count = len(shapes)
        self._caches = [_KeptFeed(cache, *shapes.pop(cache.feed)) for cache in masked.caches]
        self._others = [
            (name, *shape, masked.feeds.get(name)) for name, shape in sorted(shapes.items())
        ]
        dims = [*masked.masks, *masked.counts]
        dims += [dim for axes in masked.fetches.values() for dim in axes if dim is not None]
        self._more = max(size.by for dim in dims for size in dim if isinstance(size, Grown))
        """The rows that a step may write after its caches' rows."""
        self._limit = min((most - size.by for size, most in masked.limits), default=None)
        fetched = [port.name for port in executables.compiled.plan.fetches]
        kept = {kept.cache.fetch: place for place, kept in enumerate(self._caches)}
        places = {name: place for place, name in enumerate(fetched)}
        # for each fetch: its cache, or its position among the results and its axes
        self._fetches = [
            (kept.get(name), places.get(name, -1), masked.fetches.get(name)) for name in names
        ]
        self._masks = [(mask_name(dim), dim) for dim in masked.masks]
        self._counts = [(count_name(dim), dim) for dim in masked.counts]
        self._patterns: dict[int, np.ndarray[Any, Any]] = {}
        self._ready: dict[int, Executable] = {}

    def step(self, feed: Feed, scope: Scope, *, wait: bool) -> Fetched | None:
        """Run a step with buffers; None when it must run without them."""
        if type(feed) is not dict or len(feed) != self._count:
            return None
        given: list[Any] = []
        past = size = 0
        for kept in self._caches:
            value = kept.array_of(feed.get(kept.cache.feed))
            count = kept.rows_of(value)
            past = past or count
            if not count or count != past:
                return None
            if type(value) is HeldRows:
                size = max(size, value.buffer.size)
            given.append(value)
        if self._limit is not None and past > self._limit:
            return None
        size = max(size, fit(past + self._more))
        feeds = self._prepare_feeds(feed, past, size, wait=wait)
        if feeds is None:
            return None
        if size not in self._ready and not self._has_executable(feeds, size, scope):
            return None
        self._look_ahead(feed, past, size, scope)
        with scope.lock:
            return self._run(given, feeds, past, size, scope)

    def _has_executable(self, feeds: Mapping[str, Any], size: int, scope: Scope) -> bool:
        """Return whether this size has an executable; False while a thread makes its form."""
        executable = self._executables.find(size, 1, even=True)
        if self._runs_at_once and not executable.is_ready:
            own = {name: unchanging(array) for name, array in feeds.items()}
            self._make_later(own, size, scope)
            if not (executable.is_ready or self._making[size].has_ended):
                return False
        self._ready[size] = executable
        return True

    def _look_ahead(self, feed: Mapping[str, Any], past: int, size: int, scope: Scope) -> None:
        """Start to make the form of the next size once the buffers are half full."""
        ends = self._limit is not None and self._limit <= size
        if 2 * past > size and not ends and 2 * size not in self._making:
            later = self._prepare_feeds(feed, past, 2 * size, wait=False)
            assert later is not None
            self._make_later(later, 2 * size, scope)

    def _make_later(self, feeds: Mapping[str, Any], size: int, scope: Scope) -> None:
        """Have the background thread make the form for buffers of this size, once."""
        if size not in self._making:
            executable = self._executables.find(size, 1, even=True)
            own = Scope(scope)
            for kept in self._caches:
                shape = tuple(size if axis == -1 else axis for axis in kept.shape)
                zeros = np.zeros(shape, kept.dtype)
                if kept.cache.in_place:
                    own.var(kept.name).put(zeros)
                else:
                    feeds = {**feeds, kept.cache.feed: zeros}
            self._making[size] = making = _Making(executable, feeds, own)
            submit(making)

    def _prepare_feeds(
        self, feed: Mapping[str, Any], past: int, size: int, *, wait: bool
    ) -> dict[str, Any] | None:
        """Pad the feeds that are no caches, and add masks and counts; None for other types."""
        rows: Rows = {PAST: (past, size)}
        feeds: dict[str, Any] = {}
        for name, shape, dtype, axes in self._others:
            array = feed.get(name)
            if type(array) is not np.ndarray or array.ndim != len(shape):
                if array is None:
                    return None
                array = _as_array(array, shape, dtype)
            if array.dtype != dtype:
                return None
            if axes is None:
                if array.shape != shape:
                    return None
                feeds[name] = array if wait else unchanging(array)
            else:
                if array.shape != _sizes(shape, axes, rows, 0):
                    return None
                feeds[name] = _with_zeros(array, axes, rows)
        for name, dim in self._masks:
            feeds[name] = self._mask(dim, rows)
        for name, dim in self._counts:
            feeds[name] = np.array(count_of(dim, rows), np.int64)
        return feeds

    def _mask(self, dim: Dim, rows: Rows) -> np.ndarray[Any, Any]:
        """Build the mask of a dimension; most are ones followed by zeros."""
        if len(dim) != 1:
            return mask_of(dim, rows)
        real, size = rows_of(dim[0], rows)
        pattern = self._patterns.get(size)
        if pattern is None:
            pattern = self._patterns[size] = np.arange(2 * size) < size
        return pattern[size - real : 2 * size - real]

    def _run(
        self, given: Sequence[Any], feeds: dict[str, Any], past: int, size: int, scope: Scope
    ) -> Fetched:
        """Run a step that takes the buffers, and give them back."""
        taken: list[tuple[Buffer, Slot, int]] = []
        buffers: list[Buffer | None] = []
        for value, kept in zip(given, self._caches, strict=True):
            buffer = kept.buffer(value, past, size, scope)
            if not kept.cache.in_place:
                feeds[kept.cache.feed] = buffer.array
                buffers.append(None)
                continue
            if not buffer.take(past):
                buffer = kept.fresh(value, size, scope)
                buffer.take(past)
            slot = scope_slot(scope, kept.name)
            slot.put(buffer.array, home=buffer.home)
            taken.append((buffer, slot, past + kept.cache.by))
            buffers.append(buffer)
        executable = self._ready[size]
        has_run = False
        try:
            found = executable(feeds, scope)
            has_run = True
        finally:
            with Uninterrupted():
                for buffer, slot, count in taken:
                    buffer.array, buffer.home = slot.value, slot.home
                    buffer.count = count if has_run else -1
                    slot.put(None)
        return self._collect_fetches(found, buffers, past, size, scope)

    def _collect_fetches(
        self, found: Arrays, buffers: Sequence[Buffer | None], past: int, size: int, scope: Scope
    ) -> Fetched:
        """Collect the fetches: rows of buffers for caches, others cut to their real rows."""
        fetches: list[list[Any]] = []
        for number, place, axes in self._fetches:
            if number is None:
                array = found[place]
                fetches.append([array if axes is None else cut(array, axes, {PAST: (past, size)})])
                continue
            cache, buffer = self._caches[number].cache, buffers[number]
            if buffer is None:
                buffer = Buffer(found[place], cache.axis, past + cache.by, scope.lock)
            fetches.append([HeldRows(buffer, past + cache.by)])
        return fetches


class _Making:
    """Work that makes a form; after a failure, the step that needs the form raises the error."""

    def __init__(self, executable: Executable, feeds: Mapping[str, Any], scope: Scope) -> None:
        self._executable, self._feeds, self._scope = executable, feeds, scope
        self.has_ended = False

    def work(self) -> None:
        """Make the form, unless a step has made it."""
        with suppress(Exception):
            self._executable.make_ready(self._feeds, self._scope)
        self._feeds, self._scope, self.has_ended = {}, Scope(), True


class _KeptFeed:
    """A cache, with the type of its feed."""

    def __init__(self, cache: FedCache, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.cache, self.shape, self.dtype = cache, shape, dtype
        self.name = buffer_name(cache.feed)
        self._sizes = shape[: cache.axis], shape[cache.axis + 1 :]

    def array_of(self, value: Any) -> Any:
        """Convert a feed to an array, or to the buffer rows that it views; None for no feed."""
        if type(value) is Tensor and type(rows := value._slot.value) is HeldRows:
            return rows
        if type(value) is np.ndarray and (rows := rows_of_copy(value)) is not None:
            return rows
        return None if value is None else _as_array(value, self.shape, self.dtype)

    def rows_of(self, value: Any) -> int:
        """Count the rows in a feed; 0 for one of another type."""
        if value is None or value.dtype != self.dtype:
            return 0
        shape, axis = value.shape, self.cache.axis
        fits = len(shape) == len(self.shape) and (shape[:axis], shape[axis + 1 :]) == self._sizes
        return shape[axis] if fits else 0

    def buffer(self, value: Any, past: int, size: int, scope: Scope) -> Buffer:
        """Return the buffer that holds the rows, if the step may take it, else a new one."""
        if type(value) is HeldRows:
            buffer = value.buffer
            if buffer.size == size and buffer.count == past and buffer.lock is scope.lock:
                return buffer
        return self.fresh(value, size, scope)

    def fresh(self, value: Any, size: int, scope: Scope) -> Buffer:
        """Copy rows to a new buffer."""
        array, axis = np.asarray(value), self.cache.axis
        whole = np.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
        whole[tuple(map(slice, array.shape))] = array
        return Buffer(whole, axis, array.shape[axis], scope.lock)


def _as_array(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Convert a feed to an array, and append missing trailing axes of size 1."""
    if is_of_jax(value):
        return value
    array = np.asarray(value) if hasattr(value, "__array__") else np.array(value, dtype)
    missing = shape[array.ndim :]
    return array.reshape(*array.shape, *missing) if set(missing) == {1} else array


def _sizes(shape: tuple[int, ...], axes: Axes, rows: Rows, which: int) -> tuple[int, ...]:
    """Compute the shape of a feed, without padding (0) or with it (1)."""
    return tuple(
        size if dim is None else prod(rows_of(factor, rows)[which] for factor in dim)
        for size, dim in zip(shape, axes, strict=True)
    )


def _with_zeros(array: Any, axes: Axes, rows: Rows) -> np.ndarray[Any, Any]:
    """Pad an array with rows of zeros."""
    padded = np.zeros(_sizes(array.shape, axes, rows, 1), array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    return padded


@dataclass
class _Growth:
    """The recent feed sizes of a program with these fetches, and its decoders."""

    lately: deque[Shapes] = field(default_factory=lambda: deque[Shapes](maxlen=MOST_IN_TURNS))
    decoders: list[CachedDecoder] = field(default_factory=list[CachedDecoder])
    refused: Bounded[Types, str] = field(default_factory=lambda: Bounded[Types, str](MOST_KINDS))


class Decoders:
    """The decoders among a runner's programs, and the reasons why other programs are none."""

    def __init__(self) -> None:
        self._met: WeakKeyDictionary[Program, Bounded[Hashable, _Growth]] = WeakKeyDictionary()

    def step(
        self, program: Program, feed: Feed, names: Names, scope: Scope, *, wait: bool
    ) -> Fetched | None:
        """Run a step of a known decoder; None for any other step."""
        for decoder in self._find_known(program, names):
            found = decoder.step(feed, scope, wait=wait)
            if found is not None:
                return found
        return None

    def has(self, program: Program, names: Names) -> bool:
        """Return whether a program with these fetches is a known decoder."""
        return bool(self._find_known(program, names))

    def _find_known(self, program: Program, names: Names) -> Sequence[CachedDecoder]:
        growths = self._met.get(program)
        growth = None if growths is None else growths.get((program.version, revision.number, names))
        return () if growth is None else growth.decoders

    def meet(
        self,
        program: Program,
        feeds: Mapping[str, Array],
        names: Names,
        make: Make,
        *,
        runs_at_once: bool,
    ) -> CachedDecoder | None:
        """Find out whether a program with these feeds is a decoder; return it, or None.

        `runs_at_once` is as for CachedDecoder.
        """
        growths = self._met.setdefault(program, Bounded(MOST_KINDS))
        growth = growths.find((program.version, revision.number, names), _Growth)
        now = {name: array.shape for name, array in feeds.items()}
        kinds = (_growing(before, now, feeds) for before in reversed(growth.lately))
        types = next(filter(None, kinds), None)
        growth.lately.append(now)
        if types is None or types in growth.refused or len(growth.decoders) >= MOST_KINDS:
            return None
        if len(growth.refused) >= MOST_REFUSED:
            return None
        try:
            decoder = CachedDecoder(types, names, make(types), runs_at_once=runs_at_once)
        except (CannotPad, GraphoptError) as error:
            reason = getattr(error, "reason", None)
            is_none = reason is not None and reason.name == "no-cache"
            text = f"{reason.name}: {reason.text}" if reason is not None else str(error)
            growth.refused.keep(types, "" if is_none else text)
            return None
        growth.decoders.append(decoder)
        return decoder

    def words(self) -> list[str]:
        """Describe the caches that are kept for each program, or the reason why none is."""
        found: dict[str, None] = {}
        for growths in self._met.values():
            for growth in growths.values():
                for decoder in growth.decoders:
                    caches = ", ".join(cache.feed for cache in decoder.masked.caches)
                    found[f"kept in buffers: {caches}"] = None
                found |= dict.fromkeys(filter(None, growth.refused.values()))
        return list(found)


# the answer for each program, and the program's version at that time
_joining: WeakKeyDictionary[Program, tuple[int, bool]] = WeakKeyDictionary()


def may_grow(program: Program) -> bool:
    """Return whether a program concatenates tensors along an axis of open size."""
    if not pads_sizes():
        return False
    known = _joining.get(program)
    if known is None or known[0] != program.version:
        known = _joining[program] = program.version, any(map(_joins, program.blocks[:1]))
    return known[1]


def _joins(block: Block) -> bool:
    """Return whether a block concatenates a tensor along an axis of open size."""
    for op in block.ops:
        if op.type == "concat" and (names := op.inputs.get("X")):
            variable, axis = block.find_var(names[0]), op.attrs.get("axis", 0)
            # a variable determines the axis
            if variable is None or not isinstance(axis, int) or axis >= len(variable.shape):
                return True
            if variable.shape[axis] == -1:
                return True
    return False


def _growing(last: Shapes, now: Shapes, feeds: Mapping[str, Array]) -> Types | None:
    """Compare feeds with an earlier step, and mark the axes that have grown as open.

    Return None where a size has shrunk, or none has changed.
    """
    if last.keys() != now.keys() or any(len(last[name]) != len(now[name]) for name in now):
        return None
    pairs = [(old, new) for name in now for old, new in zip(last[name], now[name], strict=True)]
    if all(old == new for old, new in pairs) or any(old > new for old, new in pairs):
        return None
    return tuple(
        (
            name,
            tuple(
                size if size == before else -1
                for size, before in zip(now[name], last[name], strict=True)
            ),
            str(feeds[name].dtype),
        )
        for name in sorted(now)
    )
