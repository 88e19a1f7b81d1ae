"""ONNX nodes that graphopt reads and writes again, compared with ONNX Runtime at each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphopt.buckets import Buckets, powers_of_two
from graphopt.errors import OpenSizeError
from graphopt.models.model import ImportedModel, read_model

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx_ir")
runtime = pytest.importorskip("onnxruntime")
from onnx import helper, numpy_helper  # noqa: E402  (needs the package)
from onnx.reference import ReferenceEvaluator  # noqa: E402

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def saved(
    folder: Path,
    type: str,
    inputs: Mapping[str, Sequence[int | str]],
    tensors: Mapping[str, Array],
    names: list[str],
    *,
    kind: int = 1,
    results: int = 1,
    domain: str = "",
    opset: int = 17,
    **attrs: Any,
) -> Path:
    """Write a file with one node that reads the given names."""
    outputs = [f"y{i}" for i in range(results)]
    node = helper.make_node(type, names, outputs, domain=domain, **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def by_runtime(path: Path, feed: dict[str, Array]) -> list[Array]:
    """Run a file in ONNX Runtime, in one thread."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(str(path), options).run(None, feed)


def by_reference(path: Path, feed: dict[str, Array]) -> list[Array]:
    """Run a file in onnx's reference evaluator."""
    return ReferenceEvaluator(str(path)).run(None, feed)  # pyright: ignore


def check(
    path: Path, *feeds: dict[str, Array], oracle: Any = by_runtime, **options: Any
) -> tuple[ImportedModel, Any]:
    """Compare a run of the model, and of the model written again, with the oracle."""
    model, again = read_model(path), path.with_name("again.onnx")
    model.export(again, **options)
    for feed in feeds:
        wanted = oracle(path, feed)
        for found in (model.run(feed), by_runtime(again, feed)):
            for new, old in zip(found, wanted, strict=True):
                assert (new.dtype, new.shape) == (old.dtype, old.shape)
                np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)
    return model, onnx.load(again)


def floats(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("directions", "by_column", "zero"),
    [(1, False, 5), pytest.param(2, True, 0, marks=pytest.mark.exhaustive)],
)
def test_quantised_lstm(directions: int, by_column: bool, zero: int, tmp_path: Path) -> None:
    """Weights have 7 bits: with 8, sums of two products overflow on some processors."""
    size, hidden, steps = 5, 6, 7
    scales = (directions, 4 * hidden) if by_column else (directions,)
    tensors: dict[str, Array] = {
        "w": RNG.integers(-63, 64, (directions, size, 4 * hidden)).astype(np.int8),
        "r": RNG.integers(-63, 64, (directions, hidden, 4 * hidden)).astype(np.int8),
        "b": floats(directions, 8 * hidden) / 3,
    }
    for name in ("ws", "rs"):
        tensors[name] = RNG.uniform(0.005, 0.02, scales).astype(np.float32)
    for name in ("wz", "rz"):
        tensors[name] = np.full(scales, zero, np.int8)
    path = saved(
        *(tmp_path, "DynamicQuantizeLSTM", {"x": ["time", "batch", size]}, tensors),
        ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"],
        results=3,
        domain="com.microsoft",
        hidden_size=hidden,
        direction="bidirectional" if directions == 2 else "forward",
    )
    model, again = check(path, {"x": floats(steps, 3, size)}, {"x": floats(2, 1, size)})
    # the steps stay open, so they are a loop
    assert [op.name for op in model.module().walk()].count("pd.scan") == directions
    assert [node.op_type for node in again.graph.node].count("Scan") == directions
    weights = [each for each in again.graph.initializer if len(each.dims) > 1]
    assert sum(each.data_type == onnx.TensorProto.INT8 for each in weights) >= 2
    assert not any(each.data_type == onnx.TensorProto.INT32 for each in weights)


