"""Executor of 1.8: its results without `return_numpy` have sequence lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend.lod_tensor import LoDTensor
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import Variable
from graphopt.runtime.executor import Executor as _Executor
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
    """As `paddle.static.Executor`, with the classes and reports of 1.8 (fluid.Executor)."""

    def run(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Run a program once; see `paddle.static.Executor.run`. Tensors are LoDTensors."""
        return [_as_lod(value) for value in super().run(*args, **kwargs)]

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


def _as_lod(value: Any) -> Any:
    """Convert a fetched tensor to a LoDTensor; for a tensor array, convert its elements."""
    if isinstance(value, list):
        elements: list[Any] = value
        return [_as_lod(each) for each in elements]
    if type(value) is not Tensor:
        return value
    tensor = LoDTensor()
    tensor._slot = value._slot
    return tensor


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
    return slot.numpy() if return_numpy else _as_lod(slot.get_tensor())
