"""graphopt-opt takes the command lines that people type for mlir-opt."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from graphopt.cli.completion import commands
from graphopt.cli.main import main as graphopt
from graphopt.cli.main import parser
from graphopt.cli.opt import main
from graphopt.cli.pass_summaries import list_passes, summaries
from graphopt.passes.table import registry
from graphopt.passes.table.registry import all_passes

MODEL = Path(__file__).parents[1] / "data" / "models" / "infer_lenet" / "model.pdmodel"
TEXT = """
func.func @main(
  feed %x: tensor<?x4xf32>, feed %y: tensor<?x4xf32>
) -> (fetch "z": tensor<?x4xf32>) {
  %a = pd.add(%x, %y)
  %b = pd.add(%x, %y)
  %z = pd.relu(%a)
  func.return %z : tensor<?x4xf32>
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Write a program that `fuse-elewise-add-act` and `cse` change."""
    path = tmp_path / "program.mlir"
    path.write_text(TEXT, "utf-8")
    return str(path)


def opt(*args: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """Return exit status, stdout and stderr of one call."""
    out, err, saved = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            status = main(args)
    finally:
        sys.stdin = saved
    return status, out.getvalue(), err.getvalue()


def test_passes_are_options(file: str) -> None:
    """Passes are options of one dash or two, in their order, or a `--pass-pipeline`."""
    wanted = opt(file, "-p", "cse,fuse-elewise-add-act")
    assert wanted[0] == 0 and "fused_elemwise" in wanted[1]
    assert opt(file, "--cse", "--fuse-elewise-add-act") == wanted
    assert opt(file, "-cse", "-fuse-elewise-add-act") == wanted
    assert opt(file, "--pass-pipeline=builtin.module(cse,fuse-elewise-add-act)") == wanted
    assert opt(file, "--roll-layers=fewest=3")[0] == 0


@pytest.mark.parametrize("asked", [["--build-strategy", "fuse_elewise_add_act_ops"], ["-p", "cse"]])
def test_the_ir_around_passes(asked: list[str], file: str) -> None:
    """The IR is dumped for passes of a strategy and of -p, to stderr; stdout keeps the program."""
    plain = opt(file, *asked)
    every = opt(file, *asked, "-mlir-print-ir-after-all")
    changed = opt(file, *asked, "--mlir-print-ir-after-change")
    assert plain[:2] == every[:2] == changed[:2]
    assert plain[2] == ""
    assert 1 <= changed[2].count("IR Dump After") <= every[2].count("IR Dump After")
    assert opt(file, *asked, "--print-between-passes")[2] == every[2]
    one = opt(file, *asked, "--mlir-print-ir-before=cse")[2]
    assert one.startswith("// -----// IR Dump Before cse //----- //\nbuiltin.module {")
    assert one.count("IR Dump") == 1


def test_timing(file: str) -> None:
    """Each pass has a row in the report; reading and writing have theirs."""
    status, _, report = opt(file, "--build-strategy", "fuse_elewise_add_act_ops", "-mlir-timing")
    assert status == 0
    assert "... Execution time report ..." in report
    rows = [line.rpartition("  ")[2] for line in report.splitlines() if "%)" in line]
    assert rows[0] == "Parser" and rows[-3:] == ["Output", "Rest", "Total"]
    assert any("fuse-elewise-add-act" in row for row in rows)


def test_stdin_is_told_by_its_content() -> None:
    """Stdin (`-` or no file) may hold text, a ProgramDesc or JSON."""
    by_name = opt(str(MODEL))
    assert opt("-", stdin=MODEL.read_bytes()) == by_name
    assert opt(stdin=MODEL.with_suffix(".json").read_bytes())[0] == 0
    assert opt("-", "-cse", stdin=TEXT.encode())[0] == 0


def test_an_error_leaves_the_output_alone(tmp_path: Path, file: str) -> None:
    """The output file is written only on success; it may be the input file."""
    out = tmp_path / "out.mlir"
    out.write_text("old", "utf-8")
    assert opt(file, "-p", "cse", "-emit=stablehlo{dim=x}", "-o", str(out))[0] == 1
    assert out.read_text("utf-8") == "old"
    assert opt(file, "-p", "cse", "-o", file)[:2] == (0, "")
    assert Path(file).read_text("utf-8").count("pd.add(") == 1


ERRORS = """
func.func @main(feed %x: tensor<2x4xf32>) -> (fetch "y": tensor<2x4xf32>) {
  // expected-error@+1 {{has no attribute 'axes'}}
  %y = pd.softmax(%x) {axes = 1}
  func.return %y : tensor<2x4xf32>
}
// -----
// expected-error@unknown {{declares the result type}}
func.func @main(feed %x: tensor<2x4xf32>) -> (fetch "y": tensor<2x4xf64>) {
  %y = pd.relu(%x) : (tensor<2x4xf32>) -> tensor<2x4xf64>
  func.return %y : tensor<2x4xf64>
}
"""


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("", "", ""),
        ("'axes'}}", "'axis'}}", "\"has no attribute 'axis'\" was not produced, but this was: "),
        ("@+1", "@+2", "is at line 4, expected at line 5"),
        ("{axes = 1}", "", "was not produced"),
    ],
)
def test_expected_errors(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    """The expected-error comments have to match, in each chunk."""
    path = tmp_path / "errors.mlir"
    path.write_text(ERRORS.replace(old, new) if old else ERRORS, "utf-8")
    status, _, err = opt(str(path), "-split-input-file", "-verify-diagnostics")
    assert status == (1 if sentence else 0)
    assert sentence in err


@pytest.mark.parametrize(
    ("arg", "hint"),
    [
        ("--fuse-bn-ct", "did you mean --fuse-bn-act?"),
        ("--pass-pipeline=csee", "did you mean cse?"),
        ("--emit=dott", "did you mean dot?"),
    ],
)
def test_misspelt(arg: str, hint: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message suggests the nearest name."""
    try:
        status = main([file, arg])
    except SystemExit as error:
        status = int(str(error.code))
    assert status != 0
    assert hint in capsys.readouterr().err


def test_every_pass_has_a_line() -> None:
    """`--help` describes each pass in one sentence."""
    found = {name: words for room in summaries().values() for name, words in room.items()}
    assert set(found) >= set(all_passes()) - set(registry._registered)
    assert [name for name, words in found.items() if not words] == []


def test_passes_of_other_packages_have_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Passes of a package are listed under its name; a failed import is explained."""
    (info := tmp_path / "my_passes-1.0.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-passes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[graphopt.passes]\nmine = my_passes:Mine\ngone = my_passes:Gone\n"
    )
    source = 'raise OSError("no such device")\n\n\nclass Mine:\n    """Do it\n    well."""\n\n'
    (tmp_path / "my_passes.py").write_text(f'{source}    name = "mine"\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    found = summaries()["passes of my-passes"]
    assert found["mine"] == "Do it well."
    assert found["gone"] == "(my_passes:Gone does not load: no such device)"
    assert "\npasses of my-passes:\n" in list_passes()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The script for each shell has every command and option."""
    assert graphopt(["completion", shell]) == 0
    text = capsys.readouterr().out
    for name, options in commands(parser()).items():
        assert name in text
        for option in options:
            assert option.names[-1].lstrip("-") in text


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("graphopt con", ["convert"]),
        ("graphopt opt -p cse,fuse-bn", ["cse,fuse-bn-add-act", "cse,fuse-bn-act"]),
        ("graphopt-opt --emit st", ["stablehlo"]),
        ("graphopt info --js", ["--json"]),
    ],
)
def test_completion_in_bash(
    words: str, wanted: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A real bash runs the functions of the script."""
    graphopt(["completion", "bash"])
    function = "_graphopt_opt" if words.startswith("graphopt-opt") else "_graphopt"
    script = (
        f"{capsys.readouterr().out}\nCOMP_WORDS=({words})\n"
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        f'{function}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == wanted
