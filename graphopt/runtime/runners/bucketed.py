"""Runs of programs in buckets: pad the feeds, mask the program once, cut the fetches.

A program that cannot be padded runs on its feeds unchanged; `stats["exact"]` has the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary, proxy

import numpy as np

from graphopt.display.units import several
from graphopt.errors import OpenSizeError
from graphopt.ir.program import Program
from graphopt.passes.padding.dims import Axes, CannotPad
from graphopt.passes.padding.masked import LONGEST, Masked, count_name, mask_name
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.devices.places import Place
from graphopt.runtime.feeds.buckets import BATCH, Buckets, names_by_position, sequences
from graphopt.runtime.feeds.feed import own_types, single_feed
from graphopt.runtime.feeds.padded_rows import Rows, count_of, cut, mask_of, misfit
from graphopt.runtime.feeds.sequence_rows import (
    Dimensions,
    Links,
    fit_sizes,
    has_rows_to_spare,
    lengthen,
    lengths_of,
    links_of,
    rows_of_sequences,
    takes_sequences,
    with_headroom,
)
from graphopt.runtime.runners.decoder import CachedDecoder, Decoders, Types, may_grow
from graphopt.runtime.runners.met_sizes import MetSizes, sizes_of
from graphopt.runtime.runners.runner import (
    Names,
    Runner,
    Signature,
    rows_in,
    write_learning_rates,
)
from graphopt.runtime.settings.flags import HOST, checks_nan_inf, must_repeat, pads_sizes
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.state.arrays import Array, Feed, Fetched, Stats, shapes_of, unchanging
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.generator import default_generator
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.steps.facts import shall_repeat
from graphopt.runtime.steps.kept import MOST_COMPILED, subset_of
from graphopt.runtime.steps.shipped import came_with, executables_of

if TYPE_CHECKING:
    from graphopt.runtime.steps.executable import Executables

# The most programs whose reasons for running unpadded are kept.
MOST_EXACT = 256
# The most compiled sizes of a program among which another size is looked up.
MAX_SIZES = 64


class Fitted(NamedTuple):
    """A padded step: its fetches, its feeds with masks and counts, and its rows by dimension.

    `unpadded` returns the feeds and masks without padding, for NumPy. `wanted` are the sizes of the
    buckets; the sizes in `rows` may be larger.
    """

    executables: Executables
    served: Names
    feeds: dict[str, Array]
    unpadded: Callable[[], dict[str, Array]]
    rows: Rows
    wanted: dict[str, int]


class BucketedRunner(Runner):
    """A Runner that pads feeds to the sizes of `buckets`.

    By default, sequences use `sequences()`, and other feeds of open sizes use `automatic()` once
    they have had several sizes: in trainings, and with `pads_inference` in inference, too. With
    FLAGS_graphopt_buckets=off nothing is padded by default.
    """

    def __init__(
        self,
        places: tuple[Place, ...],
        buckets: Buckets | None = None,
        strategy: BuildStrategy | None = None,
    ) -> None:
        super().__init__(places, strategy)
        self.buckets = buckets
        self.pads_inference = False
        self.keeps_caches = buckets is None or buckets.others is not None
        self.exact: Bounded[int, str] = Bounded(MOST_EXACT)
        self.rows = 0
        self.padding = 0
        self.decoders: Decoders | None = None
        """The decoders; None before the first step of a program that may be one."""
        self._met: WeakKeyDictionary[Program, MetSizes] = WeakKeyDictionary()
        # the feeds and fetches of each program that must run unpadded
        self._refused: WeakKeyDictionary[Program, Bounded[Hashable, bool]] = WeakKeyDictionary()

    @property
    def stats(self) -> Stats:
        """Runner's counters, `rows` fed, `padding` rows added, and `exact` reasons."""
        found = super().stats
        if self.decoders is not None and (caches := self.decoders.words()):
            found["caches"] = caches
        if self.buckets is None and not (self.rows or self.exact):
            return found
        return found | {
            "rows": self.rows,
            "padding": self.padding,
            "exact": sorted(set(self.exact.values())),
        }

    def step(
        self, program: Program, feed: Feed, names: Names, scope: Scope, *, wait: bool
    ) -> Fetched:
        """Run a step as Runner does; a known decoder keeps its caches between steps."""
        if self.decoders is not None:
            found = self.decoders.step(program, feed, names, scope, wait=wait)
            if found is not None:
                self.runs += 1
                return found
        return super().step(program, feed, names, scope, wait=wait)

    def _checked_step(
        self,
        program: Program,
        feed: Feed,
        names: Names,
        scope: Scope,
        signature: Signature | None,
        *,
        wait: bool,
    ) -> Fetched:
        """Check a feed and run a step; a padded feed is checked each time."""
        if self.keeps_caches and not takes_sequences(program):
            decoder = self._find_decoder(program, feed, names)
            found = None
            if decoder is not None:
                self._ready.clear()  # the decoder now comes first, even for steps of known sizes
                found = decoder.step(feed, scope, wait=wait)
            if found is not None:
                self.runs += 1
                return found
            if self.decoders is not None and self.decoders.has(program, names):
                signature = None
        if self._may_pad(program):
            feeds = single_feed(program, feed, any_shape=True)
            found = None
            if _are_declared(program, feeds):
                found = self._padded_step(program, feeds, names, scope, wait=wait)
            if found is not None:
                return found
            if signature is None or len(feed) != len(feeds):  # pyright: ignore  # it is a dict
                return self._fed_step(program, feeds, names, scope, wait=wait)
        return super()._checked_step(program, feed, names, scope, signature, wait=wait)

    def _find_decoder(self, program: Program, feed: Feed, names: Names) -> CachedDecoder | None:
        """Find the decoder for a program; None if it is none, or not known to be one yet."""

        def make(types: Types) -> Executables:
            compilation = Compilation(
                *(proxy(program), tuple(name for name, _, _ in types), names),
                *(self.strategy, self.places),
                types=types,
                grows=True,
            )
            found, _ = self._kept.find(
                *(program, types, names, 1),
                lambda _: executables_of(program, compilation, self._kept.reason),
                alone=True,
            )
            return found

        if isinstance(feed, dict) and feed and may_grow(program):
            self.decoders = self.decoders or Decoders()
            forms = [one.tier() for each in self._all_of(program) for one in each.all()]
            at_once = any(form.startswith(HOST) for form in forms)
            fed = single_feed(program, feed, any_shape=True)
            if _are_declared(program, fed):
                return self.decoders.meet(program, fed, names, make, runs_at_once=at_once)
        return None

    def _may_pad(self, program: Program) -> bool:
        """Return False if every size runs without padding."""
        if self.buckets is not None or not pads_sizes():
            return self.buckets is not None
        # a shipped program, or one compiled for fed numbers, is padded only on request
        is_free = not came_with(program) and program.fixed_feeds is None
        met = self._find_met(program)
        return met is None or (is_free and (met.trains or self.pads_inference))

    def _padded_step(
        self, program: Program, feeds: dict[str, Array], names: Names, scope: Scope, *, wait: bool
    ) -> Fetched | None:
        """Run one padded step; None when these feeds run unpadded."""
        met = self._find_met(program)
        if met is not None:
            by_position = _axes(program, feeds, None)
            seeded = default_generator().seeded or program.random_seed != 0
            repeats = must_repeat() or (met.trains and seeded)
            own = self._all_of(program)
            is_open = any(map(any, by_position.values()))
            is_empty = any(not array.size for array in feeds.values())  # no bucket has no rows
            if not is_open or is_empty or met.run_exact(feeds, by_position, own, repeats=repeats):
                return None
        fitted = self.find_fitting(program, feeds, names)
        if fitted is None:
            if met is not None:
                met.add_exact(sizes_of(feeds))
            return None
        has_paid = met is not None and met.has_paid
        found, seconds = self._run_fitted(
            program, fitted, names, scope, wait=wait, has_paid=has_paid
        )
        if met is not None and seconds is not None:
            met.ran_padded(sizes_of(feeds), seconds)
        return found

    def _all_of(self, program: Program) -> list[Executables]:
        """List the executables of one program."""
        serial = program.serial
        return [e for e in self._kept.all() if e.compiled.compilation.program.serial == serial]

    def _find_met(self, program: Program) -> MetSizes | None:
        """Find the sizes that a program's feeds have had; None with given buckets."""
        if self.buckets is not None or takes_sequences(program):
            return None
        if program not in self._met:
            self._met[program] = MetSizes(trains=program.trains())
        return self._met[program]

    def _run_fitted(
        self,
        program: Program,
        fitted: Fitted,
        names: Names,
        scope: Scope,
        *,
        wait: bool,
        has_paid: bool,
    ) -> tuple[Fetched, float | None]:
        """Run one padded step, cut its fetches, and measure its seconds.

        With `has_paid`, smaller sizes have cost enough in NumPy to compile this one for all of
        them.
        The seconds are None for a step in NumPy, which needs no padding.
        """
        executables, served, padded, unpadded, rows, wanted = fitted
        is_padded = True

        def take_unpadded() -> dict[str, Array]:
            nonlocal is_padded
            is_padded = False
            return unpadded()

        write_learning_rates(program, scope)
        if not (wait and names):  # the caller may change its arrays before the step has read them
            padded = {name: unchanging(array) for name, array in padded.items()}
        found = executables.find((shapes_of(padded),), 1, even=True)
        self.runs += 1
        is_new, began = not found.is_ready, perf_counter()
        found.forms.seen.pays_later |= has_paid
        fetches = subset_of(found, served, names)(padded, scope, take_unpadded)
        if wait or self.places[0].platform == "cpu":  # the step's time is measured
            for array in fetches:
                np.asarray(array)
        seconds = perf_counter() - began
        fed = [pair for dim, pair in rows.items() if not dim.startswith(LONGEST)]
        self.rows += sum(real for real, _ in fed)
        self.padding += is_padded * sum(size - real for real, size in fed)
        if is_padded and not is_new and wanted != (used := _sizes_of(rows)):
            executables.costs.ran(seconds, wanted, used)
        assert executables.compiled.masked is not None
        cuts = executables.compiled.masked.fetches
        cut_fetches = [
            [cut(array, cuts[name], rows) if name in cuts else array]
            for name, array in zip(names, fetches, strict=True)
        ]
        return cut_fetches, seconds if is_padded else None

    def find_fitting(
        self, program: Program, feeds: Mapping[str, Array], names: Names, *, alone: bool = False
    ) -> Fitted | None:
        """Find the padded step for these feeds; with `alone` it has no other fetches.

        Return None when they must run unpadded; `stats["exact"]` has the reason.
        """
        met = self._find_met(program)
        buckets = self.buckets or (sequences() if met is None else met.buckets)
        axes = _axes(program, feeds, buckets) if met is None else met.dims
        rows = self._rows(program, feeds, axes, buckets)
        padded = self._find_padded(program, axes, feeds, names, alone=alone) if rows else None
        if padded is None:
            return None
        executables, served = padded
        masked = executables.compiled.masked
        assert masked is not None
        links = links_of(axes, feeds)
        rows = {**rows, **_steps(buckets, masked, axes, feeds)}
        wanted = _sizes_of(rows)
        rows = _reuse(buckets, executables, masked, rows, links, feeds)
        if reason := misfit(masked, rows):
            self.exact.keep(program.serial, reason)
            return None
        given = _with_masks(masked, axes, feeds, rows)
        real = {dim: (size, size) for dim, (size, _) in rows.items()}
        unpadded = partial(_with_masks, masked, axes, feeds, real)
        return Fitted(executables, served, given, unpadded, rows, wanted)

    def _rows(
        self, program: Program, feeds: Mapping[str, Array], axes: Dimensions, buckets: Buckets
    ) -> Rows:
        """Compute the real and padded sizes of dimensions; {} if feeds disagree or are empty."""
        found: dict[str, int] = {}
        for name, array in feeds.items():
            for dim, size in zip(axes[name], array.shape, strict=True):
                if dim is None:
                    continue
                if found.setdefault(dim, size) != size or not size:
                    other = f", another one {found[dim]}" if size else ""
                    rows = several(size, "row")
                    self.exact.keep(
                        program.serial,
                        f"feeds-disagree: feed '{name}' has {rows} of '{dim}'{other}",
                    )
                    return {}
        sizes = fit_sizes(buckets, found, links_of(axes, feeds))
        return {dim: (found[dim], size) for dim, size in sizes.items()}

    def _find_padded(
        self,
        program: Program,
        axes: Dimensions,
        feeds: Mapping[str, Array],
        names: Names,
        *,
        alone: bool,
    ) -> tuple[Executables, Names] | None:
        """Find the masked program for these fetches, and its own fetches; None if refused."""
        fed = tuple(sorted(feeds))
        key = fed, tuple([axes[name] for name in fed]), checks_nan_inf()
        refused = self._refused.setdefault(program, Bounded(MOST_COMPILED))
        if refused.use((program.version, key, names)):
            return None
        try:
            return self._kept.find(
                program,
                key,
                names,
                rows_in((shapes_of(feeds),)),
                lambda fetches: self._make(program, axes, fed, fetches),
                alone=alone,
                shipped=self.strategy is not None or came_with(program),
            )
        except CannotPad as error:
            reason = str(error.reason)
        except OpenSizeError as error:  # it is compiled for exactly the fed sizes
            reason = f"open-size: {error}"
        self.exact.keep(program.serial, reason)
        refused.keep((program.version, key, names), True)
        return None

    def _make(
        self, program: Program, axes: Dimensions, feeds: Names, fetches: Names
    ) -> Executables:
        dims: dict[str, Axes] = {
            feed: tuple((name,) if name is not None else None for name in axes[feed])
            for feed in feeds
        }
        # a cache entry must not keep the program alive
        compilation = Compilation(
            proxy(program), feeds, fetches, self.strategy, self.places, axes=dims
        )
        return executables_of(program, compilation, self._kept.reason)


