"""The dimensions of a padded axis.

A dimension is a product of factors, slowest first: names for padded sizes, extents that follow from
them, numbers for other sizes. `("batch",)` is a batch; `("batch", 12)` is a batch of 12 rows each,
joined by a reshape. An axis that is not padded is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from graphopt.passes.engine.reason import Reason


@dataclass(frozen=True)
class Extent:
    """The size of images after windows and scaling, which follows from the size `name`.

    It is `(name + offset) // divisor * factor + constant`. Windows of windows, also of scaled
    images, have a size of this form too.
    """

    name: str
    offset: int = 0
    divisor: int = 1
    factor: int = 1
    constant: int = 0

    def __str__(self) -> str:
        text = f"({self.name}{self.offset:+})" if self.offset else self.name
        text += f"//{self.divisor}" if self.divisor > 1 else ""
        text += f"*{self.factor}" if self.factor > 1 else ""
        return f"{text}{self.constant:+}" if self.constant else text

    def of(self, size: int) -> int:
        """Compute the extent for a size of `name`."""
        return (size + self.offset) // self.divisor * self.factor + self.constant


@dataclass(frozen=True)
class Grown:
    """The size of a buffer after `by` more rows were written after its `name` rows.

    A padded buffer keeps the size of `name`, which has room for them.
    """

    name: str
    by: int

    def __str__(self) -> str:
        return f"{self.name}+{self.by}"


Factor = str | Extent | Grown | int
Dim = tuple[Factor, ...]
Axes = tuple[Dim | None, ...]


class CannotPad(Exception):
    """Padded axes would change an op's results; `reason` has a stable name and the cause."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.reason = Reason(name, text)


def grow_dim(dim: Dim, by: int) -> Dim:
    """Add `by` rows to the dimension of a buffer; raise CannotPad where axes were joined."""
    factor = dim[0]
    if len(dim) != 1 or not isinstance(factor, (str, Grown)):
        raise CannotPad("joined-rows", "the rows of the data are not the first rows of their axis")
    old = factor if isinstance(factor, Grown) else Grown(factor, 0)
    return (Grown(old.name, old.by + by),)


def windows(dim: Dim, extra: int, stride: int) -> Dim:
    """Compute the dimension of `(size + extra) // stride`; raise CannotPad if none expresses it."""
    old = _extent(dim)
    sum_ = old.constant + extra
    if old.factor % stride == 0:
        return _dim(old, factor=old.factor // stride, constant=sum_ // stride)
    if old.factor == 1:
        offset = old.offset + sum_ * old.divisor
        return _dim(replace(old, offset=offset, constant=0), divisor=old.divisor * stride)
    raise CannotPad(
        "window-of-scaled",
        f"windows of stride {stride} read images that were scaled by {old.factor}",
    )


def scale_dim(dim: Dim, factor: int, constant: int) -> Dim:
    """Compute the dimension of `size * factor + constant`."""
    old = _extent(dim)
    return _dim(old, factor=old.factor * factor, constant=old.constant * factor + constant)


def _extent(dim: Dim) -> Extent:
    """Return the one factor of a dimension; raise CannotPad where axes were joined."""
    factor = dim[0]
    if len(dim) != 1 or isinstance(factor, (int, Grown)):
        raise CannotPad("joined-rows", "the rows of the data are not the first rows of their axis")
    return factor if isinstance(factor, Extent) else Extent(factor)


def _dim(old: Extent, **changed: int) -> Dim:
    """Change an extent and return its dimension; equal sizes have one form."""
    new = replace(old, **changed)
    if new.factor == 1:
        new = replace(new, offset=new.offset + new.constant * new.divisor, constant=0)
    return (new.name,) if new == Extent(new.name) else (new,)


def join_factors(factors: Iterable[Factor]) -> Dim | None:
    """Join factors to a dimension; None when none of them is padded."""
    found: list[Factor] = []
    for factor in factors:
        if factor == 1:
            continue
        if isinstance(factor, int) and found and isinstance(found[-1], int):
            found[-1] = found[-1] * factor
        else:
            found.append(factor)
    return tuple(found) if any(not isinstance(factor, int) for factor in found) else None


def factors_of(size: int, dim: Dim | None) -> Dim:
    """Return the factors of an axis; raise CannotPad if its size and padding are unknown."""
    if dim is not None:
        return dim
    if size < 0:
        raise CannotPad("unknown-axis", "an axis of unknown size is reshaped with a padded axis")
    return (size,)


def reshape_axes(shape: Sequence[int], axes: Axes, wanted: Sequence[int]) -> Axes:
    """Compute the axes of a reshape to `wanted`; 0 copies an axis, one -1 takes the rest.

    Raise CannotPad when a dimension of the result would mix padding with data.
    """
    parts = [factors_of(size, dim) for size, dim in zip(shape, axes, strict=True)]
    copies = 0 not in shape
    rest = [factor for part in parts for factor in part if factor != 1]
    free = list(wanted).index(-1) if -1 in wanted else len(wanted)

    def take(position: int, *, last: bool) -> Dim | None:
        size = wanted[position]
        part = parts[position] if size == 0 and copies else (size,)
        return _split_off(rest, part, last=last)

    front = [take(position, last=False) for position in range(free)]
    back = [take(position, last=True) for position in range(len(wanted) - 1, free, -1)]
    if free == len(wanted):
        if rest:
            raise _mixing_error(rest)
        return tuple(front)
    return (*front, join_factors(rest), *reversed(back))


def _split_off(rest: list[Factor], part: Dim, *, last: bool) -> Dim | None:
    """Take the factors of one dimension from an end of `rest`."""
    for factor in reversed(part) if last else part:
        _take(rest, factor, -1 if last else 0)
    return join_factors(part)


def _take(rest: list[Factor], factor: Factor, end: int) -> None:
    """Take one factor from an end; a number may divide, or be a product of, the factors there."""
    while factor != 1:
        if not rest:
            raise _mixing_error([factor])
        found = rest[end]
        if found == factor:
            rest.pop(end)
            return
        if not isinstance(found, int) or not isinstance(factor, int):
            raise _mixing_error([found])
        if 0 in (found, factor):
            raise _mixing_error([found])
        if found % factor == 0:
            rest[end] = found // factor
            return
        if factor % found:
            raise _mixing_error([found])
        rest.pop(end)
        factor //= found


def _mixing_error(factors: Sequence[Factor]) -> CannotPad:
    names = " * ".join(map(str, factors))
    return CannotPad("reshape-mixes-rows", f"a reshape cuts through the padded axes ({names})")
