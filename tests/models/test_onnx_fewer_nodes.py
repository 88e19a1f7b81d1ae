"""Models that graphopt writes as ONNX have no needless nodes, and no more than were read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.tensor import array as arrays

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx_ir")
runtime = pytest.importorskip("onnxruntime")
from onnx import helper  # noqa: E402  (needs the package)

from graphopt_tests import fuzz_onnx  # noqa: E402
from graphopt_tests.models.test_onnx import X, operators, program  # noqa: E402
from graphopt_tests.models.test_onnx_in import BOOL, INT64, made, read, tensor, value  # noqa: E402
from graphopt_tests.runtime.test_export import check_outputs  # noqa: E402

RANDOM = np.random.default_rng(0)


def numbers(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32")


def written(folder: Path, build: Any, wanted: Sequence[str], **feeds: Any) -> None:
    """Check the operators and the numbers of a program whose first sizes are open."""
    inputs = [(name, [None, *array.shape[1:]], "float32") for name, array in feeds.items()]
    model = program(build, *inputs)
    exported = model.export(folder / "m.onnx")
    assert operators(exported) == list(wanted)
    check_outputs(exported, model, (feeds, model.run(feeds)))


def again(folder: Path, model: Any, wanted: Sequence[str], **feeds: Any) -> Any:
    """Read and write a model, check its operators and numbers, and return its graph."""
    exported = read(folder, model).export(folder / "again.onnx")
    assert operators(exported) == list(wanted)
    old, new = (
        runtime.InferenceSession(folder / name, providers=["CPUExecutionProvider"])
        for name in ("m.onnx", "again.onnx")
    )
    for a, b in zip(old.run(None, feeds), new.run(None, feeds), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return onnx.load(folder / "again.onnx").graph


def test_products_with_a_bias(tmp_path: Path) -> None:
    """A product of matrices with a bias is one operator, or two if the product is fetched too."""
    weight, bias = numbers(4, 3), numbers(3)

    def build(x: Any) -> Any:
        return paddle.matmul(x, paddle.assign(weight)) + paddle.assign(bias)

    def build_both(x: Any) -> Any:
        product = paddle.matmul(x, paddle.assign(weight))
        return product + paddle.assign(bias), product

    written(tmp_path, build, ["Gemm"], x=numbers(2, 4))
    written(tmp_path, build_both, ["MatMul", "Add"], x=numbers(2, 4))
    written(tmp_path, build, ["MatMul", "Add"], x=numbers(2, 5, 4))


def test_a_convolution_over_lines(tmp_path: Path) -> None:
    """Paddle computes conv1d over images of one row; with its bias it is one node."""
    weight, bias = numbers(6, 2, 3), numbers(6)

    def build(x: Any) -> Any:
        return paddle.nn.functional.conv1d(
            x, paddle.assign(weight), paddle.assign(bias), stride=2, padding=1, groups=2
        )

    written(tmp_path, build, ["Conv"], x=numbers(2, 4, 9))


def test_a_transposed_convolution_over_lines(tmp_path: Path) -> None:
    weight, bias = numbers(4, 3, 5), numbers(6)

    def build(x: Any) -> Any:
        return paddle.nn.functional.conv1d_transpose(
            x,
            paddle.assign(weight),
            paddle.assign(bias),
            stride=3,
            padding=1,
            output_padding=2,
            groups=2,
        )

    written(tmp_path, build, ["ConvTranspose"], x=numbers(2, 4, 9))


def test_a_reduction_without_its_axes(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        return paddle.squeeze(paddle.max(x, [1], keepdim=True), [1])

    def build_both(x: Any) -> Any:
        largest = paddle.max(x, [1], keepdim=True)
        return paddle.squeeze(largest, [1]), x - largest

    written(tmp_path, build, ["ReduceMax"], x=numbers(2, 4))
    written(tmp_path, build_both, ["ReduceMax", "Squeeze", "Sub"], x=numbers(2, 4))


def test_one_place_of_an_axis(tmp_path: Path) -> None:
    written(tmp_path, lambda x: x[:, -1] * x[:, 0], ["Gather", "Gather", "Mul"], x=numbers(2, 4))


def test_changes_of_shape_in_a_row(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        rows = paddle.reshape(paddle.reshape(x, [-1, 2, 3]), [-1, 3])
        return paddle.squeeze(paddle.unsqueeze(paddle.exp(x), [1]), [1]), rows

    written(tmp_path, build, ["Reshape", "Exp"], x=numbers(2, 6))


def test_tensors_without_elements(tmp_path: Path) -> None:
    """In a reshape of a tensor without elements -1 is ambiguous, so the sizes are numbers."""
    model = program(lambda x: paddle.flatten(x, 1), ("x", [0, 2, 3], "float32"))
    exported = model.export(tmp_path / "m.onnx")
    assert operators(exported) == ["Reshape"]
    nothing = np.zeros((0, 2, 3), "float32")
    check_outputs(exported, model, ({"x": nothing}, [nothing.reshape(0, 6)]))


@pytest.mark.parametrize(("sizes", "operator"), [([-1, 3, 4], "Reshape"), ([-1, -1, 4], "Flatten")])
def test_an_empty_batch_is_flattened(sizes: list[int], operator: str, tmp_path: Path) -> None:
    """ONNX Runtime refuses `Reshape` of a tensor without elements to [0, -1]."""

    def build(x: Any) -> Any:
        return paddle.flatten(x, 1), paddle.exp(paddle.reshape(x, [0, -1]))

    model = program(build, ("x", sizes, "float32"))
    exported = model.export(tmp_path / "m.onnx")
    assert operator in operators(exported)
    for rows in (0, 2):
        x = np.ones((rows, 3, 4), np.float32)
        wanted = [x.reshape(rows, 12), np.exp(x.reshape(rows, 12))]
        check_outputs(exported, model, ({"x": x}, wanted))


def test_images_that_are_so_many_times_as_large(tmp_path: Path) -> None:
    """The batch of a resized image stays open."""

    def build(x: Any) -> Any:
        return paddle.nn.functional.interpolate(x, size=[6, 12], mode="bilinear")

    written(tmp_path, build, ["Resize"], x=numbers(2, 3, 3, 4))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_recurrent_network_comes_out_as_it_came_in(kind: str, tmp_path: Path) -> None:
    """Paddle orders gates differently; written as ONNX, they are the parameters read before."""
    gates, hidden = {"LSTM": 4, "GRU": 3}[kind], 5
    attrs: dict[str, Any] = {"linear_before_reset": 1} if kind == "GRU" else {}
    nodes = [
        helper.make_node(kind, ["x", "w", "r", "b"], ["y"], hidden_size=hidden, **attrs),
        helper.make_node("Squeeze", ["y", "axes"], ["out"]),
    ]
    held = {
        "w": numbers(1, gates * hidden, 4),
        "r": numbers(1, gates * hidden, hidden),
        "b": numbers(1, 2 * gates * hidden),
    }
    tensors = [tensor(name, array) for name, array in held.items()]
    model = made(
        nodes,
        [value("x", [3, 2, 4])],
        [value("out", [3, 2, hidden])],
        [*tensors, tensor("axes", [1], "int64")],
    )
    graph = again(tmp_path, model, [kind, "Squeeze"], x=numbers(3, 2, 4))
    assert held.keys() <= {each.name for each in graph.initializer}
    assert set(held) <= set(graph.node[0].input)


def test_sizes_that_are_computed(tmp_path: Path) -> None:
    """Sizes computed from shapes are not negative, and Expand itself takes the larger size."""
    nodes = [
        helper.make_node("Shape", ["like"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "first"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "zero"], ["some"]),
        helper.make_node("Concat", ["some", "four"], ["wanted"], axis=0),
        helper.make_node("Expand", ["x", "wanted"], ["out"]),
    ]
    constants = [
        tensor("first", 0, "int64"),
        tensor("zero", [0], "int64"),
        tensor("four", [4], "int64"),
    ]
    model = made(
        nodes,
        [value("x", ["A", 4]), value("like", ["N", 2])],
        [value("out", ["N", 4])],
        constants,
    )
    wanted = ["Shape", "Gather", "Concat", "Expand"]
    again(tmp_path, model, wanted, x=numbers(1, 4), like=numbers(3, 2))


def test_sizes_that_are_fed_may_be_below_zero(tmp_path: Path) -> None:
    """A fed size of -1 keeps the operand's size, as in Paddle."""

    def build(x: Any, size: Any) -> Any:
        return paddle.expand(x, size)

    model = program(build, ("x", [1, 4], "float32"), ("size", [2], "int64"))
    exported = model.export(tmp_path / "m.onnx")
    assert operators(exported) == ["Less", "Where", "Expand"]
    feeds = {"x": numbers(1, 4), "size": np.array([3, -1])}
    check_outputs(exported, model, (feeds, [np.repeat(feeds["x"], 3, 0)]))


