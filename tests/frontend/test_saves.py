"""Saves are atomic: the remains of a killed one are completed or removed, mixed files refused."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.errors import FormatError
from graphopt.ir.formats import commit
from graphopt_tests.storms import checkpoints
from graphopt_tests.storms.checkpoints import fill, numbers

STORM = Path(checkpoints.__file__)


class Killed(BaseException):
    """A stand-in for the end of the process."""


@pytest.fixture(scope="module")
def net() -> checkpoints.Net:
    return checkpoints.make_net()


@pytest.fixture
def scope() -> Iterator[None]:
    with static.scope_guard(static.Scope()):
        yield


def save(net: checkpoints.Net, folder: Path, number: int) -> None:
    fill(net, number)
    static.save(net.main, str(folder / "m"))


def loaded(net: checkpoints.Net, folder: Path) -> set[int]:
    """Return the numbers of the saves that `static.load` takes its values from."""
    fill(net, -1)
    static.load(net.main, str(folder / "m"))
    names = [v.name for v in net.main.list_vars() if v.persistable]
    return numbers(static.global_scope().find_var(name).numpy() for name in names)


def kill_after(monkeypatch: pytest.MonkeyPatch, renames: int, saving: Callable[[], Any]) -> None:
    """Save, and end the process after so many renames, as far as files can show."""
    left = [renames]

    def rename(path: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        os.rename(path, target)
        return target

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", rename)
        patch.setattr(commit._Save, "__exit__", lambda save, *_: _let_go(save))
        with pytest.raises(Killed):
            saving()


def _let_go(save: Any) -> None:
    for lock in save.rooms.values():
        lock.close()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.usefixtures("scope")
@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_save_killed_in_its_renames_is_completed_by_a_reader(
    net: checkpoints.Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    save(net, tmp_path, 1)
    kill_after(monkeypatch, renames, lambda: save(net, tmp_path, 2))
    assert commit.JOURNAL in names_in(tmp_path)
    assert loaded(net, tmp_path) == {2}
    assert names_in(tmp_path) == ["m.pdmodel", "m.pdopt", "m.pdparams"]


@pytest.mark.usefixtures("scope")
def test_a_folder_that_cannot_be_written_to_is_read_from_its_temporaries(
    net: checkpoints.Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(net, tmp_path, 1)
    kill_after(monkeypatch, 1, lambda: save(net, tmp_path, 2))

    def refuse(path: Path, target: Path) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "replace", refuse)
    assert loaded(net, tmp_path) == {2}
    assert paddle.load(str(tmp_path / "m.pdopt"))["learning_rate_0"] == 2


@pytest.mark.usefixtures("scope")
def test_the_next_save_completes_one_that_was_killed(
    net: checkpoints.Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(net, tmp_path, 1)
    kill_after(monkeypatch, 1, lambda: save(net, tmp_path, 2))
    paddle.save({"a": np.zeros(1)}, str(tmp_path / "other.pdparams"))
    optimizer = static.load_program_state(str(tmp_path / "m"))
    assert numbers(optimizer.values()) == {2}
    save(net, tmp_path, 3)
    assert loaded(net, tmp_path) == {3}
    assert names_in(tmp_path) == ["m.pdmodel", "m.pdopt", "m.pdparams", "other.pdparams"]


@pytest.mark.usefixtures("scope")
def test_an_interrupt_after_the_commit_loses_nothing(
    net: checkpoints.Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(net, tmp_path, 1)
    rename, calls = Path.replace, []

    def interrupted(path: Path, target: Path) -> Path:
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(net, tmp_path, 2)
    assert loaded(net, tmp_path) == {2}
    assert names_in(tmp_path) == ["m.pdmodel", "m.pdopt", "m.pdparams"]


@pytest.mark.usefixtures("scope")
def test_files_of_different_saves_are_refused(net: checkpoints.Net, tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        save(net, tmp_path / str(number), number)
    shutil.copy(tmp_path / "1" / "m.pdopt", tmp_path / "2" / "m.pdopt")
    for load in (
        lambda: static.load(net.main, str(tmp_path / "2" / "m")),
        lambda: static.load_program_state(str(tmp_path / "2" / "m")),
        lambda: paddle.import_model(tmp_path / "2" / "m"),
    ):
        with pytest.raises(
            FormatError, match=r"m\.pdopt .*m\.pdparams|m\.pdparams .*m\.pdopt|saves"
        ):
            load()
    # each alone is whole
    assert numbers(paddle.load(str(tmp_path / "2" / "m.pdparams")).values()) == {2}


@pytest.mark.usefixtures("scope")
def test_variables_of_different_saves_in_a_folder_are_refused(
    net: checkpoints.Net, tmp_path: Path
) -> None:
    for number in (1, 2):
        fill(net, number)
        fluid.io.save_persistables(None, str(tmp_path / str(number)), net.main)
    shutil.copy(tmp_path / "1" / "fc_0.w_0", tmp_path / "2" / "fc_0.w_0")
    with pytest.raises(FormatError, match="different saves"):
        fluid.io.load_persistables(None, str(tmp_path / "2"), net.main)
    # but one may be saved again on purpose
    fluid.io.save_vars(None, str(tmp_path / "2"), net.main, vars=["fc_0.w_0"])
    fluid.io.load_persistables(None, str(tmp_path / "2"), net.main)


@pytest.mark.usefixtures("scope")
def test_the_same_state_gives_the_same_bytes(net: checkpoints.Net, tmp_path: Path) -> None:
    written: list[dict[str, bytes]] = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save(net, tmp_path / name, 1)
        written.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert written[0] == written[1]


@pytest.mark.usefixtures("scope")
def test_left_overs_are_ignored_and_removed_by_the_next_save(
    net: checkpoints.Net, tmp_path: Path
) -> None:
    fill(net, 1)
    fluid.io.save_persistables(None, str(tmp_path), net.main)
    names = names_in(tmp_path)
    left_over = tmp_path / ".fc_0.w_0.0123456789abcdef.tmp"
    left_over.write_bytes(b"half")
    assert numbers(paddle.load(str(tmp_path)).values()) == {1}
    assert numbers(static.load_program_state(str(tmp_path)).values()) == {1}
    fluid.io.save_persistables(None, str(tmp_path), net.main)
    assert names_in(tmp_path) == names


def test_what_a_live_saver_writes_is_left_alone(tmp_path: Path) -> None:
    other = commit._Save(tmp_path, has_prefix=True)
    with other:
        other.write(tmp_path / "slow.pdparams", [b"slow"])
        other.write(tmp_path / "slow.pdopt", [b"slower"])
        paddle.save({"a": 1}, str(tmp_path / "quick.pdparams"))
        other.commit()
    assert names_in(tmp_path) == ["quick.pdparams", "slow.pdopt", "slow.pdparams"]


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127])
def test_names_may_be_as_long_as_the_file_system_takes(name: str, tmp_path: Path) -> None:
    paddle.save({"a": 1}, str(tmp_path / name))
    assert paddle.load(str(tmp_path / name)) == {"a": 1}
    assert names_in(tmp_path) == [name]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_that_is_saved_over_keeps_its_mode(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "a.pdparams"
    paddle.save({"a": 1}, str(path))
    path.chmod(mode)
    paddle.save({"a": 2}, str(path))
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_an_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a.pdparams"
    paddle.save({"a": 1}, str(path))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*a\.pdparams") as caught:
        paddle.save({"a": 2}, str(path))
    assert caught.value.errno == errno.ENOSPC
    assert names_in(tmp_path) == ["a.pdparams"]
    assert paddle.load(str(path)) == {"a": 1}


@pytest.mark.parametrize(
    "journal",
    [
        b"no json",
        b'{"save": "0123456789", "files": {"../a": ".a.0123456789000001.tmp"}}',
        b'{"save": "0123456789", "files": {"/a": ".a.0123456789000001.tmp"}}',
        b'{"save": "0123456789", "files": {"a": "../.a.0123456789000001.tmp"}}',
        b'{"save": "0123456789", "files": {"a": "b"}}',
    ],
)
def test_a_journal_stays_in_its_folder(journal: bytes, tmp_path: Path) -> None:
    paddle.save({"a": 1}, str(tmp_path / "in" / "a"))
    (tmp_path / "in" / commit.JOURNAL).write_bytes(journal)
    for touch in (
        lambda: paddle.load(str(tmp_path / "in" / "a")),
        lambda: paddle.save({"a": 2}, str(tmp_path / "in" / "a")),
    ):
        with pytest.raises(FormatError, match="journal"):
            touch()


@pytest.mark.exhaustive
def test_a_storm_of_kills_mixes_nothing() -> None:
    done = subprocess.run(
        [sys.executable, str(STORM), "3"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("whole 3") == 9
