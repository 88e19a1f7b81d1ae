"""fleet with two processes, which train as one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphopt import static
from graphopt_tests.runtime.distributed import fleet_worker

WORKER = Path(fleet_worker.__file__)


@pytest.mark.exhaustive
def test_two_trainers_train_as_one(tmp_path: Path) -> None:
    """Losses, sums and lists over two trainers of two devices agree, and their files."""
    command = [sys.executable, "-m", "graphopt.launch", "--nproc_per_node", "2"]
    command += ["--devices-per-proc", "2"]
    done = subprocess.run(
        [*command, str(WORKER), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, "PYTHONPATH": str(WORKER.parents[3])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (json.loads((tmp_path / f"{n}.json").read_text()) for n in range(2))
    with static.scope_guard(static.Scope()):
        alone = fleet_worker.results()
    assert first["losses"] == second["losses"]
    np.testing.assert_allclose(first["losses"], alone["losses"], rtol=1e-3)
    assert alone["losses"][0] == alone["losses"][1] > alone["losses"][2]
    assert (first["all"], alone["all"]) == ([0, 1], [0])
    assert (first["files"], second["files"]) == (["a", "b"], ["c"])
