"""Operators of 1.8 and 3.3, appended by type, that become several ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.errors import ProgramError, UnsupportedError
from graphopt_tests.frontend.test_fluid import fresh

Inputs = dict[str, Any]
DRAW = np.random.RandomState(0)


def drawn(*shape: int) -> Any:
    return DRAW.randn(*shape).astype("float32")


def run(type: str, inputs: Inputs, outs: str, attrs: dict[str, Any]) -> list[Any]:
    """Append one operator, and return its outputs."""
    with fresh():
        block = fluid.default_main_program().global_block()
        given: dict[str, list[Any]] = {}
        feed: dict[str, Any] = {}
        for slot, values in inputs.items():
            given[slot] = []
            for number, value in enumerate(values if isinstance(values, list) else [values]):
                name = f"{slot}_{number}"
                feed[name] = value
                given[slot].append(fluid.data(name, value.shape, value.dtype.name))
        made = {slot: [block.create_var(slot, dtype="float32")] for slot in outs.split()}
        block.append_op(type=type, inputs=given, outputs=made, attrs=attrs)
        fetches = [value for (value,) in made.values()]
        return fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=fetches)


def circles(x: Any, y: Any) -> Any:
    """Convolve each row as a circle: element i is the sum of x[i + j - half] * y[j]."""
    half = y.shape[1] // 2
    return sum(np.roll(x, half - j, 1) * y[:, j : j + 1] for j in range(y.shape[1]))


def windows(x: Any) -> Any:
    """Return the windows of 2 by 2 pixels in steps of 2, by rows, each by channels."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 2, 4, 1, 3, 5).reshape(-1, 4 * c)


def pyramid(x: Any) -> Any:
    """Return the largest element of each image, then of each of its quarters."""
    n, c = x.shape[:2]
    quarters = x.reshape(n, c, 2, 2, 2, 2).max((3, 5))
    return np.concatenate([x.max((2, 3)), quarters.reshape(n, -1)], 1)


def places(x: Any) -> Any:
    """Return pixel positions times 4, columns and rows in turn, minus x."""
    columns, rows = np.meshgrid(np.arange(3) * 4, np.arange(2) * 4)
    return np.stack([columns, rows])[None] - x


def encoded(x: Any) -> Any:
    angles = np.arange(3)[:, None] / 10000.0 ** np.array([0.0, 1.0])
    return 0.5 * x + 2 * np.concatenate([np.sin(angles), np.cos(angles)], 1)


def shrunk(moved: Any, rate: float) -> Any:
    """Shrink by l1 and l2 penalties of 0.1 and 0.2."""
    left = np.maximum(np.abs(moved) - rate * 0.1, 0)
    return np.sign(moved) * left / (1 + rate * 0.2)


def dequantized(row: Any) -> Any:
    """Decode a minimum, a maximum, and bytes in 256 steps between them."""
    steps = np.frombuffer(row[2:].tobytes(), np.uint8)
    return row[0] + steps * (row[1] - row[0]) / 256


RATE = np.array([0.5], "float32")
LOGS, BYTES = drawn(128), np.abs(drawn(3, 4))
FOCUS = np.array([[[[1, 9, 2], [3, 8, 0]], [[0, 0, 0], [0, 0, 5]]]], "float32")
P, G, M = drawn(2, 3), drawn(2, 3), np.abs(drawn(2, 3))
X, Y = drawn(2, 6), drawn(2, 3)
IMAGE, OTHER = drawn(2, 3, 4, 4), drawn(2, 2, 4, 4)
OFFSETS, STEPS = drawn(1, 2, 2, 3), drawn(2, 3, 4)

