"""Exported models give Paddle's recorded outputs, in this process and in others.

All models of a corpus do, if one is given (see model_files.py); most of them are slow tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.lowering.stablehlo import to_stablehlo
from graphopt.models.export import Exported, check
from graphopt.models.export.npz_file import write_npz
from graphopt_tests.runtime.nets import strategy
from graphopt_tests.runtime.test_models import CASES, recorded

# Their sizes, or the loops that they grow in, depend on data, so they are no single XLA program.
DATA_SIZED = {
    "infer_collect_in_branch",
    "infer_decode_array",
    "infer_decode_beam",
    "infer_decode_break",
    "infer_decode_cache",
    "infer_decode_greedy",
    "infer_static_attr_types",
}
QUICK = {
    "fluid18_word2vec_combined",
    "infer_bert_mini",
    "infer_dtype_zoo",
    "infer_lenet",
    "infer_loop_if",
    "infer_static_attr_types",
}
MODELS = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES]
WHOLE = [p for p in MODELS if CASES[str(p.values[0])].case.name not in DATA_SIZED]


def load(name: str) -> paddle.ImportedModel:
    saved = CASES[name]
    params = None if saved.params is None else saved.case / saved.params
    return paddle.import_model(saved.case / saved.model, params)


def shapes(feed: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in feed.items()}


def check_outputs(exported: Exported, model: paddle.ImportedModel, run: Any) -> None:
    feeds, outputs = run
    found = check.exported_outputs(exported, model, feeds)
    assert found is not None and len(found) == len(outputs)
    for name, new, old in zip(model.fetch_names, found, outputs, strict=True):
        # of an assigned array of float64 Paddle 2.6, which recorded these, makes a float32
        declared = model.program.global_block().var(name).dtype.numpy
        assert new.shape == old.shape and new.dtype in (old.dtype, declared)
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", MODELS)
def test_saved_again(name: str, tmp_path: Path) -> None:
    """A `.pdmodel` that is saved again does not grow."""
    model = load(name)
    exported = model.export(tmp_path / "again.pdmodel")
    for run in recorded(CASES[name]):
        check_outputs(exported, model, run)
    with static.scope_guard(static.Scope()):
        again = paddle.import_model(exported.path)
    (tmp_path / "second.pdiparams").write_bytes(b"of another model")
    second = again.export(tmp_path / "second.pdmodel")
    assert (tmp_path / "second.pdiparams").exists() == bool(model.parameters)
    assert second.path.read_bytes() == exported.path.read_bytes()


@pytest.mark.every(3)
@pytest.mark.parametrize("name", MODELS)
def test_jax_artifact(name: str, tmp_path: Path) -> None:
    """One artifact with all fusions, for three platforms, runs every batch if its size may vary."""
    pytest.importorskip("flatbuffers")
    model, runs = load(name), recorded(CASES[name])
    sizes = shapes(runs[0][0])
    fused = strategy(fuse_bn_act_ops=True, fuse_gemm_epilogue=True, fuse_elewise_add_act_ops=True)
    if CASES[name].case.name in DATA_SIZED:
        with pytest.raises(UnsupportedError, match=r"depends on data.*while computing %\w+"):
            model.export(tmp_path / "m.jaxexport", sizes=sizes)
        return
    exported = model.export(tmp_path / "m.jaxexport", build_strategy=fused, sizes=sizes)
    about = json.loads((tmp_path / "m.jaxexport.json").read_text())
    assert about["platforms"] == ["cpu", "cuda", "tpu"]
    assert [entry["name"] for entry in about["arguments"]] == model.feed_names
    assert [entry["name"] for entry in about["results"]] == model.fetch_names
    varies = any(isinstance(dim, str) for e in about["arguments"] for dim in e["shape"])
    for run in runs if varies else runs[:1]:
        check_outputs(exported, model, run)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", WHOLE)
def test_stablehlo_bytecode(name: str, tmp_path: Path) -> None:
    model, run = load(name), recorded(CASES[name])[0]
    exported = model.export(tmp_path / "m.stablehlo", sizes=shapes(run[0]))
    check_outputs(exported, model, run)


@pytest.mark.every(5)
@pytest.mark.parametrize("name", ["infer_lenet", "infer_loop_if", "infer_bert_mini"])
@pytest.mark.parametrize("suffix", [".stablehlo.mlir", ".mlir"])
def test_text_forms(name: str, suffix: str, tmp_path: Path) -> None:
    """The texts of the optimized module and of StableHLO are read back."""
    model, run = load(name), recorded(CASES[name])[0]
    options: Any = {"sizes": shapes(run[0])} if suffix == ".stablehlo.mlir" else {}
    fused = strategy(fuse_gemm_epilogue=True)
    exported = model.export(tmp_path / f"m{suffix}", build_strategy=fused, **options)
    check_outputs(exported, model, run)
    if suffix == ".mlir":
        assert "pd.fused_gemm_epilogue" in exported.path.read_text()


ALONE = """
import sys
import numpy as np
import jax
{load}
inputs = np.load({inputs!r})
expected = np.load({outputs!r})["out0"]
found = np.asarray({call})
np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
assert found.shape == expected.shape and found.dtype == expected.dtype
assert "graphopt" not in sys.modules and "xdsl" not in sys.modules
print("ok")
"""
ARTIFACT = """
from jax import export
f = export.deserialize(bytearray(open({path!r}, "rb").read()))
"""
STABLEHLO = """
from jax.extend.backend import get_backend
from jaxlib.xla_client import CompileOptions, DeviceList
client = get_backend("cpu")
devices = DeviceList(tuple(client.local_devices()[:1]))
f = client.compile_and_load(open({path!r}, "rb").read(), devices, CompileOptions())
"""


def run_alone(code: str, folder: Path) -> str:
    """Run code that uses only JAX and NumPy in a new process; return its output."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "suffix", [".jaxexport", pytest.param(".stablehlo", marks=pytest.mark.exhaustive)]
)
def test_in_a_process_without_graphopt(suffix: str, tmp_path: Path) -> None:
    if suffix == ".jaxexport":
        pytest.importorskip("flatbuffers")
    saved = CASES["infer_resnet18"]
    case, (feed, _) = saved.case, recorded(saved)[0]
    sizes = None if suffix == ".jaxexport" else shapes(feed)
    exported = load("infer_resnet18").export(tmp_path / f"resnet18{suffix}", sizes=sizes)
    call = {
        ".jaxexport": "f.call(inputs['x'])[0]",
        ".stablehlo": "f.execute_sharded([jax.device_put(inputs['x'])])"
        ".disassemble_into_single_device_arrays()[0][0]",
    }[suffix]
    code = ALONE.format(
        load=(ARTIFACT if suffix == ".jaxexport" else STABLEHLO).format(path=str(exported.path)),
        inputs=str(case / "inputs.npz"),
        outputs=str(case / "outputs.npz"),
        call=call,
    )
    assert run_alone(code, tmp_path) == "ok\n"


