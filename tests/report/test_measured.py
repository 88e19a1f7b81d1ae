"""Measured steps in a report: each op gets its time by its number, whatever its names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.cli.main import main as graphopt
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.numbers import numbers_of, ops_by_number
from graphopt.passes.table.context import PassContext
from graphopt.report.graph import OP, OpMeasured, graph_of
from graphopt.report.measured import MEASURED, MeasuredStep, StepMeasured
from graphopt.report.origins import Origins
from graphopt.report.stages import optimization
from graphopt.runtime.measured import measured_step
from graphopt_tests.report.test_report import MODELS, data_of

STEP = StepMeasured(1.0, 0.25, 0.0, 3, "", 4096, 1024, 512)
# ops of one kind without names of their own, one of them in a region
TEXT = """func.func @main(feed %x: tensor<4xf32>) -> (fetch "y": tensor<4xf32>) {
  %0 = pd.exp(%x)
  %1 = pd.exp(%0)
  %y = pd.exp(%1)
  func.return %y : tensor<4xf32>
}
"""
FEED = {"x": np.ones((64, 32), "float32")}
Net = tuple[static.CompiledProgram, Any, static.Executor]


def taking(text: str, seconds: list[float]) -> MeasuredStep:
    """Build a measured program whose `pd.exp` ops take these times."""
    module = parse_text(text)
    exps = [op for op in ops_by_number(module) if op.name == "pd.exp"]
    numbers = numbers_of(module)
    times = zip(exps, seconds, strict=True)
    return MeasuredStep(module, STEP, {numbers[op]: OpMeasured(s, 0.0, 0, 8) for op, s in times})


def test_ops_are_found_by_their_numbers() -> None:
    """Each of three unnamed ops of one kind has its own time, and the program one stage."""
    made = optimization(
        "p", lambda: parse_text(TEXT), PassContext({}), measured=taking(TEXT, [0.1, 0.2, 0.3])
    )
    assert (made.measured, made.as_measured) == (STEP, None)
    nodes = [node for node in made.all_stages()[-1].graph.nodes if node.kind == OP]
    assert [node.measured and node.measured.seconds for node in nodes] == [0.1, 0.2, 0.3]


def test_another_program_has_a_stage_of_its_own() -> None:
    """Times of a program with other ops are not assigned to ops of this one."""
    other = TEXT.replace("pd.exp(%x)", "pd.tanh(%x)")
    made = optimization(
        "p", lambda: parse_text(TEXT), PassContext({}), measured=taking(other, [0.2, 0.3])
    )
    *before, last = made.all_stages()
    assert last.name == MEASURED and any("pd.tanh" in line for line in last.diff)
    assert not any(node.measured for stage in before for node in stage.graph.nodes)
    found = {node.name: node.measured for node in last.graph.nodes if node.kind == OP}
    assert found["tanh"] is None and found["exp"] is not None


def test_numbers_count_ops_in_regions() -> None:
    """A node has the number of its op, in loops, too."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [4], "float32")
        i = paddle.zeros([1], "int64")
        _, y = static.nn.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, paddle.exp(y)], [i, x])
    module = static.CompiledProgram(main)._compilation(("x",), (y.name,)).parse()
    ops = ops_by_number(module)
    nodes = [node for node in graph_of(module, Origins(module)).nodes if node.kind == OP]
    assert [ops[node.number].name for node in nodes] == [f"pd.{node.name}" for node in nodes]
    assert "exp" in {node.name for node in nodes}


