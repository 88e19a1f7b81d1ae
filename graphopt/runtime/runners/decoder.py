"""Decoders: programs that are fed what they fetched, with rows joined to it in each step.

Such a program has other sizes in each step. Once two steps have shown which, it is compiled for
buffers with room for more rows (`passes/padding/growing`), one program for each size of buffers,
and `state/buffers` keeps them between steps. A program of which that is not proven runs as before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from graphopt.errors import GraphoptError
from graphopt.ir.program import Block, Program
from graphopt.passes.padding.dims import Axes, CannotPad, Grown
from graphopt.passes.padding.masked import PAST, Cache, buffer_name, count_name, mask_name
from graphopt.runtime.feeds.buckets import powers_of_two
from graphopt.runtime.feeds.padded_rows import Rows, count_of, cut, mask_of, rows_of
from graphopt.runtime.settings.flags import pads_sizes, revision
from graphopt.runtime.state.arrays import Array, Feed, Fetched, is_of_jax, shapes_of, unchanging
from graphopt.runtime.state.bound import scope_slot
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.buffers import Buffer, HeldRows, rows_of_copy
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.slots import Slot, Tensor
from graphopt.runtime.state.uninterrupted import Uninterrupted

if TYPE_CHECKING:
    from graphopt.runtime.steps.executable import Executable, Executables

Names = tuple[str, ...]
# the shape of a feed, -1 for sizes that grow, and its dtype
Types = tuple[tuple[str, tuple[int, ...], str], ...]
Make = Callable[[Types], "Executables"]

LEAST = 64
"""The rows of the smallest buffers."""
fit = powers_of_two(LEAST)
MOST_KINDS = 16
"""The sets of other sizes, such as numbers of sequences, that one program is compiled for."""


class Decoder:
    """The steps of a program whose feeds have these types."""

    def __init__(self, types: Types, names: Names, executables: Executables) -> None:
        masked = executables.compiled.masked
        assert masked is not None
        self.names, self.masked, self._executables = names, masked, executables
        self._types = {name: (shape, np.dtype(dtype)) for name, shape, dtype in types}
        self._caches = {cache.feed: cache for cache in masked.caches}
        dims = [*masked.masks, *masked.counts]
        dims += [dim for axes in masked.fetches.values() for dim in axes if dim is not None]
        self._more = max(size.by for dim in dims for size in dim if isinstance(size, Grown))
        """The rows that a step may write behind those of its caches."""
        fetched = [port.name for port in executables.compiled.plan.fetches]
        self._places = {name: place for place, name in enumerate(fetched)}
        self._ready: dict[Hashable, Executable] = {}

    def step(self, feed: Feed, scope: Scope, *, wait: bool) -> Fetched | None:
        """The fetches of a step; None when it must run as it is fed."""
        if not isinstance(feed, dict) or feed.keys() != self._types.keys():
            return None
        types = self._types
        values = cast("dict[str, object]", feed)
        given = {name: _given(value, types[name]) for name, value in values.items()}
        past = self._past(given)
        if past is None:
            return None
        held = [given[name] for name in self._caches]
        sizes = [each.buffer.size for each in held if isinstance(each, HeldRows)]
        rows: Rows = {PAST: (past, max(fit(past + self._more), *sizes, 0))}
        feeds: dict[str, Any] = {}
        for name, array in given.items():
            axes = self.masked.feeds.get(name)
            if axes is None:
                feeds[name] = array if wait else unchanging(cast("Array", array))
            elif name not in self._caches:
                feeds[name] = _with_zeros(cast("Array", array), axes, rows)
        for dim in self.masked.masks:
            feeds[mask_name(dim)] = mask_of(dim, rows)
        for dim in self.masked.counts:
            feeds[count_name(dim)] = np.array(count_of(dim, rows), np.int64)
        with scope.lock:
            return self._run(given, feeds, rows, scope)

    def _past(self, given: Mapping[str, Array | HeldRows | None]) -> int | None:
        """The rows that all caches hold; None for feeds of other types or sizes."""
        past = None
        for name, cache in self._caches.items():
            value = given[name]
            if value is None or len(value.shape) <= cache.axis:
                return None
            past = past or value.shape[cache.axis]
        if not past or any(past + size.by > most for size, most in self.masked.limits):
            return None
        rows: Rows = {PAST: (past, past)}
        for name, value in given.items():
            shape, dtype = self._types[name]
            if value is None or value.dtype != dtype:
                return None
            axes = self.masked.feeds.get(name)
            if axes is not None:
                shape = tuple(
                    size if dim is None else count_of(dim, rows)
                    for size, dim in zip(shape, axes, strict=True)
                )
            if value.shape != shape:
                return None
        return past

    def _run(
        self, given: Mapping[str, Any], feeds: dict[str, Any], rows: Rows, scope: Scope
    ) -> Fetched:
        """A step with buffers that it takes, and gives back."""
        past, size = rows[PAST]
        taken: dict[str, tuple[Buffer, Slot]] = {}
        for name, cache in self._caches.items():
            if not cache.in_place:
                feeds[name] = self._buffer(given[name], cache, rows, scope).array
                continue
            buffer = self._buffer(given[name], cache, rows, scope)
            if not buffer.taken(past):
                buffer = self._fresh(given[name], cache, rows, scope)
                buffer.taken(past)
            taken[name] = buffer, scope_slot(scope, buffer_name(name))
        executable = self._executable(feeds, size)
        for buffer, slot in taken.values():
            slot.put(buffer.array, home=buffer.home)
        fetches = None
        try:
            fetches = executable(feeds, scope)
        finally:
            with Uninterrupted():
                for name, (buffer, slot) in taken.items():
                    buffer.array, buffer.home = slot.value, slot.home
                    if fetches is not None:
                        buffer.count = past + self._caches[name].by
                    slot.put(None)
        return self._fetched(fetches, {n: buffer for n, (buffer, _) in taken.items()}, rows, scope)

    def _executable(self, feeds: Mapping[str, Array], size: int) -> Executable:
        """That of these sizes, compiled when they are new."""
        key = shapes_of(feeds), size
        found = self._ready.get(key)
        if found is None:
            found = self._ready[key] = self._executables.find(key, 1, even=True)
        return found

    def _buffer(self, value: Any, cache: Cache, rows: Rows, scope: Scope) -> Buffer:
        """The buffer that rows are in, if the step may have it, else a new one with them."""
        past, size = rows[PAST]
        if isinstance(value, HeldRows):
            buffer = value.buffer
            if buffer.size == size and buffer.lock is scope.lock and buffer.count == past:
                return buffer
        return self._fresh(value, cache, rows, scope)

    def _fresh(self, value: Any, cache: Cache, rows: Rows, scope: Scope) -> Buffer:
        """A new buffer with a copy of these rows."""
        past, _ = rows[PAST]
        array = _with_zeros(value, self.masked.feeds[cache.feed], rows)
        return Buffer(array, cache.axis, past, scope.lock)

    def _fetched(
        self, fetches: Any, taken: Mapping[str, Buffer], rows: Rows, scope: Scope
    ) -> Fetched:
        """The fetches by name: rows of buffers for caches, others without rows to spare."""
        past, _ = rows[PAST]
        found: dict[str, Any] = {}
        for cache in self._caches.values():
            count = past + cache.by
            buffer = taken.get(cache.feed)
            if buffer is None:
                array = fetches[self._places[cache.fetch]]
                buffer = Buffer(array, cache.axis, count, scope.lock)
            found[cache.fetch] = HeldRows(buffer, count)
        for name, place in self._places.items():
            if name not in found:
                axes = self.masked.fetches.get(name)
                found[name] = fetches[place] if axes is None else cut(fetches[place], axes, rows)
        return [[found[name]] for name in self.names]


def _given(value: object, type_: tuple[tuple[int, ...], np.dtype[Any]]) -> Any:
    """A fed array, or the rows of a buffer that it is."""
    if isinstance(value, np.ndarray):
        return rows_of_copy(value) or _with_last_axes(value, type_[0])
    if type(value) is Tensor:
        held = value._slot.value
        return held if type(held) is HeldRows else np.asarray(value)
    if is_of_jax(value):
        return value
    return _with_last_axes(np.array(value, type_[1]), type_[0])


def _with_last_axes(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Any:
    """The array with the axes of size 1 that are missing behind its own."""
    missing = shape[array.ndim :]
    return array.reshape(*array.shape, *missing) if set(missing) == {1} else array


def _with_zeros(value: Any, axes: Axes, rows: Rows) -> np.ndarray[Any, Any]:
    """The array with rows of zeros behind its own."""
    array = np.asarray(value)
    sizes = [
        size if dim is None else rows_of(dim[0], rows)[1]
        for size, dim in zip(array.shape, axes, strict=True)
    ]
    padded = np.zeros(sizes, array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    return padded


@dataclass
class _Growth:
    """The sizes that a program with these fetches was fed last, and its decoders."""

    last: dict[str, tuple[int, ...]] | None = None
    decoders: list[Decoder] = field(default_factory=list[Decoder])
    refused: Bounded[Types, str] = field(default_factory=lambda: Bounded[Types, str](MOST_KINDS))


class Decoders:
    """The decoders among the programs that a runner met, and why others are none."""

    def __init__(self) -> None:
        self._met: WeakKeyDictionary[Program, Bounded[Hashable, _Growth]] = WeakKeyDictionary()
        # with the version of the program
        self._joining: WeakKeyDictionary[Program, tuple[int, bool]] = WeakKeyDictionary()

    def __bool__(self) -> bool:
        return bool(self._met)

    def step(
        self, program: Program, feed: Feed, names: Names, scope: Scope, *, wait: bool
    ) -> Fetched | None:
        """The fetches of a step of a known decoder; None for any other step."""
        growths = self._met.get(program)
        growth = None if growths is None else growths.get((program.version, revision.number, names))
        for decoder in () if growth is None else growth.decoders:
            found = decoder.step(feed, scope, wait=wait)
            if found is not None:
                return found
        return None

    def meet(
        self, program: Program, feeds: Mapping[str, Array], names: Names, make: Make
    ) -> Decoder | None:
        """The decoder that a program turns out to be with these feeds; None if it is none."""
        growths = self._met.setdefault(program, Bounded(MOST_KINDS))
        growth = growths.find((program.version, revision.number, names), _Growth)
        last, now = growth.last, {name: array.shape for name, array in feeds.items()}
        growth.last = now
        types = None if last is None else _growing(last, now, feeds)
        if types is None or types in growth.refused or len(growth.decoders) >= MOST_KINDS:
            return None
        try:
            decoder = Decoder(types, names, make(types))
        except (CannotPad, GraphoptError) as error:
            reason = getattr(error, "reason", None)
            is_none = reason is not None and reason.name == "no-cache"
            text = f"{reason.name}: {reason.text}" if reason is not None else str(error)
            growth.refused.keep(types, "" if is_none else text)
            return None
        growth.decoders.append(decoder)
        return decoder

    def may_grow(self, program: Program) -> bool:
        """True for a program that joins tensors along an axis of open size."""
        if not pads_sizes():
            return False
        known = self._joining.get(program)
        if known is None or known[0] != program.version:
            known = self._joining[program] = program.version, any(map(_joins, program.blocks[:1]))
        return known[1]

    def words(self) -> list[str]:
        """What is kept of each program, and why nothing is."""
        found: dict[str, None] = {}
        for growths in self._met.values():
            for growth in growths.values():
                for decoder in growth.decoders:
                    caches = ", ".join(cache.feed for cache in decoder.masked.caches)
                    found[f"kept in buffers: {caches}"] = None
                found |= dict.fromkeys(filter(None, growth.refused.values()))
        return list(found)


def _joins(block: Block) -> bool:
    """True for a block that joins a tensor to others along an axis of open size."""
    for op in block.ops:
        if op.type == "concat" and (names := op.inputs.get("X")):
            variable, axis = block.find_var(names[0]), op.attrs.get("axis", 0)
            # another axis is one that a value says
            known = variable is not None and isinstance(axis, int)
            if not known or axis >= len(variable.shape) or variable.shape[axis] == -1:
                return True
    return False


def _growing(
    last: Mapping[str, tuple[int, ...]],
    now: Mapping[str, tuple[int, ...]],
    feeds: Mapping[str, Array],
) -> Types | None:
    """The types of feeds of which some sizes are larger than in the last step, and no other one.

    None where other sizes changed, too, or none did.
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