@pytest.mark.exhaustive
def test_64_bit_inputs_without_graphopt(tmp_path: Path) -> None:
    """JAX narrows int64 by default, and the artifact then refuses the call."""
    pytest.importorskip("flatbuffers")
    case = CASES["infer_bert_mini"].case
    exported = load("infer_bert_mini").export(tmp_path / "bert.jaxexport")
    names = [port.name for port in exported.function.feeds] if exported.function else []
    code = ALONE.format(
        load=ARTIFACT.format(path=str(exported.path))
        + "try:\n    f.call(*[np.zeros((2, 2), 'int64')] * 2)\n    print('called')\n"
        "except ValueError as error:\n    assert 'expected int64' in str(error), error\n"
        'jax.config.update("jax_enable_x64", True)\n',
        inputs=str(case / "inputs.npz"),
        outputs=str(case / "outputs.npz"),
        call=f"f.call(*[inputs[n] for n in {names}])[0]",
    )
    assert run_alone(code, tmp_path) == "ok\n"


def small_step(*, dropout: bool = False) -> static.Program:
    """Build a training program whose parameters have values."""
    x, y = static.data("x", [None, 4], "float32"), static.data("y", [None, 1], "float32")
    hidden = static.nn.fc(x, 8, activation="relu")
    if dropout:
        hidden = paddle.nn.functional.dropout(hidden, 0.5)
    loss = paddle.mean(paddle.nn.functional.square_error_cost(static.nn.fc(hidden, 1), y))
    paddle.optimizer.Adam(learning_rate=0.05).minimize(loss)
    static.Executor(paddle.CPUPlace()).run(static.default_startup_program())
    return static.default_main_program()


