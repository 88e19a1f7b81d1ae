"""fluid.layers.dot, addmm and others as 1.8.5 has them: one dimension at least, alpha first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt_tests.frontend.test_fluid import computed, fresh, run

layers = fluid.layers
V, W = np.array([1.0, 2.0], "float32"), np.array([1.0, 3.0], "float32")
M = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")


@pytest.mark.parametrize(
    ("function", "values", "wanted"),
    [
        (layers.dist, (V, W), [1.0]),
        (layers.dot, (V, W), [7.0]),
        (layers.dot, (M, M), [[5.0], [25.0]]),
        (layers.trace, (M,), [5.0]),
        (lambda x: layers.trace(input=x, offset=1, dim1=0, dim2=1), (M,), [2.0]),
        (layers.logsumexp, (M,), [4.4401898]),
        (layers.allclose, (V, W), [False]),
        (lambda x: layers.addmm(x, x, x, 2.0, 0.5), (M,), 0.5 * M + 2 * M @ M),
        (lambda x: layers.log_softmax(x, None), (M,), [[-1.3132617, -0.3132617]] * 2),
        (lambda x: fluid.contrib.layers.partial_concat(x, 1, 1), (M,), [[2.0], [4.0]]),
    ],
)
def test_results(function: Callable[..., Any], values: Any, wanted: Any) -> None:
    found = computed(function, *values)
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, 1e-5)


def test_a_trace_is_written_to_a_variable() -> None:
    def into(x: Any) -> Any:
        out = layers.zeros([1], "float32")
        return layers.trace(x, out=out)

    assert computed(into, M).tolist() == [5.0]


def test_places_of_elements_as_columns() -> None:
    with fresh():
        rows, columns = layers.nonzero(fluid.data("x", [2, 2]), as_tuple=True)
        found = run(layers.concat([rows, columns], axis=1), x=M - 1)[0]
    assert found.tolist() == [[0, 1], [1, 0], [1, 1]]
