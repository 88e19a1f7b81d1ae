"""Functions of networks that Paddle 3 added, with numbers of Paddle 3.3.1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt_tests.frontend.later_names import computed
from graphopt_tests.frontend.programs import fresh, run

F = paddle.nn.functional
IMAGE = (np.arange(48, dtype="float32") % 13).reshape(1, 1, 6, 8)
VOLUME = (np.arange(210, dtype="float32") * 7 % 31).reshape(1, 1, 5, 6, 7)
SCORES = np.array([[0.1, 0.2, 0.4, 0.8], [0.3, 0.1, 0.9, 0.2]], "float32")


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("size", "kernel", "u", "values", "places"),
    [
        ((2, 3), None, 0.3, [[10, 12, 10], [12, 10, 12]], [[10, 12, 23], [25, 36, 38]]),
        (
            3,
            (2, 2),
            0.5,
            [[9, 12, 7], [12, 7, 10], [7, 10, 12]],
            [[9, 12, 7], [25, 20, 23], [33, 36, 38]],
        ),
        (
            (4, 3),
            2,
            0.9,
            [[9, 12, 7], [9, 12, 10], [12, 7, 10], [7, 10, 12]],
            [[9, 12, 7], [9, 12, 23], [25, 20, 23], [33, 36, 38]],
        ),
    ],
)
def test_maxima_of_windows_that_fit_an_image(
    size: Any, kernel: Any, u: float, values: Any, places: Any
) -> None:
    pool = paddle.nn.FractionalMaxPool2D(size, kernel, u, return_mask=True)
    found, mask = computed(lambda x: pool(x), x=IMAGE)
    np.testing.assert_array_equal(found[0, 0], values)
    np.testing.assert_array_equal(mask[0, 0], places)
    assert mask.dtype == "int32"


@pytest.mark.exhaustive
def test_maxima_of_windows_that_fit_a_volume() -> None:
    pool = paddle.nn.FractionalMaxPool3D((2, 3, 3), random_u=0.4, return_mask=True)
    found, mask = computed(lambda x: pool(x), x=VOLUME)
    np.testing.assert_array_equal(
        found[0, 0],
        [[[30, 30, 29], [30, 28, 27], [28, 30, 29]], [[29, 30, 27], [28, 27, 30], [26, 29, 30]]],
    )
    np.testing.assert_array_equal(mask[0, 0, 0], [[84, 53, 13], [22, 66, 26], [35, 115, 75]])


def test_windows_that_are_drawn_cover_the_image() -> None:
    (found,) = computed(lambda x: F.fractional_max_pool2d(x, [3, None]), x=IMAGE)
    assert found.shape == (1, 1, 3, 8)
    assert found.max() == IMAGE.max()


def test_a_maximum_sends_its_gradient_to_its_place() -> None:
    def slopes(x: Any) -> Any:
        x.stop_gradient = False
        out = F.fractional_max_pool2d(x, (2, 3), None, 0.3)
        return static.gradients(paddle.sum(out), x)

    (found,) = computed(slopes, x=IMAGE)
    assert sorted(np.flatnonzero(found)) == [10, 12, 23, 25, 36, 38]


def test_the_margin_of_several_labels() -> None:
    labels = np.array([[0, 3, -1, 2], [1, -1, 0, -1]])
    found = computed(
        lambda x, y: [
            F.multi_label_margin_loss(x, y, "none"),
            paddle.nn.MultiLabelMarginLoss()(x, y),
        ],
        x=SCORES,
        y=labels,
    )
    np.testing.assert_allclose(found[0], [0.85, 1.025], 1e-6)
    np.testing.assert_allclose(found[1], 0.9375, 1e-6)


def test_swiglu_of_halves_and_of_two() -> None:
    whole, apart = computed(lambda x: [F.swiglu(x), F.swiglu(x[:, :2], x[:, 2:])], x=SCORES)
    np.testing.assert_allclose(whole, [[0.02099917, 0.08797345], [0.15509948, 0.01049958]], 1e-6)
    np.testing.assert_array_equal(whole, apart)


def test_swiglu_of_an_open_axis() -> None:
    paddle.enable_static()
    main = static.Program()
    with static.program_guard(main, static.Program()):
        out = F.swiglu(static.data("x", [None, None], "float32"))
        (found,) = static.Executor().run(main, {"x": SCORES}, [out])
    assert out.shape == (-1, -1)
    np.testing.assert_array_equal(found, computed(lambda x: F.swiglu(x), x=SCORES)[0])


def test_sampled_classes_begin_with_those_of_the_labels() -> None:
    labels = np.array([11, 5, 1, 3, 5])
    remapped, sampled = computed(lambda y: F.class_center_sample(y, 20, 9), y=labels)
    np.testing.assert_array_equal(remapped, [3, 2, 0, 1, 2])
    np.testing.assert_array_equal(sampled[:4], [1, 3, 5, 11])
    assert len(set(sampled.tolist())) == 9
    assert remapped.dtype == sampled.dtype == "int64"


def test_more_labels_than_samples_are_all_sampled() -> None:
    labels = np.array([11, 5, 1, 3, 12, 2, 15, 19, 18, 19])
    remapped, sampled = computed(lambda y: F.class_center_sample(y, 20, 6), y=labels)
    np.testing.assert_array_equal(remapped, [4, 3, 0, 2, 5, 1, 6, 8, 7, 8])
    np.testing.assert_array_equal(sampled, [1, 2, 3, 5, 11, 12, 15, 18, 19])


def test_a_softmax_with_clusters_is_one_over_all_classes() -> None:
    layer: list[Any] = []

    def outputs(x: Any, y: Any) -> list[Any]:
        layer.append(
            paddle.nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6], div_value=2.0, head_bias=True)
        )
        return [*layer[0](x, y), layer[0].log_prob(x), layer[0].predict(x)]

    x = np.random.default_rng(0).standard_normal((5, 4)).astype("float32")
    y = np.array([0, 2, 4, 9, 6])
    out, loss, whole, best = computed(outputs, x=x, y=y)
    np.testing.assert_allclose(np.exp(whole).sum(1), 1, 1e-5)
    np.testing.assert_allclose(out, whole[np.arange(5), y], 1e-6)
    np.testing.assert_allclose(loss, -out.mean(), 1e-6)
    np.testing.assert_array_equal(best, whole.argmax(1))
    assert [tuple(w.shape) for pair in layer[0].tail_weights for w in pair] == [
        (4, 2),
        (2, 3),
        (4, 1),
        (1, 4),
    ]


def test_alpha_dropout_of_channels() -> None:
    x = np.ones((4, 3, 5, 5), "float32")
    found, kept = computed(
        lambda x: [
            paddle.nn.FeatureAlphaDropout(0.5)(x),
            F.feature_alpha_dropout(x, 0.5, training=False),
        ],
        x=x,
    )
    assert all(np.ptp(channel) == 0 for image in found for channel in image)
    assert len(np.unique(found)) == 2
    np.testing.assert_array_equal(kept, x)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda x: F.fractional_max_pool2d(x, 2), ValueError, "should have rank 4"),
        (lambda x: F.swiglu(x[:, :3]), ValueError, "should be even"),
        (lambda x: F.multi_label_margin_loss(x, x[0].int()), ValueError, r"\[n, classes\]"),
        (lambda x: F.class_center_sample(x[0].int(), 3, 4), ValueError, "at most 3 samples"),
        (lambda x: F.class_center_sample(x[0].int(), 4, 3, "g"), UnsupportedError, "leave group"),
        (lambda x: paddle.nn.AdaptiveLogSoftmaxWithLoss(4, 9, [5, 3]), ValueError, "should grow"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: Any, error: type[Exception], words: str) -> None:
    with fresh(), pytest.raises(error, match=words):
        wrong(static.data("x", [2, 4]))


def test_gamma_functions_of_several_dimensions() -> None:
    numbers = np.array([2.5, 3.5, 6.5, 10.23, 34.25], "float32")
    (found,) = computed(lambda x: paddle.multigammaln(x, 3), x=numbers)
    wanted = [1.8809954, 3.8958983, 16.124962, 38.33734, 254.25714]
    np.testing.assert_allclose(found, wanted, 2e-7)
    with fresh(), pytest.raises(AssertionError, match="'p' should be 1 or more"):
        paddle.multigammaln(static.data("x", [2], "float32"), 0)


X = np.array([[0.5, -2, 3], [1.5, 0.2, -0.3]], "float32")
Y = np.array([[0.1, 0.2, 0.7], [0.4, 0.5, 0.1]], "float32")


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x, y: F.kl_div(x, y, log_target=True), -0.5151559),
        (lambda x, y: paddle.nn.KLDivLoss("batchmean", log_target=True)(x, y), -1.5454677),
        (lambda x, y: F.thresholded_relu(x, 1.0, 0.5), [[0.5, 0.5, 3], [1.5, 0.5, 0.5]]),
        (lambda x, y: paddle.nn.ThresholdedReLU(0.4, -3.0)(x), [[0.5, -3, 3], [1.5, -3, -3]]),
        (
            lambda x, y: F.smooth_l1_loss(x, y, "none", 0.5, is_huber=False),
            [[0.16, 1.95, 2.05], [0.85, 0.09, 0.16]],
        ),
        (lambda x, y: paddle.nn.SmoothL1Loss(delta=0.5, is_huber=False)(x, y), 0.8766667),
    ],
)
def test_arguments_of_paddle_3(function: Any, wanted: Any) -> None:
    """New arguments: logarithms as target, a value below the threshold, a loss divided by delta."""
    with fresh():
        x, y = static.data("x", [2, 3], "float32"), static.data("y", [2, 3], "float32")
        found = run([function(x, y)], x=X, y=Y)[0]
    np.testing.assert_allclose(found, wanted, 1e-5)


def test_attributes_that_would_change_the_result_are_refused() -> None:
    with fresh(), pytest.raises(UnsupportedError, match="diag_num = 2 is not supported"):
        out = static.default_main_program().global_block().create_var("out", dtype="float32")
        attrs = {"shape": [3, 3], "diag_num": 2}
        out.block.append_op("uniform_random", {}, {"Out": out}, attrs)
        run([out])


@pytest.mark.parametrize(
    ("trans", "wanted"),
    [
        ("N", [[0.516129, -0.4516129], [1.1612904, 0.483871], [-1.3225807, 1.0322581]]),
        ("T", [[1.0, -0.5967742], [1.0, -0.0645161], [0.0, 0.516129]]),
    ],
)
def test_a_system_by_its_decomposition(trans: str, wanted: Any) -> None:
    """lu_solve takes one right side or a batch of them."""
    matrix = np.array([[0, 2, 1], [1, 1, -1], [4, 0.5, 2]], "float32")
    right = np.array([[1, 2], [3, -1], [0, 0.5]], "float32")

    def solved(x: Any, y: Any) -> Any:
        return paddle.linalg.lu_solve(y, *paddle.linalg.lu(x), trans)

    (found,) = computed(solved, x=matrix, y=right)
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    (many,) = computed(solved, x=matrix, y=np.stack([right, 2 * right]))
    np.testing.assert_allclose(many, [found, 2 * found], 1e-5, 1e-6)


def test_systems_that_do_not_fit() -> None:
    with fresh():
        matrix, right = static.data("m", [3, 3]), static.data("r", [2, 1])
        both, rows = paddle.linalg.lu(matrix)
        with pytest.raises(ValueError, match="should be"):
            paddle.linalg.lu_solve(right, both, rows)
        with pytest.raises(ValueError, match="'trans' should be 'N', 'T' or 'C'"):
            paddle.linalg.lu_solve(matrix, both, rows, "H")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("Constant", "constant"),
        ("Reflection", "reflect"),
        ("Replication", "edge"),
        ("Circular", "wrap"),
    ],
)
def test_padding_in_one_mode(name: str, mode: Any) -> None:
    """Image paddings start with the columns; one number pads all sides."""
    more = (0.0,) if name == "Constant" else ()
    layer = getattr(paddle.nn, f"{name}Pad2D")([1, 2, 0, 1], *more)
    (found,) = computed(lambda x: layer(x), x=IMAGE)
    np.testing.assert_array_equal(found[0, 0], np.pad(IMAGE[0, 0], [(0, 1), (1, 2)], mode))
    (found,) = computed(lambda x: getattr(paddle.nn, f"{name}Pad3d")(1, *more)(x), x=VOLUME)
    np.testing.assert_array_equal(found[0, 0], np.pad(VOLUME[0, 0], 1, mode))
    (found,) = computed(lambda x: getattr(paddle.nn, f"{name}Pad1D")(2, *more)(x), x=IMAGE[0])
    np.testing.assert_array_equal(found[0], np.pad(IMAGE[0, 0], [(0, 0), (2, 2)], mode))


def test_layers_by_their_later_names() -> None:
    assert paddle.nn.Conv2d is paddle.nn.Conv2D
    assert paddle.nn.SiLU is paddle.nn.Silu
    assert paddle.nn.LPPool1d is paddle.nn.LPPool1D
