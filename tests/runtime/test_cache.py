"""The disk cache of compiled programs: its place, its use, and its limits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import jax
import numpy as np
import graphopt as paddle
from graphopt import static
{first}
# tiny programs are not kept, unless one asks for it
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
x = static.data("x", [2], "float32")
y = {call}
exe = static.Executor()
exe.run(feed={{"x": np.zeros(2, "float32")}}, fetch_list=[y])
print(jax.config.jax_compilation_cache_dir)
print(jax.config.jax_compilation_cache_max_size)
print(*exe.stats["tiers"])
"""


def run(first: str = "", call: str = "paddle.exp(x)", **environment: str) -> list[str]:
    """Run a program in a new process; return the cache directory, its bound and the form."""
    off = ("FLAGS_graphopt_cache_dir", "JAX_ENABLE_COMPILATION_CACHE")
    base = {name: value for name, value in os.environ.items() if name not in off}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(first=first, call=call)],
        capture_output=True,
        text=True,
        env={**base, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.exhaustive
def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    """By default the directory is in the user's cache directory, and has a bound."""
    for form in ("full: it was requested", "full: it was on disk"):
        directory, bound, found = run(XDG_CACHE_HOME=str(tmp_path))
        assert Path(directory).parent == tmp_path / "graphopt" / "xla"
        assert bound == str(1 << 30)
        assert found == form
    assert any(Path(directory).iterdir())


@pytest.mark.exhaustive
def test_executables_that_call_lapack(tmp_path: Path) -> None:
    """A process that loads an executable finds LAPACK's functions without tracing a call."""
    call = "paddle.linalg.svd(paddle.outer(x, x))[1]"
    for form in ("full: it was requested", "full: it was on disk"):
        assert run(call=call, XDG_CACHE_HOME=str(tmp_path))[-1] == form


@pytest.mark.slow
def test_after_an_upgrade_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    """New code has new keys, and JAX's entries of the old code do not interfere."""
    upgrade = "import graphopt.runtime.disk.known as k; k.settings = lambda: ('upgraded',)"
    for first, form in (("", "requested"), (upgrade, "requested"), (upgrade, "on disk")):
        *_, found = run(first, XDG_CACHE_HOME=str(tmp_path))
        assert found == f"full: it was {form}"


@pytest.mark.slow
def test_it_can_be_elsewhere(tmp_path: Path) -> None:
    """The flag sets another directory, also from a script."""
    first = f"paddle.set_flags({{'FLAGS_graphopt_cache_dir': {str(tmp_path)!r}}})"
    directory, *_ = run(first.replace("{{", "{").replace("}}", "}"), HOME="/nonexistent")
    assert Path(directory).parent == tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"FLAGS_graphopt_cache_dir": ""}, "None"),
        ({"FLAGS_graphopt_cache_dir": "/proc/none"}, "None"),
        ({"JAX_COMPILATION_CACHE_DIR": "{own}"}, "{own}"),
        ({"JAX_ENABLE_COMPILATION_CACHE": "false", "XDG_CACHE_HOME": "{own}"}, "None"),
    ],
    ids=["off", "not writable", "JAX has one", "JAX shall have none"],
)
def test_it_is_left_alone(environment: dict[str, str], directory: str, tmp_path: Path) -> None:
    """JAX's own settings win, and an unwritable directory is not used."""
    own = str(tmp_path)
    found, *_ = run(**{name: value.format(own=own) for name, value in environment.items()})
    assert found == directory.format(own=own)
