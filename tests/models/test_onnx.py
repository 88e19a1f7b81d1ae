"""Models as ONNX: valid, with the program's names and the outputs that Paddle recorded."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static, utils
from graphopt.errors import UnsupportedError
from graphopt.models.export import Exported
from graphopt.models.imported import ImportedModel
from graphopt_tests.runtime.test_export import check_outputs, load
from graphopt_tests.runtime.test_models import CASES, recorded

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx_ir")
runtime = pytest.importorskip("onnxruntime")

QUICK = {"infer_crnn_ctc", "infer_bert_mini", "infer_loop_if", "infer_lstm_classifier"}
MODELS = [pytest.param(n, marks=() if n in QUICK else pytest.mark.exhaustive) for n in CASES]


def checked(exported: Exported) -> Any:
    """Check the written model with ONNX's checker, and load it."""
    onnx.checker.check_model(exported.path, full_check=True)
    return onnx.load(exported.path)


def shape_of(port: Any) -> list[Any]:
    return [dim.dim_param or dim.dim_value for dim in port.type.tensor_type.shape.dim]


@pytest.mark.parametrize("name", MODELS)
def test_recorded_outputs(name: str, tmp_path: Path) -> None:
    """Every recorded batch gives its outputs: sizes that the program leaves open may vary."""
    model = load(name)
    exported = model.export(tmp_path / "m.onnx")
    graph = checked(exported).graph
    assert [port.name for port in graph.input] == model.feed_names
    assert [port.name for port in graph.output] == model.fetch_names
    assert {held.name for held in graph.initializer} >= set(model.parameters) & {
        name for node in graph.node for name in node.input
    }
    for run in recorded(CASES[name]):
        check_outputs(exported, model, run)


FUSED = [name for name in CASES if any(part in name for part in ("bert", "vit", "former", "llama"))]
FLAGS = ("fused_attention", "fused_feedforward"), ("fuse_dot_product_attention",)


@pytest.mark.exhaustive
@pytest.mark.parametrize("opset", [20, 23])
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("name", FUSED)
def test_fused_models(name: str, flags: tuple[str, ...], opset: int, tmp_path: Path) -> None:
    """Opset 23 has a node for attention, and the outputs stay the same."""
    model, strategy = load(name), static.BuildStrategy()
    for flag in flags:
        setattr(strategy, flag, True)
    exported = model.export(tmp_path / "m.onnx", build_strategy=strategy, opset=opset)
    found = {node.op_type for node in checked(exported).graph.node}
    assert ("Attention" in found) == (opset == 23)
    for run in recorded(CASES[name]):
        check_outputs(exported, model, run)


