"""Tensor arrays as Python's lists: `append` and an element by its number."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.array import array_length, array_read, array_write, is_array
from graphopt.tensor.creation import full
from graphopt.tensor.manipulation import cast, reshape
from graphopt.tensor.math import scale


def append(self: Variable, var: Variable) -> None:
    """Write a Variable after the last element of an array (paddle.Tensor.append).

    Raises TypeError for a Variable that is no array.
    """
    if not is_array(self):
        raise TypeError(f"append(): '{self.name}' is a tensor and no array; use paddle.concat")
    array_write(var, array_length(self), self)


def element(array: Variable, index: Any) -> Variable:
    """The element of an array at a number, which may count from the end, or at a Variable."""
    if isinstance(index, Variable):
        at = reshape(cast(index, "int64"), [1])
    else:
        number = arguments.integer(index, "index", "the element of an array")
        from_end = number < 0
        at = scale(array_length(array), 1.0, number) if from_end else full([1], number, "int64")
    return array_read(array, at)
