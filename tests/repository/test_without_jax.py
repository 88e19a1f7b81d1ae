"""`ir`, `passes`, `reference` and the report work without JAX, so that a browser could run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[1] / "data" / "models"
BLOCKED = ("jax", "jaxlib", "scipy")
QUICK = ("infer_lenet",)


def programs() -> list[Path]:
    """List the programs of all saved models."""
    names = ("model.pdmodel", "main.pdmodel", "__model__", "model.json", "main.json")
    return sorted(path for path in MODELS.rglob("*") if path.name in names)


CASES = [
    pytest.param(
        path,
        marks=() if {*QUICK} & {*path.parts} else pytest.mark.exhaustive,
        id=str(path.relative_to(MODELS)),
    )
    for path in programs()
]


@pytest.mark.parametrize("path", CASES)
def test_a_model_is_read_explained_and_run(path: Path) -> None:
    """The page of a model is written, with passes of flags, and the reference computes it."""
    code = f"""
import sys
from pathlib import Path
class Blocked:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(name + " is blocked", name=name)
sys.meta_path.insert(0, Blocked())
from graphopt.debug.compare import random_inputs
from graphopt.debug.program_source import subjects
from graphopt.reference import evaluate
from graphopt.report.page import page
from graphopt.report.stages import optimization
from graphopt.runtime.compile.compilation import pass_context_for
from graphopt.runtime.settings.strategy_text import strategy_of
(subject,) = subjects({str(path)!r}, [], plain=True)
context = pass_context_for(strategy_of("fuse_gemm_epilogue,fuse_bn_act_ops,build_cinn_pass"), "")
page([optimization(subject.origin, subject.module.clone, context)], "page")
assert evaluate(subject.module, random_inputs(subject.module))
assert not {{*sys.modules}} & {{{", ".join(map(repr, BLOCKED))}}}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
