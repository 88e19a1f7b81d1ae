"""Executables on disk are loaded without a trace, but not for another program or if damaged."""

from __future__ import annotations

import io
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import graphopt as paddle
from graphopt import static
from graphopt.ir.formats import commit
from graphopt.nn import functional as F
from graphopt.runtime.devices import cache_place
from graphopt.runtime.devices.cache_place import is_private, machine_directory
from graphopt.runtime.disk import entries as disk
from graphopt.runtime.disk import known, summaries
from graphopt.runtime.disk.known import FOLDER
from graphopt.runtime.settings.flags import TIER
from graphopt.runtime.steps import forms, policy, xla_forms
from graphopt_tests.runtime.nets import Net, build, close

X = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
CHECK = "FLAGS_check_nan_inf"


@pytest.fixture(autouse=True)
def _on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a new directory for each test, which stores quickly compiled programs, too.

    Programs have no key, and are identified by the text of their modules.
    """
    monkeypatch.setattr(known, "use_cache", lambda: tmp_path)
    monkeypatch.setattr(summaries, "our_directory", lambda: tmp_path)
    monkeypatch.setattr(summaries, "key_of", lambda *_: None)
    monkeypatch.setattr(xla_forms, "least_seconds", lambda: 0.0)
    monkeypatch.setattr(known, "most_bytes", lambda: 1 << 30)


def entries(folder: Path) -> list[Path]:
    return sorted((folder / FOLDER).iterdir())


def net(scale: float = 2.0) -> Net:
    """Build a network that trains, with dropout."""

    def make() -> tuple[Any, Any]:
        x = static.data("x", [None, 4], "float32")
        hidden = F.dropout(static.nn.fc(x, 8, activation="relu"), 0.5) * scale
        loss = paddle.mean(paddle.square(hidden))
        paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
        return loss, hidden

    with paddle.utils.unique_name.guard():
        return build(make)


def trained(**options: Any) -> tuple[list[Any], str]:
    """Train a new network for three steps in a new scope; return losses and the form."""
    with static.scope_guard(static.Scope()):
        paddle.seed(1)
        made = net(**options)
        losses = [made.run({"x": X}, made.loss)[0] for _ in range(3)]
        return losses, list(made.executor.stats["tiers"])[-1]


@pytest.fixture
def no_trace(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a program is lowered."""

    def fail(self: Any) -> Any:
        raise AssertionError("a program was compiled")

    monkeypatch.setattr(xla_forms.XlaForms, "make", fail)
    yield


@pytest.mark.smoke
def test_a_known_program_is_loaded(request: pytest.FixtureRequest) -> None:
    """A loaded program trains to the same bits: it passes its state on, and donates the old."""
    wanted, _ = trained()
    request.getfixturevalue("no_trace")
    found, form = trained()
    assert form == "full: it was on disk"
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.exhaustive
def test_another_program_is_another_entry(tmp_path: Path) -> None:
    """Entries depend on all inputs of a trace: constants, shapes, checks."""
    trained()
    before = len(entries(tmp_path))
    first, _ = trained(scale=2.0000001)
    assert len(entries(tmp_path)) == before + 1
    made = net()
    made.run({"x": X[:2]}, made.loss)
    assert len(entries(tmp_path)) == before + 2
    paddle.set_flags({CHECK: True})
    try:
        checked, form = trained()
    finally:
        paddle.set_flags({CHECK: False})
    assert "disk" not in form
    close(checked, np.array(first), 1e-4)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "damage", [None, *(pytest.param(d, marks=pytest.mark.exhaustive) for d in (b"", b"short"))]
)
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: bytes | None) -> None:
    wanted, _ = trained()
    for file in entries(tmp_path):
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(bytes(content) if damage is None else damage)
    found, form = trained()
    assert "disk" not in form
    np.testing.assert_array_equal(found, wanted)
    assert trained()[1] == "full: it was on disk"


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """With an unwritable directory, programs are compiled as without a cache."""
    (tmp_path / FOLDER).write_text("a file")
    losses, form = trained()
    assert np.isfinite(losses).all() and "disk" not in form


@pytest.mark.exhaustive
def test_the_least_used_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained()
    size = max(file.stat().st_size for file in entries(tmp_path))
    monkeypatch.setattr(known, "most_bytes", lambda: 2 * size)
    for scale in (3.0, 4.0, 5.0):
        trained(scale=scale)
    assert sum(file.stat().st_size for file in entries(tmp_path)) <= 2 * size
    assert trained(scale=5.0)[1] == "full: it was on disk"


