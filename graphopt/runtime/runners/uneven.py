"""Uneven rows on the devices of a trainer, in a program that runs on all trainers' devices.

Such a program needs equally many rows everywhere. So shorter chunks are padded by repeating their
last row, and the program is masked: each device counts only its real rows, as the lockstep mapper
does within one process. The trainers must agree on the longest chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphopt.errors import FeedError
from graphopt.passes.padding.dims import Axes, CannotPad
from graphopt.passes.padding.masked import Masked, count_name, mask_name
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.compile.compiling import compile_program
from graphopt.runtime.feeds.padded_rows import Rows, count_of, cut, mask_of
from graphopt.runtime.feeds.split import SplitFeed, side_by_side

BATCH = "batch"


@dataclass(frozen=True)
class Uneven:
    """Feeds padded to one length for each device, the padded axes, and the rows of each device."""

    trainer: int
    whole: Mapping[str, Any]
    axes: Mapping[str, Axes]
    rows: tuple[Rows, ...]

    @classmethod
    def of(cls, parts: SplitFeed, trainer: int) -> Uneven:
        """Pad uneven chunks; FeedError for chunks that differ in more than their rows."""
        arrays = {name: [chunk[name] for chunk in parts.chunks] for name in parts.chunks[0]}
        batched = [n for n, found in arrays.items() if len({a.shape for a in found}) > 1]
        rows = {tuple(array.shape[0] for array in arrays[name]) for name in batched}
        (own, *others) = rows
        if others or not all(own):
            raise _refusal(
                trainer, own, "the feeds have different numbers of rows, or a device has no row"
            )
        if any(len({array.shape[1:] for array in arrays[name]}) > 1 for name in batched):
            raise _refusal(trainer, own, "the rows have different shapes")
        if parts.stacked:
            raise _refusal(trainer, own, "each step of a run has its own batch")
        size = max(own)
        whole = {
            name: side_by_side([_fill_up(a, size) if name in batched else a for a in found])
            for name, found in arrays.items()
        }
        axes: dict[str, Axes] = {
            name: ((BATCH,), *(None,) * (arrays[name][0].ndim - 1)) for name in batched
        }
        return cls(trainer, whole, axes, tuple({BATCH: (count, size)} for count in own))

    def compile(self, compilation: Compilation) -> Compiled:
        """Compile the masked program; FeedError when it cannot take padding."""
        own = [rows[BATCH][0] for rows in self.rows]
        if compilation.sample_weighted:
            raise _refusal(
                self.trainer, own, "sample_weighted=True weights each device by its rows"
            )
        try:
            return compile_program(replace(compilation, axes=self.axes))
        except CannotPad as error:
            raise _refusal(
                self.trainer, own, f"{error.reason.name}: {error.reason.text}"
            ) from error

    def feeds(self, masked: Masked) -> dict[str, Any]:
        """Add the masks and counts of real rows to the feeds of the masked program."""
        found = dict(self.whole)
        for dim in masked.masks:
            found[mask_name(dim)] = np.concatenate([mask_of(dim, rows) for rows in self.rows])
        for dim in masked.counts:
            found[count_name(dim)] = np.array([count_of(dim, rows) for rows in self.rows], np.int64)
        return found

    def cut(
        self, masked: Masked, names: Sequence[str], fetches: Sequence[Sequence[Any]]
    ) -> list[list[Any]]:
        """Cut the padding rows off each fetch on each device."""
        return [
            [cut(value, masked.fetches.get(name, ()), rows) for value, rows in pairs]
            for name, values in zip(names, fetches, strict=True)
            for pairs in [zip(values, self.rows, strict=True)]
        ]


def _fill_up(array: Any, size: int) -> Any:
    return np.pad(array, [(0, size - len(array)), *[(0, 0)] * (array.ndim - 1)], mode="edge")


def _refusal(trainer: int, rows: Sequence[int], why: str) -> FeedError:
    """Compose the error for feeds that cannot be padded."""
    shown = ", ".join(map(str, rows))
    return FeedError(
        f"trainer {trainer} feeds its {len(rows)} devices different numbers of rows ({shown}), and "
        f"the program cannot be masked: {why}. Feed a multiple of {len(rows)} rows on every "
        "trainer, and drop or fill the last batch"
    )
