"""The report against another program: differences as `graphopt diff` finds them, also at nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.cli.main import main as graphopt
from graphopt.report.difference import CHANGED, FUSED, NEW, difference
from graphopt.report.graph import graph_of
from graphopt.report.origins import Origins
from graphopt.report.stages import FIRST, Optimization, Other, optimization
from graphopt.runtime.compile.compilation import Compilation, pass_context_for
from graphopt.runtime.settings.strategy_text import strategy_of
from graphopt.utils import unique_name
from graphopt_tests.report.test_report import data_of

CONTEXT = pass_context_for(strategy_of("fuse_gemm_epilogue"), "")


def compiled(*, alpha: float = 0.1, extra: bool = False) -> Compilation:
    """Build two layers, with names that begin at 0; `extra` adds an op at the end."""
    main = static.Program()
    with static.program_guard(main, static.Program()), unique_name.guard():
        h = paddle.nn.functional.relu(paddle.nn.Linear(8, 8)(static.data("x", [-1, 8], "float32")))
        y = paddle.nn.functional.leaky_relu(h, alpha)
        y = paddle.tanh(y) if extra else y
    return static.CompiledProgram(main)._compilation(("x",), (y.name,))


def reported(**changes: Any) -> Optimization:
    """Report a changed program against the first one."""
    here, there = compiled(**changes), compiled()
    other = Other("yesterday", there.parse, CONTEXT)
    return optimization("today", here.parse, CONTEXT, other=other)


def test_it_is_the_difference_of_the_command() -> None:
    """The differences are shown as read and after the passes; both graphs mark changed nodes."""
    found = reported(alpha=0.2, extra=True)
    assert found.against is not None
    graphs = [graph_of(m, Origins(m)) for m in (compiled().parse(), _changed())]
    assert found.against.as_read.page() == difference(*graphs).page()
    first, last = found.stages[0].graph, found.stages[-1].graph
    for graph in (first, last):
        kinds = {node.name: node.change for node in graph.nodes if node.change}
        assert kinds == {"leaky_relu": CHANGED, "tanh": NEW}
    (changed,) = (node for node in first.nodes if node.change == CHANGED)
    assert changed.difference == "negative_slope 0.1 -> 0.2"
    assert any(line.startswith("+") and "pd.tanh" in line for line in found.against.diff)


def _changed() -> Any:
    return compiled(alpha=0.2, extra=True).parse()


def test_a_fusion_that_yesterday_did_not_have() -> None:
    """Programs that are equal as read may differ after their passes."""
    here = compiled()
    other = Other("plain", here.parse, pass_context_for(None, ""))
    found = optimization("fused", here.parse, CONTEXT, other=other)
    assert found.against is not None and found.against.as_read.is_empty
    assert [change.kind for change in found.against.after_passes.changes] == [FUSED]
    (fused,) = (node for node in found.stages[-1].graph.nodes if node.change)
    assert fused.difference == "matmul + add + relu -> fused_gemm_epilogue"


def test_the_command(tmp_path: Path) -> None:
    """The other program is the first stage, and the other side of the textual changes."""
    text = """func.func @main(feed %x: tensor<?x8xf32>) -> (fetch "y": tensor<?x8xf32>) {
  %y = pd.leaky_relu(%x) {negative_slope = 0.1}
  func.return %y : tensor<?x8xf32>
}
"""
    today, yesterday, out = (tmp_path / name for name in ("today.mlir", "yesterday.mlir", "o.html"))
    today.write_text(text.replace("0.1", "0.3"), "utf-8")
    yesterday.write_text(text, "utf-8")
    assert graphopt(["report", str(today), "--against", str(yesterday), "-o", str(out)]) == 0
    (program,) = data_of(out.read_text("utf-8"))["programs"]
    names = [stage["name"] for stage in program["stages"]]
    assert names[:2] == [f"against {yesterday}", FIRST]
    assert "negative_slope" in program["against"]
    assert any("0.3" in line for line in program["stages"][1]["diff"] if line.startswith("+"))
    assert [node.get("g") for node in program["stages"][0]["nodes"]].count(CHANGED) == 1
    assert graphopt(["report", str(today), "-o", str(out)]) == 0
    assert data_of(out.read_text("utf-8"))["programs"][0]["against"] == ""


def test_of_a_compiled_program(tmp_path: Path) -> None:
    """`CompiledProgram.report(against=...)` takes only a Program or a CompiledProgram."""
    programs = []
    for alpha in (0.1, 0.2):
        programs.append(static.Program())
        with static.program_guard(programs[-1], static.Program()), unique_name.guard():
            x = static.data("x", [-1, 4], "float32")
            y = paddle.nn.functional.leaky_relu(x, alpha)
    there, here = programs
    program = static.CompiledProgram(here)
    static.Executor().run(program, {"x": np.ones((2, 4), "float32")}, [y])
    out = tmp_path / "o.html"
    for other in (there, static.CompiledProgram(there)):
        program.report(out, against=other)
        (page,) = data_of(out.read_text("utf-8"))["programs"]
        assert "1 changed" in page["against"]
    wrong: Any = "yesterday.pdmodel"
    with pytest.raises(TypeError, match="expected a Program or CompiledProgram, got str"):
        program.report(out, against=wrong)
