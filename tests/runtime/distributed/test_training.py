"""Two real processes with two devices each train as one process with four does, and end.

Each launch costs some seconds of two processes; the faults that take longer are marked slow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphopt import static
from graphopt.ir.program import unique_name
from graphopt_tests.runtime.distributed import worker

WORKER = Path(worker.__file__)
ROOT = WORKER.parents[3]
FAULT_EXIT = 75


def launch(folder: Path, fault: str) -> subprocess.CompletedProcess[str]:
    """Run the worker as two trainers with short timeouts."""
    limits = {"SILENCE": "3", "STEP": "6", "START": "60"}
    command = [sys.executable, "-m", "graphopt.launch", "--nproc", "2", "--devices-per-proc", "2"]
    return subprocess.run(
        [*command, str(WORKER), str(folder), fault],
        capture_output=True,
        text=True,
        timeout=150,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            **{f"GRAPHOPT_{name}_TIMEOUT": seconds for name, seconds in limits.items()},
        },
    )


@pytest.mark.exhaustive
@pytest.mark.smoke
def test_same_as_one_process(tmp_path: Path) -> None:
    """Parameters, losses by trainer and random numbers agree, with a changing learning rate.

    The trainers' seeds differ, so the parameters come from trainer 0. Devices with
    different numbers of rows have equal weight; where this cannot be computed, rows are refused.
    """
    done = launch(tmp_path, "none")
    assert done.returncode == 0, done.stdout + done.stderr
    found = [np.load(tmp_path / f"{trainer}.npz") for trainer in range(2)]
    with unique_name.guard():
        wanted = worker.results(0, 1, seed=7)
    for name, value in wanted.items():
        if name.endswith("loss"):
            both = np.concatenate([part[name] for part in found])
            np.testing.assert_allclose(both, value, rtol=1e-5, atol=1e-6)
        else:
            assert np.array_equal(found[0][name], found[1][name]), name
            np.testing.assert_allclose(found[0][name], value, rtol=1e-5, atol=1e-6)
    for name in ("alone 0", "alone 1"):
        assert found[0][name] == found[1][name]
    assert found[0]["alone 0"] != found[0]["alone 1"]
    for trainer, part in enumerate(found):
        assert f"trainer {trainer} feeds its 2 devices different numbers of rows (2, 1)" in str(
            part["refused"]
        )


def check_state(folder: Path) -> None:
    """Check that the last checkpoint loads, and that its folder has no other file."""
    names = {file.name for file in folder.iterdir()}
    assert names == {"model.pdparams", "model.pdopt", "model.pdmodel"}
    state = static.load_program_state(str(folder / "model"))
    assert all(np.isfinite(value).all() for value in state.values())


def run_fault(folder: Path, fault: str) -> tuple[int, str]:
    """Run a job that has to end by itself; return exit code and output."""
    done = launch(folder, fault)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.exhaustive
@pytest.mark.smoke
def test_a_killed_trainer(tmp_path: Path) -> None:
    """kill -9 in the middle of a step is reported at once; the checkpoint is whole."""
    code, told = run_fault(tmp_path, "kill")
    assert code == 128 + 9, told
    assert "trainer 0 of 2 stops: trainer 1" in told
    assert "ended without a message: it crashed or was killed" in told
    assert "graphopt.launch: trainer 1 was ended by SIGKILL" in told
    assert "Fatal" not in told
    check_state(tmp_path)


# fault -> exit code, what is said
FAULTS: dict[str, tuple[int, str]] = {
    "stop": (FAULT_EXIT, "sent no message for 3 s"),  # the time that was set
    "raise": (1, "failed: ValueError: no such file: batch 2"),
    "end": (FAULT_EXIT, "ended its script after 2 steps, but trainer 0 goes on to step 3"),
    "late": (FAULT_EXIT, "is alive but has not reached step 3, where trainer 0 has waited for 6 s"),
    "shape": (FAULT_EXIT, "feed of x: float32 [8, 4] on trainer 0, float32 [16, 4] on trainer 1"),
    "program": (FAULT_EXIT, "variable fc_0.w_0: [4, 6] float32 on trainer 0, [4, 7] float32 on"),
    "weights": (FAULT_EXIT, 'set by the script: [] on trainer 0, ["fc_0.b_0"] on trainer 1'),
    "first": (128 + 9, "trainer 0 (127.0.0.1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_fault(tmp_path: Path, fault: str) -> None:
    """Each fault ends every process with the reason, and leaves a whole checkpoint."""
    wanted: Any
    wanted, text = FAULTS[fault]
    code, told = run_fault(tmp_path, fault)
    assert code == wanted, told
    assert text in told
    if fault != "program":
        check_state(tmp_path)
