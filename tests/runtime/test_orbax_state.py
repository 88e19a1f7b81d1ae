"""Orbax checkpoints: saved in shards, read on another number of devices, complete or absent."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import ScopeError, UnsupportedError
from graphopt.ir.program import Variable
from graphopt_tests.runtime.distributed import orbax_worker
from graphopt_tests.runtime.distributed.orbax_worker import feed, make
from graphopt_tests.runtime.nets import Net, build, close
from graphopt_tests.runtime.trainings import same, state_of

WORKER = Path(orbax_worker.__file__)
ROOT = WORKER.parents[3]


@pytest.fixture
def orbax() -> None:
    """Skip tests that write if the package is missing."""
    pytest.importorskip("orbax.checkpoint", reason="needs the extra `orbax`")


def agrees_on(net: Net, folder: Path, values: dict[str, Any], after: Any) -> None:
    """Check that a checkpoint restores these values on 4, 2 and 1 devices, with the same step."""
    programs = {
        "4 devices": net.parallel(4, shard_parameters=True, sync_batch_norm=True),
        "2 devices, whole": net.parallel(2, sync_batch_norm=True),
        "1 device": net.main,
    }
    for program in programs.values():
        net.start()
        static.load(net.main, str(folder), net.executor)
        same(state_of(net), values, 0)
        (again,) = net.run(feed(9), net.loss, program)
        close(np.mean(again), after, 1e-4)


@pytest.mark.usefixtures("orbax")
@pytest.mark.exhaustive
def test_other_numbers_of_devices_go_on(tmp_path: Path) -> None:
    """A save by 4 devices that train on has the values at the call."""
    net = build(make)
    parts = net.parallel(4, shard_parameters=True, sync_batch_norm=True)
    for step in range(2):
        net.run(feed(step), net.loss, parts)
    values = state_of(net)
    saving = static.save(net.main, str(tmp_path / "2"), format="orbax")
    (after,) = net.run(feed(9), net.loss, parts)
    saving.result(60)
    assert [path.name for path in tmp_path.iterdir()] == ["2"]
    same(static.load_program_state(str(tmp_path / "2")), values, 0)
    agrees_on(net, tmp_path / "2", values, np.mean(after))


@pytest.mark.usefixtures("orbax")
@pytest.mark.exhaustive
@pytest.mark.parametrize("trainers", [1, 2])
def test_eight_devices_save(tmp_path: Path, trainers: int) -> None:
    """One process with 8 devices, or two with 4 each, save and resume; this one reads with 4."""
    command = [sys.executable, "-m", "graphopt.launch", "--nproc", str(trainers)]
    command += ["--devices-per-proc", str(8 // trainers), str(WORKER), str(tmp_path)]
    found = {}
    for name in ("saved", "resumed"):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=150,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with np.load(tmp_path / f"{name}.npz") as file:
            found[name] = dict(file)
        assert int(found[name].pop("parts")) == 8 // trainers
    afters = [values.pop("after") for values in found.values()]
    same(found["resumed"], found["saved"], 0)
    close(afters[1], afters[0])
    agrees_on(build(make), tmp_path / "2", found["saved"], afters[0])


@pytest.mark.exhaustive
@pytest.mark.usefixtures("orbax")
def test_values_of_the_first_replica(tmp_path: Path) -> None:
    """Unsynchronized statistics and a scheduled rate are saved as in Paddle's files."""
    net = build(make)
    net.run(feed(), net.loss, net.parallel(2))
    static.save(net.main, str(tmp_path / "paddle"))
    static.save(net.main, str(tmp_path / "orbax"), format="orbax").result(60)
    wanted = static.load_program_state(str(tmp_path / "paddle"))
    same(static.load_program_state(str(tmp_path / "orbax")), wanted, 0)


@pytest.mark.usefixtures("orbax")
def test_half_precision(tmp_path: Path) -> None:
    """bfloat16 is read back, and load_program_state returns it as from Paddle's files."""

    def half() -> tuple[Variable, Variable]:
        weight = static.create_parameter([3], "bfloat16", name="w")
        out = paddle.cast(weight, "float32")
        return paddle.mean(out), out

    net = build(half)
    values = state_of(net)
    static.save(net.main, str(tmp_path / "1"), format="orbax").result(60)
    assert static.load_program_state(str(tmp_path / "1"))["w"].dtype == np.uint16
    net.start()
    static.load(net.main, str(tmp_path / "1"))
    same(state_of(net), values, 0)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("orbax")
def test_what_cannot_be_saved(tmp_path: Path) -> None:
    """An existing folder, a variable without a value, or an unknown format is an error."""
    net = build(make)
    path = str(tmp_path / "1")
    static.save(net.main, path, format="orbax").result(60)
    with pytest.raises(FileExistsError, match="save each checkpoint to a new folder"):
        static.save(net.main, path, format="orbax")
    with pytest.raises(ValueError, match="should be 'paddle' or 'orbax', found 'torch'"):
        static.save(net.main, path, format="torch")  # pyright: ignore
    with static.scope_guard(static.Scope()), pytest.raises(ScopeError, match="has no value"):
        static.save(net.main, path, format="orbax")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.exhaustive
@pytest.mark.usefixtures("orbax")
def test_a_save_that_fails(tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    """A bad folder raises at once; a later error is printed and raised, and the next save works."""
    from orbax.checkpoint import AsyncCheckpointer

    wait = AsyncCheckpointer.wait_until_finished

    def fails(self: Any) -> None:
        wait(self)
        if threading.current_thread() is not threading.main_thread():
            raise OSError("No space left on device")

    net = build(make)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        static.save(net.main, str(tmp_path / "file" / "1"), format="orbax")
    with monkeypatch.context() as patch:
        patch.setattr(AsyncCheckpointer, "wait_until_finished", fails)
        with pytest.raises(OSError, match="No space left"):
            static.save(net.main, str(tmp_path / "1"), format="orbax").result(60)
    assert f"{tmp_path / '1'} was not saved: No space left on device" in capfd.readouterr().err
    static.save(net.main, str(tmp_path / "2"), format="orbax").result(60)


@pytest.mark.exhaustive
def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package, and the command that installs it."""
    net = build(make)
    monkeypatch.setitem(sys.modules, "orbax", None)
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'graphopt\[orbax\]'"):
        static.save(net.main, str(tmp_path / "1"), format="orbax")