CASES: list[tuple[str, Inputs, str, dict[str, Any], Callable[[], list[Any]]]] = [
    ("diag", {"Diagonal": X[0]}, "Out", {}, lambda: [np.diag(X[0])]),
    (
        *("pad_constant_like", {"X": X, "Y": Y[:1]}, "Out", {"pad_value": 1.5}),
        lambda: [np.pad(Y[:1], ((0, 1), (0, 3)), constant_values=1.5)],
    ),
    (
        *("partial_concat", {"X": [X, X * 2]}, "Out", {"start_index": 1, "length": 2}),
        lambda: [np.concatenate([X[:, 1:3], X[:, 1:3] * 2], 1)],
    ),
    (
        *("partial_sum", {"X": [X, X * 2]}, "Out", {"start_index": -2, "length": -1}),
        lambda: [X[:, -2:] * 3],
    ),
    (
        *("fsp", {"X": IMAGE, "Y": OTHER}, "Out", {}),
        lambda: [np.einsum("nahw,nbhw->nab", IMAGE, OTHER) / 16],
    ),
    (
        *("dequantize_log", {"X": np.array([[0, 127, -128, -1]], "int8"), "Dict": LOGS}, "Out"),
        {},
        lambda: [[[LOGS[0], LOGS[127], -LOGS[0], -LOGS[127]]]],
    ),
    (
        "lookup_table_dequant",
        {"W": BYTES, "Ids": np.array([[2], [0], [1]])},
        "Out",
        {"padding_idx": 1},
        lambda: [np.stack([dequantized(BYTES[2]), dequantized(BYTES[0]), np.zeros(8)])],
    ),
    (
        *("similarity_focus", {"X": FOCUS}, "Out", {"axis": 1, "indexes": [0]}),
        lambda: [np.tile([[0, 1.0, 0], [1, 0, 0]], (1, 2, 1, 1))],
    ),
    ("conv_shift", {"X": X, "Y": Y}, "Out", {}, lambda: [circles(X, Y)]),
    (
        *("im2sequence", {"X": IMAGE}, "Out", {"kernels": [2, 2], "strides": [2, 2]}),
        lambda: [windows(IMAGE)],
    ),
    (
        *("spp", {"X": IMAGE}, "Out", {"pyramid_height": 2, "pooling_type": "max"}),
        lambda: [pyramid(IMAGE)],
    ),
    (
        "nearest_interp",
        {"X": IMAGE, "OutSize": np.array([2, 4], "int32")},
        "Out",
        {"align_corners": False},
        lambda: [IMAGE[:, :, ::2]],
    ),
    (
        *("nearest_interp", {"X": IMAGE, "Scale": np.array([0.5], "float32")}, "Out"),
        {"align_corners": False},
        lambda: [IMAGE[:, :, ::2, ::2]],
    ),
    (
        "pad2d",
        {"X": IMAGE, "Paddings": np.array([0, 1, 2, 0], "int32")},
        "Out",
        {"mode": "edge", "paddings": []},
        lambda: [np.pad(IMAGE, ((0, 0), (0, 0), (0, 1), (2, 0)), "edge")],
    ),
    (
        "pad2d",
        {"X": IMAGE},
        "Out",
        {"paddings": np.array([0, 1, 2, 0]), "data_format": "NHWC"},
        lambda: [np.pad(IMAGE, ((0, 0), (0, 1), (2, 0), (0, 0)))],
    ),
    (
        "crop",
        {"X": X, "Offsets": np.array([0, 2], "int32")},
        "Out",
        {"shape": [2, 3]},
        lambda: [X[:, 2:5]],
    ),
    (
        "crop_tensor",
        {"X": X, "Shape": np.array([-1, 3], "int32"), "Offsets": np.array([1, 2], "int32")},
        "Out",
        {},
        lambda: [X[1:, 2:5]],
    ),
    (
        "crop_tensor",
        {"X": X, "Shape": np.array([1, 3], "int32")},
        "Out",
        {"offsets": [1, 0]},
        lambda: [X[1:2, :3]],
    ),
    ("polygon_box_transform", {"Input": OFFSETS}, "Output", {}, lambda: [places(OFFSETS)]),
    (
        *("add_position_encoding", {"X": STEPS}, "Out", {"alpha": 0.5, "beta": 2.0}),
        lambda: [encoded(STEPS)],
    ),
    # class 1 is found twice, once rightly; class 2 is missed; class 3 is not there
    (
        "mean_iou",
        {"Predictions": np.array([0, 1, 1], "int32"), "Labels": np.array([0, 1, 2], "int32")},
        "OutMeanIou OutWrong OutCorrect",
        {"num_classes": 4},
        lambda: [[0.5], [0, 1, 1, 0], [1, 1, 0, 0]],
    ),
    (
        "mean_iou",
        {
            "Predictions": np.array([0, 1, 1], "int32"),
            "Labels": np.array([0, 1, 2], "int32"),
            "InWrongs": np.array([1, 0, 0, 0], "int32"),
            "InCorrects": np.array([0, 1, 0, 0], "int32"),
            "InMeanIou": np.array([0.25], "float32"),
        },
        "OutMeanIou OutWrong OutCorrect",
        {"num_classes": 4},
        lambda: [[0.25 + (1 / 2 + 2 / 3) / 3], [1, 1, 1, 0], [1, 2, 0, 0]],
    ),
    (
        "one_hot",
        {"X": np.array([[1], [0]]), "depth_tensor": np.array([3], "int32")},
        "Out",
        {},
        lambda: [[[0, 1, 0], [1, 0, 0]]],
    ),
    (
        *("dropout", {"X": X, "Seed": np.array([3], "int32")}, "Out Mask"),
        {"dropout_prob": 1.0},
        lambda: [0 * X, 0 * X],
    ),
    ("seed", {}, "Out", {"seed": 7}, lambda: [[7]]),
    ("equal_reduce", {"X": X, "Y": X}, "Out", {}, lambda: [True]),
    (
        "dequantize_abs_max",
        {"X": np.array([[127, -64]], "int8"), "Scale": np.array([2], "float32")},
        "Out",
        {"max_range": 127.0},
        lambda: [[[2.0, -128 / 127]]],
    ),
    (
        "cross_entropy2",
        {"X": np.array([[0.25, 0.75]] * 2, "float32"), "Label": np.array([[1], [-1]])},
        "Y MatchX",
        {"ignore_index": -1},
        lambda: [[[-np.log(0.75)], [0]], [[0.75], [0]]],
    ),
    (
        "softmax_with_cross_entropy",
        {"Logits": np.log([[1, 3]] * 2).astype("float32"), "Label": np.float32([[1.9], [0.0]])},
        "Softmax Loss",
        {},
        lambda: [[[0.25, 0.75]] * 2, [[-np.log(0.75)], [-np.log(0.25)]]],
    ),
    (
        *("fused_elemwise_activation", {"X": X, "Y": X}, "Out"),
        {"functor_list": ["scale", "elementwise_mul"], "scale": 2.0},
        lambda: [2 * X * X],
    ),
    ("tril_triu", {"X": X}, "Out", {"diagonal": None, "lower": True}, lambda: [np.tril(X)]),
    (
        *("proximal_gd", {"Param": P, "Grad": G, "LearningRate": RATE}, "ParamOut"),
        {"l1": 0.1, "l2": 0.2},
        lambda: [shrunk(P - 0.5 * G, 0.5)],
    ),
    (
        "proximal_adagrad",
        {"Param": P, "Moment": M, "Grad": G, "LearningRate": RATE},
        "ParamOut MomentOut",
        {"l1": 0.1, "l2": 0.2},
        lambda: [shrunk(P - 0.5 * G / np.sqrt(M + G**2), 0.5), M + G**2],
    ),
]


