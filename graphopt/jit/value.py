"""Value: the result of calling a traced function, an array with the API of Paddle's tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from graphopt.errors import UnsupportedError
from graphopt.ir.dtypes import DType, as_dtype

_INSTEAD = (
    "graphopt has no dynamic mode. Build the training step as a static program: "
    "paddle.static.program_guard, static.data, the optimizer's minimize(loss), and "
    "paddle.static.Executor.run"
)


class RunValue(NDArrayOperatorsMixin):
    """The array that a run computed, read-only.

    `numpy`, `shape`, `dtype`, `item`, `float()`, indices, operators and printing behave as those of
    Paddle's tensors. It belongs to no program: as an argument of a layer it is fed.
    """

    stop_gradient = True
    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = np.array(array)
        self._array.setflags(write=False)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Copy the array."""
        return self._array.copy()

    @property
    def shape(self) -> list[int]:
        """The dimensions."""
        return list(self._array.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return as_dtype(self._array.dtype)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._array.size

    def item(self, *index: int) -> Any:
        """Return an element as a Python number."""
        return self._array.item(*index)

    def tolist(self) -> Any:
        """Convert the elements to nested lists of Python numbers."""
        return self._array.tolist()

    def astype(self, dtype: Any) -> RunValue:
        """Cast the value to another dtype."""
        return RunValue(self._array.astype(as_dtype(dtype).numpy))

    def detach(self) -> RunValue:
        """Return the value itself: it has no gradient."""
        return self

    clone = cpu = cuda = detach

    def backward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise UnsupportedError: the run that computed the value kept nothing for a derivative."""
        raise UnsupportedError(f"backward() of a result: {_INSTEAD}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"the result of a traced function has no attribute '{name}'; compute inside the "
            "function, or with NumPy on result.numpy()"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._array, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        arrays = [each._array if isinstance(each, RunValue) else each for each in inputs]
        made = getattr(ufunc, method)(*arrays, **kwargs)
        return RunValue(made) if isinstance(made, (np.ndarray, np.generic)) else made

    def __getitem__(self, index: Any) -> RunValue:
        return RunValue(self._array[index])

    def __iter__(self) -> Iterator[RunValue]:
        return (RunValue(each) for each in self._array)

    def __len__(self) -> int:
        return len(self._array)

    def __bool__(self) -> bool:
        return bool(self._array)

    def __float__(self) -> float:
        return float(self._array.item())

    def __int__(self) -> int:
        return int(self._array.item())

    def __index__(self) -> int:
        return int(self)

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        return format(self._array.item() if spec else str(self), spec)

    def __repr__(self) -> str:
        shown = np.array2string(self._array, separator=", ", prefix=" " * 7)
        return (
            f"Tensor(shape={self.shape}, dtype={self.dtype}, stop_gradient=True,\n       {shown})"
        )
