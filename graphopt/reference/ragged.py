"""A tensor array whose elements differ in the size of their first axis.

Other arrays are one NumPy array of their elements; no NumPy array has elements of several sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphopt.reference.tape import Array


class Ragged:
    """The elements of a ragged tensor array, in order."""

    def __init__(self, elements: Sequence[Array]) -> None:
        self.elements = tuple(elements)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one tensor with all elements; -1 where they differ."""
        return len(self.elements), -1, *self.elements[0].shape[1:]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.elements[0].dtype

    def astype(self, dtype: Any) -> Ragged:
        """Convert each element to another dtype."""
        return Ragged([np.asarray(element).astype(dtype) for element in self.elements])

    def __len__(self) -> int:
        return len(self.elements)

    def __getitem__(self, at: Any) -> Any:
        """Return an element, or a slice as a tuple."""
        return self.elements[at]

    def __iter__(self) -> Iterator[Array]:
        return iter(self.elements)
