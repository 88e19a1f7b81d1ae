"""The imports of a process whose programs are on disk: neither xDSL nor the passes."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
