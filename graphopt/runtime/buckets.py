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


def sparing(share: float) -> Sizes:
    """Buckets with at most this share of padding: equally many between any two powers of two.

    Raises ValueError for a share that is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise ValueError(f"share should be between 0 and 1, found {share}")

    def fit(rows: int) -> int:
        power = 1 << (rows.bit_length() - 1)
        step = 1 << max(int(power * share).bit_length() - 1, 0)
        return -(-rows // step) * step

    return fit


def _check_positive(what: str, size: int) -> None:
    if size < 1:
        raise ValueError(f"{what} should be 1 or more, found {size}")


@dataclass(frozen=True)
class Buckets:
    """The axes of feeds that are padded, and the sizes they get.

    `sizes` maps the name of a dimension to its buckets. `axes` names the axes of feeds, None for
    those that are left alone: `{"tokens": ("batch", "time")}`. A feed that is not in it has the
    dimension "batch" as its first axis when that is of unknown size, or, when its lengths are fed
    beside it, "rows". With `others` every axis of unknown size is padded, that of position 2 as
    "axis 2", by these sizes. A compiled size that is up to `reuse` times as large as needed, all
    dimensions together, serves before another one is compiled. Raises ValueError for a name in
    `axes` that has no sizes, and for a `reuse` below 1.
    """

    sizes: Mapping[str, Sizes]
    axes: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    others: Sizes | None = None
    reuse: float = 1.0

    def __post_init__(self) -> None:
        if self.reuse < 1:
            raise ValueError(f"reuse should be 1 or more, found {self.reuse}")
        for feed, names in self.axes.items():
            unknown = [name for name in names if name is not None and name not in self.sizes]
            if unknown and self.others is None:
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
            found = [usual, *(f"axis {at}" for at in range(1, len(shape)))][: len(shape)]
            return tuple(
                name if size == -1 and (self.others is not None or name in self.sizes) else None
                for name, size in zip(found, shape, strict=True)
            )
        if len(given) != len(shape):
            raise ValueError(f"feed '{feed}' has {len(shape)} axes, but {len(given)} are named")
        for name, size in zip(given, shape, strict=True):
            if name is not None and size != -1:
                raise ValueError(f"feed '{feed}': the program fixes the axis '{name}' to {size}")
        return tuple(given)

    def fit(self, dimension: str, rows: int) -> int:
        """The size of the bucket of a dimension for so many rows."""
        sizes = self.sizes.get(dimension, self.others)
        assert sizes is not None, dimension
        return sizes(rows)


def automatic(share: float = 0.06, reuse: float = 2.0) -> Buckets:
    """Buckets for all axes of unknown size: at most `share` of each is padding.

    A size that was compiled serves smaller ones, too, unless the feeds become more than `reuse`
    times as large. Axes at one position of several feeds must have one size, as the tokens and the
    mask of a text have; where they have not, the feeds run unpadded.
    """
    return Buckets({}, others=sparing(share), reuse=reuse)
