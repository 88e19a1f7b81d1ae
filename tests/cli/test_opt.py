"""graphopt-opt: the RUN lines of `tests/cli/filecheck`, model files, errors; all in this process.

A RUN line is a pipe of `graphopt-opt` and `filecheck` commands, `%s` being the file itself.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

from graphopt.cli import targets
from graphopt.cli.opt import main
from graphopt.passes.table import registry

HERE = Path(__file__).parent
RUNS = [
    (file, line.partition("RUN:")[2].strip())
    for file in sorted((HERE / "filecheck").glob("*.mlir"))
    for line in file.read_text("utf-8").splitlines()
    if "RUN:" in line
]
MODELS = HERE.parent / "data" / "models"


def opt(*args: str, stdin: str = "") -> tuple[int, str, str]:
    """Return exit status, stdout and stderr of one call."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), _stdin(stdin):
        status = main([arg for arg in args if arg != "-"])
    return status, out.getvalue(), err.getvalue()


@contextmanager
def _stdin(text: str) -> Iterator[None]:
    saved = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    try:
        yield
    finally:
        sys.stdin = saved


def check(text: str, args: list[str]) -> str:
    """Return filecheck's message about `text`, empty when the checks pass."""
    options = parse_argv_options(["filecheck", *args])
    matcher = Matcher(options, FInput("<stdin>", text), Parser.from_opts(options))
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        matcher.stderr = out
        status = matcher.run()
    return "" if status == 0 else out.getvalue() + text


@pytest.mark.parametrize(("file", "run"), RUNS, ids=lambda v: getattr(v, "stem", v))
def test_run_line(file: Path, run: str) -> None:
    """Each RUN line of each file succeeds."""
    text = ""
    for command in run.split(" | "):
        tool, *args = shlex.split(command.replace("%s", shlex.quote(str(file))))
        if tool == "filecheck":
            assert check(text, args) == ""
        else:
            status, text, err = opt(*args, stdin=text)
            assert status == 0, err


@pytest.mark.smoke
def test_model_file_with_build_strategy() -> None:
    """In a saved ResNet, each batch_norm that a relu follows is fused."""
    model = str(MODELS / "infer_resnet18" / "model.pdmodel")
    _, plain, _ = opt(model)
    assert (plain.count("pd.batch_norm("), plain.count("pd.relu(")) == (20, 17)
    strategy = "fuse_bn_act_ops=1,fuse_bn_add_act_ops=0"
    portable = ("--platform", "none", "--build-strategy")
    status, fused, err = opt(model, *portable, strategy, "--emit", "mlir", "--explain")
    assert status == 0
    assert fused.count("pd.fused_batch_norm_act(") == 9
    # the other eight activations follow the add of a residual block
    assert (fused.count("pd.batch_norm("), fused.count("pd.relu(")) == (11, 8)
    assert re.search(r"^fuse_bn_act_ops +9 of ", err, re.MULTILINE)
    _, everything, _ = opt(model, *portable, "fuse_bn_act_ops")
    assert everything.count("pd.fused_bn_add_activation(") == 8
    assert "pd.relu(" not in everything


def test_strategy_names_its_passes() -> None:
    """`--dump-pass-pipeline` prints a pipeline that `-p` accepts."""
    model = str(MODELS / "infer_lenet" / "model.pdmodel")
    flags = "fuse_gemm_epilogue=1,fuse_bn_add_act_ops=0"
    given = [model, "--build-strategy", flags, "--dump-pass-pipeline"]
    status, by_flag, err = opt(*given, "--platform", "none")
    first = "fold-identity,drop-dropout,fold-constants,settle-shapes,einsum-to-matmul,simplify"
    assert (status, err) == (0, f"{first},recognise-gelu,fuse-gemm-epilogue,cse\n")
    assert opt(model, "-p", err.strip() + ",dce")[1] == by_flag
    status, by_flag, err = opt(*given)
    assert (status, err.split(",")[-1]) == (0, "fence-casts\n")  # as programs run here
    assert opt(model, "-p", err.strip() + ",dce")[1] == by_flag


@pytest.mark.exhaustive
def test_the_platform_of_the_passes() -> None:
    """The report names its platform; a program without a strategy has passes, too."""
    model = str(MODELS / "infer_resnet18" / "model.pdmodel")
    _, plain, err = opt(model, "--explain")
    assert "after, for cpu\n" in err and re.search(r"^fold-batch-norm +20 of ", err, re.MULTILINE)
    assert "pd.batch_norm(" not in plain
    _, portable, err = opt(model, "--platform", "none", "--explain")
    assert "after, for any platform (portable" in err
    assert portable == opt(model, "-p", "dce")[1]
    for platform, word in (("tpu", "tpu"), ("none", None)):
        given = ("--platform", platform, "--explain", "--explain-format", "json")
        assert json.loads(opt(model, *given)[2])["platform"] == word


