"""Fetches: which variables a run returns, and how the values of several replicas become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from graphopt.errors import FeedError
from graphopt.ir.program import Operator, Parameter, Variable
from graphopt.runtime.feeds.single import to_numpy
from graphopt.runtime.state.arrays import (
    Array,
    Arrays,
    Fetched,
    FetchList,
    HostArray,
    is_apart,
)
from graphopt.runtime.state.buffers import HeldRows, note_copy
from graphopt.runtime.state.slots import Slot, Tensor

if TYPE_CHECKING:
    import jax

Result: TypeAlias = HostArray | Tensor
Results: TypeAlias = list[Result] | list[list[Result]]
"""The results of a run: a value for each fetch, or the values of each replica."""

# What nearly all fetch lists consist of, which is worth a short cut in every step.
_PLAIN = frozenset((str, Variable, Parameter))


def plain_names(fetch_list: FetchList) -> tuple[str, ...] | None:
    """The names in a list of Variables and names alone, as nearly all are; None for another."""
    if type(fetch_list) is not list or not _PLAIN.issuperset(map(type, fetch_list)):
        return None
    items: list[str | Variable] = fetch_list  # pyright: ignore  # as was just seen
    return tuple([item if isinstance(item, str) else item.name for item in items])


def split_updates(fetch_list: FetchList) -> tuple[FetchList, tuple[Operator, ...]]:
    """The fetch list without its optimizer operators, and these: they select what is updated.

    What `Optimizer.minimize` returns counts as its operators.
    """
    if not isinstance(fetch_list, (list, tuple)):
        return fetch_list, ()
    rest: list[object] = []
    updates: list[Operator] = []
    for item in fetch_list:
        ops = item[0] if isinstance(item, tuple) and item and isinstance(item[0], list) else item
        ops = ops if isinstance(ops, (list, tuple)) else [ops]
        if ops and all(isinstance(op, Operator) for op in ops):
            updates += cast("Sequence[Operator]", ops)
        else:
            rest.append(item)
    return rest, tuple(updates)


def fetch_names(fetch_list: FetchList) -> tuple[str, ...]:
    """The names in a fetch list, a single Variable or name, or None."""
    if fetch_list is None:
        return ()
    if isinstance(fetch_list, (Variable, str)):
        fetch_list = [fetch_list]
    if not isinstance(fetch_list, (list, tuple)):
        raise TypeError(
            "fetch_list type only should be list or tuple (or one Variable or name), "
            f"found {type(fetch_list).__name__}"
        )
    names: list[str] = []
    for position, item in enumerate(fetch_list):
        if isinstance(item, (list, tuple)):
            names += fetch_names(item)
        elif isinstance(item, Variable):
            names.append(item.name)
        elif isinstance(item, str):
            names.append(item)
        else:
            raise TypeError(
                f"Require fetch_list[{position}]'s type shall be one of (Variable, str), "
                f"but received {type(item).__name__}"
            )
    return tuple(names)


def as_results(arrays: Sequence[Array], *, return_numpy: bool) -> list[Result]:
    """Fetched arrays as the caller requested them: NumPy copies, or tensors left on a device.

    Copies from a device begin before the first one is waited for.
    """
    if not return_numpy:
        return [*map(_as_tensor, arrays)]
    if len(arrays) > 1 and is_apart(arrays[0]):
        for array in arrays:
            if type(array) is not HeldRows:
                cast("jax.Array", array).copy_to_host_async()
    copies = [*map(to_numpy, arrays)]
    for array, copy in zip(arrays, copies, strict=True):
        if type(array) is HeldRows:
            note_copy(copy, array)
    return cast("list[Result]", copies)


def _as_tensor(array: Array) -> Tensor:
    slot = Slot("fetch")
    slot.put(array)
    return Tensor(slot)


def merge_replicas(name: str, values: Sequence[Array]) -> HostArray:
    """The values of all replicas joined on axis 0; numbers become a vector.

    Raises ValueError when their other dimensions differ.
    """
    arrays = [np.asarray(value) for value in values]
    if not arrays[0].shape:
        return np.stack(arrays)
    if len({array.shape[1:] for array in arrays}) > 1:
        shapes = ", ".join(str(list(array.shape)) for array in arrays)
        raise FeedError(
            f"the fetched variable '{name}' has different shapes on the devices ({shapes}) and "
            "cannot be merged; set return_merged = False"
        )
    return np.concatenate(arrays)


def by_replica(fetches: Arrays) -> Fetched:
    """The values of each fetch of replicas, one for each of them."""
    # with unequal rows they are lists already
    return [value if isinstance(value, list) else list(np.array(value)) for value in fetches]