def program(build: Any, *inputs: tuple[str, Any, str]) -> paddle.ImportedModel:
    """Build a program as a saved model holds it."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        given = [static.data(*each) for each in inputs]
        made = build(*given)
    outputs = made if isinstance(made, tuple) else (made,)
    names = [variable.name for variable in outputs]
    feeds = [name for name, _, _ in inputs]
    return ImportedModel(main, feeds, names, Path("made"), True, b"")


X = ("x", [None, 4], "float32")


def test_all_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """One error names each op that cannot be written, a variable and the reason."""
    model = program(
        lambda x: (
            paddle.nextafter(x, x) + paddle.poisson(x),
            paddle.cumsum(paddle.gammaincc(x, x), 1),
        ),
        X,
    )
    with pytest.raises(UnsupportedError) as raised:
        model.export(tmp_path / "m.onnx")
    lines = str(raised.value).splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [
        "pd.nextafter",
        "pd.poisson",
        "pd.gammaincc",
    ]
    assert "pd.nextafter (nextafter_0.tmp): ONNX has no equivalent operator" in lines[1]
    assert lines[-1].startswith("write .jaxexport or .stablehlo, which support these operators")
    assert not list(tmp_path.iterdir())


def test_state_is_not_updated(tmp_path: Path) -> None:
    """The error for a training program says what to write instead."""
    with pytest.raises(UnsupportedError, match=r"updates '.*save_inference_model"):
        trained().export(tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def trained() -> paddle.ImportedModel:
    return paddle.import_model(Path(__file__).parents[1] / "data/models/train_mlp_sgd/pdmodel/main")


def test_sizes_and_opset(tmp_path: Path) -> None:
    model = program(lambda x: paddle.nn.functional.relu(x), X)
    made = checked(model.export(tmp_path / "m.onnx", opset=23))
    assert made.opset_import[0].version == 23 and shape_of(made.graph.input[0]) == ["x.0", 4]
    with pytest.raises(ValueError, match=r"opset 9 is not supported; .* 20, 21, 22, 23"):
        model.export(tmp_path / "m.onnx", opset=9)
    with pytest.raises(ValueError, match="the format mlir does not take opset; only onnx does"):
        model.export(tmp_path / "m.mlir", opset=20)


def operators(exported: Exported) -> list[str]:
    return [node.op_type for node in checked(exported).graph.node]


def root_mean_square(x: Any) -> Any:
    mean = paddle.mean(paddle.square(x), -1, keepdim=True)
    return x * paddle.rsqrt(mean + 1e-5) * paddle.full([4], 2.0)


@pytest.mark.parametrize("opset", [20, 23])
def test_one_operator_of_a_later_opset(opset: int, tmp_path: Path) -> None:
    """A root mean square is one node if the opset has it; both forms compute the same."""
    model = program(root_mean_square, X)
    exported = model.export(tmp_path / "m.onnx", opset=opset)
    found = operators(exported)
    assert (found == ["RMSNormalization"]) == (opset == 23)
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    wanted = 2 * x / np.sqrt(np.mean(x**2, -1, keepdims=True) + 1e-5)
    check_outputs(exported, model, ({"x": x}, [wanted]))


def test_a_convolution_with_a_bias_is_one_node(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        weight = paddle.full([2, 4, 1], 0.5)
        bias = paddle.reshape(paddle.arange(2, dtype="float32"), [2, 1, 1])
        return paddle.nn.functional.conv2d(x, paddle.reshape(weight, [2, 4, 1, 1])) + bias

    model = program(build, ("x", [None, 4, 3, 3], "float32"))
    exported = model.export(tmp_path / "m.onnx")
    assert operators(exported) == ["Conv"]
    x = np.linspace(-1, 1, 36, dtype="float32").reshape(1, 4, 3, 3)
    wanted = 0.5 * x.sum(1, keepdims=True) + np.arange(2, dtype="float32").reshape(1, 2, 1, 1)
    check_outputs(exported, model, ({"x": x}, [wanted]))


def test_attention_is_one_operator_of_opset_23(tmp_path: Path) -> None:
    def build(q: Any, mask: Any) -> Any:
        scores = paddle.matmul(q * 0.5, q, transpose_y=True) + mask
        return paddle.matmul(paddle.nn.functional.softmax(scores), q)

    shapes = ("q", [None, 2, 3, 4], "float32"), ("mask", [None, 1, 1, 3], "float32")
    model, strategy = program(build, *shapes), static.BuildStrategy()
    strategy.fuse_dot_product_attention = True
    exported = model.export(tmp_path / "m.onnx", opset=23, build_strategy=strategy)
    assert operators(exported) == ["Expand", "Attention"]  # ONNX Runtime repeats no row of masks
    q = np.linspace(-1, 1, 48, dtype="float32").reshape(2, 2, 3, 4)
    mask = np.array([0, 0, -1e9, 0, -1e9, -1e9], "float32").reshape(2, 1, 1, 3)
    check_outputs(exported, model, ({"q": q, "mask": mask}, model.run({"q": q, "mask": mask})))


def quantised(x: Any) -> Any:
    """Build a product of inputs and weights of 8 bits, as PaddleSlim saves it."""
    block = static.default_main_program().global_block()

    def by(op_type: str, value: Any, scale: Any, dtype: str, axis: int) -> Any:
        out = block.create_var(name=f"{op_type}.{axis}", shape=value.shape, dtype=dtype)
        zero = paddle.zeros_like(scale)
        inputs = {"X": [value], "Scale": [scale], "ZeroPoint": [zero]}
        attrs = {"quant_axis": axis, "bit_length": 8, "is_test": True}
        block.append_op(type=op_type, inputs=inputs, outputs={"Y": [out]}, attrs=attrs)
        return out

    scale = paddle.full([1], 2.0)
    near = by(
        "dequantize_linear", by("quantize_linear", x, scale, "float32", -1), *(scale, "float32", -1)
    )
    weight = paddle.assign(np.array([[3, -7], [127, 0], [-128, 1], [5, 9]], "int8"))
    weight = by(
        "dequantize_linear", weight, paddle.assign(np.array([0.5, 4], "float32")), "float32", 1
    )
    return paddle.matmul(near, weight)


def test_numbers_of_8_bits(tmp_path: Path) -> None:
    """A quantized product has pairs of QuantizeLinear and DequantizeLinear, and int8 weights."""
    model = program(quantised, X)
    exported = model.export(tmp_path / "m.onnx")
    made = checked(exported).graph
    assert [node.op_type for node in made.node] == [
        *("QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "MatMul")
    ]
    sizes = {tuple(held.dims): held.data_type for held in made.initializer}
    assert sizes[4, 2] == onnx.TensorProto.INT8
    x = np.linspace(-3, 3, 12, dtype="float32").reshape(3, 4)
    check_outputs(exported, model, ({"x": x}, model.run({"x": x})))


def test_a_value_that_is_given_twice(tmp_path: Path) -> None:
    """An input, a constant and a result that is fetched twice are separate outputs."""

    def build(x: Any) -> Any:
        doubled = paddle.scale(x, 2.0)
        return paddle.assign(doubled), doubled, paddle.assign(x), paddle.full([2], 3.0)

    model = program(build, X)
    exported = model.export(tmp_path / "m.onnx")
    checked(exported)
    x = np.ones((3, 4), "float32")
    check_outputs(exported, model, ({"x": x}, [2 * x, 2 * x, x, np.full(2, 3, "float32")]))


def test_an_input_that_is_given_several_times(tmp_path: Path) -> None:
    """Paddle 3 saves `x, x` as two outputs of one name; names of ONNX values are unique."""
    model = program(lambda x: paddle.exp(x), X)
    model = replace(model, fetch_names=["x", "x", model.fetch_names[0], "x"])
    exported = model.export(tmp_path / "m.onnx")
    names = [port.name for port in checked(exported).graph.output]
    assert (names[0], names[1], names[3]) == ("x", "x.1", "x.2")
    x = np.ones((3, 4), "float32")
    check_outputs(exported, model, ({"x": x}, [x, x, np.exp(x), x]))


def test_outputs_are_not_read_in_branches(tmp_path: Path) -> None:
    """No branch reads an output of the model: OpenVINO's reader fails there."""

    def build(x: Any) -> Any:
        doubled = paddle.exp(x)
        return doubled, static.nn.cond(paddle.sum(x) > 0, lambda: doubled * 2, lambda: x - doubled)

    model = program(build, X)
    graph = checked(model.export(tmp_path / "m.onnx")).graph
    (branches,) = ([a.g for a in n.attribute] for n in graph.node if n.op_type == "If")
    read = {name for branch in branches for node in branch.node for name in node.input}
    assert read and read.isdisjoint(port.name for port in graph.output)