def test_a_program_of_paddle_3_is_read() -> None:
    """Both formats of one network give the same ops."""
    files = (MODELS / "infer_lenet" / name for name in ("model.pdmodel", "model.json"))
    old, new = (opt(str(file), "-p", "fold-identity,dce") for file in files)
    assert (old[0], new[0], new[2]) == (0, 0, "")
    ops = ["pd.conv2d(", "pd.pool2d(", "pd.matmul(", "pd.flatten(", "pd.relu("]
    assert [new[1].count(op) for op in ops] == [old[1].count(op) for op in ops]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--build-strategy", "fuse_bn_act=1"], "has no attribute 'fuse_bn_act'"),
        (["--build-strategy", "fuse_bn_act_ops=maybe"], "incompatible function arguments"),
        (["--build-strategy", "memory_optimize=2"], "must be set to None, False or True"),
        (["-p", "no-such-pass"], "no-such-pass"),
        (["--emit", "dot", "no-such-file.mlir"], "no-such-file.mlir"),
    ],
)
def test_errors_are_one_line(args: list[str], text: str) -> None:
    """A wrong call ends with status 1 and a message of one line."""
    model = str(MODELS / "infer_lenet" / "model.pdmodel")
    given = args if any(arg.endswith(".mlir") for arg in args) else [model, *args]
    status, out, err = opt(*given)
    assert (status, out) == (1, "")
    assert err.startswith("graphopt-opt: error: ")
    assert text in err
    assert err.count("\n") == 1


def test_a_truncated_model_is_refused(tmp_path: Path) -> None:
    """The message names the damaged file."""
    whole = (MODELS / "infer_lenet" / "model.pdmodel").read_bytes()
    cut = tmp_path / "cut.pdmodel"
    cut.write_bytes(whole[: len(whole) // 2])
    status, out, err = opt(str(cut))
    assert (status, out) == (1, "")
    assert "cut.pdmodel" in err


def test_stablehlo_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """StableHLO has locations only on request; on a terminal, open sizes give a hint."""
    program = """
    func.func @main(feed %x: tensor<?x4xf32>) -> (fetch "y": tensor<?x4xf32>) {
      %y = pd.sigmoid(%x)
      func.return %y : tensor<?x4xf32>
    }
    """
    status, text, err = opt("--emit", "stablehlo{dim=8}", stdin=program)
    assert (status, "loc" in text, err) == (0, False, "") and "tensor<8x4xf32>" in text
    for is_person in (False, True):
        monkeypatch.setattr(targets, "is_terminal", lambda _, is_person=is_person: is_person)
        status, located, err = opt("--emit", "stablehlo", "--print-debuginfo", stdin=program)
        assert status == 0 and "#loc" in located
        assert ("'stablehlo{dim=8}'" in err) == is_person


PLUGIN = """
from graphopt.ir.dialect.ops.activation import Tanh
from graphopt.ir.dialect.ops.shape import Assign
from graphopt.passes.engine.fusion import Fusion, FusionPass, Node, Value
from graphopt.passes.table.registry import register_pass

class Rule(Fusion):
    x = Value()
    root = Node(Tanh, x)

    def build(self, match):
        return Assign.make(match.value(self.x))

@register_pass
class Plugin(FusionPass):
    name = "drop-tanh-of-a-test"
    RULES = (Rule(),)
"""
TANH = """func.func @main(feed %x: tensor<2xf32>) -> (fetch "y": tensor<2xf32>) {
  %y = pd.tanh(%x)
  func.return %y : tensor<2xf32>
}
"""


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unregister passes that the test registers, and keep crash files in its folder."""
    monkeypatch.setenv("GRAPHOPT_CRASH_DIR", str(tmp_path))
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def imported(tmp_path: Path, name: str, text: str, *args: str) -> tuple[int, str, str]:
    """Run graphopt-opt on a program with `--import` of a file of this text."""
    (tmp_path / "program.mlir").write_text(TANH, "utf-8")
    (tmp_path / name).write_text(text, "utf-8")
    return opt(str(tmp_path / "program.mlir"), "--import", str(tmp_path / name), *args)


@pytest.mark.usefixtures("forgotten")
def test_a_pass_of_a_file_by_its_own_option(tmp_path: Path) -> None:
    """`--NAME` equals `-p NAME` for a pass from `--import`; misspelt names get a hint."""
    status, out, err = imported(tmp_path, "plugin.py", PLUGIN, "--drop-tanh-of-a-test")
    assert (status, err) == (0, "") and "pd.tanh" not in out
    _, _, err = imported(tmp_path, "plugin.py", PLUGIN, "--drop-tan-of-a-test")
    assert "did you mean drop-tanh-of-a-test?" in err
    _, _, err = imported(tmp_path, "plugin.py", PLUGIN, "--explian")
    assert "did you mean --explain?" in err


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("(Rule(),)", "(Rule,)", "Plugin.RULES should be a tuple such as (Rule(),)"),
        ("(Rule(),)", "Rule()", "Plugin.RULES should be a tuple such as (Rule(),)"),
        ("    root = ", "    last = ", "Rule needs `root`, the Node that is replaced"),
        ("self.x)", "self.y)", "'Rule' object has no attribute 'y' [at "),
    ],
    ids=["a class", "no tuple", "no root", "an error inside"],
)
def test_mistakes_in_a_pass(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    """The message says what to write, or names the failing line and the replay command."""
    text = PLUGIN.replace(right, wrong)
    status, _, err = imported(tmp_path, "wrong.py", text, "--drop-tanh-of-a-test")
    assert status == 1 and message in err, err
    if "[at " in message:
        assert "wrong.py:12]" in err and err.endswith(f" --import {tmp_path / 'wrong.py'}\n"), err