def _axes(
    program: Program, feeds: Mapping[str, Array], buckets: Buckets | None
) -> dict[str, tuple[str | None, ...]]:
    """Name the dimension of each axis of each feed, by position alone without buckets."""
    block, rows = program.global_block(), rows_of_sequences(program, feeds)

    def names(feed: str, array: Array) -> tuple[str | None, ...]:
        if not block.has_var(feed):
            return (None,) * array.ndim
        shape, first = block.var(feed).shape, rows.get(feed, BATCH)
        if buckets is None:
            return names_by_position(shape, first=first)
        return buckets.names(feed, shape, first=first)

    return {feed: names(feed, array) for feed, array in feeds.items()}


def _steps(
    buckets: Buckets, masked: Masked, axes: Dimensions, feeds: Mapping[str, Array]
) -> dict[str, tuple[int, int]]:
    """Compute the real and padded steps of the longest sequence, for feeds that need them."""
    found: dict[str, tuple[int, int]] = {}
    for name in feeds:
        lengths, steps = feeds.get(lengths_of(name)), f"{LONGEST}{axes[name][:1][0]}"
        if lengths is not None and (steps,) in masked.masks:
            longest = int(np.max(lengths))
            found[steps] = longest, buckets.fit(steps, longest)
    return found


def _reuse(
    buckets: Buckets,
    executables: Executables,
    masked: Masked,
    rows: Rows,
    links: Links,
    feeds: Mapping[str, Array],
) -> Rows:
    """Choose the smallest compiled sizes that fit and are not much larger, else new ones.

    New sizes get headroom, unless the program cannot take it or `patience` is over.
    """
    known, patience = executables.sizes, buckets.patience
    wanted = _sizes_of(rows)
    if buckets.reuse == 1 or wanted in known:
        return rows
    roomy = with_headroom(buckets, rows, links, feeds)
    most = buckets.reuse * prod(_sizes_of(roomy).values())
    if patience is not None:
        repeats = shall_repeat(executables.compiled)
        price = executables.compiled.price
        if executables.costs.pays(wanted, patience, price, repeats=repeats):
            most, roomy = prod(wanted.values()), rows
    fits = [
        sizes
        for sizes in known
        if all(size >= wanted[dim] for dim, size in sizes.items()) and prod(sizes.values()) <= most
    ]
    for sizes in sorted(fits, key=lambda sizes: prod(sizes.values())):
        found = {dim: (real, sizes[dim]) for dim, (real, _) in rows.items()}
        if has_rows_to_spare(found, links) and not misfit(masked, found):
            return found
    if not has_rows_to_spare(roomy, links) or misfit(masked, roomy):
        roomy = rows
    if not misfit(masked, roomy):
        known.append(_sizes_of(roomy))
        del known[:-MAX_SIZES]
    return roomy


