"""Fetches of tensor arrays: steps fetch their parts, of which lists of elements are made."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np

from graphopt.errors import ArrayFetchError, UnsupportedError
from graphopt.ir.program import Program
from graphopt.ir.program.array_parts import parts_of
from graphopt.runtime.feeds.fetch import Results, as_results
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.slots import Tensor

MOST_ARRAYS = 256
Counts = dict[str, int | None]
"""The number of elements of each array that is fetched, None for what a run decides."""
ArrayCounts: TypeAlias = "Bounded[Hashable, Counts]"
"""The arrays among the fetches of programs, as far as steps had some."""


def fetch_arrays(
    known: ArrayCounts,
    program: Program,
    names: tuple[str, ...],
    step: Callable[[tuple[str, ...]], Results],
    *,
    by_device: bool = False,
    merges: Callable[[], bool] = lambda: False,
) -> Results:
    """The results of a step; that of an array is the list of its elements.

    `by_device` says that each result is a list with one for each device, `merges()` that those of
    several devices are one. UnsupportedError for merged arrays whose length a run decides.
    """
    key = program.serial, program.version, names
    counts = dict(known.used(key) or {})
    while True:
        try:
            if not counts:
                return step(names)
            parts = [parts_of(name, counts[name]) if name in counts else (name,) for name in names]
            found: Sequence[Any] = step(tuple(chain.from_iterable(parts)))
            break
        except ArrayFetchError as error:
            if error.count is None and merges():
                raise UnsupportedError(
                    f"the tensor array '{error.array}' has a length that depends on data, and "
                    "cannot be merged; set return_merged=False"
                ) from None
            counts[error.array] = error.count
    known.keep(key, counts)
    left = iter(found)
    results: list[Any] = []
    for name, own in zip(names, parts, strict=True):
        values = list(islice(left, len(own)))
        if name not in counts:
            results += values
        elif not by_device:
            results.append(_elements(values, counts[name]))
        else:
            results.append([_elements(each, counts[name]) for each in zip(*values, strict=True)])
    return results


def _elements(values: Sequence[Any], count: int | None) -> list[Any]:
    """The elements of an array, of its parts."""
    if count is not None:
        return list(values)
    rows, sizes = values
    ends = np.cumsum(np.asarray(sizes))[:-1]
    split = np.split(np.asarray(rows), ends)
    return as_results(split, return_numpy=not isinstance(rows, Tensor))