@pytest.fixture
def net() -> Iterator[Net]:
    """Build a network that trains, and run it once."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        x = static.data("x", [None, 32], "float32")
        hidden = static.nn.fc(x, 64, activation="relu")
        loss = paddle.mean(static.nn.fc(hidden, 10))
        paddle.optimizer.Adam(0.01).minimize(loss)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        compiled = static.CompiledProgram(main)
        exe.run(compiled, FEED, [loss])
        yield compiled, loss, exe


@pytest.mark.exhaustive
def test_a_compiled_program_is_measured(net: Net, tmp_path: Path) -> None:
    """With `report(feed=...)`, the ops' times, idle and other time add up to the step."""
    compiled, loss, _ = net
    compiled.report(tmp_path / "r.html", feed=FEED, steps=2)
    (program,) = data_of((tmp_path / "r.html").read_text("utf-8"))["programs"]
    step, last = program["measured"], program["stages"][-1]
    assert MEASURED not in last["name"] and step["steps"] == 2
    times = [node["q"] for node in last["nodes"] if "q" in node]
    whole = sum(seconds for seconds, *_ in times) + step["idle"] + step["other"]
    assert whole == pytest.approx(step["seconds"], rel=1e-2)
    assert not any("q" in node for stage in program["stages"][:-1] for node in stage["nodes"])
    profile = compiled.profile(FEED, [loss], steps=1)
    assert measured_step(profile).is_of(compiled.text())
    flops = {row.variable: row.flops for row in profile.rows if row.op == "pd.matmul" and row.flops}
    drawn = {n["r"]: n["q"][2] for n in last["nodes"] if n["n"] == "matmul" and "q" in n}
    assert drawn == flops and len(drawn) == 2
    assert max(held for *_, held, _ in times) >= 4 * 64 * 64
    compiled.report(tmp_path / "r.json", feed=FEED, steps=1)
    (*_, graph) = json.loads((tmp_path / "r.json").read_text("utf-8"))["graphs"]
    keys = {entry["key"] for node in graph["nodes"] for entry in node["attrs"]}
    assert {"ms", "bytes at the peak"} <= keys


@pytest.mark.exhaustive
def test_other_fetches_are_another_program(net: Net, tmp_path: Path) -> None:
    """The measured program comes first; the program that ran stays."""
    compiled, loss, _ = net
    compiled.report(tmp_path / "r.html", feed=FEED, fetch_list=[], steps=1)
    first, second = data_of((tmp_path / "r.html").read_text("utf-8"))["programs"]
    assert first["measured"] and second["measured"] is None
    kinds = [[n.get("n") for n in p["stages"][-1]["nodes"] if n["k"] == "fetch"] for p in
             (first, second)]  # fmt: skip
    assert kinds == [[], [loss.name]]


@pytest.mark.exhaustive
def test_several_devices(net: Net, tmp_path: Path) -> None:
    """A step is measured on one device: its program, without collectives, has its own stage."""
    compiled, loss, exe = net
    both = static.CompiledProgram(compiled._source)
    both.with_data_parallel(loss.name, places=[paddle.CPUPlace()] * 2)
    exe.run(both, FEED, [loss])
    both.report(tmp_path / "r.html", feed=FEED, steps=1)
    (program,) = data_of((tmp_path / "r.html").read_text("utf-8"))["programs"]
    *_, parallel, alone = program["stages"]
    assert alone["name"] == MEASURED
    names = [{node["n"] for node in stage["nodes"]} for stage in (parallel, alone)]
    assert ["all_reduce" in each for each in names] == [True, False]
    assert [any("q" in n for n in stage["nodes"]) for stage in (parallel, alone)] == [False, True]


@pytest.mark.exhaustive
def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`graphopt report --run` of a saved model and of a script; startup programs are not run."""
    model, out = str(MODELS / "infer_resnet18" / "model.pdmodel"), tmp_path / "out.html"
    assert graphopt(["report", model, "-o", str(out), "--run", "--dim", "2"]) == 0
    (program,) = data_of(out.read_text("utf-8"))["programs"]
    last = program["stages"][-1]
    assert MEASURED not in last["name"]
    assert sum(n["n"] == "conv2d" and n["q"][2] > 0 for n in last["nodes"] if "q" in n) == 20
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, paddle\nfrom paddle import static\npaddle.enable_static()\n"
        "x = static.data('x', [-1, 4], 'float32')\ny = static.nn.fc(x, 3)\n"
        "exe = static.Executor()\nexe.run(static.default_startup_program())\n"
        "exe.run(feed={'x': np.ones((2, 4), 'float32')}, fetch_list=[y])\n",
        "utf-8",
    )
    with static.program_guard(static.Program(), static.Program()):
        assert graphopt(["report", str(script), "-o", str(out), "--run"]) == 0
    first, second = data_of(out.read_text("utf-8"))["programs"]
    assert first["measured"]["feeds"] == 2 * 4 * 4 and second["measured"] is None
    assert any(n["l"].endswith("script.py:5") for n in first["stages"][-1]["nodes"] if "q" in n)
    capsys.readouterr()
    assert graphopt(["report", "x.mlir", "--run"]) == 1
    assert "not text of the IR" in capsys.readouterr().err
