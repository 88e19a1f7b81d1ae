"""Graphviz text: every op and edge, regions as boxes, labels that no name can break."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.dialect.differentiated import mark_segment
from graphopt.ir.dialect.dot import LONGEST, to_dot
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.testing import parse
from graphopt_tests.frontend.programs import fresh

NODE = re.compile(r'^ *(\w+) \[(?:shape=oval, )?label="((?:[^"\\]|\\.)*)"\];$')
EDGE = re.compile(r'^  (\w+) -> (\w+)(?: \[(?:label="(?:[^"\\]|\\.)*"|style=dashed)\])?;$')
BOX = re.compile(r"^ *subgraph (cluster_\w+) \{$")


def branches() -> str:
    """Draw a branch in a loop, which both read values from outside."""
    with fresh() as (main, _):
        x, n = static.data("x", [4], "float32"), static.data("n", [1], "int64")
        y = paddle.tanh(x)

        def body(i: Any, h: Any) -> list[Any]:
            return [i + 1, static.nn.cond(paddle.sum(h) > 0, lambda: h * y, lambda: h + x)]

        _, out = static.nn.while_loop(lambda i, h: i < n, body, [paddle.zeros([1], "int64"), x])
        return to_dot(parse_program(main, ["x", "n"], [out.name]))


def odd_names() -> str:
    """Draw a feed, a value and a fetch under a long name of odd characters."""
    module = parse(
        'func.func @main(%x: tensor<4xf32> {pd.feed = "x"}) -> (tensor<4xf32> {pd.fetch = "y"}) {'
        "%y = pd.relu(%x) : tensor<4xf32> func.return %y : tensor<4xf32> }"
    )
    text = str(module).replace('"x"', '"a \\"quoted\\"\\\\ name ' + "x" * 3 * LONGEST + '"')
    module = parse(text)
    mark_segment(next(op for op in module.walk() if op.name == "pd.relu"), 7)
    return to_dot(module)


@pytest.mark.parametrize("make", [branches, odd_names])
def test_structure(make: Callable[[], str]) -> None:
    """Each node is declared once; edges join declared nodes and stand outside of the boxes."""
    lines = make().splitlines()
    assert (lines[0], lines[1][:8], lines[-1]) == ("digraph G {", "  node [", "}")
    nodes: list[str] = []
    depth = 0
    for line in lines[2:-1]:
        node, edge, box = NODE.match(line), EDGE.match(line), BOX.match(line)
        assert node or edge or box or line.strip() == "}", line
        if node:
            nodes.append(node[1])
            assert len(node[2]) < 3 * LONGEST and node[2].isprintable()
        if edge:
            assert depth == 0 and {edge[1], edge[2]} <= set(nodes)
        depth += (box is not None) - (line.strip() == "}")
    assert (depth, len(nodes)) == (0, len(set(nodes)))


def test_boxes_and_marks() -> None:
    """The three regions of a loop with a branch are boxes; recomputed ops are marked."""
    assert branches().count("subgraph cluster_") == 3
    assert "computed again (7)" in odd_names()


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("make", [branches, odd_names])
def test_graphviz_draws_it(make: Callable[[], str]) -> None:
    """Graphviz draws the text without a warning."""
    text = make()
    done = subprocess.run(["dot", "-Tsvg"], input=text.encode(), capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
