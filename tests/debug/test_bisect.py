"""`graphopt bisect` finds planted wrong passes, and `graphopt replay` runs what it writes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from graphopt.cli import main as cli
from graphopt.debug import bisect as culprit
from graphopt.passes.engine import replay_file
from graphopt.passes.table import registry
from graphopt_tests.model_files import MODELS

PLUGIN = Path(__file__).with_name("wrong_passes.py")
RESNET = str(MODELS / "infer_resnet18" / "model.pdmodel")
TRANSFORMER = str(MODELS / "infer_transformer_encoder" / "model.pdmodel")
LENET = str(MODELS / "infer_lenet" / "model.pdmodel")

CHAIN = """
func.func @main(%x: tensor<?x4xf32> {pd.feed = "x"}, %w: tensor<4x4xf32> {pd.state = "w"})
    -> (tensor<?x4xf32> {pd.fetch = "y"}) {
  %a = pd.matmul(%x, %w) : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
  %b = pd.add(%a, %x) : tensor<?x4xf32>
  %c = pd.relu(%b) : tensor<?x4xf32> loc("train.py":12:0)
  %d = pd.add(%c, %a) : tensor<?x4xf32> loc("train.py":13:0)
  %e = pd.relu(%d) : tensor<?x4xf32> loc("train.py":14:0)
  %f = pd.tanh(%e) : tensor<?x4xf32>
  %g = pd.dropout(%f) {p = 0.5, rng_id = 3} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %y = pd.add(%g, %x) : tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
"""


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Use an empty working folder and temporary folder, and forget passes of other tests."""
    for name in ("here", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def graphopt(
    capsys: pytest.CaptureFixture[str], *args: str, plugin: bool = True
) -> tuple[int, str]:
    """Return exit code and output of a command."""
    capsys.readouterr()
    status = cli.main([*args, *(["--import", str(PLUGIN)] if plugin else [])])
    out, err = capsys.readouterr()
    return status, out + err


def chain(text: str = CHAIN) -> str:
    """Write the small program to a file."""
    Path("chain.mlir").write_text(text)
    return "chain.mlir"


def ops_of(path: str = "repro.mlir") -> list[str]:
    """List the ops of the program in a replay file."""
    module = replay_file.read(Path(path).read_text(), path).module
    return [op.name for op in module.walk() if op.name.startswith("pd.")]


@pytest.mark.slow
def test_one_wrong_fusion_among_many(capsys: pytest.CaptureFixture[str], own_folder: Path) -> None:
    """In a ResNet, the fusion is found, reduced to its pattern, and replayed in a new process."""
    passes = 'simplify,fuse-bn-act,wrong-add-relu{at="relu_8.tmp"},fuse-gemm-epilogue'
    status, out = graphopt(capsys, "bisect", RESNET, "-p", passes)
    assert status == 1, out
    assert "rewrite 15 of 19: wrong-add-relu on pd.relu %relu_8.tmp" in out
    assert "results are right when only this rewrite is disabled" in out
    assert ops_of() == ["pd.add", "pd.relu"]
    assert len(Path("repro.mlir").read_text()) < 3000
    assert sorted(p.name for p in own_folder.rglob("*")) == ["here", "repro.mlir", "temporary"]
    # as it is where the `testing` extra is not installed
    start = "import sys; sys.modules['hypothesis'] = None; from graphopt.cli.main import main"
    command = ["-c", f"{start}; sys.exit(main())", "replay", "repro.mlir", "--import", str(PLUGIN)]
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PLUGIN.parents[1])},
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "replayed: pd.fetch relu_8.tmp: " in done.stdout


