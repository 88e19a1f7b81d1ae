"""Buckets: feeds of many sizes run as a few sizes, so that few programs are compiled.

    buckets = Buckets({"batch": powers_of_two(8)})
    exe = static.Executor(buckets=buckets)

XLA compiles a program for each shape that it meets. With buckets, the number of rows of a feed is
rounded up to the next bucket, the last row is repeated, and the program is rewritten so that the
added rows do not count: losses, gradients and fetches are those of the feed itself (see
docs/how-to/many-sizes.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from graphopt.display.units import several
from graphopt.passes.padding.masked import LONGEST

Sizes = Callable[[int], int]
"""A map from a number of rows (1 or more) to its bucket's number, which is at least as large."""

BATCH = "batch"
ROWS = "rows"
# the rows of feeds whose sequence lengths differ from the first such feed's
OTHER_ROWS = "rows of "
STEPS = "steps"


def powers_of_two(least: int = 1, most: int | None = None) -> Sizes:
    """Build buckets of `least` and the powers of two above it; no padding beyond `most`.

    At most half of the rows are padding, and n sizes take about log2(n) programs.
    """
    _check_positive("least", least)

    def fit(rows: int) -> int:
        size = max(least, 1 << (rows - 1).bit_length())
        return rows if most is not None and size > most else size

    return fit


def multiples_of(step: int) -> Sizes:
    """Build buckets of `step`, 2 `step`, 3 `step` and so on: less padding, more programs."""
    _check_positive("step", step)
    return lambda rows: -(-rows // step) * step


def one_of(*sizes: int) -> Sizes:
    """Build buckets of just these sizes; more rows than the largest are not padded."""
    for size in sizes:
        _check_positive("a size", size)
    ordered = sorted(sizes)
    return lambda rows: next((size for size in ordered if size >= rows), rows)


def sparing(share: float, least: int = 1) -> Sizes:
    """Build buckets with at most `share` of padding, equally many between powers of two.

    All rows up to `least` share a bucket. Raise ValueError for a share that is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise ValueError(f"share should be between 0 and 1, found {share}")

    def fit(rows: int) -> int:
        power = 1 << (rows.bit_length() - 1)
        step = 1 << max(int(power * share).bit_length() - 1, 0)
        return max(-(-rows // step) * step, least)

    return fit


def _check_positive(what: str, size: int) -> None:
    if size < 1:
        raise ValueError(f"{what} should be 1 or more, found {size}")


@dataclass(frozen=True)
class Buckets:
    """The axes of feeds that are padded, and their bucket sizes.

    `sizes` maps the name of a dimension to its buckets. `axes` names the axes of feeds, None for
    axes without padding: `{"tokens": ("batch", "time")}`. A feed that is not in it has the
    dimension "batch" as its first axis if the size of that is unknown. The first axis of a feed of
    sequences is "rows", or "rows of x" where the first feed with its lengths is x. Sequences that
    the program pads to the longest one have "steps", by default with the buckets of their rows.
    With `others` every axis of unknown size is padded by these sizes; the axis of position 2 is
    "axis 2". A compiled size of up to `reuse` times the needed one, all dimensions together, is
    used before another one is compiled. With `patience` that holds only until its padding has taken
    that many times the seconds of a compilation; in seeded training, where no timing may decide,
    for 64 times as many steps. `headroom` is for sequences: a compiled size has room for so many
    standard deviations of the sum of their lengths. Raise ValueError for a name in `axes` without
    sizes, and for a `reuse` below 1.
    """

    sizes: Mapping[str, Sizes]
    axes: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    others: Sizes | None = None
    reuse: float = 1.0
    patience: float | None = None
    headroom: float = 0.0

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
        self, feed: str, shape: Sequence[int], *, first: str = BATCH
    ) -> tuple[str | None, ...]:
        """Name the dimension of each axis of a feed with this declared shape.

        By default that is `first`, "axis 1" and so on. Raise ValueError when `axes` has another
        number of axes, or names one whose size the program fixes.
        """
        given = self.axes.get(feed)
        if given is None:
            found = names_by_position(shape, first=first)
            return tuple(
                name if name and self._sizes_of(name) is not None else None for name in found
            )
        if len(given) != len(shape):
            raise ValueError(
                f"feed '{feed}' has {several(len(shape), 'axis', 'axes')}, but axes gives "
                f"{several(len(given), 'name')}"
            )
        for name, size in zip(given, shape, strict=True):
            if name is not None and size != -1:
                raise ValueError(f"feed '{feed}': the program fixes the axis '{name}' to {size}")
        return tuple(given)

    def fit(self, dimension: str, rows: int) -> int:
        """Round the rows of a dimension up to its bucket."""
        sizes = self._sizes_of(dimension)
        assert sizes is not None, dimension
        return sizes(rows)

    def _sizes_of(self, dimension: str) -> Sizes | None:
        if dimension.startswith(LONGEST):
            return self.sizes.get(STEPS) or self._sizes_of(dimension.removeprefix(LONGEST))
        usual = ROWS if dimension.startswith(OTHER_ROWS) else dimension
        return self.sizes.get(dimension) or self.sizes.get(usual) or self.others


def names_by_position(shape: Sequence[int], *, first: str = BATCH) -> tuple[str | None, ...]:
    """Name each axis of unknown size `first`, "axis 1" and so on; None for the others."""
    names = (f"axis {at}" if at else first for at in range(len(shape)))
    return tuple(name if size == -1 else None for name, size in zip(names, shape, strict=True))


def sequences(share: float = 0.25) -> Buckets:
    """Build buckets for feeds of sequences: their rows, and the first axis of other feeds.

    At most `share` of the rows is padding, about a tenth if all numbers of rows are equally likely.
    Few rows, whose work is negligible against a compilation, share one size. A compiled size has
    room for the next batches, if their lengths vary as in this one. It serves batches of half the
    rows and more, until padding them has taken as long as compiling their own size.
    """
    sizes = {BATCH: sparing(share), ROWS: sparing(share, least=16), STEPS: sparing(share, least=8)}
    return Buckets(sizes, reuse=2.0, patience=1.0, headroom=2.0)


def automatic(share: float = 0.06, reuse: float = 2.0, patience: float | None = None) -> Buckets:
    """Build buckets for all axes of unknown size: at most `share` of each is padding.

    A compiled size serves smaller ones, too, unless it makes the feeds more than `reuse` times as
    large. Axes at one position of several feeds must have one size, as the tokens and the mask of a
    text have; otherwise the feeds run unpadded. For `patience` see Buckets.
    """
    return Buckets({}, others=sparing(share), reuse=reuse, patience=patience)
