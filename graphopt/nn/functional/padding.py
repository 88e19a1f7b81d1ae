"""`pad` by amounts known only in a run: rows are gathered by their indices, axis by axis."""

from __future__ import annotations

from graphopt.frontend.sizes import check_integers
from graphopt.ir.program import Variable
from graphopt.tensor.attribute import shape
from graphopt.tensor.creation import full_like, zeros_like
from graphopt.tensor.logic import equal
from graphopt.tensor.manipulation import cast, gather, reshape, slice
from graphopt.tensor.math import abs, add, maximum, minimum, mod, scale, subtract
from graphopt.tensor.ranges import arange
from graphopt.tensor.search import where


def pad_by(x: Variable, amounts: Variable, mode: str, value: float, data_format: str) -> Variable:
    """Pad x at its spatial axes by (before, after), the last axis first.

    Raises ValueError unless `amounts` has two numbers for each spatial axis, or in constant mode
    for each axis, which then begins at the first.
    """
    rank = len(x.shape)
    check_integers(amounts, "pad", "pad")
    first = 1 if data_format in ("NLC", "NHWC", "NDHWC") or rank == 2 else 2
    axes = list(range(first, first + max(rank - 2, 1)))[::-1]
    count = amounts.shape[0] if len(amounts.shape) == 1 else -1
    if mode == "constant" and count == 2 * rank:
        axes = list(range(rank))
    if count != 2 * len(axes):
        raise ValueError(
            f"pad(): 'pad' should have {2 * len(axes)} numbers for {list(x.shape)} "
            f"({data_format}), but '{amounts.name}' has shape {list(amounts.shape)}"
        )
    given = cast(amounts, "int64")
    for at, axis in enumerate(axes):
        before, after = (slice(given, [0], [i], [i + 1]) for i in (2 * at, 2 * at + 1))
        x = _pad_axis(x, axis, before, after, mode, value)
    return x


def _pad_axis(
    x: Variable, axis: int, before: Variable, after: Variable, mode: str, value: float
) -> Variable:
    size = cast(slice(shape(x), [0], [axis], [axis + 1]), "int64")
    places = arange(scale(before, -1.0), add(size, after), 1, "int64")
    last = scale(size, 1.0, -1.0)
    if mode == "circular":
        return gather(x, mod(places, size), axis)
    if mode == "reflect":
        # forward and backward: 0 1 2 3 2 1 | 0 1 ...
        distance = abs(subtract(last, mod(places, scale(last, 2.0))))
        return gather(x, subtract(last, distance), axis)
    inside = minimum(maximum(places, zeros_like(places)), last)
    rows = gather(x, inside, axis)
    if mode == "replicate":
        return rows
    kept = reshape(equal(inside, places), [-1] + [1] * (len(x.shape) - 1 - axis))
    return where(kept, rows, full_like(rows, value))