@pytest.mark.every(5)
@pytest.mark.parametrize(("type", "inputs", "outs", "attrs", "wanted"), CASES)
def test_values(type: str, inputs: Inputs, outs: str, attrs: dict[str, Any], wanted: Any) -> None:
    found = run(type, inputs, outs, attrs)
    for value, expected in zip(found, wanted(), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


def test_an_unpooling_knows_its_size_from_the_windows() -> None:
    """As in Paddle 1, windows of 3 in steps of 2 with a padding of 1 make 5 pixels of 3."""
    maxima = np.arange(1, 10, dtype="float32").reshape(1, 1, 3, 3)
    at = np.array([[0, 2, 4], [10, 12, 14], [20, 22, 24]], "int32")[None, None]
    attrs = {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1], "unpooling_type": "max"}
    (found,) = run("unpool", {"X": maxima, "Indices": at}, "Out", attrs)
    wanted = np.zeros((1, 1, 5, 5))
    wanted[..., ::2, ::2] = maxima
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("type", "inputs", "error", "message"),
    [
        ("conv_shift", {"X": X, "Y": X}, ProgramError, "odd number of columns in Y, found 6"),
        ("pad_constant_like", {"X": Y, "Y": X}, ProgramError, "cannot be padded"),
        ("add_position_encoding", {"X": X[:, :1]}, ProgramError, "with an even d"),
    ],
)
def test_what_is_refused(type: str, inputs: Inputs, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        run(type, inputs, "Out", {})


# Numbers of Paddle 1.8.5: four rows of the classes 0, 2, 2, 1, and a class without rows.
ROWS = np.array([[1.76, 0.4, 0.98], [2.24, 1.87, -0.98], [0.95, -0.15, -0.1], [0.41, 0.14, 1.45]])
CENTERS = np.array(
    [[0.76, 0.12, 0.44], [0.33, 1.49, -0.21], [0.31, -0.85, -2.55], [0.65, 0.86, -0.74]]
)
MOVED = [[1.01, 0.19, 0.575], [0.35, 1.1525, 0.205], [0.7383333, -0.28, -1.88], [0.65, 0.86, -0.74]]
DISTANCES = [0.685, 6.7941003, 3.45105, 2.2922502]
DIFFERENCES = [[1, 0.28, 0.54], [1.93, 2.72, 1.57], [0.64, 0.7, 2.45], [0.08, -1.35, 1.66]]


@pytest.mark.parametrize("updates", [True, False])
def test_distances_from_the_centres_of_classes(updates: bool) -> None:
    inputs = {
        "X": ROWS.astype("float32"),
        "Label": np.array([[0], [2], [2], [1]]),
        "Centers": CENTERS.astype("float32"),
        "CenterUpdateRate": np.array([0.5], "float32"),
    }
    attrs = {"cluster_num": 4, "need_update": updates}
    outs = "Loss SampleCenterDiff CentersOut"
    loss, difference, centers = run("center_loss", inputs, outs, attrs)
    np.testing.assert_allclose(loss[:, 0], DISTANCES, 1e-5)
    np.testing.assert_allclose(difference, DIFFERENCES, 1e-5)
    np.testing.assert_allclose(centers, MOVED if updates else CENTERS, 1e-5)


def test_centres_follow_their_rows_from_step_to_step() -> None:
    """One operator updates its centers, a parameter; the rows' gradient is the difference."""
    with fresh():
        x, y = fluid.data("x", [None, 3]), fluid.data("y", [None, 1], "int64")
        x.stop_gradient = False
        start = fluid.initializer.NumpyArrayInitializer(CENTERS.astype("float32"))
        attr = fluid.ParamAttr(name="centers", initializer=start)
        loss = fluid.layers.center_loss(x, y, 4, 0.5, attr)
        types = [op.type for op in fluid.default_main_program().global_block().ops]
        assert types == ["fill_constant", "center_loss"]
        (slope,) = fluid.gradients(fluid.layers.mean(loss), [x])
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        feed = {"x": ROWS.astype("float32"), "y": np.array([[0], [2], [2], [1]])}
        first = exe.run(feed=feed, fetch_list=[loss, slope, "centers"])
        second = exe.run(feed=feed, fetch_list=[loss, slope, "centers"])
    np.testing.assert_allclose(first[1], np.array(DIFFERENCES) / 4, 1e-5)
    np.testing.assert_allclose(first[2], MOVED, 1e-5)
    np.testing.assert_allclose(second[0][:, 0], [0.3853125, 3.8437517, 1.6150512, 1.2893907], 1e-5)
    np.testing.assert_allclose(second[2][2], [1.023889, 0.1, -1.4333332], 1e-5)


def test_centres_of_other_rows_are_refused() -> None:
    inputs = {"X": drawn(4, 3), "Label": np.zeros((4, 1), "int64"), "Centers": drawn(4, 2)}
    with pytest.raises(ProgramError, match=r"needs centres \[4, 3\], found \[4, 2\]"):
        run("center_loss", inputs, "Loss", {"cluster_num": 4, "need_update": False})


BEST = np.array([[0.9], [0.8], [0.3], [0.7], [0.6]], "float32")
FOUND, WANTED = (np.array(x, "int32")[:, None] for x in ([0, 1, 2, 1, 0], [0, 2, 2, 1, 1]))
WEIGHTS = np.array([[1], [0.5], [2], [1], [0.25]], "float32")
EARLIER = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [1, 0, 2, 0]], "float32")


