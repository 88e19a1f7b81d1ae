"""Executor of 1.8: its results without `return_numpy` have sequence lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphopt.frontend.lod_tensor import LoDTensor
from graphopt.frontend.sequence_notes import Levels, fed_name, levels_of
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import Block, Program, Variable, default_main_program
from graphopt.runtime.executor import Executor as _Executor
from graphopt.runtime.feeds.feed import lengths_fed
from graphopt.runtime.feeds.fetch import fetch_names, split_updates
from graphopt.runtime.feeds.from_dataset import elements
from graphopt.runtime.state.scope import Scope as Scope
from graphopt.runtime.state.scope import global_scope as global_scope
from graphopt.runtime.state.scope import scope_guard as scope_guard
from graphopt.runtime.state.slots import Tensor

# the names in C++
_NAMES = {"float32": "float", "float64": "double", "int32": "int", "int64": "int64_t"}


class FetchHandler:
    """Receives values in `train_from_dataset`; scripts subclass it (fluid.executor.FetchHandler).

    `var_dict` maps names of the handler's own to Variables. `handler` gets their values after the
    first step that ends `period_secs` seconds or more after the last call.
    """

    def __init__(self, var_dict: dict[str, Any] | None = None, period_secs: float = 60) -> None:
        if var_dict is None:
            raise AssertionError("FetchHandler(): 'var_dict' should be a dict of Variables by name")
        self.var_dict = var_dict
        self.period_secs = period_secs

    def handler(self, res_dict: dict[str, Any]) -> None:
        """Print the first element of each value."""
        print(" ".join(f"{name}[0]: {value[0]}" for name, value in res_dict.items()), flush=True)

    @staticmethod
    def help() -> None:
        """Print an example of a subclass."""
        print(
            "class Show(fluid.executor.FetchHandler):\n"
            "    def handler(self, res_dict):\n"
            "        print(res_dict)\n"
            "handler = Show({'loss': loss}, period_secs=2)",
            flush=True,
        )


class Executor(_Executor):
    """As `paddle.static.Executor` (Paddle page: fluid.Executor)."""

    def run(
        self,
        program: Any = None,
        feed: Any = None,
        fetch_list: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> list[Any]:
        """Run a program once; see `paddle.static.Executor.run`.

        Tensors that are fetched without `return_numpy` have the lengths of the sequences in them
        (see `graphopt.frontend.sequence_notes`); dense ones have none.
        """
        source = default_main_program() if program is None else program
        if self._is_closed_to_lengths(source, args, kwargs):
            values = super().run(program, feed, fetch_list, *args, **kwargs)
            return [_with_lengths(value, (), {}) for value in values]
        block = source.global_block()
        names = fetch_names(split_updates(fetch_list)[0])
        levels = [levels_of(block.find_var(name)) for name in names]
        extra = _computed_sequences(block, levels)
        fetched = [*_as_list(fetch_list), *extra]
        values = super().run(program, feed, fetched, *args, **kwargs)
        known = _fed_lengths(feed) | dict(zip(extra, values[len(names) :], strict=True))
        return [
            _with_lengths(value, own, known)
            for value, own in zip(values[: len(names)], levels, strict=True)
        ]

    @staticmethod
    def _report(
        number: int, words: Sequence[str], names: Sequence[str], values: Sequence[Any]
    ) -> None:
        """Print the values of a batch of a data set, each with its lengths, shape and dtype."""
        for word, name, value in zip(words, names, values, strict=True):
            array = np.array(value)
            shape = ", ".join(map(str, array.shape or (1,)))
            starts = ", ".join(f"{{{', '.join(map(str, level))}}}" for level in value.lod())
            dtype = _NAMES.get(array.dtype.name, array.dtype.name)
            print(
                f"{word}\t{name}\t\tlod: {{{starts}}}\n\tdim: {shape}\n\tlayout: NCHW\n"
                f"\tdtype: {dtype}\n\tdata: [{' '.join(elements(array))}]\n\t",
                flush=True,
            )

    def _is_closed_to_lengths(self, source: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        """True if fetched values have no lengths: arrays, and results of replicas."""
        names = ("feed_var_name", "fetch_var_name", "scope", "return_numpy")
        given = dict(zip(names, args, strict=False)) | kwargs
        return not isinstance(source, Program) or bool(given.get("return_numpy", True))


def _as_list(fetch_list: Any) -> list[Any]:
    if fetch_list is None:
        return []
    return list(fetch_list) if isinstance(fetch_list, (list, tuple)) else [fetch_list]


def _with_lengths(value: Any, levels: Levels, known: Mapping[str, Any]) -> Any:
    """Convert a fetched tensor to a LoDTensor; for a tensor array, convert its elements."""
    if isinstance(value, list):
        elements: list[Any] = value
        return [
            _with_lengths(
                each, levels, {name: v[at] for name, v in known.items() if name in levels}
            )
            for at, each in enumerate(elements)
        ]
    if type(value) is not Tensor:
        return value
    tensor = LoDTensor()
    tensor._slot = value._slot
    tensor._note_lengths(_numbers(levels, known, tensor))
    return tensor


def _computed_sequences(block: Block, levels: Sequence[Levels]) -> list[str]:
    """List the length variables that operators of the block compute."""
    names = {level: None for own in levels for level in own if isinstance(level, str)}
    found = {name: block.vars.get(name) for name in names}
    return [name for name, v in found.items() if v is not None and not v.is_data]


def _fed_lengths(feed: Any) -> dict[str, Any]:
    """Map the names of length variables to the lengths in a feed."""
    known: dict[str, Any] = {}
    for name, value in feed.items() if isinstance(feed, dict) else ():
        known[name] = value
        levels = lengths_fed(value)
        known |= {fed_name(name, i, len(levels)): own for i, own in enumerate(levels)}
    return known


def _numbers(levels: Levels, known: Mapping[str, Any], tensor: LoDTensor) -> list[list[int]]:
    """Compute the lengths of a fetched tensor; [] if they are unknown or do not fit its rows."""
    rows = (tensor.shape() or [0])[0]
    found: list[list[int]] = []
    for level in levels:
        if isinstance(level, int):
            found.append([level] * (rows // level))
        elif isinstance(level, tuple):
            found.append(list(level))
        elif level in known:
            found.append([int(n) for n in np.asarray(known[level]).reshape(-1)])
        else:
            return []
    return found if found and sum(found[-1]) == rows else []


def as_numpy(tensor: Any) -> Any:
    """Convert a tensor to an array, a list of tensors to a list; None for one without a value.

    Raises RuntimeError for sequences, since an array has no lengths.
    """
    if isinstance(tensor, list):
        return [as_numpy(item) for item in tensor]
    if tensor.lod():
        raise RuntimeError(
            "Some of your fetched tensors hold LoD information. They can not be completely cast "
            "to Python ndarray. Please set the parameter 'return_numpy' as 'False' to return "
            "LoDTensor itself directly."
        )
    return np.array(tensor) if tensor._is_initialized() else None


def _as_lodtensor(data: Any, place: Any, dtype: Any = None) -> LoDTensor:
    """Convert a number, a list, a tuple or an array to a tensor; `place` has no effect.

    Arrays keep their own dtype, other values are converted to `dtype`. Raises AssertionError if
    `dtype` is missing for those, TypeError for data of another type.
    """
    if isinstance(data, np.ndarray):
        array = data
    elif isinstance(data, (bool, int, float, list, tuple, np.generic)):
        if dtype is None:
            raise AssertionError(
                "_as_lodtensor(): 'dtype' is None; set 'dtype' for data other than arrays"
            )
        array = np.array(data, as_dtype(dtype).numpy)
    else:
        raise TypeError(
            "_as_lodtensor(): 'data' should be a number, a list, a tuple or an array, found "
            f"{type(data).__name__}"
        )
    tensor = LoDTensor()
    tensor.set(array, place)
    return tensor


def _fetch_var(name: Any, scope: Scope | None = None, return_numpy: bool = True) -> Any:
    """Read a variable from a scope; raise AssertionError when the scope does not have it."""
    own = name.name if isinstance(name, Variable) else name
    slot = (scope or global_scope()).find_var(own)
    if slot is None:
        raise AssertionError(f"Cannot find {own} in scope; only persistable variables are there")
    return slot.numpy() if return_numpy else _with_lengths(slot.get_tensor(), (), {})