@pytest.mark.slow
def test_with_a_strategy_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The pass is found in a transformer, after fusions of attention and feed-forward."""
    status, out = graphopt(
        capsys, "bisect", TRANSFORMER, "-p", "wrong-matmul", "--build-strategy", "fused_attention",
        "--dim", "3", "-o", "found.mlir",
    )  # fmt: skip
    assert status == 1, out
    assert ": wrong-matmul on the program" in out
    assert len(ops_of("found.mlir")) < 10
    assert graphopt(capsys, "replay", "found.mlir")[0] == 1


def test_equal_results(capsys: pytest.CaptureFixture[str]) -> None:
    """With equal results, no file is written, and the largest difference is reported."""
    data = str(MODELS / "infer_lenet" / "inputs.npz")
    flags = "fuse_gemm_epilogue,fuse_elewise_add_act_ops"
    status, out = graphopt(
        capsys, "bisect", LENET, "--build-strategy", flags, "--data", data, plugin=False
    )
    assert status == 0, out
    assert "rewrites: the largest difference is " in out
    assert "made up" not in out
    assert not list(Path().iterdir())


def test_dropouts_draw_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """Random ops draw the same numbers in both programs, and cause no difference."""
    status, out = graphopt(capsys, "bisect", chain(), "-p", "wrong-add-relu,cse,dce", "--dim", "64")
    assert status == 0, out
    assert "equal after 3 rewrites: the largest difference is 0 " in out


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("passes", "told", "ops"),
    [
        ("cse,wrong-add-relu{at=e how=nan}", ["NAN"], 2),
        ("wrong-add-relu{at=c how=no-rule}", ["the optimized program fails: "], 2),
        ("wrong-add-relu{at=c how=raise}", ["a pass fails: TypeError: cannot build this"], 2),
        (
            "wrong-add-relu{at=c how=raise-early}",
            ["a pass fails: KeyError", "a single rewrite: w"],
            2,
        ),
        ("wrong-add-relu{at=c how=invalid}", ["a pass fails: ", "before it is defined"], 3),
        (
            "simplify,wrong-add{at=d asks=false}",
            ["a single rewrite: wrong-add, from train.py:13"],
            1,
        ),
        (
            'wrong-add{at="b+d"},cse',
            ["rewrite 1 of 3: wrong-add on pd.add %b", "other rewrites"],
            1,
        ),
    ],
)
def test_each_way_of_being_wrong(
    capsys: pytest.CaptureFixture[str], passes: str, told: list[str], ops: int
) -> None:
    """The rewrite is found, reduced and described, and its replay file fails again."""
    status, out = graphopt(capsys, "bisect", chain(), "-p", passes, "--dim", "4")
    assert status == 1, out
    for words in told:
        assert words.replace("NAN", "nan") in out
    assert len(ops_of()) == ops, Path("repro.mlir").read_text()
    again, out = graphopt(capsys, "replay", "repro.mlir")
    assert again == 1, out


@pytest.mark.exhaustive
def test_gone_when_mended(capsys: pytest.CaptureFixture[str]) -> None:
    """A replay ends with 0 when the pass is right, and with 2 when it cannot run."""
    assert graphopt(capsys, "bisect", chain(), "-p", "wrong-add-relu{at=c}")[0] == 1
    text = Path("repro.mlir").read_text()
    assert '// input: {"name": "b", ' in text or '// input: {"name": "a", ' in text
    assert '"train.py":12:0' in text
    Path("repro.mlir").write_text(text.replace('at=\\"c\\"', 'at=\\"z\\"'))
    status, out = graphopt(capsys, "replay", "repro.mlir")
    assert (status, out.splitlines()[-1]) == (0, "replayed: nothing is wrong")
    lines = text.splitlines(keepends=True)
    Path("repro.mlir").write_text("".join(s for s in lines if not s.startswith(("// i", "// ="))))
    status, out = graphopt(capsys, "replay", "repro.mlir")
    assert status == 2
    assert "give them with --data" in out
    arrays = replay_file.read(text, "repro.mlir").arrays()
    np.savez("data.npz", **arrays)
    assert graphopt(capsys, "replay", "repro.mlir", "--data", "data.npz")[0] == 1


def test_errors_end_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors of the call, not of a pass, end with status 2."""
    Path("mine.txt").write_text("precious")
    Path("broken.mlir").write_text("func.func @main(")
    for args, words in (
        (["bisect", chain(), "-p", "cse", "-o", "mine.txt"], "is not a replay file"),
        (["bisect", chain(), "-p", "no-such-pass"], "no-such-pass"),
        (["bisect", "broken.mlir", "-p", "cse"], "expected"),
        (["bisect", chain(), "-p", "cse{a=/}"], "pipeline"),
        (["bisect", chain(), "-p", "cse", "--", "more"], "are for scripts"),
        (["replay", "mine.txt"], "this is a text file"),
        (["replay", "nowhere.mlir"], "nowhere.mlir"),
    ):
        status, out = graphopt(capsys, *args, plugin=False)
        assert status == 2, out
        assert words in out.lower() or words in out
    assert Path("mine.txt").read_text() == "precious"