def _are_declared(program: Program, feeds: Mapping[str, Array]) -> bool:
    """Return whether arrays have the shapes and dtypes that the program declares."""
    shapes = {name: array.shape for name, array in feeds.items()}
    dtypes = {name: array.dtype.name for name, array in feeds.items()}
    return not own_types(program, [shapes], dtypes)


def _sizes_of(rows: Rows) -> dict[str, int]:
    """Map each dimension to its padded size."""
    return {dim: size for dim, (_, size) in rows.items()}


def _with_masks(
    masked: Masked, axes: Dimensions, feeds: Mapping[str, Array], rows: Rows
) -> dict[str, Array]:
    """Pad the feeds, and add the masks and counts of their real rows."""
    given = {name: _with_rows(array, axes[name], rows) for name, array in feeds.items()}
    for name in feeds:
        lengths = lengths_of(name)
        if lengths in feeds and axes[name][0] is not None:
            given[lengths] = lengthen(given[lengths], len(feeds[lengths]), len(given[name]))
    for dim in masked.masks:
        given[mask_name(dim)] = mask_of(dim, rows)
    for dim in masked.counts:
        given[count_name(dim)] = np.array(count_of(dim, rows), np.int64)
    return given


def _with_rows(array: Array, axes: Sequence[str | None], rows: Rows) -> Array:
    """Pad a feed by repeating its last rows."""
    widths = [(0, rows[dim][1] - rows[dim][0]) if dim is not None else (0, 0) for dim in axes]
    if not any(after for _, after in widths):
        return array
    return np.pad(np.asarray(array), widths, mode="edge")
