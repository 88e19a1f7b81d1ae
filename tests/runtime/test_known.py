"""Executables on disk: loaded without a trace, not for another program, and not when damaged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import graphopt as paddle
from graphopt import static
from graphopt.nn import functional as F
from graphopt.runtime.disk import known, summaries
from graphopt.runtime.disk.known import FOLDER
from graphopt.runtime.settings.flags import TIER
from graphopt.runtime.steps import forms, tiers
from graphopt_tests.runtime.nets import Net, build, close

X = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
CHECK = "FLAGS_check_nan_inf"


@pytest.fixture(autouse=True)
def _on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of its own for each test, in which even what compiles quickly is kept.

    Programs have no key, and are known by the text of their modules.
    """
    monkeypatch.setattr(known, "use_cache", lambda: tmp_path)
    monkeypatch.setattr(summaries, "our_directory", lambda: tmp_path)
    monkeypatch.setattr(summaries, "key_of", lambda *_: None)
    monkeypatch.setattr(forms, "least_seconds", lambda: 0.0)
    monkeypatch.setattr(known, "most_bytes", lambda: 1 << 30)


def entries(folder: Path) -> list[Path]:
    return sorted((folder / FOLDER).iterdir())


def net(scale: float = 2.0) -> Net:
    """A network that trains, with dropout."""

    def make() -> tuple[Any, Any]:
        x = static.data("x", [None, 4], "float32")
        hidden = F.dropout(static.nn.fc(x, 8, activation="relu"), 0.5) * scale
        loss = paddle.mean(paddle.square(hidden))
        paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
        return loss, hidden

    with paddle.utils.unique_name.guard():
        return build(make)


def trained(**options: Any) -> tuple[list[Any], str]:
    """The losses of three steps of a new network in a scope of its own, and how it was compiled."""
    with static.scope_guard(static.Scope()):
        paddle.seed(1)
        made = net(**options)
        losses = [made.run({"x": X}, made.loss)[0] for _ in range(3)]
        return losses, list(made.executor.stats["tiers"])[-1]


@pytest.fixture
def no_trace(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is lowered."""

    def fail(self: Any) -> Any:
        raise AssertionError("a program was compiled")

    monkeypatch.setattr(forms.Form, "make", fail)
    yield


def test_a_known_program_is_loaded(request: pytest.FixtureRequest) -> None:
    """It trains to the same bits: it passes on its state, and takes the buffers of the old one."""
    wanted, _ = trained()
    request.getfixturevalue("no_trace")
    found, form = trained()
    assert form == "full: it was on disk"
    np.testing.assert_array_equal(found, wanted)


def test_another_program_is_another_entry(tmp_path: Path) -> None:
    """Whatever a trace depends on: constants, shapes, what is checked."""
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


@pytest.mark.parametrize("damage", [b"", b"short", None])
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
    """Programs are compiled as if there was none."""
    (tmp_path / FOLDER).write_text("a file")
    losses, form = trained()
    assert np.isfinite(losses).all() and "disk" not in form


def test_the_least_used_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained()
    size = max(file.stat().st_size for file in entries(tmp_path))
    monkeypatch.setattr(known, "most_bytes", lambda: 2 * size)
    for scale in (3.0, 4.0, 5.0):
        trained(scale=scale)
    assert sum(file.stat().st_size for file in entries(tmp_path)) <= 2 * size
    assert trained(scale=5.0)[1] == "full: it was on disk"


def test_a_quick_form_from_disk_has_a_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread traces and compiles the full form, which nothing has traced in this process."""

    def submit(work: Any) -> None:
        thread = threading.Thread(target=work.work)
        thread.start()
        thread.join()

    monkeypatch.setattr(tiers, "SMALL", 0)
    monkeypatch.setattr(tiers, "submit", submit)
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
    """JAX keeps all that it compiles, in a directory of its own."""
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


def test_what_jax_has_loaded_is_not_kept(
    caches_of_jax: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAX may have programs of older versions, which kept them there too and have no entry here.

    XLA writes an executable that it has loaded without its code: with such an entry each later
    process failed in the first step, "Function ... not found".
    """
    (tmp_path / FOLDER).mkdir()
    monkeypatch.setattr(forms, "nothing_kept", nullcontext)
    wanted, _ = trained()
    for entry in entries(tmp_path):
        entry.unlink()
    for _ in range(2):
        jax.clear_caches()
        close(trained()[0], wanted)
        assert entries(tmp_path) == []


def test_jax_does_not_keep_what_has_an_entry(caches_of_jax: None, tmp_path: Path) -> None:
    """So that with other code, for which there is none, it is compiled and kept again."""
    (tmp_path / FOLDER).mkdir()
    for _ in range(2):
        jax.clear_caches()
        trained()
        assert entries(tmp_path)
        for entry in entries(tmp_path):
            entry.unlink()
