"""Tensors of Python values (fluid.executor._as_lodtensor)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt.fluid.core import CPUPlace, VarDesc
from graphopt.fluid.executor import _as_lodtensor

INT32 = VarDesc.VarType.INT32


@pytest.mark.parametrize("data", [3.0, [3], (3, 4)])
def test_python_values_take_the_dtype_that_is_given(data: Any) -> None:
    tensor = _as_lodtensor(data, CPUPlace(), INT32)
    assert tensor._dtype() == INT32
    assert np.array_equal(np.array(tensor), data)


def test_an_array_keeps_its_own_dtype() -> None:
    assert _as_lodtensor(np.ones(2, "float64"), CPUPlace())._dtype() == VarDesc.VarType.FP64


def test_other_values_are_refused() -> None:
    with pytest.raises(AssertionError, match="dtype"):
        _as_lodtensor(1, CPUPlace())
    with pytest.raises(TypeError, match="dict"):
        _as_lodtensor({"a": 1}, CPUPlace(), INT32)
    with pytest.raises(TypeError):
        _as_lodtensor([{1, 2}, {3}], CPUPlace(), INT32)
