"""The difference of two programs: each kind of change, names that shift, and the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphopt as paddle
from graphopt import static
from graphopt.cli.main import main as graphopt
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.text import text_of
from graphopt.nn import functional as F
from graphopt.report.difference import (
    CHANGED,
    FUSED,
    GONE,
    MOVED,
    NEW,
    ProgramDifference,
    brief,
    difference,
)
from graphopt.report.graph import Graph, graph_of
from graphopt.report.origins import Origins
from graphopt.report.stages import optimization
from graphopt.runtime.compile.compilation import Compilation, pass_context_for
from graphopt.runtime.settings.strategy_text import strategy_of
from graphopt.utils import unique_name

Layers = Callable[[Any], Any]


def compiled(layers: Layers) -> Compilation:
    """Build a program of layers on [-1, 8], with names that begin at 0."""
    main = static.Program()
    with static.program_guard(main, static.Program()), unique_name.guard():
        y = layers(static.data("x", [-1, 8], "float32"))
    return static.CompiledProgram(main)._compilation(("x",), (y.name,))


def graph(layers: Layers) -> Graph:
    """Build the graph of layers."""
    module = compiled(layers).parse()
    return graph_of(module, Origins(module))


def net(x: Any, *, wide: int = 8, alpha: float = 0.1, extra: bool = False) -> Any:
    """Build two layers; `extra` adds one before them, so that the numbers in all names change."""
    if extra:
        x = paddle.nn.functional.relu(paddle.nn.Linear(8, 8)(x))
    h = paddle.nn.functional.leaky_relu(paddle.nn.Linear(8, wide)(x), alpha)
    return paddle.tanh(paddle.nn.Linear(wide, 4)(h))


def kinds(found: ProgramDifference) -> list[tuple[str, str]]:
    """List the changes by kind and ops."""
    return [
        (change.kind, " + ".join(node.name for node in change.before or change.after))
        for change in found.changes
    ]


def test_the_same() -> None:
    """A program does not differ from itself."""
    found = difference(graph(net), graph(net))
    assert found.is_empty and found.same == 6
    assert str(found) == repr(found) == "6 ops before, 6 after: 6 the same"


def test_attributes_and_types() -> None:
    """Changed attributes are named, and a changed width with the shapes of its state."""
    found = difference(graph(net), graph(lambda x: net(x, alpha=0.2)))
    assert [(c.kind, c.words) for c in found.changes] == [(CHANGED, "negative_slope 0.1 -> 0.2")]
    found = difference(graph(net), graph(lambda x: net(x, wide=16)))
    assert "[-1, 8] float32 -> [-1, 16] float32" in found.page().text(300)
    assert any(line.startswith("state gone: linear_0.b_0 [8] float32") for line in found.ports)


def test_a_layer_in_front() -> None:
    """Only the ops of a layer in front are new, or gone, though all later names change."""
    plain, longer = graph(net), graph(lambda x: net(x, extra=True))
    for first, second, kind in ((plain, longer, NEW), (longer, plain, GONE)):
        found = difference(first, second)
        assert found.same == 6
        assert sorted(kinds(found)) == sorted((kind, op) for op in ("matmul", "add", "relu"))


def test_fused() -> None:
    """A fusion is shown with the ops that it took and the op that it made."""
    made = compiled(lambda x: paddle.nn.functional.relu(paddle.nn.Linear(8, 8)(x)))
    context = pass_context_for(strategy_of("fuse_gemm_epilogue"), "")
    after = optimization("p", made.parse, context).stages[-1].graph
    module = made.parse()
    found = difference(graph_of(module, Origins(module)), after)
    assert kinds(found) == [(FUSED, "matmul + add + relu")]
    assert "matmul + add + relu -> fused_gemm_epilogue" in " ".join(found.page().text(200).split())


def test_moved() -> None:
    """An op at another place of the order, with the same name and type, is moved."""
    text = """func.func @main(feed %x: tensor<?x8xf32>) -> (
  fetch "a": tensor<?x8xf32>, fetch "b": tensor<?x8xf32>) {
  %a = pd.exp(%x)
  %b = pd.tanh(%x)
  %c = pd.relu(%b)
  func.return %a, %c : tensor<?x8xf32>, tensor<?x8xf32>
}"""
    lines = text.split("\n")
    other = "\n".join([*lines[:2], *lines[3:5], lines[2], *lines[5:]])
    first, second = (parse_text(each) for each in (text, other))
    found = difference(graph_of(first, Origins(first)), graph_of(second, Origins(second)))
    assert kinds(found) == [(MOVED, "exp")]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code reports a difference; a page shows both programs."""
    first, second = tmp_path / "a.mlir", tmp_path / "b.mlir"
    first.write_text(text_of(compiled(net).parse()), "utf-8")
    second.write_text(text_of(compiled(lambda x: net(x, alpha=0.3)).parse()), "utf-8")
    assert graphopt(["diff", str(first), str(first)]) == 0
    page = tmp_path / "d.html"
    assert graphopt(["diff", str(first), str(second), "-o", str(page)]) == 1
    assert "negative_slope 0.1 -> 0.3" in capsys.readouterr().out
    assert "negative_slope" not in page.read_text("utf-8")  # it is compressed
    assert graphopt(["diff", str(first), "--after", "fuse_gemm_epilogue"]) == 1
    assert "fused_gemm_epilogue" in capsys.readouterr().out
    assert graphopt(["diff", str(first), str(tmp_path / "missing.mlir")]) == 2


@pytest.mark.exhaustive
def test_scripts_do_not_build_on_each_other(tmp_path: Path) -> None:
    """Two scripts that build in the default program are two programs, each with its own scope."""
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np, paddle\nfrom paddle import static\npaddle.enable_static()\n"
        "x = static.data('x', [-1, 4], 'float32')\nloss = paddle.mean(static.nn.fc(x, 3))\n"
        "paddle.optimizer.SGD(0.1).minimize(loss)\n"
        "exe = static.Executor()\nexe.run(static.default_startup_program())\n"
        "exe.run(feed={'x': np.ones((2, 4), 'float32')}, fetch_list=[loss])\n",
        "utf-8",
    )
    before = len(static.default_main_program().global_block().ops)
    assert graphopt(["diff", str(script), str(script)]) == 0
    out = tmp_path / "out.html"
    given = ["report", str(script), "--run", "--against", str(script), "-o", str(out)]
    assert graphopt(given) == 0
    assert len(static.default_main_program().global_block().ops) == before


def test_where_the_changes_are() -> None:
    """The layers of new ops are named; a long attribute is shown by its number of items."""

    def deep(x: Any, count: int) -> Any:
        for _ in range(count):
            x = F.relu(paddle.nn.BatchNorm1D(8)(paddle.nn.Linear(8, 8)(x)))
        return x

    found = difference(graph(lambda x: deep(x, 2)), graph(lambda x: deep(x, 3)))
    (row,) = [line for line in str(found).splitlines() if " matmul " in line]
    assert "layer 3" in row
    assert brief(str(tuple(range(50)))) == "(50 items)" and brief(None) == "default"


def test_numbers_of_draws_are_no_changes() -> None:
    """A dropout in front renumbers later dropouts, which is no change."""

    def drop(x: Any, *, first: bool) -> Any:
        x = F.dropout(paddle.exp(x), 0.5) if first else x
        return paddle.tanh(F.dropout(paddle.nn.Linear(8, 8)(x), 0.5))

    found = difference(graph(lambda x: drop(x, first=False)), graph(lambda x: drop(x, first=True)))
    assert kinds(found) == [(NEW, "exp"), (NEW, "dropout")]
