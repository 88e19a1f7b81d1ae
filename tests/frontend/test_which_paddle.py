"""Numbers that differ from a release of Paddle on purpose: docs/explanation/which-paddle.md."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.programs import fresh, run, start, weight

F = paddle.nn.functional
INF, NAN = np.inf, np.nan
ROWS = np.array([[-INF, -INF], [INF, 1.0], [NAN, 1.0], [-INF, 1.0]], np.float32)


def test_rows_of_infinities() -> None:
    """logsumexp has a value where Paddle has nan; softmax, topk and sort have Paddle's values."""
    with fresh():
        x = static.data("x", [4, 2])
        outs = [paddle.logsumexp(x, 1), F.softmax(x), *paddle.topk(x, 1), paddle.sort(x)]
        total, share, most, place, sorted_ = run(outs, x=ROWS)
    np.testing.assert_array_equal(total, np.array([-INF, INF, NAN, 1.0], np.float32))
    assert np.isnan(share[:3]).all() and share[3].argmax() == 1
    np.testing.assert_array_equal(most[:, 0], np.array([-INF, INF, NAN, 1.0], np.float32))
    assert place[:, 0].tolist() == [0, 0, 0, 1]
    np.testing.assert_array_equal(sorted_[2], np.array([1.0, NAN], np.float32))


def test_windows_with_nan() -> None:
    """A maximum keeps nan anywhere in its window, and -inf, which is not a finite number."""
    image = np.array([[1, NAN, -INF, -INF], [5, 6, -INF, -INF]], np.float32).reshape(1, 1, 2, 4)
    with fresh():
        x = static.data("x", [1, 1, 2, 4])
        outs = [F.max_pool2d(x, 2), *F.max_pool2d(x, 2, return_mask=True)]
        plain, with_mask, _ = run(outs, x=image)
    for found in (plain, with_mask):
        np.testing.assert_array_equal(found.ravel(), np.array([NAN, -INF], np.float32))


def test_casts_to_halves_round() -> None:
    with fresh():
        x = static.data("x", [4])
        found = [x.astype("float16"), x.astype("bfloat16").astype("float32")]
        half, brain = run(found, x=np.array([300.9, 65519.0, 65520.0, 2051.0], np.float32))
    assert half.tolist() == [301.0, 65504.0, INF, 2052.0]
    assert brain.tolist() == [300.0, 65536.0, 65536.0, 2048.0]


def test_functions_of_special_values() -> None:
    given = np.array([INF, -INF, -0.0, 2.0, 3e38, 1e-42], np.float32)
    with fresh():
        x = static.data("x", [6])
        functions = [paddle.sqrt(x), paddle.pow(x, 3), paddle.pow(x, -1), paddle.erfinv(x)]
        outs = [*functions, F.log_sigmoid(x), F.gelu(x), paddle.hypot(x, x), paddle.floor(x)]
        root, cube, inverse, erfinv, log_sigmoid, gelu, hypot, floor = run(outs, x=given)
    assert root[0] == INF and cube[1] == -INF and inverse[2] == -INF and np.isnan(erfinv[3])
    assert log_sigmoid[1] == -INF and gelu[4] == given[4] and hypot[4] == INF
    assert floor[5] == 0


@pytest.mark.parametrize("trains", [True, False])
def test_layer_norm_with_a_frozen_scale(trains: bool) -> None:
    """The input's gradient includes the scale, even if it is frozen."""
    rows = np.array([[1.0, 2.0, 4.0], [0.0, -1.0, 3.0]])
    scale, cotangent = np.array([0.5, 1.5, 1.0]), np.array([[1.0, -2.0, 0.5], [0.3, 1.0, -1.0]])
    with fresh():
        w = weight("w", rows)
        attr = paddle.ParamAttr(trainable=trains, initializer=paddle.nn.initializer.Assign(scale))
        y = static.nn.layer_norm(w, param_attr=attr)
        loss = paddle.sum(y * static.data("k", [2, 3]))
        static.append_backward(loss)
        start()
        (found,) = run(["w@GRAD"], k=cotangent.astype(np.float32))

    def value(x: np.ndarray) -> float:
        normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return float((normal * scale * cotangent).sum())

    moves = np.eye(6).reshape(6, 2, 3) * 1e-5
    wanted = [(value(rows + move) - value(rows - move)) / 2e-5 for move in moves]
    np.testing.assert_allclose(found.ravel(), wanted, atol=1e-4)


@pytest.mark.exhaustive
def test_correlations_have_the_variance_of_their_density() -> None:
    """Correlations of three rows drawn with "cvine" have the density's variance."""
    with fresh():
        paddle.seed(1)
        drawn = paddle.distribution.LKJCholesky(3, 2.0, "cvine").sample([4000])
        (factors,) = run([drawn])
    found = (factors @ factors.swapaxes(-1, -2)).var(0)[[1, 2, 2], [0, 0, 1]]
    np.testing.assert_allclose(found, 1 / 6, atol=0.015)