@pytest.mark.parametrize(
    ("inputs", "classes", "batch", "every", "state"),
    [
        (
            {"Indices": FOUND},
            3,
            [0.6666667, 0.6666667, 0.6666667, 0.6, 0.6, 0.6],
            [0.6666667, 0.6666667, 0.6666667, 0.6, 0.6, 0.6],
            [[1, 1, 3, 0], [1, 1, 2, 1], [1, 0, 3, 1]],
        ),
        (
            {"Indices": FOUND, "Weights": WEIGHTS, "StatesInfo": EARLIER},
            3,
            [0.8222222, 0.8666666, 0.8438596, 0.8421053, 0.8421053, 0.8421053],
            [0.6501961, 0.5371763, 0.5883073, 0.556962, 0.4631579, 0.5057471],
            [[2, 2.25, 6.5, 4], [6, 6.5, 10, 8.25], [3, 0, 4.25, 0.5]],
        ),
        (
            {"Indices": np.full((5, 1), 3, "int32")},
            5,
            [0.8, 0.4, 0.5333334, 0, 0, 0],
            [0.8, 0.4, 0.5333334, 0, 0, 0],
            [[0, 0, 4, 1], [0, 0, 3, 2], [0, 0, 3, 2], [0, 5, 0, 0], [0, 0, 5, 0]],
        ),
    ],
    ids=["batch", "weights and states", "no class found"],
)
def test_precision_and_recall_of_classes(
    inputs: Inputs, classes: int, batch: Any, every: Any, state: Any
) -> None:
    """The numbers are those of Paddle 1.8.5."""
    given = {"MaxProbs": BEST, "Labels": WANTED, **inputs}
    outs = "BatchMetrics AccumMetrics AccumStatesInfo"
    found = run("precision_recall", given, outs, {"class_number": classes})
    assert [value.dtype.name for value in found] == ["float64", "float64", "float32"]
    for value, wanted in zip(found, (batch, every, state), strict=True):
        np.testing.assert_allclose(value, wanted, 1e-6)