def test_parameters_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters that exceed a protobuf message are written to a second file."""
    from graphopt.models.export.onnx import file

    monkeypatch.setattr(file, "INSIDE", 1000)
    model = load("infer_lenet")
    exported = model.export(tmp_path / "m.onnx")
    assert [path.name for path in exported.files] == ["m.onnx", "m.onnx.data"]
    assert exported.path.stat().st_size < 10_000 < exported.files[1].stat().st_size
    checked(exported)
    check_outputs(exported, model, recorded(CASES["infer_lenet"])[0])


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load("infer_lenet")
    for name in [n for n in sys.modules if n.startswith("graphopt.models.export.onnx.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'graphopt\[onnx\]'"):
        model.export(tmp_path / "m.onnx")


def test_a_layer(tmp_path: Path) -> None:
    """`paddle.onnx.export` takes Paddle's arguments."""
    with static.scope_guard(static.Scope()), utils.unique_name.guard():
        _check_a_layer(tmp_path)


def _check_a_layer(tmp_path: Path) -> None:
    layer = paddle.nn.Linear(4, 2)
    spec = [static.InputSpec([None, 4], "float32", "x")]
    with pytest.warns(UserWarning, match=r"opset 11 is not written; .*m.onnx has opset 20"):
        paddle.onnx.export(layer, str(tmp_path / "m"), input_spec=spec, opset_version=11)
    made = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(made, full_check=True)
    assert [port.name for port in made.graph.input] == ["x"]
    weights = {held.name for held in made.graph.initializer}
    assert weights == {parameter.name for parameter in layer.parameters()}
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.ones((3, 4), "float32")})[0].shape == (3, 2)
    with pytest.raises(ValueError, match="the file_prefix is empty"):
        paddle.onnx.export(layer, "folder/", input_spec=spec)
