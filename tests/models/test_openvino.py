"""Models for OpenVINO: operators decomposed into ones that its reader knows, with the same results.

OpenVINO itself reads them if it is installed.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt.ir.translate.openvino_forms import KNOWN
from graphopt.models.imported import ImportedModel
from graphopt_tests.runtime.test_export import load
from graphopt_tests.runtime.test_models import CASES, recorded

F = paddle.nn.functional
X = np.linspace(-2.5, 3.5, 24, dtype="float32").reshape(2, 3, 4)

UNARY = {
    "square": paddle.square,
    "mish": F.mish,
    "log_softmax": F.log_softmax,
    "sign": paddle.sign,
    "log_sigmoid": F.log_sigmoid,
    "hardtanh": F.hardtanh,
    "tan": paddle.tan,
    "sinh": paddle.sinh,
    "cosh": paddle.cosh,
    "log1p": lambda x: paddle.log1p(paddle.abs(x)),
    "log2": lambda x: paddle.log2(paddle.abs(x) + 1),
    "log10": lambda x: paddle.log10(paddle.abs(x) + 1),
    "expm1": paddle.expm1,
    "reciprocal": paddle.reciprocal,
    "softsign": F.softsign,
    "selu": F.selu,
    "celu": F.celu,
    "hardshrink": F.hardshrink,
    "thresholded_relu": F.thresholded_relu,
    "stanh": paddle.stanh,
    "prelu": lambda x: F.prelu(x, paddle.assign(np.array([0.1, 0.2, 0.3], "float32"))),
    "mean": paddle.mean,
    "instance_norm": F.instance_norm,
    "isnan": lambda x: paddle.isnan(paddle.log(x)),
    "bce": lambda x: F.binary_cross_entropy(F.sigmoid(x), paddle.abs(paddle.tanh(x))),
    "atan": paddle.atan,
    "erf": paddle.erf,
    "logsumexp": lambda x: paddle.logsumexp(x, [1, 2]),
    "dot": lambda x: paddle.dot(x[:, 0], x[:, 1]),
    "pixel_shuffle": lambda x: F.pixel_shuffle(paddle.reshape(x, [2, 4, 3, 1]), 2),
}


def program(build: Any, *shape: int | None) -> ImportedModel:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        made = build(static.data("x", list(shape), "float32"))
    return ImportedModel(main, ["x"], [made.name], Path("made"), True, b"")


def every() -> ImportedModel:
    """Build a program with all operators of `UNARY`."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [2, 3, 4], "float32")
        made = [build(x) for build in UNARY.values()]
    return ImportedModel(main, ["x"], [value.name for value in made], Path("made"), True, b"")


def types_of(model: ImportedModel) -> set[str]:
    return {op.type for block in model.program.blocks for op in block.ops}


def by_openvino(path: Path, feed: dict[str, Any]) -> list[Any]:
    openvino: Any = import_module("openvino")
    precision = {"INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()
    model = core.read_model(str(path))
    given = {n: v for port in model.inputs for n, v in feed.items() if n in port.get_names()}
    # with open sizes it does not look at the lengths of an LSTM
    model.reshape({name: list(value.shape) for name, value in given.items()})
    compiled = core.compile_model(model, "CPU", precision)
    found = compiled(given)
    return [found[port] for port in compiled.outputs]


@pytest.mark.exhaustive
def test_by_parts(tmp_path: Path) -> None:
    """The model that is read back has only operators that OpenVINO knows, and the same results."""
    model = every()
    wanted = model.run({"x": X})
    exported = model.export(tmp_path / "m.pdmodel", reader="openvino")
    again = paddle.import_model(exported.path)
    assert types_of(again) <= KNOWN
    for name, new, old in zip(UNARY, again.run({"x": X}), wanted, strict=True):
        np.testing.assert_allclose(new, old, rtol=2e-5, atol=2e-6, err_msg=name)
    if find_spec("openvino"):
        for name, new, old in zip(UNARY, by_openvino(exported.path, {"x": X}), wanted, strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("of", [lambda x: x, paddle.sum], ids=["whole", "scalar"])
def test_both_branches_are_computed(of: Any, tmp_path: Path) -> None:
    """Both branches are computed: OpenVINO's reader fails on blocks. Branches with loops stay."""

    def build(x: Any) -> Any:
        is_positive = paddle.sum(x, keepdim=True).reshape([1]) > 0
        return static.nn.cond(is_positive, lambda: of(x * 2), lambda: of(paddle.exp(x)))

    model = program(build, None, 4)
    again = paddle.import_model(model.export(tmp_path / "m.pdmodel", reader="openvino").path)
    assert "conditional_block" not in types_of(again) and len(again.program.blocks) == 1
    for x in (np.ones((2, 4), "float32"), -np.ones((2, 4), "float32")):
        new, old = (np.asarray(each.run({"x": x})[0]) for each in (again, model))
        assert new.shape == old.shape
        np.testing.assert_allclose(new, old, rtol=1e-6)


def test_what_it_has_no_operators_for_is_named(tmp_path: Path) -> None:
    model = program(lambda x: paddle.argsort(paddle.lgamma(x)), 3, 4)
    with pytest.raises(UnsupportedError, match=r"(?s)lgamma \(.*argsort \(.*write \.onnx"):
        model.export(tmp_path / "m.pdmodel", reader="openvino")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="the format onnx does not take reader; only pdmodel does"):
        model.export(tmp_path / "m.onnx", reader="openvino")


@pytest.mark.exhaustive
@pytest.mark.skipif(find_spec("openvino") is None, reason="needs openvino")
@pytest.mark.parametrize("name", sorted(CASES))
def test_recorded_outputs(name: str, tmp_path: Path) -> None:
    """OpenVINO gives the recorded outputs from the ONNX file."""
    model = load(name)
    exported = model.export(tmp_path / "m.onnx")
    for feed, outputs in recorded(CASES[name]):
        for new, old in zip(by_openvino(exported.path, feed), outputs, strict=True):
            np.testing.assert_allclose(
                np.asarray(new).reshape(old.shape), old, rtol=1e-4, atol=1e-5
            )