def test_states_of_other_classes_are_refused() -> None:
    given = {"MaxProbs": BEST, "Indices": FOUND, "Labels": WANTED, "StatesInfo": EARLIER}
    with pytest.raises(ProgramError, match=r"4 classes needs 'StatesInfo' \[4, 4\]"):
        run("precision_recall", given, "BatchMetrics", {"class_number": 4})
    with pytest.raises(ProgramError, match="'class_number' of 1 or more"):
        run("precision_recall", given, "BatchMetrics", {"class_number": 0})


STEEP = np.array([-30, -21, -5, -1.5, -0.5, 0, 0.5, 1.5, 5, 21, 30], "float32")
EXACT = [-2.807287e-12, -1.5923378e-08, -0.033576235, -0.29809976, -0.22074376, 0, 0.37524524]
EXACT += [1.4033782, 4.9995522, 21, 30]
NEAR_ONE = [*EXACT[:2], -0.033689223, -0.32924914, *EXACT[4:7], 1.3577224, 4.9995461, 21, 30]


@pytest.mark.parametrize(
    ("threshold", "wanted"), [(20.0, EXACT), (1.0, NEAR_ONE), (-1.0, EXACT)], ids=str
)
def test_mish_with_a_threshold(threshold: float, wanted: list[float]) -> None:
    """The numbers are those of Paddle 1.8.5."""
    (found,) = run("mish", {"X": STEEP}, "Out", {"threshold": threshold})
    np.testing.assert_allclose(found, wanted, 1e-6)


def test_the_gradient_of_mish_with_a_threshold() -> None:
    """The gradient is the formula's; 1.8.5 has the exact one's, at the approximate softplus."""
    with fresh():
        x = fluid.data("x", [7])
        x.stop_gradient = False
        (slope,) = fluid.gradients(fluid.layers.mish(x, 1.0), [x])
        feed = {"x": np.array([-300, -5, -1.5, -0.5, 0.5, 1.5, 300], "float32")}
        (found,) = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[slope])
    far, near = np.array([-300, -5, -1.5, 1.5, 300]), np.exp([-300, -5, -1.5])
    wanted = np.tanh([*near, 1.5, 300]) + far / np.cosh([*near, 1.5, 300]) ** 2 * [*near, 1, 1]
    wanted = np.insert(wanted, 3, [0.28951064, 0.8864244])
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-7)
    with fresh(), pytest.raises(AssertionError, match="greater than 0, but got -1"):
        fluid.layers.mish(fluid.data("x", [7]), -1)