def test_large_inputs_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest inputs go into the file, up to a limit of bytes."""
    monkeypatch.setattr(culprit, "MOST_DATA", 100)
    small, large = np.zeros(10, np.float32), np.zeros(16, np.float32)
    made_up = replay_file.MadeUp("float32", (1000, 1000), 1)
    kept, left_out = culprit._within({"large": large, "made up": made_up, "small": small})
    assert (list(kept), left_out) == (["made up", "small"], ["large"])


SCRIPT = """
import numpy as np
import paddle
paddle.enable_static()
x = paddle.static.data("x", [None, 4])
hidden = paddle.nn.functional.relu(paddle.static.nn.fc(x, 8) + 1.0)
loss = paddle.mean(hidden)
exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
program = paddle.static.CompiledProgram(paddle.static.default_main_program())
for _ in range(2):
    exe.run(program, feed={"x": -np.ones((3, 4), "float32")}, fetch_list=[loss])
"""


@pytest.mark.exhaustive
@pytest.mark.usefixtures("fresh_state")
def test_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    """A script's compiled programs run on their first inputs; with passes, all its programs run."""
    Path("train.py").write_text(SCRIPT)
    status, out = graphopt(capsys, "bisect", "train.py", plugin=False)
    assert status == 0, out
    assert "program: program 1 of train.py" in out
    assert "made up" not in out
    status, out = graphopt(capsys, "bisect", "train.py", "-p", "wrong-matmul")
    assert status == 1, out
    assert "wrong-matmul on the program" in out
    assert "train.py" in out


@pytest.mark.exhaustive
def test_a_replay_file_is_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    """`bisect` takes a replay file as a program, with its own passes and inputs."""
    assert graphopt(capsys, "bisect", chain(), "-p", "wrong-add{at=b}", "-o", "a.mlir")[0] == 1
    status, out = graphopt(capsys, "bisect", "a.mlir", "-o", "b.mlir")
    assert status == 1, out
    assert "made up" not in out
    assert ops_of("b.mlir") == ["pd.add"]


def test_against_float64(capsys: pytest.CaptureFixture[str]) -> None:
    """The reference of `--against float64` is an interpreter that shares no code with JAX."""
    pytest.importorskip("graphopt.reference")
    text = CHAIN.replace("%g = pd.dropout(%f) {p = 0.5, rng_id = 3}", "%g = pd.exp(%f)")
    text = text.replace(" : (tensor<?x4xf32>) -> tensor<?x4xf32>\n  %y", " : tensor<?x4xf32>\n  %y")
    args = ["--against", "float64", "--dim", "4"]
    status, out = graphopt(capsys, "bisect", chain(text), "-p", "cse,dce", *args)
    assert status == 0, out
    status, out = graphopt(capsys, "bisect", chain(text), "-p", "wrong-add-relu{at=c}", *args)
    assert status == 1, out
    assert "rewrite 2 of 2: wrong-add-relu on pd.relu %c" in out
    assert graphopt(capsys, "replay", "repro.mlir")[0] == 1
    status, out = graphopt(capsys, "bisect", chain(), "-p", "cse", *args)
    assert status == 2
    assert "draws random numbers" in out


STACKED = """
func.func @main(%x: tensor<3xf32> {pd.feed = "x"}, %a: tensor<3xf32> {pd.state = "a"},
                %b: tensor<3xf32> {pd.state = "b"}, %lr: tensor<1xf32> {pd.state = "lr"})
    -> (tensor<3xf32> {pd.fetch = "s"}, tensor<3xf32> {pd.state = "a"},
        tensor<3xf32> {pd.state = "b"}) {
  %s = pd.add(%x, %a) : tensor<3xf32>
  %n = pd.sgd(%a, %s, %lr) : (tensor<3xf32>, tensor<3xf32>, tensor<1xf32>) -> tensor<3xf32>
  %k = pd.sgd(%b, %x, %lr) : (tensor<3xf32>, tensor<3xf32>, tensor<1xf32>) -> tensor<3xf32>
  func.return %s, %n, %k : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
"""


@pytest.mark.exhaustive
def test_a_wrong_pass_behind_stacked_state(capsys: pytest.CaptureFixture[str]) -> None:
    """The file has the program before its state is stacked, and the pass that stacks it."""
    passes = "stack-state{fewest=2},wrong-add{at=s}"
    status, out = graphopt(capsys, "bisect", chain(STACKED), "-p", passes)
    assert status == 1, out
    assert "wrong-add on pd.add %s" in out and "not reduced" not in out
    status, out = graphopt(capsys, "replay", "repro.mlir")
    assert status == 1, out
