"""`graphopt diff --values` on a model and its export, equal or broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt.cli.main import main as graphopt
from graphopt_tests.model_files import MODELS

onnx: Any = pytest.importorskip("onnx")
pytest.importorskip("onnx_ir")

LENET = MODELS / "infer_lenet"
Break = Callable[[Any], None]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export LeNet to ONNX."""
    path = tmp_path_factory.mktemp("twin") / "lenet.onnx"
    paddle.import_model(LENET / "model").export(path)
    return path


def node_of(model: Any, result: str) -> Any:
    return next(node for node in model.graph.node if node.output[0] == result)


def change_weight(model: Any) -> None:
    weight = next(each for each in model.graph.initializer if each.name == "conv2d_1.w_0")
    array = onnx.numpy_helper.to_array(weight).copy()
    array[2, 1, 0, 0] += 0.5
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))


def set_attribute(model: Any, result: str, name: str, value: object) -> None:
    attribute = next(a for a in node_of(model, result).attribute if a.name == name)
    attribute.CopyFrom(onnx.helper.make_attribute(name, value))


def shift_pool(model: Any) -> None:
    set_attribute(model, "pool2d_0.tmp", "kernel_shape", [1, 1])


def pad_convolution(model: Any) -> None:
    """Pad the convolution, so that the op after it, a flattening, fails."""
    set_attribute(model, "conv2d_1.tmp.1", "pads", [1, 1, 1, 1])


