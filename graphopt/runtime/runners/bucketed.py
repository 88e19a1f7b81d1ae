"""Running programs by buckets: pads feeds, masks the program once, cuts the fetches.

A program that cannot be padded runs on its feeds unchanged; `stats["exact"]` has the reason.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary, proxy

import numpy as np

from graphopt.display.units import several
from graphopt.ir.program import Program
from graphopt.passes.padding.dims import Axes, CannotPad
from graphopt.passes.padding.masked import LONGEST, Masked, count_name, mask_name
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.devices.places import Place
from graphopt.runtime.feeds.buckets import BATCH, Buckets
from graphopt.runtime.feeds.feed import own_types, single_feed
from graphopt.runtime.feeds.padded_rows import Rows, count_of, cut, mask_of, misfit
from graphopt.runtime.feeds.sequence_rows import (
    Dimensions,
    Links,
    has_rows_to_spare,
    lengthen,
    lengths_of,
    links_of,
    rows_of_sequences,
    takes_sequences,
)
from graphopt.runtime.runners.decoder import CachedDecoder, Decoders, Types, may_grow
from graphopt.runtime.runners.runner import (
    Names,
    Runner,
    Signature,
    rows_in,
    write_learning_rates,
)
from graphopt.runtime.settings.flags import HOST, checks_nan_inf, pads_sizes
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.state.arrays import Array, Feed, Fetched, Stats, shapes_of, unchanging
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.steps.kept import MOST_COMPILED, choose
from graphopt.runtime.steps.shipped import came_with, executables_of

if TYPE_CHECKING:
    from graphopt.runtime.steps.executable import Executables

# The number of programs whose reasons for running unpadded are kept.
MOST_EXACT = 256
# The compiled sizes of one program that are looked through for another one.
MAX_SIZES = 64


class Fitted(NamedTuple):
    """A step with padding: its fetches, its feeds with masks and counts, and the rows of its
    dimensions.

    `wanted` are the sizes that its buckets have; those in `rows` may be larger.
    """

    executables: Executables
    served: Names
    feeds: dict[str, Array]
    rows: Rows
    wanted: dict[str, int]


class BucketedRunner(Runner):
    """As Runner, with feeds padded to the sizes of `buckets`.

    With `only_sequences` it does so for programs that are fed sequences, and not with
    FLAGS_graphopt_buckets=off.
    """

    def __init__(
        self,
        places: tuple[Place, ...],
        buckets: Buckets,
        strategy: BuildStrategy | None = None,
        *,
        only_sequences: bool = False,
    ) -> None:
        super().__init__(places, strategy)
        self.buckets = buckets
        self.only_sequences = only_sequences
        self.keeps_caches = only_sequences or buckets.others is not None
        self.exact: Bounded[int, str] = Bounded(MOST_EXACT)
        self.rows = 0
        self.padding = 0
        self.decoders: Decoders | None = None
        """The decoders, from the first step of a program that may be one."""
        # of each program the feeds and fetches with which it must run unpadded
        self._refused: WeakKeyDictionary[Program, Bounded[Hashable, bool]] = WeakKeyDictionary()

    @property
    def stats(self) -> Stats:
        """As of Runner; `rows` that were fed, `padding` rows that were added, `exact` reasons."""
        found = super().stats
        if self.decoders is not None and (caches := self.decoders.words()):
            found["caches"] = caches
        if self.only_sequences and not (self.rows or self.exact):
            return found
        return found | {
            "rows": self.rows,
            "padding": self.padding,
            "exact": sorted(set(self.exact.values())),
        }

    def step(
        self, program: Program, feed: Feed, names: Names, scope: Scope, *, wait: bool
    ) -> Fetched:
        """As of Runner; a known decoder keeps its caches between its steps."""
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
        """A step of a feed that is looked at; one that is padded is looked at each time."""
        if self.keeps_caches and not takes_sequences(program):
            decoder = self._find_decoder(program, feed, names)
            found = None
            if decoder is not None:
                self._ready.clear()  # it is asked first from now on, for steps of known sizes, too
                found = decoder.step(feed, scope, wait=wait)
            if found is not None:
                self.runs += 1
                return found
            if self.decoders is not None and self.decoders.has(program, names):
                signature = None
        feeds = _declared_feed(program, feed) if self._applies(program) else None
        if feeds is None:
            return super()._checked_step(program, feed, names, scope, signature, wait=wait)
        return self._fed_step(program, feeds, names, scope, wait=wait)

    def _find_decoder(self, program: Program, feed: Feed, names: Names) -> CachedDecoder | None:
        """The decoder that a program is found to be; None if it is none, or not yet."""

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
            forms = [
                executable.tier()
                for each in self._all()
                if each.compiled.compilation.program.serial == program.serial
                for executable in each.all()
            ]
            at_once = any(form.startswith(HOST) for form in forms)
            fed = _declared_feed(program, feed)
            if fed is not None:
                return self.decoders.meet(program, fed, names, make, runs_at_once=at_once)
        return None

    def _fed_step(
        self,
        program: Program,
        feeds: dict[str, Array],
        names: Names,
        scope: Scope,
        *,
        wait: bool,
    ) -> Fetched:
        """One step on one place, padded where the program can do with it."""
        fitted = self.find_fitting(program, feeds, names) if self._applies(program) else None
        if fitted is None:
            return super()._fed_step(program, feeds, names, scope, wait=wait)
        executables, served, padded, rows, wanted = fitted
        write_learning_rates(program, scope)
        if not (wait and names):  # the caller may change its arrays before the step has read them
            padded = {name: unchanging(array) for name, array in padded.items()}
        found = executables.find((shapes_of(padded),), 1, even=True)
        self.runs += 1
        fed = [pair for dim, pair in rows.items() if not dim.startswith(LONGEST)]
        self.rows += sum(real for real, _ in fed)
        self.padding += sum(size - real for real, size in fed)
        is_new, began = not found.is_ready, perf_counter()
        fetches = choose(found, served, names)(padded, scope)
        if wait:  # the caller reads them next
            for array in fetches:
                np.asarray(array)
        if is_new:
            executables.costs.note_compiled(perf_counter() - began)
        elif wanted != (used := _sizes_of(rows)):
            executables.costs.ran(perf_counter() - began, wanted, used)
        assert executables.compiled.masked is not None
        cuts = executables.compiled.masked.fetches
        return [
            [cut(array, cuts[name], rows) if name in cuts else array]
            for name, array in zip(names, fetches, strict=True)
        ]

    def find_fitting(
        self, program: Program, feeds: Mapping[str, Array], names: Names, *, alone: bool = False
    ) -> Fitted | None:
        """The step that runs these feeds with padding, and has no other fetches when `alone`.

        None when they must run as they are; `stats["exact"]` has the reason.
        """
        axes = self._axes(program, feeds)
        rows = self._rows(program, feeds, axes)
        padded = self._find_padded(program, axes, feeds, names, alone=alone) if rows else None
        if padded is None:
            return None
        executables, served = padded
        masked = executables.compiled.masked
        assert masked is not None
        links = links_of(axes, feeds)
        rows = {**rows, **self._steps(masked, axes, feeds)}
        wanted = _sizes_of(rows)
        rows = self._reuse(executables, masked, rows, links, feeds)
        if reason := misfit(masked, rows):
            self.exact.keep(program.serial, reason)
            return None
        given = {name: _with_rows(array, axes[name], rows) for name, array in feeds.items()}
        for name in feeds:
            lengths = lengths_of(name)
            if lengths in feeds and axes[name][0] is not None:
                given[lengths] = lengthen(given[lengths], len(feeds[lengths]), len(given[name]))
        for dim in masked.masks:
            given[mask_name(dim)] = mask_of(dim, rows)
        for dim in masked.counts:
            given[count_name(dim)] = np.array(count_of(dim, rows), np.int64)
        return Fitted(executables, served, given, rows, wanted)

    def _axes(
        self, program: Program, feeds: Mapping[str, Array]
    ) -> dict[str, tuple[str | None, ...]]:
        """The dimension of each axis of each feed."""
        block, rows = program.global_block(), rows_of_sequences(program, feeds)
        return {
            name: self.buckets.names(name, block.var(name).shape, first=rows.get(name, BATCH))
            if block.has_var(name)
            else (None,) * array.ndim
            for name, array in feeds.items()
        }

    def _applies(self, program: Program) -> bool:
        return not self.only_sequences or (takes_sequences(program) and pads_sizes())

    def _rows(self, program: Program, feeds: Mapping[str, Array], axes: Dimensions) -> Rows:
        """The sizes of the dimensions; none at all when the feeds disagree or are empty."""
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
        sizes = self._sizes(found, links_of(axes, feeds))
        return {dim: (found[dim], size) for dim, size in sizes.items()}

    def _sizes(self, found: Mapping[str, int], links: Links) -> dict[str, int]:
        """The sizes with padding of dimensions with so many rows.

        `links` are the dimensions of the rows and of the sequences of feeds with lengths: rows that
        are added need a sequence that is added, and each of those a row.
        """
        fit = self.buckets.fit
        sizes = {dim: fit(dim, size) for dim, size in found.items()}
        for name, (rows, sequences) in links.items():
            if rows is None or sequences is None:
                continue
            if rows == sequences:
                raise ValueError(
                    f"feed '{name}' and its lengths have the same axis '{rows}', but there are "
                    "more rows than sequences"
                )
            if sizes[rows] > found[rows] and sizes[sequences] == found[sequences]:
                sizes[sequences] = fit(sequences, found[sequences] + 1)
        for rows, sequences in links.values():
            if rows is not None and sequences is not None:
                extra = sizes[sequences] - found[sequences]
                sizes[rows] = fit(rows, found[rows] + extra) if extra else found[rows]
        return sizes

    def _steps(
        self, masked: Masked, axes: Dimensions, feeds: Mapping[str, Array]
    ) -> dict[str, tuple[int, int]]:
        """The steps of the longest sequence, for each feed of which a program needs that."""
        found: dict[str, tuple[int, int]] = {}
        for name in feeds:
            lengths, steps = feeds.get(lengths_of(name)), f"{LONGEST}{axes[name][:1][0]}"
            if lengths is not None and (steps,) in masked.masks:
                longest = int(np.max(lengths))
                found[steps] = longest, self.buckets.fit(steps, longest)
        return found

    def _roomy(self, rows: Rows, links: Links, feeds: Mapping[str, Array]) -> Rows:
        """The sizes with room for more rows, by `headroom`."""
        found = {dim: real for dim, (real, _) in rows.items() if not dim.startswith(LONGEST)}
        for name, (dim, _) in links.items():
            if dim is not None:
                lengths = np.asarray(feeds[lengths_of(name)])
                spread = float(np.std(lengths)) * len(lengths) ** 0.5
                more = rows[dim][0] + int(self.buckets.headroom * spread)
                found[dim] = max(found[dim], more)
        sizes = self._sizes(found, links)
        return {dim: (real, sizes.get(dim, size)) for dim, (real, size) in rows.items()}

    def _reuse(
        self,
        executables: Executables,
        masked: Masked,
        rows: Rows,
        links: Links,
        feeds: Mapping[str, Array],
    ) -> Rows:
        """The smallest sizes that were compiled and are not much larger, else new ones.

        New ones have room for more, unless that does not go or `patience` is over.
        """
        known, patience = executables.sizes, self.buckets.patience
        wanted = _sizes_of(rows)
        if self.buckets.reuse == 1 or wanted in known:
            return rows
        roomy = self._roomy(rows, links, feeds)
        most = self.buckets.reuse * prod(_sizes_of(roomy).values())
        if patience is not None and executables.pays(wanted, patience):
            most, roomy = prod(wanted.values()), rows
        fits = [
            sizes
            for sizes in known
            if all(size >= wanted[dim] for dim, size in sizes.items())
            and prod(sizes.values()) <= most
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

    def _find_padded(
        self,
        program: Program,
        axes: Dimensions,
        feeds: Mapping[str, Array],
        names: Names,
        *,
        alone: bool,
    ) -> tuple[Executables, Names] | None:
        """The masked program that has these fetches, and its own ones; None if it runs unpadded."""
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
            self.exact.keep(program.serial, f"{error.reason.name}: {error.reason.text}")
            refused.keep((program.version, key, names), True)
            return None

    def _make(
        self, program: Program, axes: Dimensions, feeds: Names, fetches: Names
    ) -> Executables:
        dims: dict[str, Axes] = {
            feed: tuple((name,) if name is not None else None for name in axes[feed])
            for feed in feeds
        }
        # what is kept must not keep the program
        compilation = Compilation(
            proxy(program), feeds, fetches, self.strategy, self.places, axes=dims
        )
        return executables_of(program, compilation, self._kept.reason)


def _declared_feed(program: Program, feed: Feed) -> dict[str, Array] | None:
    """The arrays of a feed; None where one has another shape or dtype than declared."""
    feeds = single_feed(program, feed, any_shape=True)
    shapes = {name: array.shape for name, array in feeds.items()}
    dtypes = {name: array.dtype.name for name, array in feeds.items()}
    return None if own_types(program, [shapes], dtypes) else feeds


def _sizes_of(rows: Rows) -> dict[str, int]:
    """The size of each dimension, without its real rows."""
    return {dim: size for dim, (_, size) in rows.items()}


def _with_rows(array: Array, axes: Sequence[str | None], rows: Rows) -> Array:
    """The feed with its last rows repeated."""
    widths = [(0, rows[dim][1] - rows[dim][0]) if dim is not None else (0, 0) for dim in axes]
    if not any(after for _, after in widths):
        return array
    return np.pad(np.asarray(array), widths, mode="edge")
