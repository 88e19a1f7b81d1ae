"""Buckets: feeds of many sizes run as a few sizes, so that few programs are compiled.

    buckets = Buckets({"batch": powers_of_two(8)})
    exe = static.Executor(buckets=buckets)

XLA compiles a program for each shape that it meets. With buckets, the rows of a feed are rounded up
to the next size of a bucket, the last row is repeated, and the program is rewritten so that the
rows which were added do not count: losses, gradients and fetches are those of the feed itself (see
docs/how-to/many-sizes.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Sizes = Callable[[int], int]
"""From a number of rows (1 or more) to that of its bucket, which is at least as large."""

BATCH = "batch"
ROWS = "rows"


def powers_of_two(least: int = 1, most: int | None = None) -> Sizes:
    """Buckets of `least`, then the powers of two above it; nothing is padded beyond `most`.

    At most half of the rows are padding, and n sizes take about log2(n) programs.
    """
    _check_positive("least", least)

    def fit(rows: int) -> int:
        size = max(least, 1 << (rows - 1).bit_length())
        return rows if most is not None and size > most else size

    return fit


def multiples_of(step: int) -> Sizes:
    """Buckets of `step`, 2 `step`, 3 `step` and so on: less padding and more programs."""
    _check_positive("step", step)
    return lambda rows: -(-rows // step) * step


def one_of(*sizes: int) -> Sizes:
    """Buckets of just these sizes; more rows than the largest are not padded."""
    for size in sizes:
        _check_positive("a size", size)
    ordered = sorted(sizes)
    return lambda rows: next((size for size in ordered if size >= rows), rows)


def _check_positive(what: str, size: int) -> None:
    if size < 1:
        raise ValueError(f"{what} should be 1 or more, found {size}")


@dataclass(frozen=True)
class Buckets:
    """The axes of feeds that are padded, and the sizes they get.

    `sizes` maps the name of a dimension to its buckets. `axes` names the axes of feeds, None for
    those that are left alone: `{"tokens": ("batch", "time")}`. A feed that is not in it has the
    dimension "batch" as its first axis when that is of unknown size, or, when its lengths are fed
    beside it, "rows". Raises ValueError for a name in `axes` that has no sizes.
    """

    sizes: Mapping[str, Sizes]
    axes: Mapping[str, Sequence[str | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for feed, names in self.axes.items():
            unknown = [name for name in names if name is not None and name not in self.sizes]
            if unknown:
                raise ValueError(
                    f"the axes of feed '{feed}' name {', '.join(unknown)}, but sizes has only "
                    f"{', '.join(self.sizes)}"
                )

    def names(
        self, feed: str, shape: Sequence[int], *, has_lengths: bool = False
    ) -> tuple[str | None, ...]:
        """The dimension of each axis of a feed with this declared shape.

        Raises ValueError when `axes` names more or fewer axes than there are, or one whose size
        the program fixes.
        """
        given = self.axes.get(feed)
        if given is None:
            usual = ROWS if has_lengths else BATCH
            first = usual if usual in self.sizes and list(shape[:1]) == [-1] else None
            return (first, *(None for _ in shape[1:])) if len(shape) else ()
        if len(given) != len(shape):
            raise ValueError(f"feed '{feed}' has {len(shape)} axes, but {len(given)} are named")
        for name, size in zip(given, shape, strict=True):
            if name is not None and size != -1:
                raise ValueError(f"feed '{feed}': the program fixes the axis '{name}' to {size}")
        return tuple(given)
