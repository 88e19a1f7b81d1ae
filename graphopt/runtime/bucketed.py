"""Running programs by buckets: pads feeds, masks the program once, cuts the fetches.

A program that cannot be padded runs on its feeds unchanged; `stats["exact"]` has the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary, proxy

import numpy as np

from graphopt.ir.program import LENGTHS, Program
from graphopt.passes.padding.dims import Axes, CannotPad
from graphopt.passes.padding.mask import Masked, count_name, mask_name
from graphopt.runtime.arrays import Array, Feed, Fetched, Stats, shapes_of
from graphopt.runtime.bounded import Bounded
from graphopt.runtime.buckets import Buckets
from graphopt.runtime.compilation import Compilation
from graphopt.runtime.feed import single_feed
from graphopt.runtime.flags import checks_nan_inf
from graphopt.runtime.kept import MOST_COMPILED
from graphopt.runtime.padded_rows import Rows, count_of, cut, mask_of, misfit
from graphopt.runtime.places import Place
from graphopt.runtime.progress import NEW_PROGRAM, OTHER_FETCHES
from graphopt.runtime.runner import Names, Runner, Signature, write_learning_rates
from graphopt.runtime.scope import Scope
from graphopt.runtime.shipped import executables_of
from graphopt.runtime.strategies import BuildStrategy

if TYPE_CHECKING:
    from graphopt.runtime.executable import Executables

# The number of programs whose reasons for running unpadded are kept.
MOST_EXACT = 256
# The compiled sizes of one program that are looked through for another one.
MAX_SIZES = 64
# the dimension of each axis of each feed
Dimensions = Mapping[str, tuple[str | None, ...]]


class Fitted(NamedTuple):
    """A step with padding: its feeds, with masks and counts, and the rows of its dimensions."""

    executables: Executables
    feeds: dict[str, Array]
    rows: Rows


class BucketedRunner(Runner):
    """As Runner, with feeds padded to the sizes of `buckets`."""

    def __init__(
        self, places: tuple[Place, ...], buckets: Buckets, strategy: BuildStrategy | None = None
    ) -> None:
        super().__init__(places, strategy)
        self.buckets = buckets
        self.exact: Bounded[int, str] = Bounded(MOST_EXACT)
        self.rows = 0
        self.padding = 0
        # of each program the masked ones, or why it must run unpadded
        self._masked: WeakKeyDictionary[Program, Bounded[Signature, Executables | CannotPad]] = (
            WeakKeyDictionary()
        )

    @property
    def stats(self) -> Stats:
        """As of Runner; `rows` that were fed, `padding` rows that were added, `exact` reasons."""
        return super().stats | {
            "rows": self.rows,
            "padding": self.padding,
            "exact": sorted(set(self.exact.values())),
        }

    def _all(self) -> list[Executables]:
        found = [entry for entries in self._masked.values() for entry in entries.values()]
        return super()._all() + [entry for entry in found if not isinstance(entry, CannotPad)]

    def step(
        self, program: Program, feed: Feed, names: Names, scope: Scope, *, wait: bool
    ) -> Fetched:
        """Check a feed and run one step on one place."""
        return self.run(program, single_feed(program, feed), names, scope, wait=wait)

    def run(
        self,
        program: Program,
        feeds: dict[str, Array],
        names: Names,
        scope: Scope,
        *,
        wait: bool,
    ) -> Fetched:
        """One step on one place, padded where the program can do with it."""
        fitted = self.fitted(program, feeds, names)
        if fitted is None:
            return super().run(program, feeds, names, scope, wait=wait)
        executables, padded, rows = fitted
        write_learning_rates(program, scope)
        if not (wait and names):  # the caller may change its arrays before the step has read them
            padded = {name: array.copy() for name, array in padded.items()}
        executable = executables.find((shapes_of(padded),), 1, even=True)
        self.runs += 1
        self.rows += sum(real for real, _ in rows.values())
        self.padding += sum(size - real for real, size in rows.values())
        fetches = executable(padded, scope)
        assert executables.compiled.masked is not None
        cuts = executables.compiled.masked.fetches
        return [
            [cut(array, cuts[name], rows) if name in cuts else array]
            for name, array in zip(names, fetches, strict=True)
        ]

    def fitted(self, program: Program, feeds: Mapping[str, Array], names: Names) -> Fitted | None:
        """The step that runs these feeds with padding.

        None when they must run as they are; `stats["exact"]` has the reason.
        """
        axes = self._axes(program, feeds)
        rows = self._rows(program, feeds, axes)
        executables = self._padded(program, axes, tuple(feeds), names) if rows else None
        if executables is None:
            return None
        masked = executables.compiled.masked
        assert masked is not None
        rows = self._reused(executables, masked, rows)
        if reason := misfit(masked, rows):
            self.exact.keep(program.serial, reason)
            return None
        padded = {name: _with_rows(array, axes[name], rows) for name, array in feeds.items()}
        for name in feeds:
            lengths = _lengths_of(name)
            if lengths in feeds and axes[name][0] is not None:
                padded[lengths] = _lengthened(
                    padded[lengths], len(feeds[lengths]), len(padded[name])
                )
        for dim in masked.masks:
            padded[mask_name(dim)] = mask_of(dim, rows)
        for dim in masked.counts:
            padded[count_name(dim)] = np.array(count_of(dim, rows), np.int64)
        return Fitted(executables, padded, rows)

    def _axes(
        self, program: Program, feeds: Mapping[str, Array]
    ) -> dict[str, tuple[str | None, ...]]:
        """The dimension of each axis of each feed."""
        block = program.global_block()
        return {
            name: self.buckets.names(
                name, block.var(name).shape, has_lengths=_lengths_of(name) in feeds
            )
            if block.has_var(name)
            else (None,) * array.ndim
            for name, array in feeds.items()
        }

    def _rows(self, program: Program, feeds: Mapping[str, Array], axes: Dimensions) -> Rows:
        """The sizes of the dimensions; none at all when the feeds disagree or are empty."""
        found: dict[str, int] = {}
        for name, array in feeds.items():
            for dim, size in zip(axes[name], array.shape, strict=True):
                if dim is None:
                    continue
                if found.setdefault(dim, size) != size or not size:
                    other = f", another one {found[dim]}" if size else ""
                    self.exact.keep(
                        program.serial,
                        f"feeds-disagree: feed '{name}' has {size} rows of '{dim}'{other}",
                    )
                    return {}
        links = {
            name: (axes[name][0], axes[_lengths_of(name)][0])
            for name in feeds
            if _lengths_of(name) in feeds
        }
        return {dim: (found[dim], size) for dim, size in self._sizes(found, links).items()}

    def _sizes(
        self, found: Mapping[str, int], links: Mapping[str, tuple[str | None, str | None]]
    ) -> dict[str, int]:
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

    def _reused(self, executables: Executables, masked: Masked, rows: Rows) -> Rows:
        """The smallest sizes that were compiled and are not much larger, else those of the buckets.

        Where sequences have lengths, the number of rows follows from that of sequences.
        """
        known = executables.sizes
        wanted = {dim: size for dim, (_, size) in rows.items()}
        if self.buckets.reuse == 1 or any(map(_is_lengths, executables.compiled.compilation.feeds)):
            return rows
        most = self.buckets.reuse * prod(wanted.values())
        fits = [
            sizes
            for sizes in known
            if all(size >= wanted[dim] for dim, size in sizes.items())
            and prod(sizes.values()) <= most
        ]
        for sizes in sorted(fits, key=lambda sizes: prod(sizes.values())):
            found = {dim: (real, sizes[dim]) for dim, (real, _) in rows.items()}
            if not misfit(masked, found):
                return found
        if not misfit(masked, rows):
            known.append(wanted)
            del known[:-MAX_SIZES]
        return rows

    def _padded(
        self, program: Program, axes: Dimensions, feeds: Names, names: Names
    ) -> Executables | None:
        """The masked program for these feeds and fetches; None when it must run unpadded."""
        found = self._masked.setdefault(program, Bounded(MOST_COMPILED))
        key = program.version, feeds, names, checks_nan_inf()
        made = found.find(key, lambda: self._made(program, axes, feeds, names, first=not found))
        return None if isinstance(made, CannotPad) else made

    def _made(
        self, program: Program, axes: Dimensions, feeds: Names, names: Names, *, first: bool
    ) -> Executables | CannotPad:
        dims: dict[str, Axes] = {
            feed: tuple((name,) if name is not None else None for name in axes[feed])
            for feed in feeds
        }
        # what is kept must not keep the program
        compilation = Compilation(
            proxy(program), feeds, names, self.strategy, self.places, axes=dims
        )
        try:
            reason = NEW_PROGRAM if first else OTHER_FETCHES
            made = executables_of(program, compilation, reason)
        except CannotPad as error:
            self.exact.keep(program.serial, f"{error.reason.name}: {error.reason.text}")
            return error.with_traceback(None)
        self._kept.reasons[made.reason] += 1
        return made


def _with_rows(array: Array, axes: Sequence[str | None], rows: Rows) -> Array:
    """The feed with its last rows repeated."""
    widths = [(0, rows[dim][1] - rows[dim][0]) if dim is not None else (0, 0) for dim in axes]
    if not any(after for _, after in widths):
        return array
    return np.pad(np.asarray(array), widths, mode="edge")


def _is_lengths(name: str) -> bool:
    return name.endswith(LENGTHS)


def _lengths_of(name: str) -> str:
    """The feed that has the lengths of the sequences in a feed."""
    return name + LENGTHS


def _lengthened(padded: Array, real: int, rows: int) -> Array:
    """Padded lengths: the sequences that were added have one row each, the last one the others."""
    lengths = np.array(padded)
    if len(lengths) > real:
        lengths[real:] = 1
        lengths[-1] += rows - lengths.sum()
    return lengths