class _Forged:
    """An object that runs code when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


@pytest.mark.exhaustive
def test_a_forged_entry_runs_nothing(tmp_path: Path) -> None:
    """A forged entry with a right digest runs no code: a record has only classes of JAX."""
    wanted = trained()[0]
    for file in entries(tmp_path):
        payload = pickle.dumps(_Forged(tmp_path / "was here"))
        file.write_bytes(disk._digest(file, payload) + payload)
    assert [*map(float, trained()[0])] == [*map(float, wanted)]
    assert not (tmp_path / "was here").exists()


class _Attribute:
    """Pickles to an attribute lookup, as the first releases of 3.11 write enums."""

    def __init__(self, owner: object, name: str) -> None:
        self.owner, self.name = owner, name

    def __reduce__(self) -> Any:
        return getattr, (self.owner, self.name)


def _read_record(value: object) -> Any:
    device = jax.devices("cpu")[0]
    return known._ExecutableReader(io.BytesIO(pickle.dumps(value)), device.client, [device]).load()


def test_members_of_enumerations_are_read() -> None:
    """Only members of enums are looked up: another attribute could be any function."""
    space = type(jax.typeof(np.float32(0)).memory_space)
    assert [_read_record(_Attribute(space, m.name)) for m in space] == [*space]
    for owner, name in ((space, "__init__"), (jax.ShapeDtypeStruct, "update")):
        with pytest.raises(pickle.UnpicklingError, match="not allowed in a pickled executable"):
            _read_record(_Attribute(owner, name))


def test_an_entry_under_another_name_is_none(tmp_path: Path) -> None:
    file, other = tmp_path / "steps" / "a", tmp_path / "steps" / "b"
    assert disk.write_entry(file, b"of a", 1 << 20)
    other.write_bytes(file.read_bytes())
    assert disk.read_entry(other, bytes) is None
    assert not other.exists()
    assert disk.read_entry(file, bytes) == b"of a"


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """A full disk leaves neither an entry nor a part of one."""
    file = tmp_path / "steps" / "a"
    assert disk.write_entry(file, b"small", 1 << 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, hard))
        assert not disk.write_entry(tmp_path / "steps" / "b", bytes(1 << 16), 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert [each.name for each in file.parent.iterdir()] == ["a"]
    assert disk.read_entry(file, bytes) == b"small"


_KILLED = """
import os, signal, sys
from pathlib import Path
from graphopt.ir.formats import commit
from graphopt.runtime.disk.entries import write_entry

write = commit._Save.write

def killed(*args):
    write(*args)
    os.kill(os.getpid(), signal.SIGKILL)

commit._Save.write = killed
write_entry(Path(sys.argv[1]), b"never there", 1 << 20)
"""


def test_what_a_killed_process_leaves_is_removed(tmp_path: Path) -> None:
    """The remains of a killed process are no entry, and the next writer removes them."""
    folder = tmp_path / "steps"
    command = [sys.executable, "-c", _KILLED, str(folder / "a")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert all(commit.is_ours(file.name) for file in folder.iterdir())
    assert len(list(folder.iterdir())) == 2
    assert disk.read_entry(folder / "a", bytes) is None
    assert disk.write_entry(folder / "b", b"there", 1 << 20)
    assert [file.name for file in folder.iterdir()] == ["b"]


def test_files_are_added_up_when_room_was_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes are not summed at each write, and the limit always holds."""
    folder, limit, listings = tmp_path / "steps", 100_000, list[int]()
    iterdir = Path.iterdir

    def listed(path: Path) -> Any:
        listings.append(len(os.listdir(path)))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", listed)
    for number in range(64):
        assert disk.write_entry(folder / str(number), bytes(1000), limit)
    assert len(listings) <= 32
    for number in range(64, 128):
        assert disk.write_entry(folder / str(number), bytes(1000), limit)
    assert 90_000 < sum(file.stat().st_size for file in iterdir(folder)) <= limit


