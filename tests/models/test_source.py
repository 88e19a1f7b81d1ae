"""Models as source: code as a person would write it, with the outputs that Paddle recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static
from graphopt.errors import UnsupportedError
from graphopt.frontend.script import run_script
from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.dialect.signature import signature_of
from graphopt.models.export.check import exported_outputs
from graphopt.models.export.source import source_of
from graphopt.models.export.source.calls import RULES
from graphopt.models.export.source.program import read_program
from graphopt.models.export.source.table import CALLS, INFIX
from graphopt.models.imported import ImportedModel
from graphopt.runtime.state.scope import Scope, scope_guard
from graphopt_tests.ir.test_ops import SAMPLES
from graphopt_tests.models.test_onnx_ops import check, is_random, module_of
from graphopt_tests.op_calls import flat, rule_of
from graphopt_tests.runtime.test_export import load
from graphopt_tests.runtime.test_models import CASES, recorded

pytest.importorskip("safetensors")

QUICK = {("infer_lenet", "jax")}
PAIRS = [
    pytest.param(name, style, marks=() if (name, style) in QUICK else pytest.mark.exhaustive)
    for name in CASES
    for style in ("paddle", "jax")
]
# what is in the way of a style, by case, or by the folder of all its files
REFUSED = {
    ("infer_lstm_classifier", "paddle"): "pd.rnn",
    ("infer_crnn_ctc", "paddle"): "pd.rnn",
    ("infer_dtype_zoo", "paddle"): "bfloat16",
    (
        "infer_decode_array/model.json",
        "paddle",
    ): "initial value of an array has no element sizes",
    ("infer_static_attr_types", "paddle"): "pd.set_value",
    ("infer_static_attr_types", "jax"): "pd.dynamic",
    ("infer_decode_beam", "paddle"): "initial value of an array has no element sizes",
}


def reason_against(name: str, style: str) -> str | None:
    """Return the reason why a case has no readable form, or None."""
    return REFUSED.get((name, style)) or REFUSED.get((name.partition("/")[0], style))


@pytest.mark.parametrize(("name", "style"), PAIRS)
def test_recorded_outputs(name: str, style: str, tmp_path: Path) -> None:
    """The script runs alone and gives Paddle's outputs, or the error names its obstacle."""
    model = load(name)
    if reason := reason_against(name, style):
        with pytest.raises(UnsupportedError, match=reason):
            model.export(tmp_path / "m.py", style=style)
        assert not list(tmp_path.iterdir())
        return
    exported = model.export(tmp_path / "m.py", style=style)
    for inputs, expected in recorded(CASES[name]):
        found = exported_outputs(exported, model, inputs)
        assert found is not None and len(found) == len(expected)
        for new, old in zip(found, expected, strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)


def again(script: Path, folder: Path) -> str:
    """Return the source of the model that a script saves."""
    with scope_guard(Scope()):
        assert run_script(script, [str(folder / "model")]) == 0
    with scope_guard(Scope()):
        saved = paddle.import_model(folder / "model")
    return saved.export(folder / script.name).path.read_text("utf-8")


# what is an array at first is a tensor of joined parts when it is read again
WITH_ARRAYS = ("infer_collect_in_branch/model.json",)
FIXED = [n for n in CASES if not reason_against(n, "paddle") and n not in WITH_ARRAYS]


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:no variable in your model")  # as Paddle warns
@pytest.mark.parametrize("name", FIXED)
def test_fixed_point(name: str, tmp_path: Path) -> None:
    """The model that a script saves is written as the same script."""
    exported = load(name).export(tmp_path / "m.py")
    (tmp_path / "again").mkdir()
    assert again(exported.path, tmp_path / "again") == exported.path.read_text("utf-8")


def saved(folder: Path, build: Any, *shape: int | None) -> ImportedModel:
    """Save and import a model of one input, `x`, and of one output or a list of outputs."""
    main, startup = static.Program(), static.Program()
    names = paddle.utils.unique_name.guard()
    with names, static.program_guard(main, startup), scope_guard(Scope()):
        x = static.data("x", list(shape), "float32")
        exe = static.Executor(paddle.CPUPlace())
        out = build(x)
        exe.run(startup)
        outs = out if isinstance(out, list) else [out]
        static.save_inference_model(str(folder / "saved"), [x], outs, exe, program=main)
    with scope_guard(Scope()):
        return paddle.import_model(folder / "saved")


def decoder(folder: Path) -> ImportedModel:
    """Build a loop whose cache grows and whose condition changes after the first step."""

    def build(x: Any) -> Any:
        def step(going: Any, cache: Any) -> list[Any]:
            return [paddle.sum(cache) < 10, paddle.concat([cache, x])]

        x = paddle.abs(static.nn.fc(x, 2)) + 1
        start = paddle.sum(x) < 100
        return paddle.static.nn.while_loop(lambda going, cache: going, step, [start, x])[1]

    return saved(folder, build, 1, 2)


