"""Lazy imports of a process: each row is an entry point, and modules that it does not import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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

MODEL = Path(__file__).parents[1] / "data" / "models" / "infer_mobilenet_v2" / "model"


@pytest.mark.every(2)
@pytest.mark.parametrize("names", WITHOUT)
def test_imports_wait(names: str) -> None:
    """The modules are not imported until a program is built, read, compiled or saved."""
    code = f"import sys, {', '.join(names.split())}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wrong = tuple(WITHOUT[names].split())
    assert not [
        name
        for name in found.stdout.split()
        if name in wrong or name.startswith(tuple(f"{w}." for w in wrong))
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("level", "says"), [(None, False), ("INFO", True)])
def test_the_log_of_a_script_has_no_lines_of_jax(level: str | None, says: bool) -> None:
    """JAX logs only if the user requests it."""
    code = (
        "import logging\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "from graphopt.runtime.settings.jax_import import import_jax\n"
        "import_jax()\n"
        "logging.getLogger('jax._src.xla_bridge').info('no TPU is there')\n"
        "logging.info('epoch 1')\n"
    )
    environment = os.environ | ({"JAX_LOGGING_LEVEL": level} if level else {})
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "epoch 1" in found.stderr
    assert ("no TPU is there" in found.stderr) is says


@pytest.mark.slow
def test_sizes_on_disk_need_no_dialect(tmp_path: Path) -> None:
    """Sizes on disk run without xDSL or passes; finding no entry needs no JAX."""

    def imported(compiles: bool) -> list[str]:
        code = (
            "import sys, time, numpy as np\n"
            "from graphopt.inference import Config, create_predictor\n"
            f"config = Config({f'{MODEL}.pdmodel'!r}, {f'{MODEL}.pdiparams'!r})\n"
            "predictor = create_predictor(config)\n"
            "def forms():\n"
            "    return [text.split(':')[0] for text in predictor._executor.stats['tiers']]\n"
            "for rows in (1, 2):\n"
            "    picture = np.ones((rows, 3, 32, 32), 'float32')\n"
            "    predictor.get_input_handle('x').copy_from_cpu(picture)\n"
            "    predictor.run()\n"
            f"    while {compiles} and forms().count('full') < rows:\n"
            "        predictor.run()\n"
            "roots = {name.partition('.')[0] for name in sys.modules}\n"
            "passes = {'graphopt.passes.table.manager'} & {*sys.modules}\n"
            "print(*sorted(({'xdsl', 'jax'} & roots) | passes))\n"
        )
        environment = os.environ | {"FLAGS_graphopt_cache_dir": str(tmp_path / "cache")}
        environment |= {"FLAGS_graphopt_tier": "auto", "JAX_ENABLE_COMPILATION_CACHE": "true"}
        return subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        ).stdout.split()

    assert imported(False) == ["graphopt.passes.table.manager", "xdsl"]
    assert "jax" in imported(True)
    assert imported(False) == ["jax"]
