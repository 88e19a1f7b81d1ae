"""Fetched arrays of one element: numbers for float(), int() and `%`, as they were for NumPy before.

Paddle's losses have shape [1] (all of fluid's do), and scripts write `"%f" % out[0]`. NumPy before
2.4 converts any array of one element to a Python number; from 2.4 on only one without axes.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

Array = np.ndarray[Any, Any]


class SingleValue(Array):
    """An array with axes that converts to a Python number if it has one element.

    It is an ndarray in everything else. Its rows, and what is computed from it alone or with
    numbers, are such arrays again where they have one element or rows of one, so that a loop over
    a batch of outputs and means over steps can be printed as well. A pickle or a file of it is
    that of a plain array.
    """

    # beside plain arrays the result is a plain array
    __array_priority__ = -1.0  # pyright: ignore

    def __float__(self) -> float:
        return float(_element(self))

    def __int__(self) -> int:
        return int(_element(self))

    def __complex__(self) -> complex:
        return complex(_element(self))

    def __array_wrap__(  # type: ignore[override]
        self, array: Array, context: Any = None, return_scalar: bool = False
    ) -> Any:
        """The result of a NumPy function; NumPy's own subclasses would keep [] for a number."""
        if not array.shape:
            return array[()]
        return array.view(SingleValue if _has_single_rows(array) else np.ndarray)

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return self.view(np.ndarray).__reduce_ex__(protocol)


def _has_single_rows(array: Array) -> bool:
    """True for one element with axes, and for rows of one element, such as a batch of outputs."""
    return bool(array.shape) and (array.size == 1 or (array.ndim > 1 and array.shape[-1] == 1))


def _element(array: Array) -> Any:
    """The only element; a plain array where there are several, which NumPy refuses to convert."""
    return array.item() if array.size == 1 else array.view(np.ndarray)


def to_numpy(array: Any) -> Array:
    """A copy for the caller of a run; a SingleValue where it, or each of its rows, has one element.

    A row of an array of this class is of this class as well.
    """
    made = np.array(array)
    return made.view(SingleValue) if _has_single_rows(made) else made
