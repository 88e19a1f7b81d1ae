"""The command `graphopt`, called in this process: its output, its files and its errors."""

from __future__ import annotations

import io
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from graphopt import static
from graphopt.cli import start
from graphopt.cli.main import main
from graphopt.ir.formats import read_program, write_program
from graphopt.runtime.settings import progress

MODELS = Path(__file__).parents[1] / "data" / "models"
LENET, RESNET = MODELS / "infer_lenet", MODELS / "infer_resnet18"


@pytest.fixture(autouse=True)
def _fresh_scope(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a new scope, and show no progress line, however busy the machine is."""
    monkeypatch.setattr("graphopt.display.progress.AFTER", 600.0)
    with static.scope_guard(static.Scope()):
        yield


def graphopt(*args: object) -> tuple[int, str, str]:
    """Return exit status, stdout and stderr of one call."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main([str(arg) for arg in args])
        except SystemExit as error:
            status = int(error.code or 0)
    return status, out.getvalue(), err.getvalue()


def output(*args: object) -> str:
    """Return the stdout of a call that succeeds."""
    status, out, err = graphopt(*args)
    assert (status, err) == (0, ""), err or out
    return out


def error(*args: object) -> str:
    """Return the one-line message of a call that fails."""
    status, out, err = graphopt(*args)
    assert (status, out) == (1, ""), out
    assert err.startswith("graphopt: error: ") and err.count("\n") == 1, err
    return err


def test_help_and_version() -> None:
    """The help lists the commands, and each command's help shows an example."""
    assert output("--version").startswith("graphopt 0.")
    assert all(f"  {name} " in output("--help") for name in ("info", "run", "convert", "opt"))
    for command in ("info", "run", "convert"):
        assert f"example:\n  graphopt {command} " in output(command, "--help")
    assert "--build-strategy" in output("opt", "--help")
    assert graphopt()[0] == 2 and graphopt("fly")[0] == 2


@pytest.mark.smoke
def test_it_starts_without_jax() -> None:
    code = (
        "import sys; from graphopt.cli.main import main; "
        f"main(['info', {str(LENET / 'model')!r}]); print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("False\n")


def test_as_a_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m graphopt` starts the command."""
    monkeypatch.setattr(sys, "argv", ["graphopt", "--version"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("graphopt", run_name="__main__")
    assert capsys.readouterr().out.startswith("graphopt ")


def test_opt_is_graphopt_opt() -> None:
    assert "pd.conv2d" in output("opt", LENET / "model.pdmodel")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("rnu", "unknown command 'rnu'; did you mean run?"),
        ("explian", "unknown command 'explian'; did you mean explain?"),
        ("frobnicate", "unknown command 'frobnicate'; commands are info, run, explain, report"),
    ],
)
def test_no_such_command(command: str, words: str) -> None:
    """The message names the nearest command, or our counterpart of another tool's command."""
    status, _, error = graphopt(command, "x")
    assert (status, words in error) == (2, True), error


def test_a_missing_argument_is_one_line() -> None:
    """The message says what the argument is for, and lists no other arguments."""
    status, _, error = graphopt("convert", "model")
    assert (status, error.count("\n")) == (2, 1), error
    assert "required: -o/--output; -o OUT the file to write (.stablehlo.mlir," in error
    assert "see graphopt convert --help" in error
    for command in ("explain", "profile", "report"):  # the arguments of a script may be missing
        assert "SCRIPT.py (see graphopt" in graphopt(command)[2]


def test_a_page_of_a_script_without_programs(tmp_path: Path) -> None:
    script = tmp_path / "nothing.py"
    script.write_text("print(1)\n", "utf-8")
    status, _, error = graphopt("report", str(script), "-o", str(tmp_path / "page.html"))
    assert status == 1
    assert "nothing.py ended with exit status 0 and ran no program; run one" in error
    script.write_text("raise SystemExit(3)")
    status, _, error = graphopt("report", script)
    assert status != 0 and "nothing.py ended with exit status 3 before it ran a program" in error
    script.unlink()
    status, _, error = graphopt("report", script)
    assert status != 0 and error.splitlines() == [f"graphopt: error: script not found: {script}"]


def zipped(*names: str) -> bytes:
    """Build a zip file with members of these names."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    return held.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x08\x08\x12\x07pytorch\x1a\x051.0.0", "expected a graph, found none"),
        (b"PK\x03\x04\x14", "this is a damaged zip file"),
        (zipped("m/data.pkl", "m/version"), "this is a PyTorch checkpoint, which holds arrays"),
        (zipped("m/data.pkl", "m/code/a.py"), "this is a TorchScript model; export the model"),
        (zipped("x.npy"), "this is NumPy arrays (.npz), not a model; give the file to"),
        (zipped("config.json", "model.weights.h5"), "this is a Keras model; convert the model"),
        (zipped("a.txt"), "this is a zip file; unpack it first"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80", "this is a PyTorch checkpoint"),
        (b"\x80\x04}\x94.", "this is a pickle (.pdparams, .pdopt, paddle.save)"),
        (b"\x08\x01\x12\x02\x0a\x00", "this is a TensorFlow model; convert the model to ONNX"),
        (
            b"\x0a\x08\x0a\x01x\x12\x03Add",
            "this is a TensorFlow model; convert the model to ONNX",
        ),
        (b"\x1c\x00\x00\x00TFL3\x00", "this is a TensorFlow Lite model; convert the model"),
        (b"\x89HDF\r\n\x1a\n", "this is an HDF5 file, such as a Keras model"),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00{}..", "this is parameters as .safetensors"),
        (b"ML\xefR\x0dStableHLO", "this is MLIR bytecode, such as StableHLO"),
        (b"<net name='x'>\n", "this is an OpenVINO model"),
        (b'{"cells": [], "nbformat": 4}', "this is a notebook"),
        (b"import paddle\n", "this is a Python script, not a saved model; graphopt run SCRIPT"),
        (b"some words\n", "this is a text file, not a saved model; graphopt run SCRIPT.py"),
        (b"func.func @main() {\n}\n", "this is a program as text, which graphopt-opt reads"),
    ],
)
def test_files_of_another_kind(data: bytes, words: str, tmp_path: Path) -> None:
    """Each command that opens a model names the format of a file that it cannot read."""
    file = tmp_path / "model"
    file.write_bytes(data)
    for command in ("info", "run", *(["opt"] if b"func" not in data else [])):
        status, _, error = graphopt(command, file)
        assert (status, words in error) == (1, True), error


def test_other_kinds_than_arrays(tmp_path: Path) -> None:
    """The format is also named for parameters, inputs, replay files and folders."""
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08\x12\x07pytorch\x1a\x051.0.0")
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01\x12\x02\x0a\x00")
    model = LENET / "model.pdmodel"
    onnx = "this is an ONNX file, which is a model with its parameters"
    assert onnx in error("run", model, "--random", "--params", tmp_path / "m.onnx")
    assert onnx in error("run", model, "--input", tmp_path / "m.onnx")
    assert onnx in graphopt("replay", tmp_path / "m.onnx")[2]
    (tmp_path / "m.onnx").unlink()
    assert "this is a TensorFlow model" in error("info", tmp_path)


def test_an_onnx_file(tmp_path: Path) -> None:
    """Every command takes an ONNX file, also by its stem, or as the only model of a folder."""
    onnx = pytest.importorskip("onnx")
    values = [onnx.helper.make_tensor_value_info(n, 1, ["N", 3]) for n in "xy"]
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["h"]),
        onnx.helper.make_node("Neg", ["h"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets), tmp_path / "m.onnx")
    for model in (tmp_path / "m.onnx", tmp_path / "m", tmp_path):
        assert "ONNX, version opset 17, inference model" in output("info", model)
    assert "[2, 3]  float32" in output("run", tmp_path, "--random")
    assert "pd.relu(%x)" in output("opt", tmp_path / "m.onnx")
    assert "2 ops before" in output("explain", tmp_path / "m.onnx")
    made = tmp_path / "again.npz"
    assert "wrote" in output("convert", tmp_path / "m.onnx", "-o", made)
    refused = error("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.pdmodel")
    assert "the model has ONNX operators (onnx.Relu, onnx.Neg ...), but a .pdmodel" in refused


def test_what_can_be_onnx() -> None:
    """`info --can onnx` lists the operators without an ONNX form, or the command that converts."""
    pytest.importorskip("onnx_ir")
    shown = output("info", LENET / "model.pdmodel", "--can", "onnx")
    command = ["graphopt", "convert", str(LENET / "model.pdmodel"), "-o", "model.onnx"]
    assert shlex.split(shown.partition("ONNX: ")[2]) == command
    status, out, _ = graphopt("info", MODELS / "train_mlp_sgd/pdmodel/main", "--can", "onnx")
    assert status == 1 and "pd.sgd" in out and "ONNX has no equivalent operator" in out
    status, _, error = graphopt("opt", LENET / "model.pdmodel", "--emit", "onnx")
    assert status != 0 and "graphopt convert MODEL -o MODEL.onnx" in error


def test_info() -> None:
    out = output("info", LENET)
    assert "ProgramDesc, version 2.6.2, inference model" in out
    assert "10 with 8,042 elements, 32.2 kB" in out and "every operator is supported" in out
    about = json.loads(output("info", LENET, "--json"))
    assert about["inputs"] == [{"name": "x", "dtype": "float32", "shape": [-1, 1, 28, 28]}]
    assert about["operators"]["conv2d"] == 2 and about["unsupported"] == []


def test_info_of_what_cannot_be_run(tmp_path: Path) -> None:
    """`info` reports unknown operators and missing parameters, and does not fail."""
    program = read_program((LENET / "model.pdmodel").read_bytes())
    for op in program.global_block().ops:
        if op.type == "conv2d":
            op.type = "conv2dd"
    (tmp_path / "odd.pdmodel").write_bytes(write_program(program))
    out = output("info", tmp_path)
    assert "2 operators are not supported:" in out and "conv2d_0.tmp_0" in out
    assert "conv2dd: needs a row" in out and "similar operators: conv2d" in out
    assert "no parameters in the folder of the program" in out
    found = json.loads(output("info", tmp_path, "--json"))["unsupported"]
    assert (found[0]["block"], found[0]["output"]) == (0, "conv2d_0.tmp_0")
    shutil.copy(RESNET / "model.pdiparams", tmp_path / "odd.pdiparams")
    assert "expected float32" in output("info", tmp_path)
    given = ("--params", LENET / "model.pdiparams", "--input", LENET / "inputs.npz")
    assert "'conv2dd' has no translation; did you mean 'conv2d'?" in error("run", tmp_path, *given)


def test_info_of_other_programs() -> None:
    folder = MODELS / "train_mlp_sgd" / "pdmodel"
    assert "training program" in output("info", folder / "main")
    assert "startup program" in output("info", folder / "startup")
    out = output("info", MODELS / "fluid18_mnist_conv" / "model")
    assert "version 1.8.5" in out and "img" in out


def test_run(tmp_path: Path) -> None:
    """`run` prints a table of the outputs and a comparison, and writes the outputs to a file."""
    out = output(
        "run",
        RESNET / "model",
        "--input",
        RESNET / "inputs.npz",
        "--expect",
        RESNET / "outputs.npz",
        "--build-strategy",
        "fuse_bn_act_ops",
        "--explain",
        "--output",
        tmp_path / "out.npz",
    )
    assert "[2, 10]  float32" in out and " equal" in out
    # as it ran: the batch norms of a model that is not trained are part of the filters
    assert ", for cpu\n" in out and "\nfold-batch-norm " in out
    with np.load(tmp_path / "out.npz") as found, np.load(RESNET / "outputs.npz") as expected:
        (scores,) = found.values()
        np.testing.assert_allclose(scores, expected["out0"], rtol=1e-4, atol=1e-5)


def test_run_says_when_outputs_differ(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", out0=np.zeros((2, 10), "float32"))
    given = ("run", LENET / "model", "--input", LENET / "inputs.npz")
    status, out, _ = graphopt(*given, "--expect", tmp_path / "other.npz")
    assert status == 1 and "different" in out
    np.savez(tmp_path / "other.npz", out0=np.zeros((3, 10), "float32"))
    status, out, _ = graphopt(*given, "--expect", tmp_path / "other.npz")
    assert status == 1 and "expected float32 [3, 10]" in out


def test_run_made_up_inputs() -> None:
    """One seed gives the same random inputs, of the sizes that --dim sets."""
    first = output("run", LENET / "model", "--random", "--dim", "3")
    assert "random inputs: x [3, 1, 28, 28]" in first and "[3, 10]" in first
    assert output("run", LENET / "model", "--random", "--dim", "x=3x1x28x28") == first
    assert output("run", LENET / "model", "--random", "--dim", "3", "--seed", "1") != first


def test_run_explains_what_ran() -> None:
    """The compile time of --explain includes XLA's."""
    told = output("run", LENET / "model", "--random", "--explain")
    head = told.partition("flag or pass")[0]
    assert " ops before, " in head and ", for cpu\n" in head
    assert re.search(r"\ncompile time: .*, (XLA|load) [\d.]+\)\n", head)


def test_run_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 28, 28), "float32"))
    assert "[1, 10]" in output("run", LENET / "model", "--input", tmp_path / "x.npy")
    assert "[1, 10]" in output("run", LENET / "model", "--input", f"x={tmp_path / 'x.npy'}")


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    lenet = LENET / "model"
    (tmp_path / "text.npz").write_text("no numbers")
    (tmp_path / "folder").mkdir()
    assert "no model: looked for" in error("run", tmp_path / "none")
    assert ".onnx program; the folder is empty" in error("run", tmp_path / "folder")
    assert "--input FILE.npz, or --random" in error("run", lenet)
    assert "text.npz: not a readable" in error("run", lenet, "--input", tmp_path / "text.npz")
    assert "none.npz" in error("run", lenet, "--input", tmp_path / "none.npz")
    assert "no inputs are called 'out0'" in error("run", lenet, "--input", LENET / "outputs.npz")
    assert "expected a size" in error("run", lenet, "--random", "--dim", "x")
    assert "not both" in error("run", lenet, "--random", "--dim", "2", "--dim", "x=1")
    assert "the shape of input 'x' should fit" in error("run", lenet, "--random", "--dim", "x=2x2")
    assert "inputs are x" in error("run", lenet, "--random", "--dim", "y=2x2")
    assert "fuse_it" in error("run", lenet, "--random", "--build-strategy", "fuse_it")
    assert "unknown_dtype.pdmodel" in error("info", MODELS / "hostile" / "unknown_dtype.pdmodel")
    assert "suffixes" in error("convert", lenet, "-o", tmp_path / "m.tflite")
    assert "--dim" in error("convert", lenet, "-o", tmp_path / "m.stablehlo")
    assert not (tmp_path / "m.stablehlo").exists()


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("suffix", "options", "package"),
    [
        (".jaxexport", (), "flatbuffers"),
        (".stablehlo", ("--dim", "2"), ""),
        (".stablehlo.mlir", ("--dim", "x=2x1x28x28", "--build-strategy", "fuse_gemm_epilogue"), ""),
        (".mlir", ("--build-strategy", "fuse_gemm_epilogue"), ""),
        (".onnx", ("--build-strategy", "fuse_gemm_epilogue", "--opset", "21"), "onnxruntime"),
        (".pdmodel", (), ""),
        (".safetensors", (), "safetensors"),
        (".npz", (), ""),
    ],
)
def test_convert(suffix: str, options: tuple[str, ...], package: str, tmp_path: Path) -> None:
    """The converted file is checked, and its example runs, also in Python without graphopt."""
    if package:
        pytest.importorskip(package)
    target = tmp_path / "it's a folder" / f"m{suffix}"  # a shell has to be told
    target.parent.mkdir()
    out = output("convert", LENET / "model", "-o", target, *options)
    assert f"wrote {target} (" in out and "checked: the same" in out
    line = next(line for line in out.splitlines() if line.startswith("run it: "))
    program, *arguments = shlex.split(line.removeprefix("run it: "))
    if suffix.startswith(".stablehlo"):
        assert program == "iree-compile" and "--input=2x1x28x28xf32" in arguments
        if shutil.which(program):
            subprocess.run(line.removeprefix("run it: "), shell=True, check=True, cwd=tmp_path)
    elif program == "python":
        command = [sys.executable, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0 and done.stdout, done.stderr
    else:
        assert output(*({"graphopt": (), "graphopt-opt": ("opt",)}[program]), *arguments)


def test_convert_with_inputs_and_without_a_check(tmp_path: Path) -> None:
    target = tmp_path / "m.pdmodel"
    given = ("convert", LENET / "model", "-o", target)
    assert "checked" in output(*given, "--input", LENET / "inputs.npz")
    assert "checked" not in output(*given, "--no-check")


def test_run_a_script(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file that ends in .py is run as a script, with the arguments that follow it."""
    script = tmp_path / "train.py"
    script.write_text("import sys, paddle\nprint(paddle.__name__)\nsys.exit(int(sys.argv[2]))\n")
    assert start.main(["run", str(script), "--epochs", "3"]) == 3
    assert capfd.readouterr().out == "graphopt\n"


def test_explain(tmp_path: Path) -> None:
    """`explain` shows a model on one screen, by op or as JSON; of a script, all its programs."""
    flags = ("--build-strategy", "fuse_gemm_epilogue", "--platform", "none")
    told = output("explain", LENET / "model", *flags)
    assert re.search(r"^fuse_gemm_epilogue +\d of \d", told, re.MULTILINE), told
    assert "applied at pd." in output("explain", LENET / "model", *flags, "--of", "all")
    data = json.loads(output("explain", LENET / "model", "-p", "dce", "--json"))
    assert data["program"].endswith("model.pdmodel") and "added pass" in str(data)
    told = output("explain", RESNET / "model", "--dim", "2")
    assert "batch_norm" in told and "--build-strategy" in told.splitlines()[-1]
    script = tmp_path / "step.py"
    script.write_text(
        "import graphopt as paddle\n"
        "from graphopt import static\n"
        "x = static.data('x', [2, 3], 'float32')\n"
        "y = x + x\n"
        "main = static.CompiledProgram(static.default_main_program(), passes=['cse'])\n"
        "static.Executor().run(main, {'x': [[1.0] * 3] * 2}, [y])\n"
    )
    assert "program 1 of " in output("explain", script)
    told = output("explain", script, "--build-strategy", "fuse_gemm_epilogue")
    assert "fuse_gemm_epilogue" in told and "cse" in told
    assert "--platform does not apply to a script" in error("explain", script, "--platform", "gpu")
    flag = ("--build-strategy", "fuse_gemm_epilogue")
    page = ("-o", tmp_path / "page.html")
    assert "measures the programs of a script" in error("report", script, "--run", *flag, *page)


def test_explain_validates(tmp_path: Path) -> None:
    """A wrong rewrite of an imported pass is named, and the exit code is 1."""
    (tmp_path / "wrong.py").write_text(
        "from graphopt.ir.dialect.ops.activation import Relu, Tanh\n"
        "from graphopt.passes.engine.fusion import Fusion, FusionPass, Node, Value\n"
        "from graphopt.passes.table.registry import register_pass\n"
        "class Rule(Fusion):\n"
        "    x = Value()\n"
        "    root = Node(Tanh, x)\n"
        "    def build(self, match):\n"
        "        return Relu.make(match.value(self.x))\n"
        "@register_pass\n"
        "class Wrong(FusionPass):\n"
        "    name = 'wrong-tanh-of-a-test'\n"
        "    RULES = (Rule(),)\n"
    )
    program = tmp_path / "tanh.mlir"
    program.write_text(
        'func.func @main(feed %x: tensor<2xf32>) -> (fetch "y": tensor<2xf32>) {\n'
        "  %y = pd.tanh(%x)\n  func.return %y : tensor<2xf32>\n}\n"
    )
    given = ("explain", program, "--import", tmp_path / "wrong.py", "-p", "wrong-tanh-of-a-test")
    assert "wrong-tanh-of-a-test  1 of 1" in output(*given)
    status, told, _ = graphopt(*given, "--validate")
    assert status == 1 and "failed in wrong-tanh-of-a-test at pd.tanh %y" in told, told


@pytest.mark.parametrize(
    "command",
    (
        "import graphopt.cli.main as main; main.parser().format_help()",
        "import graphopt.launch as main; main.main(['--help'])",
        "import graphopt.conformance.__main__ as main; main.main(['--help'])",
    ),
)
def test_help_needs_no_xdsl(command: str) -> None:
    """Help is quick: no command imports NumPy, JAX or xDSL for it."""
    code = (
        "import sys, atexit; slow = {'numpy', 'jax', 'xdsl.ir', 'graphopt.ir', "
        "'graphopt.runtime.executor'}; "
        "atexit.register(lambda: print('imported:', *slow & {*sys.modules})); "
    )
    done = subprocess.run([sys.executable, "-c", code + command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("imported:\n"), done.stdout


def test_what_takes_long_is_announced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Slow commands announce their work; a quick command shows nothing."""
    said: list[str] = []

    @contextmanager
    def watched(describe: Callable[[], str], **_: object) -> Iterator[None]:
        said.append(describe())
        yield

    monkeypatch.setattr(progress, "progress", watched)
    output("convert", LENET / "model", "-o", tmp_path / "m.npz", "--no-check")
    output("report", LENET / "model", "-o", tmp_path / "page.html")
    output("explain", LENET / "model")
    begun = [" ".join(line.split()[:1]) for line in said]
    assert begun == ["writing", "explaining", "explaining"], said


@pytest.mark.exhaustive
def test_a_model_on_sequences(tmp_path: Path) -> None:
    """The lengths of the sequences are one more input, for `explain`, `run` and `convert`."""
    model = MODELS / "fluid18_text_lod_conv" / "model"
    assert "every operator is supported" in output("info", model)
    assert "in all" in output("explain", model)
    dims = "--dim", "words=8x1", "--dim", "words@lens=3"
    assert "words@lens [3]" in output("run", model, "--random", *dims)
    assert "checked: the same outputs" in output("convert", model, "-o", tmp_path / "m.mlir")
