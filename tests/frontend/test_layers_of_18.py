"""fluid.layers with shapes or arguments of 1.8.5 only, such as dot, addmm and randn."""

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


def test_names_of_results() -> None:
    with fresh():
        x, matrix = fluid.data("x", [2]), fluid.data("m", [2, 2])
        results = [layers.dist(x, x), layers.dot(x, x), layers.dot(matrix, matrix)]
        results += [layers.trace(matrix), layers.allclose(x, x), layers.logsumexp(matrix)]
        names = [made.name.removesuffix(".tmp_0") for made in [*results, layers.randn([2])]]
    assert names == ["dist_0", "dot_0", "dot_1", "trace_0", "allclose_0", "log_0", "randn_0"]


def test_places_of_elements_as_columns() -> None:
    with fresh():
        rows, columns = layers.nonzero(fluid.data("x", [2, 2]), as_tuple=True)
        found = run(layers.concat([rows, columns], axis=1), x=M - 1)[0]
    assert found.tolist() == [[0, 1], [1, 0], [1, 1]]


def test_random_numbers_are_written_to_a_variable() -> None:
    with fresh():
        normal, whole = layers.zeros([500], "float32"), layers.zeros([500], "int32")
        assert layers.randn([500], out=normal, device="cpu") is normal
        layers.randint(3, 7, [500], out=whole, dtype="int32")
        alone = layers.randint(5)
        seeded = [layers.randint(0, 1000, [4], seed=3) for _ in range(2)]
        found = run(normal, whole, alone, *seeded)
        assert not alone.stop_gradient
    assert abs(found[0].mean()) < 0.3 and abs(found[0].std() - 1) < 0.3
    assert set(found[1].tolist()) == {3, 4, 5, 6}
    assert (found[2].shape, found[2].dtype) == ((1,), "int64")
    assert found[3].tolist() == found[4].tolist()
    with fresh(), pytest.raises(AssertionError, match="one size at least"):
        layers.randn([])


def test_a_shape_in_a_matrix() -> None:
    """A shape is the elements of a tensor, whatever the tensor's own shape."""
    with fresh():
        x = fluid.data("x", [2, 6])
        shape = layers.data("shape", [1, 3], append_batch_size=False)
        outs = layers.reshape(x, [3, 2, 2], actual_shape=shape), layers.reshape(x, shape)
        sizes = np.array([3, 2, 2], "int32")
        found = run(*outs, x=np.zeros((2, 6), "float32"), shape=sizes)
    assert [value.shape for value in found] == [(3, 2, 2)] * 2


def test_windows_beyond_the_end_need_numbers_for_the_padding() -> None:
    with fresh(), pytest.raises(ValueError, match=r"'ceil_mode'.*VALID"):
        image = fluid.data("x", [1, 1, 5, 5])
        layers.pool2d(image, 2, pool_stride=2, pool_padding="VALID", ceil_mode=True)


def test_a_distribution_of_vectors_takes_no_number() -> None:
    with fresh():
        for call in (
            lambda: layers.Categorical(1.0),
            lambda: layers.MultivariateNormalDiag(1.0, [[1.0]]),
            lambda: layers.MultivariateNormalDiag([1.0], 1.0),
        ):
            with pytest.raises(TypeError, match="a list, an array or a Variable, found float"):
                call()