def test_room_is_made_beside_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making room works if another process removes files, or a file cannot be removed."""
    folder = tmp_path / "steps"
    for name in "abcd":
        assert disk.write_entry(folder / name, bytes(1000), 1 << 20)
    stat, unlink = Path.stat, Path.unlink

    def gone(path: Path, **options: Any) -> Any:
        if path.name == "a":
            raise FileNotFoundError(path)
        return stat(path, **options)

    def kept(path: Path, *args: Any, **options: Any) -> None:
        if path.name == "b":
            raise PermissionError(path)
        unlink(path, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", gone)
        patched.setattr(Path, "unlink", kept)
        disk._make_room(folder, 1000, 2500)
    assert sorted(file.name for file in folder.iterdir()) == ["a", "b", "d"]


@pytest.mark.parametrize("what", ["the folder", "its parent", "one inside"])
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, what: str) -> None:
    """One warning is given, and no file there is read or written."""
    parent = tmp_path / "parent"
    folder = parent / "cache"
    (folder / "steps").mkdir(parents=True)
    wrong = {"the folder": folder, "its parent": parent, "one inside": folder / "steps"}[what]
    wrong.chmod(0o777)
    file = folder / "steps" / "a"
    with pytest.warns(UserWarning, match=f"other users can change {wrong} .*mode 777"):
        assert not disk.write_entry(file, b"content", 1 << 20)
    payload = disk._digest(file, b"forged") + b"forged"
    file.write_bytes(payload)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert disk.read_entry(file, bytes) is None
    assert file.read_bytes() == payload


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    (tmp_path / "mine").mkdir()
    if tmp_path.stat().st_uid == 0:
        assert is_private(tmp_path / "mine")
    else:
        with pytest.warns(UserWarning, match="its owner is user"):
            assert not is_private(tmp_path / "mine")


def test_directories_are_made_for_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Directories are private, whatever the umask."""
    monkeypatch.setenv("FLAGS_graphopt_cache_dir", str(tmp_path / "a" / "b"))
    before = os.umask(0)
    try:
        directory = machine_directory()
    finally:
        os.umask(before)
    assert directory is not None
    for each in (directory, directory.parent, directory.parent.parent):
        assert each.stat().st_mode & 0o777 == 0o700


@contextmanager
def late_alarm() -> Generator[None]:
    """Expect the block to raise the OSError of an alarm's handler."""

    def handler(*_: Any) -> None:
        raise TimeoutError("time is up")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(TimeoutError, match="time is up"):
            yield
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_handler_while_an_entry_is_read(tmp_path: Path) -> None:
    """A handler's exception propagates, even an OSError, and the entry stays."""
    file = tmp_path / "steps" / "a"
    assert disk.write_entry(file, b"content", 1 << 20)

    def slow(payload: bytes) -> bytes:
        signal.raise_signal(signal.SIGALRM)
        return payload

    with late_alarm():
        disk.read_entry(file, slow)
    assert disk.read_entry(file, bytes) == b"content"


def test_a_handler_while_the_directory_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler's exception does not count as an error of the disk."""

    def slow() -> str:
        signal.raise_signal(signal.SIGALRM)
        return "kind"

    monkeypatch.setattr(cache_place, "_machine", slow)
    monkeypatch.setenv("FLAGS_graphopt_cache_dir", str(tmp_path))
    with late_alarm():
        machine_directory()
    assert (tmp_path / "kind").is_dir()


def test_a_quick_form_from_disk_has_a_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread traces and compiles the full form, which this process has not traced."""

    def submit(work: Any) -> None:
        thread = threading.Thread(target=work.work)
        thread.start()
        thread.join()

    monkeypatch.setattr(policy, "SMALL", 0)
    monkeypatch.setattr(forms, "submit", submit)
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 4], "float32")
        y = F.softmax(paddle.cumsum(x, axis=1))
    outputs: list[Any] = []
    for tier, form in (("fast", "requested"), ("auto", "from run 3 on"), ("auto", "on disk")):
        paddle.set_flags({TIER: tier})
        try:
            executor = static.Executor()
            outputs += [executor.run(main, {"x": X}, [y])[0] for _ in range(3)]
        finally:
            paddle.set_flags({TIER: "full"})
        assert form in list(executor.stats["tiers"])[-1]
    for output in outputs:
        close(output, np.asarray(outputs[0]))


@pytest.fixture
def caches_of_jax(tmp_path: Path) -> Iterator[None]:
    """Let JAX store all that it compiles, in a new directory."""
    wanted: dict[str, Any] = {
        "jax_enable_compilation_cache": True,
        "jax_compilation_cache_dir": str(tmp_path / "jax"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in wanted}
    for name, value in wanted.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.mark.exhaustive
def test_what_jax_has_loaded_is_not_kept(
    caches_of_jax: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executable that JAX loaded from its own cache, as older versions stored, gets no entry.

    XLA writes an executable that it has loaded without its code: with such an entry each later
    process failed in the first step, "Function ... not found".
    """
    (tmp_path / FOLDER).mkdir()
    monkeypatch.setattr(xla_forms, "nothing_kept", nullcontext)
    wanted, _ = trained()
    for entry in entries(tmp_path):
        entry.unlink()
    for _ in range(2):
        jax.clear_caches()
        close(trained()[0], wanted)
        assert entries(tmp_path) == []


@pytest.mark.exhaustive
def test_jax_does_not_keep_what_has_an_entry(caches_of_jax: None, tmp_path: Path) -> None:
    """JAX stores no program with an entry, so that new code compiles and stores it again."""
    (tmp_path / FOLDER).mkdir()
    for _ in range(2):
        jax.clear_caches()
        trained()
        assert entries(tmp_path)
        for entry in entries(tmp_path):
            entry.unlink()
