"""Notebooks that really run: cells show HTML, a summary is text, the tutorials' outputs hold.

Needs the extra `notebook`: `make test-notebooks`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs the extra `notebook`")
nbclient = pytest.importorskip("nbclient", reason="needs the extra `notebook`")
pytest.importorskip("ipykernel", reason="needs the extra `notebook`")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
CELL = re.compile(r"/\S+/ipykernel_\d+/\d+\.py")
NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]\d+)?")

BEGIN = """
import numpy as np
import graphopt as paddle
from graphopt import static
paddle.enable_static()
x = static.data("x", [None, 4], "float32")
loss = paddle.mean(paddle.nn.functional.relu(static.nn.fc(x, 3)))
adam = paddle.optimizer.Adam(1e-3)
adam.minimize(loss)
main = static.default_main_program()
strategy = static.BuildStrategy()
strategy.fuse_gemm_epilogue = True
program = static.CompiledProgram(main, strategy)
executor = static.Executor()
executor.run(static.default_startup_program())
executor.run(program, {"x": np.ones((2, 4), "float32")}, [loss])
"""
# what a cell ends with, and a part of the HTML that it shows
SHOWN = {
    "main": "pd_grad",
    "program": "fuse_gemm_epilogue",
    "program.explanations()[0]": "compile time",
    "paddle.explain(main, strategy)": "fuse_gemm_epilogue",
    "static.global_scope()": "fc_0.w_0",
    "adam": "Adam",
    "strategy": "fuse_gemm_epilogue",
    "static.ExecutionStrategy()": "mapper",
    "executor": "Executor",
    "main.summary()": "matmul-1",
    "paddle.optimizer.lr.StepDecay(0.1, 10)": "StepDecay",
}


def run(notebook: Any, folder: Path) -> None:
    """Run the cells in a new process, in this folder."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    where = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where)
    client.execute(env=environment)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Run one cell for each object and one for a summary, and return their outputs."""
    cells = [BEGIN, *SHOWN, "paddle.summary(main)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    run(notebook, tmp_path_factory.mktemp("notebook"))
    return {cell.source: list(cell.outputs) for cell in notebook.cells}


@pytest.mark.parametrize("expression", SHOWN)
def test_an_object_is_shown_as_html(expression: str, outputs: dict[str, list[Any]]) -> None:
    """Each object is one result, as HTML with tables and as text for other front ends."""
    (found,) = (each for each in outputs[expression] if each.output_type == "execute_result")
    html = found.data["text/html"]
    assert html.startswith("<div>") and "<table>" in html
    assert SHOWN[expression] in html
    assert "<pre></pre>" not in html and "<p></p>" not in html
    assert found.data["text/plain"]


def test_a_summary_is_printed(outputs: dict[str, list[Any]]) -> None:
    """A summary is printed as in Paddle, whose function returns the counts."""
    printed, returned = outputs["paddle.summary(main)"]
    assert "matmul-1" in printed.text
    assert "'total_params': 15" in returned.data["text/plain"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_prints_what_it_shows(path: Path, tmp_path: Path) -> None:
    """The outputs are as saved, except for numbers; GRAPHOPT_UPDATE_PAGES=1 saves them again."""
    shown = nbformat.read(path, 4)
    printed = nbformat.read(path, 4)
    run(printed, tmp_path)
    for cell in printed.cells:
        if cell.cell_type == "code":
            texts = [each for each in cell.outputs if each.get("name") == "stdout"]
            joined = CELL.sub("cell.py", "".join(each.text for each in texts))
            stream = nbformat.v4.new_output("stream", name="stdout", text=joined)
            cell.outputs = [stream] if joined else []
            cell.execution_count = None
            cell.metadata = {}
    if os.environ.get("GRAPHOPT_UPDATE_PAGES"):
        path.write_text(nbformat.writes(printed) + "\n", "utf-8")
        return
    for before, after in zip(shown.cells, printed.cells, strict=True):
        texts = ["".join(each.text for each in cell.get("outputs", ())) for cell in (before, after)]
        assert NUMBER.sub("#", texts[0]) == NUMBER.sub("#", texts[1]), before.source
