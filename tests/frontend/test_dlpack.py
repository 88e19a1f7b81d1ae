"""paddle.utils.dlpack: arrays to other libraries and back."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid
from graphopt.utils import dlpack
from graphopt_tests.frontend.programs import fresh


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "int64", "complex64"])
def test_there_and_back(dtype: str) -> None:
    values = np.arange(4).reshape(4, 1).astype(dtype)
    given = fluid.create_lod_tensor(values, [[1, 3]], fluid.CPUPlace())
    found = dlpack.from_dlpack(dlpack.to_dlpack(given))
    assert isinstance(found, fluid.core.Tensor)
    assert np.asarray(found).dtype == values.dtype
    np.testing.assert_array_equal(np.asarray(found), values)


def test_constants_of_a_program() -> None:
    with fresh():
        found = dlpack.from_dlpack(dlpack.to_dlpack(paddle.full([2], 3.0)))
        with pytest.raises(TypeError, match="which a run computes"):
            dlpack.to_dlpack(paddle.rand([2]))
    assert np.asarray(found).tolist() == [3.0, 3.0]


def test_what_is_no_tensor() -> None:
    with pytest.raises(TypeError, match="should be a tensor of a scope"):
        dlpack.to_dlpack(np.zeros(5))
    with pytest.raises(TypeError, match="should be a capsule"):
        dlpack.from_dlpack(np.zeros(5))