def test_sections_that_are_fed_may_have_a_rest(tmp_path: Path) -> None:
    """A fed section may be -1 in Paddle; in ONNX it is a size."""

    def build(x: Any, size: Any) -> Any:
        return tuple(paddle.split(x, [size, -1], 1))

    model = program(build, ("x", [None, 6], "float32"), ("size", [1], "int64"))
    exported = model.export(tmp_path / "m.onnx")
    read = paddle.import_model(exported.path)
    for size in (2, 5):
        feeds = {"x": numbers(2, 6), "size": np.array([size])}
        wanted = np.split(feeds["x"], [size], 1)
        check_outputs(exported, model, (feeds, wanted))
        for one, other in zip(read.run(feeds), wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("count", [2, pytest.param(30, marks=pytest.mark.exhaustive)])
def test_generated_programs(count: int) -> None:
    """Generated programs give the reference's numbers; `make fuzz` tries more of them."""
    fuzzer = fuzz_onnx.run(count, seed=2, onnxruntime=True)
    assert not fuzzer.failures, fuzzer.failures[0]
    assert fuzzer.outcomes["equal in ONNX Runtime"] >= count


def test_equal_nodes_are_one_but_for_drawn_numbers(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        rows = paddle.shape(x)[0]
        return paddle.expand(paddle.full([1], 2.0), [rows]) + paddle.arange(rows).astype("float32")

    model = program(build, X)
    found = operators(model.export(tmp_path / "m.onnx"))
    assert found.count("Shape") == found.count("Gather") == 1, found
    drawn = program(lambda x: (paddle.bernoulli(x), paddle.bernoulli(x)), X)
    assert operators(drawn.export(tmp_path / "m.onnx")).count("RandomUniformLike") == 2


def inner_operators(path: Path) -> list[str]:
    """List the operators in the body of a model's only loop."""
    (loop,) = [node for node in onnx.load(path).graph.node if node.op_type == "Loop"]
    (body,) = [attribute.g for attribute in loop.attribute if attribute.name == "body"]
    return [node.op_type for node in body.node]


@pytest.mark.parametrize(
    ("first", "reads", "is_collected"),
    [
        (1, False, True),
        pytest.param(0, False, False, marks=pytest.mark.exhaustive),
        pytest.param(1, True, False, marks=pytest.mark.exhaustive),
    ],
)
def test_a_loop_collects_what_it_appends(
    first: int, reads: bool, is_collected: bool, tmp_path: Path
) -> None:
    """No step copies an array that a loop only appends to, without overwriting or reading."""

    def build(x: Any, steps: Any) -> Any:
        i = paddle.zeros([1], "int64")
        array = arrays.array_write(x * 1, i)

        def step(i: Any, y: Any, array: Any) -> Any:
            y = y * 2 + (arrays.array_read(array, i) if reads else 0)
            return [i + 1, y, arrays.array_write(y, i + first, array)]

        _, y, array = static.nn.while_loop(lambda i, *_: i < steps, step, [i, x, array])
        return y, arrays.tensor_array_to_tensor(array, 0, use_stack=True)[0]

    model = program(build, ("x", [2, 3], "float32"), ("steps", [1], "int64"))
    exported = model.export(tmp_path / "m.onnx")
    assert ("Concat" not in inner_operators(exported.path)) == is_collected
    for steps in (5, 1):
        feeds = {"x": numbers(2, 3), "steps": np.array([steps])}
        check_outputs(exported, model, (feeds, model.run(feeds)))


def test_a_loop_fills_an_empty_array_with_elements_of_open_sizes(tmp_path: Path) -> None:
    """The first element decides the sizes, also for readers that check sizes of empty tensors."""

    def build(x: Any, steps: Any) -> Any:
        array = arrays.create_array("float32")

        def step(i: Any, y: Any, array: Any) -> Any:
            length = paddle.cast(arrays.array_length(array), "int64")
            return [i + 1, y * 2, arrays.array_write(y, length, array)]

        i = paddle.zeros([1], "int64")
        _, y, array = static.nn.while_loop(lambda i, *_: i < steps, step, [i, x, array])
        return y, arrays.tensor_array_to_tensor(array, 0, use_stack=True)[0]

    model = program(build, ("x", [None, 3], "float32"), ("steps", [1], "int64"))
    exported = model.export(tmp_path / "m.onnx")
    read = paddle.import_model(exported.path)
    for rows, steps in ((2, 3), (1, 2)):
        feeds = {"x": numbers(rows, 3), "steps": np.array([steps])}
        expected = model.run(feeds)
        check_outputs(exported, model, (feeds, expected))
        for one, other in zip(read.run(feeds), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_a_loop_collects_is_collected_again(tmp_path: Path) -> None:
    """A loop's scan output stays one, and reversing a sequence of open length is one Slice."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "item"], ["next"]),
            helper.make_node("Mul", ["next", "item"], ["each"]),
            helper.make_node("Identity", ["going"], ["still"]),
        ],
        "body",
        [value("i", [], INT64), value("going", [], BOOL), value("s", [2])],
        [value("still", [], BOOL), value("next", [2]), value("each", [2])],
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["item"], keepdims=0, axes=[0]),
        helper.make_node("Loop", ["n", "", "item"], ["last", "all"], body=body),
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "zero"], ["time"]),
        helper.make_node("Gather", ["sizes", "one"], ["batch"]),
        helper.make_node("Expand", ["time", "batch"], ["lengths"]),
        helper.make_node("ReverseSequence", ["x", "lengths"], ["turned"]),
    ]
    model = made(
        nodes,
        [value("x", ["t", 2]), value("n", [], INT64)],
        [value("last", [2]), value("all", ["k", 2]), value("turned", ["t", 2])],
        [tensor("zero", [0], "int64"), tensor("one", [1], "int64")],
    )
    feeds = {"x": numbers(3, 2), "n": np.array(4)}
    again(tmp_path, model, ["ReduceMax", "Less", "And", "Loop", "Slice"], **feeds)
    assert "Concat" not in inner_operators(tmp_path / "again.onnx")


@pytest.mark.parametrize("size", [5, "n"])
@pytest.mark.parametrize("kind", ["float32", "int64"])
def test_numbers_that_count_from_the_end_are_one_node(
    kind: str, size: int | str, tmp_path: Path
) -> None:
    """ONNX itself counts negative indices from the end, so `Gather` needs no further nodes."""
    number = INT64 if kind == "int64" else 1
    nodes = [helper.make_node("Neg", ["i"], ["at"]), helper.make_node("Gather", ["x", "at"], ["y"])]
    ports = [value("x", [size, 2], number), value("i", [3], INT64)]
    model = made(nodes, ports, [value("y", [3, 2], number)])
    feeds = {"x": numbers(5, 2).astype(kind), "i": np.array([1, -4, 5])}
    again(tmp_path, model, ["Mul", "Gather"], **feeds)


def test_numbers_that_another_size_is_added_to(tmp_path: Path) -> None:
    def build(x: Any, i: Any) -> Any:
        return paddle.gather(x, paddle.where(i < 0, i + 2, i))

    model = program(build, ("x", [5, 2], "float32"), ("i", [3], "int64"))
    exported = model.export(tmp_path / "m.onnx")
    assert operators(exported) == ["Less", "Add", "Where", "Gather"]
    feeds = {"x": numbers(5, 2), "i": np.array([-1, 4, -2])}
    check_outputs(exported, model, (feeds, model.run(feeds)))
