"""A crash in a pass writes a file that replays it; the error names the file."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphopt import explain, import_model, static
from graphopt.cli import main as cli
from graphopt.errors import PassError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Relu
from graphopt.passes.engine import crash, replay_file
from graphopt.passes.engine.fusion import Match
from graphopt.passes.fusions.fuse_gemm_epilogue import FuseGemmEpilogue, Linear
from graphopt_tests.cli.test_opt import opt
from graphopt_tests.model_files import MODELS

LENET = MODELS / "infer_lenet" / "model.pdmodel"


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make the folder of crash files, an empty working folder and an empty temporary folder."""
    for name in ("crashes", "here", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv(crash.VARIABLE, str(tmp_path / "crashes"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "crashes"


@pytest.fixture
def raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the linear layers' fusion fail at the second layer."""
    right = Linear.build

    def build(self: Linear, match: Match) -> PdOp:
        if match[self.add].results[0].name_hint == "linear_1.tmp":
            raise TypeError("no layer like this")
        return right(self, match)

    monkeypatch.setattr(Linear, "build", build)


def strategy() -> static.BuildStrategy:
    """Make a strategy that fuses linear layers, among others."""
    made = static.BuildStrategy()
    made.fuse_gemm_epilogue = made.fuse_elewise_add_act_ops = True
    return made


def only(folder: Path) -> Path:
    """Return the single file of a folder."""
    (found,) = folder.iterdir()
    return found


def check(error: PassError, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check the message, the file and the replay, and that no other file was written."""
    path = only(folder)
    assert "fuse-gemm-epilogue failed, which is a bug there: " in str(error)
    assert re.search(r"TypeError: no layer like this \[at .*test_crash\.py:\d+\]\n", str(error))
    assert f"graphopt replay {path}" in str(error)
    assert isinstance(error.__cause__, TypeError)
    assert path.stat().st_mode & 0o777 == 0o600
    file = replay_file.read(path.read_text(), str(path))
    assert (file.steps, file.kind, file.inputs) == (((FuseGemmEpilogue.name,),), "pass", {})
    assert "in build" in file.notes
    assert cli.main(["replay", str(path)]) == 1
    assert "replayed: TypeError: no layer like this" in capsys.readouterr().out
    for other in ("here", "temporary"):
        assert not list((folder.parent / other).iterdir())


@pytest.mark.exhaustive
@pytest.mark.usefixtures("raises")
def test_in_every_place_where_passes_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Running, explaining, reading a module and the command write the same file."""
    model = import_model(LENET)
    batch = np.zeros((2, 1, 28, 28), np.float32)
    compiled = static.CompiledProgram(model.program, build_strategy=strategy())
    for call in (
        lambda: model.run([batch], strategy()),
        lambda: static.Executor().run(compiled, {"x": batch}, model.fetch_names),
        lambda: model.module(strategy()),
        lambda: explain(model.program, strategy()),
    ):
        with pytest.raises(PassError) as caught:
            call()
        check(caught.value, folder, capsys)
    flags = "fuse_gemm_epilogue,fuse_elewise_add_act_ops"
    for given in (["--build-strategy", flags], ["-p", "fuse-gemm-epilogue"]):
        status, out, err = opt(str(LENET), *given)
        assert (status, out) == (1, "")
        assert "replay it: graphopt replay " in err


@pytest.mark.exhaustive
@pytest.mark.usefixtures("raises")
def test_gone_when_the_pass_is_mended(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file needs no inputs; `bisect` reduces its program."""
    with pytest.raises(PassError):
        import_model(LENET).module(strategy())
    path = str(only(folder))
    assert cli.main(["bisect", path]) == 1
    assert "a pass fails: TypeError" in capsys.readouterr().out
    module = replay_file.read(Path("repro.mlir").read_text(), "repro.mlir").module
    assert sum(op.name.startswith("pd.") for op in module.walk()) == 2
    assert cli.main(["replay", "repro.mlir"]) == 1
    monkeypatch.undo()
    assert cli.main(["replay", path]) == 0


def test_invalid_ir_is_a_crash(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file includes the verifier's message."""

    def build(self: Linear, match: Match) -> PdOp:
        if match[self.add].results[0].name_hint != "linear_1.tmp":
            return right(self, match)
        (use,) = match[self.add].results[0].uses
        return Relu.make(use.operation.results[0])

    right = Linear.build
    monkeypatch.setattr(Linear, "build", build)
    with pytest.raises(PassError, match=r"not valid after fuse-gemm-epilogue.*\n.*graphopt replay"):
        import_model(LENET).module(strategy())
    file = replay_file.read(only(folder).read_text(), "file")
    assert (file.what, file.verify_each) == ("fuse-gemm-epilogue leaves invalid IR", True)


@pytest.mark.usefixtures("raises")
def test_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When no file is written, the message gives the reason and the pass's failure."""

    def told() -> str:
        with pytest.raises(PassError, match="TypeError: no layer like this") as caught:
            import_model(LENET).module(strategy())
        return str(caught.value)

    monkeypatch.setenv(crash.VARIABLE, "")
    assert "GRAPHOPT_CRASH_DIR is empty" in told()
    monkeypatch.setenv(crash.VARIABLE, str(folder))
    monkeypatch.setattr(crash, "LONGEST", 100)
    assert "bytes, more than 100" in told()
    assert not list(folder.iterdir())


@pytest.mark.usefixtures("raises")
def test_places_for_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder may be invalid or full; the default is the temporary folder."""

    def told() -> str:
        with pytest.raises(PassError, match="TypeError: no layer like this") as caught:
            import_model(LENET).module(strategy())
        return str(caught.value)

    (folder.parent / "file").write_text("")
    monkeypatch.setenv(crash.VARIABLE, str(folder.parent / "file"))
    assert "no file was written: FileExistsError" in told()
    monkeypatch.setenv(crash.VARIABLE, str(folder))
    monkeypatch.setattr(crash, "MOST", 0)
    assert "holds 0 such files already" in told()
    monkeypatch.setattr(crash, "MOST", 100)
    assert not list(folder.iterdir())
    monkeypatch.delenv(crash.VARIABLE)
    assert str(folder.parent / "temporary" / "graphopt-crash-fuse-gemm-epilogue") in told()


def test_what_passes_say_on_purpose_is_no_crash(folder: Path) -> None:
    """A graph path that cannot be written is the caller's error."""
    made = strategy()
    made.debug_graphviz_path = str(folder / "no" / "such" / "folder")
    with pytest.raises(OSError, match="there is no folder"):
        import_model(LENET).module(made)
    assert not list(folder.iterdir())


def test_what_interrupts_a_pass(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """An exception of a signal handler is no crash: it does not repeat."""
    right, left = Linear.build, [RuntimeError("time is up")]

    def build(self: Linear, match: Match) -> PdOp:
        if left:
            raise left.pop()
        return right(self, match)

    monkeypatch.setattr(Linear, "build", build)
    model = import_model(LENET)
    with pytest.raises(RuntimeError, match=r"^time is up$"):
        explain(model.program, strategy())
    assert not list(folder.iterdir())


@pytest.mark.exhaustive
@pytest.mark.usefixtures("raises")
def test_a_full_disk_leaves_no_part_of_a_file(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """A partial file is removed, so that the same crash writes it when there is room again."""
    model, fdopen = import_model(LENET), os.fdopen

    @contextmanager
    def full(*args: Any, **options: Any) -> Iterator[Any]:
        with fdopen(*args, **options) as file:
            file.write("a part")
            file.flush()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdopen", full)
        with pytest.raises(PassError, match=r"no file was written: OSError: .*No space"):
            explain(model.program, strategy())
    assert not list(folder.iterdir())
