"""Fetches: the variables that a run returns, and the merge of values of several replicas.

A single value converts to a number, and a tensor array of a program is the list of its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, cast

import numpy as np

from graphopt.errors import ArrayFetchError, FeedError, UnsupportedError
from graphopt.ir.program import Operator, Program, Variable
from graphopt.ir.program.array_parts import parts_of
from graphopt.runtime.state.arrays import (
    Array,
    Arrays,
    Fetched,
    FetchList,
    HostArray,
    is_apart,
)
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.buffers import HeldRows, note_copy
from graphopt.runtime.state.slots import Slot, Tensor

if TYPE_CHECKING:
    import jax


class SingleValue(HostArray):
    """An ndarray with axes that converts to a Python number if it has one element.

    Its rows, and results computed from it alone or with numbers, are such arrays again if they have
    one element or rows of one. So a loop over a batch of outputs and means over steps can be
    printed as well. It is pickled and saved as a plain array.
    """

    # an operation with a plain array returns a plain array
    __array_priority__ = -1.0  # pyright: ignore

    def __float__(self) -> float:
        return float(_element(self))

    def __int__(self) -> int:
        return int(_element(self))

    def __complex__(self) -> complex:
        return complex(_element(self))

    def __array_wrap__(  # type: ignore[override]
        self, array: HostArray, context: Any = None, return_scalar: bool = False
    ) -> Any:
        """Wrap a NumPy result; return a scalar for rank 0, unlike NumPy for other subclasses."""
        if not array.shape:
            return array[()]
        return array.view(SingleValue if _has_single_rows(array) else np.ndarray)

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return self.view(np.ndarray).__reduce_ex__(protocol)


def _has_single_rows(array: HostArray) -> bool:
    """Return whether an array has axes and one element, or rows of one element."""
    return bool(array.shape) and (array.size == 1 or (array.ndim > 1 and array.shape[-1] == 1))


def _element(array: HostArray) -> Any:
    """Return the only element; several stay a plain array, which NumPy refuses to convert."""
    return array.item() if array.size == 1 else array.view(np.ndarray)


def to_numpy(array: Any) -> HostArray:
    """Copy an array for the caller of a run.

    The copy is a SingleValue if it, or each of its rows, has one element.
    """
    made = np.array(array)
    if made.shape and _has_single_rows(made):
        made = made.view(SingleValue)
    if type(array) is HeldRows:
        note_copy(made, array)
    return made


Result: TypeAlias = HostArray | Tensor
Results: TypeAlias = list[Result] | list[list[Result]]
"""The results of a run: a value for each fetch, or a list of values for each replica."""


def split_updates(fetch_list: FetchList) -> tuple[FetchList, tuple[Operator, ...]]:
    """Split optimizer operators off a fetch list: they select the updates to run.

    A result of `Optimizer.minimize` counts as its operators.
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
    """List the names in a fetch list, a single Variable or name, or None."""
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
    """Convert fetched arrays to NumPy copies, or to tensors left on their device.

    All copies from a device start before the first one is awaited.
    """
    if not return_numpy:
        return [*map(_as_tensor, arrays)]
    if len(arrays) > 1 and is_apart(arrays[0]):
        for array in arrays:
            if type(array) is not HeldRows:
                cast("jax.Array", array).copy_to_host_async()
    return [*map(to_numpy, arrays)]


def _as_tensor(array: Array) -> Tensor:
    slot = Slot("fetch")
    slot.put(array)
    return Tensor(slot)


def merge_replicas(name: str, values: Sequence[Array]) -> HostArray:
    """Join the values of all replicas on axis 0; numbers become a vector.

    Raise FeedError when their other sizes differ.
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
    """Split each fetch of replicas into a list with a value for each replica."""
    # with unequal rows they are lists already
    return [value if isinstance(value, list) else list(np.array(value)) for value in fetches]


MOST_ARRAYS = 256
Counts = dict[str, int | None]
"""The number of elements of each fetched tensor array; None if the run decides it."""
ArrayCounts: TypeAlias = "Bounded[Hashable, Counts]"
"""The tensor arrays found among the fetches of each program."""


def fetch_arrays(
    known: ArrayCounts,
    program: Program,
    names: tuple[str, ...],
    step: Callable[[tuple[str, ...]], Results],
    *,
    by_device: bool = False,
    merges: Callable[[], bool] = lambda: False,
) -> Results:
    """Run a step, and return each fetched tensor array as the list of its elements.

    With `by_device` each result is a list with a value for each device; `merges()` returns whether
    the values of several devices are merged. Raise UnsupportedError for merged arrays whose length
    depends on data.
    """
    key = program.serial, program.version, names
    counts = dict(known.use(key) or {})
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
    """Build the elements of a tensor array from its fetched parts."""
    if count is not None:
        return list(values)
    rows, sizes = values
    ends = np.cumsum(np.asarray(sizes))[:-1]
    split = np.split(np.asarray(rows), ends)
    return as_results(split, return_numpy=not isinstance(rows, Tensor))
