"""Elementwise ops one after the other, on a part of their elements at a time.

Each by itself would read and write its tensors in memory. A part of all of them stays in the cache
of a core from one op to the next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from xdsl.ir import Operation

from graphopt.ir.dialect.traits import Elementwise
from graphopt.runtime.state.arrays import HostArray

STRIP = 1 << 16
"""The elements of a part."""
Shape: TypeAlias = "tuple[int, ...]"
Place: TypeAlias = "tuple[Any, ...]"
"""An index of a part of an array."""
Split: TypeAlias = "tuple[Shape, list[tuple[Place, ...]]]"
"""The shape of all results, and the places of each part in them and in each operand."""


class Link(NamedTuple):
    """An op of a chain: it computes one value from those in some slots, and puts it in another."""

    compute: Callable[[Any], Sequence[Any]]
    reads: Sequence[int]
    out: int


def chains_of(ops: Sequence[Operation], is_plain: Callable[[Operation], bool]) -> list[list[int]]:
    """The places of ops that follow each other, and each read a result of those before it.

    They are elementwise, of one result, and `is_plain`.
    """
    found, chain, made = list[list[int]](), list[int](), set[Any]()
    for place, op in enumerate(ops):
        fits = op.has_trait(Elementwise) and len(op.results) == 1 and is_plain(op)
        if not fits or (chain and made.isdisjoint(op.operands)):
            found.append(chain)
            chain, made = [], set()
        if fits:
            chain.append(place)
            made.update(op.results)
    return [each for each in (*found, chain) if len(each) > 1]


class ElementwiseChain:
    """Elementwise ops whose results of these slots are read later on."""

    def __init__(self, links: Sequence[Link], ends: Sequence[int]) -> None:
        self.links = links
        self.ends = ends
        made = {link.out for link in links}
        slots = dict.fromkeys(slot for link in links for slot in link.reads)
        self._reads = [slot for slot in slots if slot not in made]
        self._split: tuple[tuple[Shape, ...], Split | None] = ((), None)

    def run(self, running: Any) -> list[Any] | None:
        """The results; None for operands that are better computed as a whole."""
        values = running.values
        given = [values[slot] for slot in self._reads]
        if not all(isinstance(each, np.ndarray) for each in given):
            return None
        shapes = tuple([each.shape for each in given])
        known, split = self._split
        if shapes != known:
            split = self._split_for(dict(zip(self._reads, shapes, strict=True)))
            self._split = shapes, split
        if split is None:
            return None
        shape, parts = split
        results: list[HostArray] = []
        try:
            for whole, *own in parts:
                for slot, array, place in zip(self._reads, given, own, strict=True):
                    values[slot] = array[place]
                for compute, _, out in self.links:
                    (values[out],) = compute(running)
                if not results:
                    results = [np.empty(shape, values[slot].dtype) for slot in self.ends]
                for result, slot in zip(results, self.ends, strict=True):
                    result[whole] = values[slot]
        finally:
            for slot, array in zip(self._reads, given, strict=True):
                values[slot] = array
        return results

    def _split_for(self, shapes: dict[int, Shape]) -> Split | None:
        """The parts for operands of these shapes; None where results are small or differ."""
        shape = max((shapes[slot] for slot in self.links[0].reads), key=math.prod, default=())
        if math.prod(shape) <= STRIP:
            return None
        for link in self.links:
            if not any(shapes[slot] == shape for slot in link.reads):
                return None
            if not all(_broadcasts(shapes[slot], shape) for slot in link.reads):
                return None
            shapes[link.out] = shape
        parts = list(_parts_of(shape))
        cut = [_places_in(shapes[slot], shape, parts) for slot in self._reads]
        return shape, list(zip(parts, *cut, strict=True))


def _broadcasts(shape: Shape, wanted: Shape) -> bool:
    """True for a shape that becomes the wanted one."""
    at = len(wanted) - len(shape)
    return at >= 0 and all(n in (1, w) for n, w in zip(shape, wanted[at:], strict=True))


def _parts_of(shape: Shape) -> Iterator[Place]:
    """The parts of a tensor: some of one dimension, one each of those before it."""
    axis = next(axis for axis in range(len(shape)) if math.prod(shape[axis + 1 :]) <= STRIP)
    step = max(1, STRIP // math.prod(shape[axis + 1 :]))
    some = [slice(start, start + step) for start in range(0, shape[axis], step)]
    for before in itertools.product(*map(range, shape[:axis])):
        ones = tuple([slice(n, n + 1) for n in before])
        yield from ((*ones, part) for part in some)


def _places_in(shape: Shape, whole: Shape, parts: Sequence[Place]) -> Sequence[Place]:
    """The places of parts of `whole` in an operand of this shape."""
    if shape == whole:
        return parts
    at = len(whole) - len(shape)
    if math.prod(shape[: max(0, len(parts[0]) - at)]) == 1:  # nothing is cut
        return [(...,)] * len(parts)
    every = slice(None)
    return [
        tuple(every if n == 1 else each for n, each in zip(shape, part[at:], strict=False))
        for part in parts
    ]
