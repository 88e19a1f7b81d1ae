"""The number of compute threads: its sources, and the libraries that obey it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from graphopt.inference import Config
from graphopt.lowering.cores import CORES, quota
from graphopt.runtime.devices import threads
from graphopt.runtime.host import blas_threads
from graphopt.runtime.settings.flags import set_flags

is_started = threads._xla_is_started  # before a fixture replaces it


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset all requests, and pretend that XLA has not started."""
    for name in ("OMP_NUM_THREADS", "PJRT_NPROC", "NPROC", "FLAGS_paddle_num_threads"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(threads, "_asked", 0)
    monkeypatch.setattr(threads, "_given_to_xla", 0)
    monkeypatch.setattr(threads, "_xla_is_started", lambda: False)
    monkeypatch.setattr(threads, "quota", lambda: CORES)


def test_the_script_wins_then_the_flag_then_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert threads.most_threads() == 0
    monkeypatch.setattr(threads, "CORES", 8)
    monkeypatch.setattr(threads, "quota", lambda: 6)
    assert threads.most_threads() == 6
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads.most_threads() == 5
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")  # a number for each level of nesting
    assert threads.most_threads() == 4
    set_flags({"FLAGS_paddle_num_threads": 3})
    assert threads.most_threads() == 3
    threads.limit_threads(2)
    assert threads.most_threads() == 2


def test_xla_is_told_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    threads.give_xla_its_threads()
    assert "PJRT_NPROC" not in threads.os.environ
    threads.limit_threads(3)
    threads.limit_threads(2)
    threads.give_xla_its_threads()
    assert threads.os.environ["PJRT_NPROC"] == "2"
    monkeypatch.setattr(threads, "_xla_is_started", lambda: True)
    threads.limit_threads(2)
    with pytest.warns(UserWarning, match="XLA has already started with 2 threads in this process"):
        threads.limit_threads(1)
    assert threads.most_threads() == 1, "for NumPy"


def test_jax_is_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of JAX that another thread is still importing does not count as started."""
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", ModuleType("xla_bridge"))
    assert not is_started()


def test_the_users_own_number_for_xla_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC", "7")
    threads.limit_threads(2)
    threads.give_xla_its_threads()
    assert "PJRT_NPROC" not in threads.os.environ


def test_blas_has_as_many_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """BLAS has one thread while cores are taken, else the limit, and its own outside of runs."""

    class Library:
        threads = 8

        def get_num_threads(self) -> int:
            return self.threads

        def set_num_threads(self, number: int) -> None:
            self.threads = number

    library = Library()
    monkeypatch.setattr(blas_threads, "_libraries", lambda: (library,))
    threads.limit_threads(3)
    monkeypatch.setattr(blas_threads, "idle_seconds", lambda: None)
    runs = blas_threads.BlasThreads()
    with runs.watch_run(has_all=False):
        assert library.threads == 1
    with runs.watch_run(has_all=True):
        assert library.threads == 3
        runs.judge(0.010, 0.004)
        assert library.threads == 1
    assert library.threads == 8
    threads.limit_threads(16)
    with runs.watch_run(has_all=True):
        assert library.threads == 8, "a limit adds no threads"


@pytest.mark.parametrize(
    ("version", "own", "files", "cores"),
    [
        (2, "0::/pod/box", {"pod/cpu.max": "150000 100000"}, 2),
        (2, "0::/pod/box", {"pod/box/cpu.max": "max 100000"}, CORES),
        (2, "0::/", {"cpu.max": "50000 100000"}, 1),
        (1, "1:cpu:/box", {"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"}, 1),
        (1, "1:cpu:/box", {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, CORES),
        (1, "3:memory:/box", {"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"}, CORES),
    ],
)
def test_the_quota_of_a_container(
    version: int, own: str, files: dict[str, str], cores: int, tmp_path: Path
) -> None:
    groups = tmp_path / "cgroup"
    groups.write_text(f"{own}\n", "utf-8")
    for name, text in files.items():
        file = tmp_path / ("" if version == 2 else "cpu") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", "utf-8")
    assert quota(groups, tmp_path) == min(cores, CORES)


def test_a_predictor_computes_with_the_threads_of_its_config() -> None:
    config = Config("model")
    assert config.cpu_math_library_num_threads() == 1, "as in Paddle, though it is not obeyed"
    config.set_cpu_math_library_num_threads(4)
    assert config.cpu_math_library_num_threads() == 4
    assert "| cpu_math_thread | 4     | obeyed |" in config.summary()


@pytest.mark.exhaustive
def test_xla_begins_with_one_thread() -> None:
    """With one thread in the environment, XLA starts no pool of several."""
    code = (
        "import pathlib\n"
        "from graphopt.runtime.devices.places import CPUPlace, device_of; device_of(CPUPlace())\n"
        "tasks = pathlib.Path('/proc/self/task').iterdir()\n"
        "print(sum('XLAEigen' in (each / 'comm').read_text() for each in tasks))"
    )
    counts: list[int] = []
    for environment in ({}, {"OMP_NUM_THREADS": "1"}):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=threads.os.environ | {"XLA_FLAGS": ""} | environment,
        )
        counts.append(int(done.stdout))
    assert counts[1] <= 1 and (counts[1] < counts[0] or CORES == 1), counts