@pytest.mark.every(3)
@pytest.mark.parametrize("type", ["unique", "unique_with_counts"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_elements_as_they_first_occur(type: str, dtype: str) -> None:
    """Operator and layer of 1.8 keep the order of first occurrence; `paddle.unique` sorts."""
    numbers = np.array([2, 3, 3, 1, 5, 3])
    outs = "Out Index" if type == "unique" else "Out Index Count"
    code = {"int32": 2, "int64": 3}[dtype]
    wanted = [[2, 3, 1, 5], [0, 1, 1, 2, 3, 1], [1, 3, 1, 1]][: len(outs.split())]
    appended = run(type, {"X": numbers}, outs, {"dtype": code})
    with fresh():
        x = fluid.data("x", [None], "int64")
        made = getattr(fluid.layers, type)(x, dtype)
        assert [op.type for op in x.block.ops] == [type]
        layer = fluid.Executor(fluid.CPUPlace()).run(feed={"x": numbers}, fetch_list=list(made))
    for found in (appended, layer):
        assert [value.tolist() for value in found] == wanted
        assert [value.dtype.name for value in found] == ["int64", dtype, dtype][: len(found)]
    (found, *_) = run("unique", {"X": numbers}, "Out", {"dtype": code, "is_sorted": True})
    assert found.tolist() == [1, 2, 3, 5]


def test_only_elements_of_a_vector_are_told_apart() -> None:
    with pytest.raises(ProgramError, match="unique takes a vector"):
        run("unique", {"X": np.zeros((2, 2))}, "Out", {"dtype": 2})


@pytest.mark.parametrize("fixed", [0, 7])
def test_dropouts_of_one_seed_zero_the_same_elements(fixed: int) -> None:
    """An operator `seed` without a fixed seed draws one for each run."""
    with fresh():
        block = fluid.default_main_program().global_block()
        x = fluid.data("x", [4, 50])
        seed = block.create_var("seed", dtype="int32")
        made = [block.create_var(f"out{i}", dtype="float32") for i in range(3)]
        block.append_op("seed", {}, {"Out": seed}, {"seed": fixed})
        for out, slots in zip(made, ({"Seed": seed}, {"Seed": seed}, {}), strict=True):
            attrs = {"dropout_prob": 0.5, "dropout_implementation": "upscale_in_train"}
            block.append_op("dropout", {"X": x, **slots}, {"Out": out}, attrs)
        executor = fluid.Executor(fluid.CPUPlace())
        feed = {"x": np.ones((4, 50), "float32")}
        runs = [executor.run(feed=feed, fetch_list=made) for _ in range(2)]
    for first, second, other in runs:
        np.testing.assert_array_equal(first, second)
        assert not np.array_equal(first, other)
        assert 0.3 < first.mean() / 2 < 0.7
    assert np.array_equal(runs[0][0], runs[1][0]) == bool(fixed)


def test_a_seed_that_is_fed_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="neither a constant nor drawn"):
        run("dropout", {"X": drawn(2), "Seed": np.array([3], "int32")}, "Out Mask", {})


WHOLE = np.array([7, -7, 7, -7])


@pytest.mark.parametrize(
    ("type", "inputs", "out", "attrs", "wanted"),
    [
        ("trunc_divide", {"x": WHOLE, "y": WHOLE // 3}, "out", {}, [3, 2, 3, 2]),
        ("trunc_divide", {"x": WHOLE / 2, "y": np.full(4, 2.0)}, "out", {}, [1, -1, 1, -1]),
        ("svdvals", {"x": np.diag([3.0, -4.0])}, "s", {}, [4, 3]),
        (
            "baddbmm",
            {"Input": np.ones((2, 1, 1)), "X": np.full((2, 1, 3), 2.0), "Y": np.ones((2, 3, 1))},
            "Out",
            {"Alpha": 0.5, "Beta": 2.0},
            [[[5.0]], [[5.0]]],
        ),
    ],
    ids=["trunc_divide of whole numbers", "trunc_divide", "svdvals", "baddbmm"],
)
def test_operators_of_saved_models_of_paddle_3(
    type: str, inputs: Inputs, out: str, attrs: dict[str, Any], wanted: Any
) -> None:
    """`divide` with a rounding mode, `linalg.svdvals` and `baddbmm` of 3.3 are computed."""
    (found,) = run(type, inputs, out, attrs)
    np.testing.assert_allclose(found, wanted, 1e-6)