@pytest.mark.parametrize(
    "lengths", [(5, 2, 4), pytest.param((0, 3, 2), marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize(
    "direction", ["forward", pytest.param("reverse", marks=pytest.mark.exhaustive)]
)
def test_the_lengths_of_a_quantised_lstm(
    direction: str, lengths: tuple[int, ...], tmp_path: Path
) -> None:
    """A sequence that has ended counts once more in the scale of a step, as zeros."""
    size, hidden = 4, 6
    tensors: dict[str, Array] = {
        "w": RNG.integers(-63, 64, (1, size, 4 * hidden)).astype(np.int8),
        "r": RNG.integers(-63, 64, (1, hidden, 4 * hidden)).astype(np.int8),
        "b": floats(1, 8 * hidden) / 3,
        "s": RNG.uniform(0.005, 0.02, 1).astype(np.float32),
        "z": np.zeros(1, np.int8),
        "l": np.array(lengths, np.int32),
    }
    path = saved(
        *(tmp_path, "DynamicQuantizeLSTM", {"x": [7, 3, size]}, tensors),
        ["x", "w", "r", "b", "l", "", "", "", "s", "z", "s", "z"],
        results=3,
        domain="com.microsoft",
        hidden_size=hidden,
        direction=direction,
    )
    check(path, {"x": floats(7, 3, size) * np.array([[3], [1], [1]], np.float32)})


@pytest.mark.parametrize(
    "direction", ["forward", pytest.param("bidirectional", marks=pytest.mark.exhaustive)]
)
def test_a_gru_that_is_no_op_of_pd(direction: str, tmp_path: Path) -> None:
    """A GRU without `linear_before_reset` takes lengths and open sizes."""
    count = 2 if direction == "bidirectional" else 1
    tensors: dict[str, Array] = {
        "w": floats(count, 12, 3),
        "r": floats(count, 12, 4),
        "b": floats(count, 24),
        "l": np.array([5, 2, 4], np.int32),
    }
    path = saved(
        *(tmp_path, "GRU", {"x": ["time", "batch", 3]}, tensors, ["x", "w", "r", "b", "l"]),
        results=2,
        hidden_size=4,
        direction=direction,
    )
    check(path, {"x": floats(5, 3, 3)}, {"x": floats(6, 3, 3)})


@pytest.mark.parametrize("type", ["MaxPool", "Conv"])
@pytest.mark.parametrize("side", ["SAME_UPPER", "SAME_LOWER"])
def test_padding_that_open_sizes_decide(type: str, side: str, tmp_path: Path) -> None:
    tensors = {"w": floats(4, 2, 3, 3)} if type == "Conv" else {}
    path = saved(
        *(tmp_path, type, {"x": ["n", 2, "h", "w_"]}, tensors, ["x", *tensors]),
        kernel_shape=[3, 3],
        strides=[2, 3],
        auto_pad=side,
    )
    check(path, {"x": floats(2, 2, 5, 8)}, {"x": floats(1, 2, 6, 4)})


def test_padding_does_not_need_the_size_of_the_batch(tmp_path: Path) -> None:
    path = saved(
        *(tmp_path, "AveragePool", {"x": ["n", 2, 5, 6]}, {}, ["x"]),
        kernel_shape=[2, 2],
        strides=[2, 2],
        auto_pad="SAME_UPPER",
    )
    check(path, {"x": floats(3, 2, 5, 6)})


@pytest.mark.exhaustive
def test_maxima_of_windows_that_leave_elements_out(tmp_path: Path) -> None:
    """A dilated maximum runs along one axis after the other: 80 and 60 parts, not 4,800."""
    path = saved(
        *(tmp_path, "MaxPool", {"x": [1, 1, 170, 130]}, {}, ["x"]),
        kernel_shape=[80, 60],
        dilations=[2, 2],
        strides=[2, 3],
        pads=[3, 2, 3, 2],
    )
    check(path, {"x": floats(1, 1, 170, 130)})


@pytest.mark.parametrize("zero", [None, 7])
def test_a_convolution_of_bytes_is_one_node_again(zero: int | None, tmp_path: Path) -> None:
    tensors: dict[str, Array] = {"w": RNG.integers(-99, 99, (4, 3, 3, 3)).astype(np.int8)}
    if zero is not None:
        tensors |= {"xz": np.array(zero, np.uint8), "wz": np.array(-zero, np.int8)}
    path = saved(
        *(tmp_path, "ConvInteger", {"x": ["n", 3, 8, 8]}, tensors, ["x", *tensors]),
        kind=onnx.TensorProto.UINT8,
        pads=[1, 1, 1, 1],
        strides=[2, 1],
    )
    _, again = check(path, {"x": RNG.integers(0, 256, (2, 3, 8, 8)).astype(np.uint8)})
    assert [node.op_type for node in again.graph.node] == ["ConvInteger"]


def test_a_product_of_bytes_is_one_node_again(tmp_path: Path) -> None:
    tensors: dict[str, Array] = {
        "w": RNG.integers(-63, 63, (16, 5)).astype(np.int8),
        "xz": np.array(7, np.uint8),
        "wz": np.array(-3, np.int8),
    }
    path = saved(
        *(tmp_path, "MatMulInteger", {"x": ["n", 4, 16]}, tensors, ["x", *tensors]),
        kind=onnx.TensorProto.UINT8,
    )
    _, again = check(path, {"x": RNG.integers(0, 256, (2, 4, 16)).astype(np.uint8)})
    assert [node.op_type for node in again.graph.node] == ["MatMulInteger"]


def test_sizes_are_given_where_they_cannot_stay_open(tmp_path: Path) -> None:
    """`Squeeze` without axes needs sizes: the rank of its result depends on them."""
    path = saved(tmp_path, "Squeeze", {"x": ["n", 1, 4]}, {}, ["x"])
    with pytest.raises(OpenSizeError, match="are open"):
        read_model(path).export(tmp_path / "again.onnx")
    check(path, {"x": floats(3, 1, 4)}, sizes={"x": (3, 1, 4)})
    # such a model is not padded
    model = read_model(path)
    (found,) = model.run([floats(3, 1, 4)], buckets=Buckets({"batch": powers_of_two(4)}))
    assert np.shape(found) == (3, 4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["reflection", "zeros", "border"])
def test_images_read_between_sixteen_pixels(padding: str, aligned: int, tmp_path: Path) -> None:
    """Bicubic sampling reads points in the image, at its edges and beyond."""
    path = saved(
        *(tmp_path, "GridSample", {"x": ["n", 2, 4, 5], "g": ["n", "h", "w", 2]}, {}, ["x", "g"]),
        mode="bicubic",
        padding_mode=padding,
        align_corners=aligned,
    )
    points = np.concatenate([floats(2, 3, 4, 2), np.full((2, 3, 1, 2), -1, np.float32)], 2)
    check(path, {"x": floats(2, 2, 4, 5), "g": points}, {"x": floats(1, 2, 4, 5), "g": points[:1]})


@pytest.mark.parametrize(
    "rule",
    [
        "gated_delta",
        *(pytest.param(r, marks=pytest.mark.exhaustive) for r in ("linear", "gated", "delta")),
    ],
)
def test_attention_with_a_state(rule: str, tmp_path: Path) -> None:
    """Each key has two heads of queries; the batch and the number of steps are open."""
    given: dict[str, Sequence[int | str]] = {
        "q": ["n", "t", 12],
        "k": ["n", "t", 6],
        "v": ["n", "t", 8],
    }
    given["s"] = ["n", 2, 3, 4]
    decay = beta = ""
    if "gated" in rule:
        given["d"], decay = ["n", "t", 2 if rule == "gated" else 6], "d"
    if "delta" in rule:
        given["b"], beta = ["n", "t", 1], "b"
    path = saved(
        *(tmp_path, "LinearAttention", given, {}, ["q", "k", "v", "s", decay, beta]),
        results=2,
        opset=27,
        q_num_heads=4,
        kv_num_heads=2,
        update_rule=rule,
    )

    def feed(n: int, t: int) -> dict[str, Array]:
        sizes = {"n": n, "t": t}
        own = {
            k: [sizes[d] if isinstance(d, str) else d for d in dims] for k, dims in given.items()
        }
        return {name: floats(*shape) / 2 for name, shape in own.items()}

    check(path, feed(2, 5), feed(1, 1), oracle=by_reference)


@pytest.mark.parametrize("length", [3, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("has_past", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_a_convolution_of_the_steps_so_far(has_past: bool, length: int, tmp_path: Path) -> None:
    """A causal convolution takes fewer steps than the filter is long, too."""
    given: dict[str, Sequence[int | str]] = {"x": ["n", 4, "t"]}
    if has_past:
        given["p"] = ["n", 4, length - 1]
    path = saved(
        *(tmp_path, "CausalConvWithState", given, {"w": floats(4, 1, length), "b": floats(4)}),
        ["x", "w", "b", "p" if has_past else ""],
        results=2,
        opset=27,
        activation="silu",
    )
    feeds = [{"x": floats(2, 4, t), "p": floats(2, 4, length - 1)} for t in (5, 1)]
    check(path, *({k: f[k] for k in given} for f in feeds), oracle=by_reference)


def test_windows_of_volumes_add_up(tmp_path: Path) -> None:
    tensors = {"s": np.array([4, 3, 5]), "k": np.array([2, 1, 3])}
    path = saved(
        *(tmp_path, "Col2Im", {"x": ["n", 12, 32]}, tensors, ["x", "s", "k"]),
        opset=18,
        pads=[1, 0, 0, 0, 0, 1],
        strides=[1, 2, 1],
    )
    check(path, {"x": floats(2, 12, 32)}, oracle=by_reference)


def test_sequences_that_are_turned_have_open_sizes(tmp_path: Path) -> None:
    tensors = {"l": np.array([3, 1, 2])}
    given = {"x": ["batch", "time", 2]}
    path = saved(
        *(tmp_path, "ReverseSequence", given, tensors, ["x", "l"]), batch_axis=0, time_axis=1
    )
    check(path, {"x": floats(3, 4, 2)}, {"x": floats(3, 3, 2)})


@pytest.mark.exhaustive
def test_steps_written_to_a_cache_have_open_sizes(tmp_path: Path) -> None:
    given = {"x": ["batch", "heads", "time", 2], "u": ["batch", "heads", "new", 2]}
    path = saved(
        *(tmp_path, "TensorScatter", given, {"s": np.array([3, 1])}, ["x", "u", "s"]),
        opset=24,
        mode="circular",
    )
    feed = {"x": floats(2, 3, 4, 2), "u": floats(2, 3, 2, 2)}
    for new, old in zip(read_model(path).run(feed), by_reference(path, feed), strict=True):
        np.testing.assert_array_equal(new, old)
