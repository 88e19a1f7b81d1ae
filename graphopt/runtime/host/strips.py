"""Chains of elementwise ops, computed for a part of their elements at a time.

Each op by itself would read and write its tensors in memory. Parts of all of them stay in the cache
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
"""The index of a part of an array."""


class ChainParts(NamedTuple):
    """The parts of a chain's tensors: their index in the results and in each operand.

    All results have the `shape`, and the `order` of axes in memory, from the largest stride on.
    """

    shape: Shape
    order: Sequence[int]
    parts: Sequence[tuple[Place, ...]]


class Link(NamedTuple):
    """An op of a chain: it computes a value from the slots it `reads`, and stores it in `out`.

    `finish` casts the value to the type of the op's result. A NumPy function that computes the
    value, `ufunc`, can also store it in a given array.
    """

    compute: Callable[[Sequence[Any]], Any]
    finish: Callable[[Any], Sequence[Any]]
    reads: Sequence[int]
    out: int
    ufunc: np.ufunc | None = None


def chains_of(ops: Sequence[Operation], is_plain: Callable[[Operation], bool]) -> list[list[int]]:
    """Find runs of consecutive ops in which each op reads a result of an earlier one.

    They are elementwise, have one result, and satisfy `is_plain`. Return their positions.
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
    """Elementwise ops, and the slots of the results (`ends`) that later steps read."""

    def __init__(self, links: Sequence[Link], ends: Sequence[int]) -> None:
        self.links = links
        self.ends = ends
        made = {link.out for link in links}
        slots = dict.fromkeys(slot for link in links for slot in link.reads)
        self._reads = [slot for slot in slots if slot not in made]
        last = {slot: at for at, link in enumerate(links) for slot in link.reads if slot in made}
        gone = [
            [s for s, at in last.items() if at == n and s not in ends] for n in range(len(links))
        ]
        self._steps = list(zip(links, gone, strict=True))
        self._split: tuple[Any, ChainParts | None] = ((), None)

    def run(self, running: Any) -> list[Any] | None:
        """Compute the results in parts; None if the operands are better computed whole."""
        values = running.values
        given = [values[slot] for slot in self._reads]
        if not all(isinstance(each, np.ndarray) for each in given):
            return None
        laid = tuple([(each.shape, each.strides) for each in given])
        known, split = self._split
        if laid != known:
            split = self._split_for(dict(zip(self._reads, given, strict=True)))
            self._split = laid, split
        if split is None:
            return None
        shape, order, parts = split
        results: dict[int, HostArray] = {}
        unlike = set[int]()  # the slots whose values `finish` changes; the first part shows which
        try:
            for whole, *own in parts:
                for slot, array, place in zip(self._reads, given, own, strict=True):
                    values[slot] = array[place]
                for link, gone in self._steps:
                    out = link.out
                    if link.ufunc is not None and out in results and out not in unlike:
                        values[out] = results[out][whole]
                        link.ufunc(*[values[slot] for slot in link.reads], out=values[out])
                    else:
                        value = values[out] = link.compute(values)
                        if not results or out in unlike:
                            (values[out],) = link.finish(value)
                            if values[out] is not value:
                                unlike.add(out)
                        if out in results:
                            results[out][whole] = values[out]
                    for slot in gone:  # the next part reuses their memory, which is in the cache
                        values[slot] = None
                if not results:
                    for slot in self.ends:
                        results[slot] = _empty(shape, order, values[slot].dtype)
                        results[slot][whole] = values[slot]
        finally:
            for slot, array in zip(self._reads, given, strict=True):
                values[slot] = array
        return list(results.values())

    def _split_for(self, operands: dict[int, HostArray]) -> ChainParts | None:
        """Split these operands into parts; None where results are small or shapes differ."""
        shapes = {slot: each.shape for slot, each in operands.items()}
        first = max(self.links[0].reads, key=lambda slot: math.prod(shapes[slot]))
        shape = shapes[first]
        if math.prod(shape) <= STRIP:
            return None
        for link in self.links:
            if not any(shapes[slot] == shape for slot in link.reads):
                return None
            if not all(_broadcasts(shapes[slot], shape) for slot in link.reads):
                return None
            shapes[link.out] = shape
        strides = operands[first].strides
        order = sorted(range(len(shape)), key=lambda axis: -strides[axis])
        parts = list(_parts_of(shape, order))
        cut = [_places_in(shapes[slot], shape, parts) for slot in self._reads]
        return ChainParts(shape, order, list(zip(parts, *cut, strict=True)))


def _broadcasts(shape: Shape, wanted: Shape) -> bool:
    """Return whether a shape broadcasts to the wanted one."""
    at = len(wanted) - len(shape)
    return at >= 0 and all(n in (1, w) for n, w in zip(shape, wanted[at:], strict=True))


def _empty(shape: Shape, order: Sequence[int], dtype: Any) -> HostArray:
    """Allocate a tensor whose axes have this order in memory."""
    laid = np.empty([shape[axis] for axis in order], dtype)
    return laid.transpose([order.index(axis) for axis in range(len(shape))])


def _parts_of(shape: Shape, order: Sequence[int]) -> Iterator[Place]:
    """Yield the parts of a tensor: a range of one axis in this order, single indices before it."""
    sizes = [shape[axis] for axis in order]
    cut = next(at for at in range(len(sizes)) if math.prod(sizes[at + 1 :]) <= STRIP)
    step = max(1, STRIP // math.prod(sizes[cut + 1 :]))
    place = [slice(None)] * len(shape)
    for single in itertools.product(*map(range, sizes[:cut])):
        for axis, n in zip(order, single, strict=False):
            place[axis] = slice(n, n + 1)
        for start in range(0, sizes[cut], step):
            place[order[cut]] = slice(start, start + step)
            yield tuple(place)


def _places_in(shape: Shape, whole: Shape, parts: Sequence[Place]) -> Sequence[Place]:
    """Convert the indices of parts of `whole` to an operand of this shape."""
    if shape == whole:
        return parts
    at, every = len(whole) - len(shape), slice(None)
    return [
        tuple([every if n == 1 else each for n, each in zip(shape, part[at:], strict=True)])
        for part in parts
    ]