@pytest.mark.exhaustive
@pytest.mark.parametrize("dropout", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_a_training_step(tmp_path: Path, *, dropout: bool) -> None:
    """JAX alone runs three steps: state in, state out, in the described order."""
    pytest.importorskip("flatbuffers")
    with static.program_guard(static.Program(), static.Program()):
        static.save(small_step(dropout=dropout), str(tmp_path / "m"))
    model = paddle.import_model(tmp_path / "m")
    exported = model.export(tmp_path / "step.jaxexport")
    about = json.loads((tmp_path / "step.jaxexport.json").read_text())
    roles = [entry["role"] for entry in about["arguments"]]
    assert roles.count("key") == dropout and roles.count("input") == 2
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((8, 4)).astype("float32")
    feed = {"x": rows, "y": rows.sum(axis=1, keepdims=True)}
    with np.load(tmp_path / about["state"]) as saved:
        state = [saved[e["name"]] for e in about["arguments"] if e["role"] == "state"]
    updated = sum(entry["role"] == "state" for entry in about["results"])
    losses: list[float] = []
    for step in range(3):
        key = [np.array([0, step + 1], np.uint32)] if dropout else []
        results = check.call_artifact(exported.path, [*state, *feed.values(), *key])
        state[:updated] = results[:updated]
        losses.append(float(results[updated]))
    paddle.seed(0)
    expected = [float(model.run(feed)[0]) for _ in range(3)]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for entry, array in zip(about["arguments"], state, strict=False):
        slot = model.scope.find_var(entry["name"])
        assert slot is not None
        np.testing.assert_allclose(array, slot.numpy(), rtol=1e-4, atol=1e-6)


def test_a_training_program_as_a_model(tmp_path: Path) -> None:
    """`.pdmodel` has its forward part; its state cannot be inside a function."""
    with static.program_guard(static.Program(), static.Program()):
        static.save(small_step(), str(tmp_path / "m"))
    model = paddle.import_model(tmp_path / "m")
    exported = model.export(tmp_path / "forward.pdmodel")
    again = paddle.import_model(exported.path)
    assert len(again.parameters) == 4 and len(model.parameters) == 21
    feed = {"x": np.ones((2, 4), "float32"), "y": np.ones((2, 1), "float32")}
    assert check.exported_outputs(exported, model, feed) == check.model_outputs(model, feed)
    with pytest.raises(UnsupportedError, match="updates 20 variables"):
        model.export(tmp_path / "m.stablehlo", parameters="inside")


def test_parameters_as_arguments(tmp_path: Path) -> None:
    """The values are stored next to the function, which is small."""
    model, run = load("infer_lenet"), recorded(CASES["infer_lenet"])[0]
    sizes = shapes(run[0])
    inside = model.export(tmp_path / "a.stablehlo", sizes=sizes)
    outside = model.export(tmp_path / "b.stablehlo", sizes=sizes, parameters="arguments")
    assert outside.path.stat().st_size < inside.path.stat().st_size / 2
    check_outputs(outside, model, run)


@pytest.mark.exhaustive
def test_sizes_that_cannot_stay_open(tmp_path: Path) -> None:
    """The note names the op; sizes can be given, and XLA needs them in any case."""
    pytest.importorskip("flatbuffers")
    model, run = load("infer_transformer_encoder"), recorded(CASES["infer_transformer_encoder"])[0]
    with pytest.raises(UnsupportedError, match=r"cannot stay open.*while computing %\w+ = pd\.add"):
        model.export(tmp_path / "m.jaxexport")
    exported = model.export(tmp_path / "m.jaxexport", sizes=shapes(run[0]))
    assert "pd.add" in exported.notes[0] and "equal as given may vary" in exported.notes[-1]
    with pytest.raises(ValueError, match="'src', 'mask' have open sizes; set the sizes"):
        model.export(tmp_path / "m.stablehlo")
    with pytest.raises(ValueError, match=r"the shape of input 'src' should be \[-1, -1, 32\]"):
        model.export(tmp_path / "m.stablehlo", sizes={"src": (1, 2)})


def test_options_that_a_format_has_not(tmp_path: Path) -> None:
    model = load("infer_lenet")
    with pytest.raises(ValueError, match="would be a bundle, which `graphopt compile` writes"):
        model.export(tmp_path / "m.graphopt")
    with pytest.raises(ValueError, match=r"none of the suffixes .*\.jaxexport"):
        model.export(tmp_path / "m.tflite")
    with pytest.raises(ValueError, match=r"format should be one of .*, found 'tflite'"):
        model.export(tmp_path / "m", "tflite")
    with pytest.raises(ValueError, match="ignores build_strategy"):
        model.export(tmp_path / "m.pdmodel", build_strategy=static.BuildStrategy())
    with pytest.raises(ValueError, match="the format npz does not take sizes"):
        model.export(tmp_path / "m.npz", sizes=2)
    with pytest.raises(ValueError, match="expected one of inside, arguments"):
        model.export(tmp_path / "m.stablehlo", sizes=2, parameters="outside")
    with pytest.raises(ValueError, match="one platform"):
        model.export(tmp_path / "m.stablehlo", sizes=2, platforms=("cpu", "tpu"))
    assert not list(tmp_path.iterdir())


def test_arrays_of_every_kind(tmp_path: Path) -> None:
    """Names may have slashes; arrays may be scalar, empty, bool, bfloat16 or transposed."""
    import ml_dtypes

    arrays: dict[str, Any] = {
        "a/b": np.ones((2, 3), ml_dtypes.bfloat16),
        "file": np.full((), 3, "float32"),
        "flags": np.array([True, False]),
        "none": np.zeros((0, 3)),
        "turned": np.arange(6).reshape(2, 3).T,
    }
    write_npz(tmp_path / "a.npz", arrays)
    with np.load(tmp_path / "a.npz") as found:
        assert found["a/b"].dtype == np.uint16
        for name in set(arrays) - {"a/b"}:
            np.testing.assert_array_equal(found[name], arrays[name], strict=True)
    pytest.importorskip("safetensors")
    from graphopt.models.export.safetensors_file import read_safetensors, write_safetensors

    write_safetensors(tmp_path / "a.safetensors", arrays)
    found = read_safetensors(tmp_path / "a.safetensors")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    with pytest.raises(UnsupportedError, match="'c' is complex128"):
        write_safetensors(tmp_path / "c.safetensors", {"c": np.zeros(1, np.complex128)})


_SCRIPT = """
import graphopt as paddle
from graphopt import static

main, startup = static.Program(), static.Program()
with static.program_guard(main, startup), paddle.utils.unique_name.guard():
    x = static.data("x", [2, 3], "float32")
    w = static.create_global_var([3, 2], 0.5, "float32", persistable=True, name="w")
    y = paddle.tanh(paddle.matmul(x, w))
static.Executor(paddle.CPUPlace()).run(startup)
"""


def test_what_is_written_does_not_say_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One script in two folders writes the same bytes, with lines and without paths."""
    written: list[dict[str, bytes]] = []
    for folder in (tmp_path / "here", tmp_path / "elsewhere" / "deep"):
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder)
        script = str(folder / "train.py")
        monkeypatch.setattr(sys.modules["__main__"], "__file__", script, raising=False)
        names: dict[str, Any] = {}
        exec(compile(_SCRIPT, script, "exec"), names)
        module = parse_program(names["main"], ["x"], [names["y"].name])
        static.save(names["main"], str(folder / "m"))
        text = to_stablehlo(module)
        assert "pd.tanh at train.py:9" in text
        with static.program_guard(names["main"]):
            static.save_inference_model(str(folder / "i"), [names["x"]], [names["y"]], None)
        model = paddle.import_model(folder / "i")
        for suffix in (".stablehlo.mlir", ".stablehlo", ".jaxexport", ".mlir"):
            model.export(folder / f"m{suffix}")
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        written.append({**files, "text": text.encode()})
    assert written[0] == written[1]
    for name, data in written[0].items():
        assert b"/here" not in data and b"site-packages" not in data, name
        assert str(Path(paddle.__file__).parent).encode() not in data, name
