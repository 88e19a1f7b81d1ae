"""The imports of a process whose programs are on disk: neither xDSL nor the passes."""

from __future__ import annotations

import subprocess
import sys

import pytest

# what a deployment needs of the front end
READING = "import graphopt; graphopt.import_model; from graphopt import inference"
# what a script imports, and what a run with known executables does
SCRIPT = "graphopt.static graphopt.nn graphopt.fluid graphopt.optimizer graphopt.jit"
RUN = "graphopt.inference graphopt.runtime.steps.executable graphopt.runtime.disk.summaries"


@pytest.mark.parametrize("names", [SCRIPT, RUN])
def test_the_dialect_is_imported_later(names: str) -> None:
    """When a program is built or compiled."""
    code = (
        f"import sys, {names.replace(' ', ', ')}; "
        "print(*(m for m in sys.modules if m.partition('.')[0] == 'xdsl'))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not found.stdout.strip()


def test_a_model_is_read_without_the_front_end() -> None:
    """No layers and no fluid, and a step without dropouts by hash does not import Pallas."""
    code = (
        f"import sys; {READING}; import graphopt.lowering.evaluate; "
        "print(*(m for m in sys.modules if m.startswith(('graphopt.fluid', 'graphopt.nn', "
        "'graphopt.static', 'jax._src.pallas', 'graphopt.optimizer'))))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not found.stdout.strip()
