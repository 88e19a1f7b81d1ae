"""Running programs by buckets: pads feeds, masks the program once, cuts the fetches.

A program that cannot be padded runs on its feeds unchanged; `stats["exact"]` has the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary, proxy

import numpy as np

from graphopt.ir.program import LENGTHS, Program
from graphopt.passes.padding.dims import Axes, CannotPad, Dim
from graphopt.passes.padding.mask import Masked, count_name, mask_name
from graphopt.runtime.buckets import Buckets
from graphopt.runtime.compilation import Compilation
from graphopt.runtime.feed import single_feed
from graphopt.runtime.flags import checks_nan_inf
from graphopt.runtime.jax_import import import_jax
from graphopt.runtime.kept import MOST_COMPILED, NEW_PROGRAM, OTHER_FETCHES
from graphopt.runtime.places import Place
from graphopt.runtime.runner import Runner, write_learning_rates
from graphopt.runtime.scope import Scope
from graphopt.runtime.strategies import BuildStrategy

# the dimension of each axis of each feed
Dimensions = Mapping[str, tuple[str | None, ...]]
# the number of rows of each dimension: those of the data and those with padding
Rows = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Bucketed:
    """A masked program: its executable, its additional feeds, the axes of its fetches."""

    compiled: Any
    masked: Masked


class BucketedRunner(Runner):
    """As Runner, with feeds padded to the sizes of `buckets`."""

    def __init__(
        self, places: tuple[Place, ...], buckets: Buckets, strategy: BuildStrategy | None = None
    ) -> None:
        super().__init__(places, strategy)
        self.buckets = buckets
        self.exact: dict[int, str] = {}
        self.rows = 0
        self.padding = 0
        self._bucketed: WeakKeyDictionary[Program, dict[Any, Bucketed | None]]
        self._bucketed = WeakKeyDictionary()

    @property
    def stats(self) -> dict[str, Any]:
        """As of Runner; `rows` that were fed, `padding` rows that were added, `exact` reasons."""
        return super().stats | {
            "rows": self.rows,
            "padding": self.padding,
            "exact": sorted(set(self.exact.values())),
        }

    def all_compiled(self) -> list[Any]:
        """The unpadded ones, then the masked ones."""
        found = [entry for entries in self._bucketed.values() for entry in entries.values()]
        masked = [entry.compiled for entry in found if entry is not None]
        return super().all_compiled() + masked

    def step(
        self, program: Program, feed: Any, names: tuple[str, ...], scope: Scope, *, wait: bool
    ) -> tuple[Any, ...]:
        """Check a feed and run one step on one device."""
        return self.run(program, single_feed(program, feed), names, scope, wait=wait)

    def run(
        self,
        program: Program,
        feeds: dict[str, Any],
        names: tuple[str, ...],
        scope: Scope,
        *,
        wait: bool,
    ) -> tuple[Any, ...]:
        """One step on one device, padded where the program can do with it."""
        axes = self._axes(program, feeds)
        rows = self._rows(program, feeds, axes)
        bucketed = self._masked(program, axes, tuple(feeds), names) if rows else None
        if bucketed is None:
            return super().run(program, feeds, names, scope, wait=wait)
        write_learning_rates(program, scope)
        padded = {name: _padded(array, axes[name], rows) for name, array in feeds.items()}
        for name in feeds:
            lengths = _lengths_of(name)
            if lengths in feeds and axes[name][0] is not None:
                padded[lengths] = _lengthened(
                    padded[lengths], len(feeds[lengths]), len(padded[name])
                )
        if not (wait and names):  # the caller may change its arrays before the step has read them
            padded = {name: array.copy() for name, array in padded.items()}
        for dim in bucketed.masked.masks:
            padded[mask_name(dim)] = mask_of(dim, rows)
        for dim in bucketed.masked.counts:
            padded[count_name(dim)] = np.array(count_of(dim, rows), np.int64)
        shapes = tuple([(array.shape, array.dtype) for array in padded.values()])
        executable = bucketed.compiled.executable(shapes, 1, even=True)
        self.runs += 1
        self.rows += sum(real for real, _ in rows.values())
        self.padding += sum(size - real for real, size in rows.values())
        fetches = executable(padded, scope)
        cuts = bucketed.masked.fetches
        return tuple(
            cut(array, cuts[name], rows) if name in cuts else array
            for name, array in zip(names, fetches, strict=True)
        )

    def _axes(
        self, program: Program, feeds: Mapping[str, Any]
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

    def _rows(self, program: Program, feeds: Mapping[str, Any], axes: Dimensions) -> Rows:
        """The sizes of the dimensions; none at all when the feeds disagree or are empty."""
        found: dict[str, int] = {}
        for name, array in feeds.items():
            for dim, size in zip(axes[name], array.shape, strict=True):
                if dim is None:
                    continue
                if found.setdefault(dim, size) != size or not size:
                    self.exact[program.serial] = (
                        f"feeds-disagree: feed '{name}' has {size} rows of '{dim}'"
                        + (f", another one {found[dim]}" if size else "")
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
        fit = self.buckets.sizes
        sizes = {dim: fit[dim](size) for dim, size in found.items()}
        for name, (rows, sequences) in links.items():
            if rows is None or sequences is None:
                continue
            if rows == sequences:
                raise ValueError(
                    f"feed '{name}' and its lengths have the same axis '{rows}', but there are "
                    "more rows than sequences"
                )
            if sizes[rows] > found[rows] and sizes[sequences] == found[sequences]:
                sizes[sequences] = fit[sequences](found[sequences] + 1)
        for rows, sequences in links.values():
            if rows is not None and sequences is not None:
                extra = sizes[sequences] - found[sequences]
                sizes[rows] = fit[rows](found[rows] + extra) if extra else found[rows]
        return sizes

    def _masked(
        self,
        program: Program,
        axes: Dimensions,
        feeds: tuple[str, ...],
        names: tuple[str, ...],
    ) -> Bucketed | None:
        """The masked program for these feeds and fetches; None when it must run unpadded."""
        found = self._bucketed.setdefault(program, {})
        key = program.version, feeds, names, checks_nan_inf()
        if key not in found:
            import_jax()
            from graphopt.runtime.compile import compile_program

            if len(found) >= MOST_COMPILED:
                del found[next(iter(found))]
            dims: dict[str, Axes] = {
                feed: tuple((name,) if name is not None else None for name in axes[feed])
                for feed in feeds
            }
            # what is kept must not keep the program
            compilation = Compilation(
                proxy(program), feeds, names, self.strategy, self.places, axes=dims
            )
            try:
                compiled = compile_program(compilation)
                assert compiled.masked is not None
                found[key] = Bucketed(compiled, compiled.masked)
                self._kept.reasons[NEW_PROGRAM if len(found) == 1 else OTHER_FETCHES] += 1
            except CannotPad as error:
                found[key] = None
                self.exact[program.serial] = f"{error.reason.name}: {error.reason.text}"
        return found[key]


def _padded(array: Any, axes: Sequence[str | None], rows: Rows) -> Any:
    """The feed with its last rows repeated."""
    widths = [(0, rows[dim][1] - rows[dim][0]) if dim is not None else (0, 0) for dim in axes]
    if not any(after for _, after in widths):
        return array
    return np.pad(np.asarray(array), widths, mode="edge")


def _lengths_of(name: str) -> str:
    """The feed that has the lengths of the sequences in a feed."""
    return name + LENGTHS


def _lengthened(padded: Any, real: int, rows: int) -> Any:
    """Padded lengths: the sequences that were added have one row each, the last one the others."""
    lengths = np.array(padded)
    if len(lengths) > real:
        lengths[real:] = 1
        lengths[-1] += rows - lengths.sum()
    return lengths


def mask_of(dim: Dim, rows: Rows) -> np.ndarray[Any, Any]:
    """The mask of the rows of a dimension that are data."""
    mask = np.ones((), np.bool_)
    for factor in dim:
        if isinstance(factor, int):
            part = np.ones(factor, np.bool_)
        else:
            real, size = rows[factor]
            part = np.arange(size) < real
        mask = np.logical_and.outer(mask, part)
    return mask.reshape(-1)


def count_of(dim: Dim, rows: Rows) -> int:
    """The number of rows of a dimension that are data."""
    return prod(factor if isinstance(factor, int) else rows[factor][0] for factor in dim)


def cut(array: Any, axes: Axes, rows: Rows) -> Any:
    """A fetch without the rows that stem from padding."""
    for at, dim in enumerate(axes):
        if dim is None:
            continue
        if len(dim) == 1:
            (name,) = dim
            assert isinstance(name, str)
            real, size = rows[name]
            if real != size:
                array = array[(slice(None),) * at + (slice(real),)]
        else:
            array = array[(slice(None),) * at + (mask_of(dim, rows),)]
    return array