def test_a_decoder_is_a_loop(tmp_path: Path) -> None:
    """JAX's loop cannot carry a growing value, so a Python loop does; both carry the condition."""
    model = decoder(tmp_path)
    for style, loop in (("jax", "growing_loop("), ("paddle", "paddle.static.nn.while_loop(")):
        assert loop in model.export(tmp_path / "m.py", style=style).path.read_text("utf-8")


@pytest.mark.exhaustive
@pytest.mark.parametrize("style", ["paddle", "jax"])
def test_a_decoder(style: str, tmp_path: Path) -> None:
    model = decoder(tmp_path)
    exported = model.export(tmp_path / "m.py", style=style)
    for value in (1.0, 3.0, 60.0):
        feed = {"x": np.full((1, 2), value, np.float32)}
        found = exported_outputs(exported, model, feed)
        assert found is not None
        np.testing.assert_allclose(found[0], model.run(feed)[0], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:no variable in your model")
@pytest.mark.filterwarnings("ignore:There are no operators")
@pytest.mark.parametrize("style", ["paddle", "jax"])
def test_the_example_is_large_enough(style: str, tmp_path: Path) -> None:
    """Three pools of 3 by 3 need 7 by 7 pixels."""

    def build(x: Any) -> Any:
        for _ in range(3):
            x = paddle.nn.functional.max_pool2d(x, 3, 1)
        return x

    model = saved(tmp_path, build, None, 3, None, None)
    exported = model.export(tmp_path / "m.py", style=style)
    assert "[8 if size is None else size for size in shape]" in exported.path.read_text("utf-8")
    feed = {"x": np.ones((1, 3, 16, 16), np.float32)}
    found = exported_outputs(exported, model, feed)
    assert found is not None
    np.testing.assert_array_equal(found[0], model.run(feed)[0])


def network(path: Path) -> str:
    """Return the functions of a script that differ from script to script."""
    text = path.read_text("utf-8")
    start = text.index("\ndef ")
    return text[start : text.index("def read_weights")].strip()


def residual(x: Any) -> Any:
    for _ in range(3):
        y = nn.functional.relu(nn.Conv2D(4, 4, 3, padding=1)(x))
        x = nn.functional.relu(nn.Conv2D(4, 4, 3, padding=1)(y) + x)
    return nn.functional.softmax(nn.Linear(4, 2)(x.mean([2, 3])))


def test_layers_are_functions_and_repeats_loops(tmp_path: Path) -> None:
    exported = saved(tmp_path, residual, None, 4, 6, 6).export(tmp_path / "m.py")
    assert (
        network(exported.path)
        == """\
def residual_block(w, x, n):
    y = F.relu(F.conv2d(x, **w[f"conv2d_{n}"], padding=1))
    return F.relu(F.conv2d(y, **w[f"conv2d_{n + 2}"], padding=1) + x)


def network(w, x):
    for i in range(0, 12, 4):
        x = residual_block(w, x, i)
    return F.softmax(F.linear(paddle.mean(x, axis=[2, 3]), **w["linear_0"]))"""
    )


def loosely_bound(x: Any) -> list[Any]:
    """Build results whose calls print as operators, read by operators that bind tighter."""
    inverse, shrunk = paddle.reciprocal(x + 3.0), nn.functional.tanhshrink
    weights = nn.Linear(4, 4).weight
    return [
        x / inverse,
        x - (x * 2.0 - (x - 1.0)),
        shrunk(x) * 2.0,
        paddle.assign(x + 1.0) * 2.0,
        paddle.pow(paddle.scale(x + 2.0, 1.0), 2.0),
        -(paddle.pow(-x, 2.0)),
        (x * 2.0) / (x * 3.0 / (x + 4.0)),
        nn.functional.dropout(x + 1.0, 0.5, training=False, mode="downscale_in_infer") * 2.0,
        ((x > 0.5) == (x < 1.5)).astype("float32"),
        paddle.bitwise_not(x.astype("int32") + 1) * 3,
        (x - 1.0).astype("int32").astype("float32"),
        paddle.round(x * 2.0 + 0.5),
        paddle.clip(x.astype("int32"), min=0),
        (x @ weights) ** 2.0 / (x @ (weights * 2.0)),
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("style", ["paddle", "jax"])
def test_parentheses(style: str, tmp_path: Path) -> None:
    """A call that is printed inside another has the numbers of the two calls."""
    model = saved(tmp_path, loosely_bound, 3, 4)
    feed = {"x": np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)}
    found = exported_outputs(model.export(tmp_path / "m.py", style=style), model, feed)
    assert found is not None
    for number, (new, old) in enumerate(zip(found, model.run(feed), strict=True)):
        np.testing.assert_allclose(new, old, rtol=1e-6, err_msg=str(number))


def test_names_of_what_a_script_calls(tmp_path: Path) -> None:
    """An input may have the name of a function."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), scope_guard(Scope()):
        inputs = [static.data(name, [2, 3], "float32") for name in ("sum", "linear", "w")]
        out = nn.Linear(3, 2)(paddle.add_n(inputs))
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        static.save_inference_model(str(tmp_path / "m"), inputs, [out], exe, program=main)
    with scope_guard(Scope()):
        model = paddle.import_model(tmp_path / "m")
        feed = {name: np.full((2, 3), at, np.float32) for at, name in enumerate(model.feed_names)}
        (wanted,) = model.run(feed)
        found = exported_outputs(model.export(tmp_path / "m.py", style="jax"), model, feed)
    assert found is not None
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)


def test_a_style_is_for_source_alone(tmp_path: Path) -> None:
    model = saved(tmp_path, residual, None, 4, 6, 6)
    with pytest.raises(ValueError, match="the format mlir does not take style; only source does"):
        model.export(tmp_path / "m.mlir", style="jax")
    with pytest.raises(ValueError, match="style should be one of paddle, jax, found 'torch'"):
        model.export(tmp_path / "m.py", style="torch")


def test_names_are_never_code(tmp_path: Path) -> None:
    """Names of files, feeds and parameters cannot end a string or fill a placeholder."""
    odd = '"]; raise SystemExit  # {0}<0>\n'
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), scope_guard(Scope()):
        x = static.data(f"x{odd}", [2, 3], "float32")
        out = x
        for at in range(2):
            out = nn.functional.relu(static.nn.fc(out, 3, weight_attr=f"{at}{odd}"))
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        static.save_inference_model(str(tmp_path / "m"), [x], [out], exe, program=main)
    with scope_guard(Scope()):
        model = paddle.import_model(tmp_path / "m")
        feed = {f"x{odd}": np.arange(6, dtype=np.float32).reshape(2, 3)}
        (wanted,) = model.run(feed)
        exported = model.export(tmp_path / '"""}{ title.py', style="jax")
        found = exported_outputs(exported, model, feed)
    assert found is not None
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)


