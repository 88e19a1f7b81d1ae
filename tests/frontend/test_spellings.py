"""Names that Paddle 3 took over from other libraries, with numbers of Paddle 3.3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.later_names import computed
from graphopt_tests.frontend.programs import fresh, run

X = np.array([[0.1, 0.2, 0.4, 0.8], [0.3, 0.1, 0.9, 0.2]], "float32")
POINTS = np.arange(12, dtype="float32").reshape(4, 3)

SAME: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "permute": (lambda x: x.permute(1, 0), X.T),
    "permute of a list": (lambda x: paddle.permute(x, [1, 0]), X.T),
    "matrix_transpose": (lambda x: x.mT, X.T),
    "ravel": (lambda x: x.ravel(), X.ravel()),
    "argwhere": (lambda x: paddle.argwhere(x > 0.35), [[0, 2], [0, 3], [1, 2]]),
    "msort": (lambda x: paddle.msort(x), np.sort(X, 0)),
    "narrow": (lambda x: x.narrow(1, -3, 2), X[:, 1:3]),
    "softmax": (lambda x: x.softmax(), np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    "reduce_as": (lambda x: paddle.reduce_as(x, x[0:1]), X.sum(0, keepdims=True)),
    "reduce_as of fewer axes": (lambda x: paddle.reduce_as(x, x[0]), X.sum(0)),
    "masked_scatter": (
        lambda x: x.masked_scatter(x > 0.25, x + 1),
        [[0.1, 0.2, 1.1, 1.2], [1.4, 0.1, 1.8, 0.2]],
    ),
    "scatter_add": (
        lambda x: x.scatter_add(1, paddle.zeros([2, 1], "int64"), x[:, 1:2]),
        np.add(X, [[0.2, 0, 0, 0], [0.1, 0, 0, 0]]),
    ),
    "scatter_reduce": (
        lambda x: x.scatter_reduce(1, paddle.zeros([2, 1], "int64"), x[:, 3:], "amax"),
        [[0.8, 0.2, 0.4, 0.8], [0.3, 0.1, 0.9, 0.2]],
    ),
    "baddbmm": (
        lambda x: paddle.baddbmm(x[None, :, :2], x[None], x.mT[None], 0.5, 2.0),
        0.5 * X[None, :, :2] + 2 * (X @ X.T),
    ),
    "float64": (lambda x: x.double(), X.astype("float64")),
    "int32": (lambda x: x.int(), X.astype("int32")),
    "type_as": (lambda x: x.type_as(x.long()), X.astype("int64")),
    "comparison": (lambda x: x.ge(x.clamp(0.2, 0.5)), np.clip(X, 0.2, 0.5) <= X),
}


@pytest.mark.parametrize("rows", [1, 3])
def test_sums_in_the_shape_of_open_sizes(rows: int) -> None:
    """The run decides the axes along which the target broadcasts."""
    with fresh():
        x, target = (static.data(name, [None, 4], "float32") for name in ("x", "y"))
        x.stop_gradient = False
        out = paddle.reduce_as(x, target)
        gradient = static.gradients([out * target], [x])[0]
        given = np.arange(12, dtype="float32").reshape(3, 4)
        found = run([out, gradient], x=given, y=given[:rows])
    np.testing.assert_array_equal(found[0], given if rows == 3 else given.sum(0, keepdims=True))
    np.testing.assert_array_equal(found[1], np.broadcast_to(given[:rows], (3, 4)))


@pytest.mark.every(5)
@pytest.mark.parametrize("name", SAME)
def test_a_spelling_is_the_function(name: str) -> None:
    function, wanted = SAME[name]
    (found,) = computed(lambda x: function(x), x=X)
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, 1e-6)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((5,), [0, 1, 2, 3, 4, 5]),
        ((0, 1, 0.3), [0, 0.3, 0.6, 0.9]),
        ((5, 0, -2), [5, 3, 1]),
    ],
)
def test_a_range_has_its_end(given: Any, wanted: Any) -> None:
    (found,) = computed(lambda: paddle.range(*given))
    assert found.dtype == "float32"
    np.testing.assert_allclose(found, wanted, 1e-6)


def test_random_numbers_in_the_shape_of_a_tensor() -> None:
    uniform, normal = computed(
        lambda x: [paddle.rand_like(x), paddle.randn_like(x, "float64")], x=X
    )
    assert uniform.shape == normal.shape == X.shape
    assert (uniform.dtype, normal.dtype) == ("float32", "float64")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: paddle.narrow(x, 1, 3, 2), "2 elements from 3 are not in an axis of 4"),
        (lambda x: paddle.matrix_transpose(x[0]), "'x' should have 2 axes or more"),
        (lambda x: paddle.range(0, 1, -1), "do not lead from"),
        (lambda x: paddle.histogramdd(x, [2, 3]), "needs? 4 numbers in 'bins'"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        computed(wrong, x=X)


@pytest.mark.exhaustive
def test_a_histogram_of_points() -> None:
    found, *edges = computed(lambda x: paddle.histogramdd(x, 3), x=POINTS)
    wanted = np.zeros((3, 3, 3))
    wanted[0, 0, 0], wanted[1, 1, 1], wanted[2, 2, 2] = 1, 1, 2
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(edges, np.add([[0, 3, 6, 9]], [[0], [1], [2]]))


def test_bounds_of_cells_are_computed_from_both_ends() -> None:
    """The bounds are Paddle's, bit for bit."""
    x = np.array([[-0.9772778749465942], [2.2408931255340576]], "float32")
    found, edge = computed(lambda x: paddle.histogramdd(x, 7), x=x)
    assert found.tolist() == [1, 0, 0, 0, 0, 0, 1]
    wanted = [0.4019383192062378, 0.8616769313812256, 1.321415662765503, 1.7811543941497803]
    assert edge[3:7].tolist() == wanted