def change_operator(model: Any) -> None:
    node_of(model, "relu_1.tmp").op_type = "Sigmoid"


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (
            change_weight,
            (
                "the first op that differs: pd.conv2d %conv2d_1.tmp, in layer 2: conv2d,",
                "in broken.onnx: pd.conv2d, in layer 2: conv2d, add, relu, from "
                "broken.onnx:conv2d_1.tmp.1:4\n",
                "parameter that differs: conv2d_1.w_0\n",
                "at [2, 1, 0, 0]; 1 of 800 elements differ",
                "inputs that are equal: pool2d_0.tmp\n",
            ),
        ),
        (
            shift_pool,
            (
                "the first op that differs: pd.pool2d %pool2d_0.tmp\n",
                "attribute that differs: kernel_size (2, 2) -> (1, 1)\n",
                "inputs that are equal: relu_0.tmp\n",
            ),
        ),
        (
            pad_convolution,
            (
                "the results differ: ProgramError: [2, 8, 6, 6] has 576 elements",
                "the first op that differs: pd.conv2d %conv2d_1.tmp,",
                "[2, 8, 10, 10] became [2, 8, 12, 12]\n",
                "attribute that differs: paddings (0, 0) -> (1, 1)\n",
            ),
        ),
        (
            change_operator,
            (
                "the first op that differs: pd.relu %relu_1.tmp, in layer 2: conv2d, add, relu\n",
                "in broken.onnx: pd.sigmoid %relu_1.tmp,",
                "inputs that are equal: conv2d_1.tmp\n",
            ),
        ),
    ],
    ids=["weight", "window", "sizes", "operator"],
)
def test_broken_twin(
    broken: Break,
    expected: tuple[str, ...],
    exported: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = onnx.load(exported)
    broken(model)
    twin = tmp_path / "broken.onnx"
    onnx.save(model, twin)
    assert graphopt(["diff", str(LENET / "model.pdmodel"), str(twin), "--values"]) == 1
    printed = capsys.readouterr().out
    for text in expected:
        assert text in printed


@pytest.mark.parametrize("program", ["model.pdmodel", "model.json"])
def test_twin_is_equal(program: str, exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Values are paired by their variables' names, or by structure in a program without names."""
    data = str(LENET / "inputs.npz")
    assert graphopt(["diff", str(LENET / program), str(exported), "--data", data]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("the results are equal: the largest difference is ")
    count = 18 if program == "model.pdmodel" else 17
    assert second == f"{count} of {count} values of {program} have an equal value in lenet.onnx"


def test_text_of_ir_takes_the_parameters_of_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "lenet.mlir"
    paddle.import_model(LENET / "model").export(text)
    assert graphopt(["diff", str(LENET / "model.pdmodel"), str(text), "--values"]) == 0
    assert graphopt(["diff", str(text), str(LENET / "model.pdmodel"), "--values"]) == 0
    capsys.readouterr()
    written = text.read_text("utf-8")
    text.write_text(written.replace("pd.relu(%conv2d_1.tmp_1)", "pd.tanh(%conv2d_1.tmp_1)"))
    assert graphopt(["diff", str(text), str(LENET / "model.pdmodel"), "--values"]) == 1
    assert "the first op that differs: pd.tanh %relu_1.tmp" in capsys.readouterr().out


def saved(path: Path, name: str, nodes: list[Any], inputs: list[str]) -> str:
    """Save an ONNX model on vectors of 20 numbers."""
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [info(each, onnx.TensorProto.FLOAT, [20]) for each in inputs],
        [info("y", onnx.TensorProto.FLOAT, [20])],
    )
    opset = [onnx.helper.make_opsetid("", 20)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=10)
    onnx.save(model, path / name)
    return str(path / name)


def test_ops_without_a_counterpart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """When the other program has no value between ops, each of these ops is named."""
    node = onnx.helper.make_node
    first = [
        node("Sigmoid", ["x"], ["s"]),
        node("Mul", ["x", "s"], ["m"]),
        node("Abs", ["m"], ["y"]),
    ]
    right = [node("HardSwish", ["other"], ["h"]), node("Abs", ["h"], ["y"])]
    a = saved(tmp_path, "swish.onnx", first, ["x"])
    b = saved(tmp_path, "hard.onnx", right, ["other"])
    assert graphopt(["diff", a, b, "--values"]) == 1
    printed = capsys.readouterr().out
    assert "the first op that differs: pd.abs" in printed
    assert "through ops without a counterpart: pd.sigmoid %s, pd.multiply %m\n" in printed
    assert "inputs that are equal: x\n" in printed


def test_what_cannot_be_compared(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = onnx.helper.make_node
    two = saved(tmp_path, "two.onnx", [node("Add", ["a", "b"], ["y"])], ["a", "b"])
    model = str(exported)
    assert graphopt(["diff", model, two, "--values"]) == 2
    assert "no value for the feed 'a'" in capsys.readouterr().err
    assert graphopt(["diff", model, model, "--dim", "3"]) == 2
    assert "--dim needs --values" in capsys.readouterr().err
    assert graphopt(["diff", model, model, "--values", "-o", str(tmp_path / "x.html")]) == 2
    assert "--values compares programs as read" in capsys.readouterr().err
    np.savez(tmp_path / "x.npz", other=np.zeros(3, "float32"))
    assert graphopt(["diff", model, model, "--data", str(tmp_path / "x.npz")]) == 2
    assert "none of the inputs" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["diff --values", "bisect -o out.mlir", "profile --steps 1"])
def test_model_that_needs_its_sizes(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The model has no program without sizes: they decide the axes to squeeze."""
    monkeypatch.chdir(tmp_path)
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Squeeze", ["x"], ["y"])],
        "g",
        [info("x", onnx.TensorProto.FLOAT, ["n", 1])],
        [info("y", onnx.TensorProto.FLOAT, None)],
    )
    opset = [onnx.helper.make_opsetid("", 20)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10), "m.onnx")
    name, *rest = command.split()
    assert graphopt([name, "m.onnx", *rest]) == 0
    assert "x [2, 1]" in capsys.readouterr().out
    assert graphopt([name, "m.onnx", *rest, "--dim", "x=3x1"]) == 0
    assert "x [3, 1]" in capsys.readouterr().out


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name",
    ["bert_mini", "loop_if", "mobilenet_v2", "resnet18", "transformer_encoder"],
)
def test_twins_of_models(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model equals its export, in which several ops may be one node, or one op several."""
    case, twin = MODELS / f"infer_{name}", str(tmp_path / "twin.onnx")
    model = case / "model.pdmodel"
    paddle.import_model(model).export(twin)
    for pair in ([str(model), twin], [twin, str(model)]):
        assert graphopt(["diff", *pair, "--data", str(case / "inputs.npz")]) == 0
        assert capsys.readouterr().out.startswith("the results are equal")