_OF_NAN, _TOO_LARGE, _NO_ROW = "of nan", "numbers too large for the type", "rows that are not there"
OTHERWISE = {
    ("pd.argmax", 5): _OF_NAN,
    ("pd.argmin", 2): _OF_NAN,
    ("pd.cast", 3): _TOO_LARGE,
    ("pd.cast", 4): _TOO_LARGE,
    ("pd.cast", 5): _TOO_LARGE,
    ("pd.cast", 6): _TOO_LARGE,
    ("pd.digamma", 1): "its poles, which are nan in JAX",
    ("pd.elementwise_pow", 2): "negative powers of whole numbers",
    ("pd.embedding", 3): _NO_ROW,
    ("pd.gather", 5): _NO_ROW,
    ("pd.gcd", 0): "the smallest number, for which JAX's gcd does not end",
    ("pd.log_softmax", 2): "numbers below -64, which are -64 in Paddle",
    ("pd.relu", 1): _OF_NAN,
}
"""By op and sample, the numbers that functions of JAX compute otherwise than Paddle's."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted({*CALLS, *INFIX, *RULES}))
def test_every_sample(name: str) -> None:
    """JAX source gives the lowering's numbers for all samples, or has no readable form."""
    op_class = BY_NAME[f"pd.{name}"]
    for number, case in enumerate(SAMPLES[op_class]):
        if (op_class.name, number) in OTHERWISE or is_random(op_class, case):
            continue
        module = module_of([(op_class, case)])
        arrays = [np.asarray(array) for array in flat(case)]
        feeds = [port.name for port in signature_of(module).arguments]
        try:
            program = read_program(module, feeds, "jax")
        except UnsupportedError:
            continue
        names: dict[str, Any] = {"__name__": "script", "__file__": "script.py"}
        with jax.enable_x64(True), np.errstate(all="ignore"):
            exec(source_of(program, "sample", "sample.safetensors", "jax"), names)
            given = names["network"]({}, *map(jax.numpy.asarray, arrays))
            found = [np.asarray(each) for each in jax.tree.leaves(given)]
            wanted = [np.asarray(each) for each in rule_of(op_class, case)(*arrays)]
        found, wanted = _real(found), _real(wanted[: len(found)])
        check(found, wanted, [each.dtype for each in wanted])


def _real(arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Split complex arrays into their two parts."""
    pairs = ([each.real, each.imag] if each.dtype.kind == "c" else [each] for each in arrays)
    return [part for pair in pairs for part in pair]