def test_a_density_of_weighted_points_in_ranges() -> None:
    found, *_ = computed(
        lambda x, w: paddle.histogramdd(x, [2, 3, 2], [0, 9, 1.0, 10.0, 2, 11], True, w),
        x=POINTS,
        w=np.array([1, 2, 3, 4], "float32"),
    )
    wanted = np.zeros((2, 3, 2))
    wanted[0, 0, 0], wanted[0, 1, 0], wanted[1, 2, 1] = 0.00164609, 0.00329218, 0.01152263
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-9)


def test_bounds_of_bins_are_given_as_tensors() -> None:
    found, *_ = computed(
        lambda x, e: paddle.histogramdd(x[:, :2], (e, e)),
        x=POINTS,
        e=np.array([0, 4, 8], "float32"),
    )
    np.testing.assert_array_equal(found, [[1, 1], [0, 1]])
    bounds = np.array([0, 4, 8], "float32")
    same, *_ = computed(lambda x: paddle.histogramdd(x[:, :2], (bounds, bounds)), x=POINTS)
    np.testing.assert_array_equal(same, found)


def test_a_product_with_reflections() -> None:
    """The factor is Q of `householder_product`, on either side."""
    draw = np.random.default_rng(0)
    given = {name: draw.standard_normal((3, 3)).astype("float32") for name in "xy"}
    tau = np.array([1.2, 0.4, 0.9], "float32")

    def products(x: Any, y: Any, tau: Any) -> list[Any]:
        ormqr = paddle.linalg.ormqr
        made = [
            ormqr(x, tau, y, left, turned) for left in (True, False) for turned in (False, True)
        ]
        return [paddle.linalg.householder_product(x, tau), *made]

    q, *found = computed(products, tau=tau, **given)
    y = given["y"]
    for value, wanted in zip(found, (q @ y, q.T @ y, y @ q, y @ q.T), strict=True):
        np.testing.assert_allclose(value, wanted, 1e-5, 1e-6)
