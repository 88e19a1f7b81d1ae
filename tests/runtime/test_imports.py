"""What a process imports only when it needs it: each row is a way in, and what it goes without."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = {
    # what a script imports: a program is built and compiled later, and Orbax saves in a thread
    "graphopt.static graphopt.nn graphopt.optimizer graphopt.jit": "xdsl jax concurrent.futures "
    "graphopt.passes.table.order graphopt.lowering.evaluate graphopt.fluid",
    "graphopt.fluid": "xdsl jax graphopt.passes.table.order graphopt.lowering.evaluate",
    # what a run with known executables does, and one of a bundle
    "graphopt.inference graphopt.runtime.steps.executable graphopt.runtime.disk.summaries": "xdsl",
    "graphopt.models.bundle.load": "xdsl graphopt.runtime.disk.known graphopt.nn",
    # no file is read
    "graphopt.launch graphopt.io graphopt.metric graphopt.profiler graphopt.distributed": "xdsl "
    "jax graphopt.ir.formats graphopt.passes.table.order graphopt.nn graphopt.fluid",
    # no layers, and a step without dropouts by hash does not import Pallas
    "graphopt.models.model graphopt.inference graphopt.lowering.evaluate": "graphopt.fluid "
    "graphopt.nn graphopt.static jax._src.pallas graphopt.optimizer",
    # neither drawings of graphs, nor what reads the network for XML
    "graphopt.runtime.compile.compiling": "graphopt.ir.dialect.svg graphopt.ir.dialect.dot "
    "urllib.request",
}


@pytest.mark.parametrize("names", WITHOUT)
def test_imports_wait(names: str) -> None:
    """Until something is built, read, compiled or saved."""
    code = f"import sys, {', '.join(names.split())}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wrong = tuple(WITHOUT[names].split())
    assert not [
        name
        for name in found.stdout.split()
        if name in wrong or name.startswith(tuple(f"{w}." for w in wrong))
    ]
