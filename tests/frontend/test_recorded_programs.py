"""Small programs give the results of Paddle 2.6.2 (see `recorded_programs.py`)."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt_tests.frontend.recorded_programs import DATA, PROGRAMS, results


@pytest.mark.every(5)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_paddle(name: str) -> None:
    """Values, shapes and dtypes are Paddle's."""
    found = results(paddle, PROGRAMS[name])
    with np.load(DATA / f"{name}.npz") as recorded:
        assert set(found) == set(recorded.files)
        for key, array in found.items():
            expected = recorded[key]
            assert (array.shape, array.dtype) == (expected.shape, expected.dtype), key
            np.testing.assert_allclose(array, expected, 1e-5, 1e-5, err_msg=key)
