"""The report: graphs of stages, the origin of ops, the page and the data for Model Explorer."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.cli.main import main as graphopt
from graphopt.cli.opt import main as opt
from graphopt.debug.program_source import subjects
from graphopt.display.units import quantity
from graphopt.ir.dialect.context import parse_text
from graphopt.passes.table.parts import PARSE, XLA, CompilationPart
from graphopt.passes.table.report import PASSES, Report, time_rows
from graphopt.report.graph import FED, FETCHED, OP, Graph
from graphopt.report.model_explorer import model_explorer_json
from graphopt.report.page import page
from graphopt.report.stages import FIRST, Optimization, optimization
from graphopt.report.times import time_bar, time_table
from graphopt.runtime.compile.compilation import pass_context_for
from graphopt.runtime.settings.strategy_text import strategy_of

MODELS = Path(__file__).parents[1] / "data" / "models"
RESNET = MODELS / "infer_resnet18" / "model.pdmodel"
FUSIONS = "fuse_bn_act_ops,fuse_bn_add_act_ops"


@pytest.fixture(scope="module")
def resnet() -> Optimization:
    """Optimize ResNet-18 with its fusions, for any platform."""
    (subject,) = subjects(str(RESNET), [], plain=True)
    return optimization("resnet", subject.module.clone, pass_context_for(strategy_of(FUSIONS), ""))


def ops(graph: Graph) -> list[str]:
    """List the names of a graph's ops."""
    return [node.name for node in graph.nodes if node.kind == OP]


def test_stages(resnet: Optimization) -> None:
    """The stages are the program as read, and after each step that changed it."""
    first, *_, last = resnet.stages
    assert first.name == FIRST and first.diff == ()
    assert ops(first.graph).count("batch_norm") == 20
    fused = next(stage for stage in resnet.stages if "fuse-bn-act" in stage.name)
    assert ops(fused.graph).count("fused_batch_norm_act") == 9
    assert any(line.startswith("+") and "pd.fused_batch_norm_act(" in line for line in fused.diff)
    kinds = [node.kind for node in last.graph.nodes]
    assert (kinds.count(FED), kinds.count(FETCHED)) == (1, 1)


def test_fused_ops_are_of_their_pass_and_block(resnet: Optimization) -> None:
    """Each fused op names its pass, and is in the block of the ops that it replaced."""
    graph = resnet.stages[-1].graph
    fused = [node for node in graph.nodes if node.name.startswith("fused_")]
    assert len(fused) == 17
    for node in fused:
        assert node.made == ("fuse-bn-add-act" if "+ add +" in node.fused else "fuse-bn-act")
        assert node.fused in ("batch_norm + relu", "batch_norm + add + relu")
        label = graph.clusters[node.cluster].label
        assert label.startswith(("residual block", "layer"))
    assert {node.made for node in graph.nodes if node.name == "conv2d"} == {""}
    labels = [cluster.label for cluster in graph.clusters]
    assert "residual blocks 1 to 2: each 2 conv2d, 2 batch_norm, 2 relu, add" in labels
    # the first convolution, and the last product: the ops alone between them have no box
    layers = dict.fromkeys(label for label in labels if label.startswith("layer"))
    assert [label.partition(":")[0] for label in layers] == ["layer 1", "layer 2"]


@pytest.mark.exhaustive
def test_rebuilt_ops_keep_their_origin() -> None:
    """Ops that a layout pass rebuilds remain the user's, in their blocks."""
    (subject,) = subjects(str(RESNET), [], plain=True)
    context = pass_context_for(strategy_of(FUSIONS), "cpu")
    graph = optimization("resnet", subject.module.clone, context).stages[-1].graph
    convolutions = [node for node in graph.nodes if node.name == "conv2d"]
    assert {node.made for node in convolutions} == {""}
    assert all("assign-layout" in node.rebuilt for node in convolutions)
    assert all(node.result for node in convolutions)
    assert all(node.cluster >= 0 for node in convolutions)


def test_state_is_folded(resnet: Optimization) -> None:
    """Parameters are facts of their consumers, not nodes."""
    nodes = resnet.stages[0].graph.nodes
    first = next(node for node in nodes if node.name == "conv2d")
    assert first.state == ["conv2d_0.w_0 [4, 3, 7, 7] float32"]
    assert not [node for node in nodes if node.name.endswith("w_0")]


def test_updates() -> None:
    """A training program has its updates in a cluster, and the derivative in none."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [-1, 4], "float32")
        h = paddle.nn.Linear(4, 4)(x)
        loss = paddle.mean(paddle.nn.Linear(4, 4)(h))
        paddle.optimizer.SGD(0.1).minimize(loss)
    made = static.CompiledProgram(main)._compilation(("x",), (loss.name,))
    graph = optimization("p", made.parse, made.pass_context()).stages[0].graph
    labels = {at: cluster.label for at, cluster in enumerate(graph.clusters)} | {-1: ""}
    assert {labels[node.cluster] for node in graph.nodes if node.name == "sgd"} == {"updates"}
    assert {labels[node.cluster] for node in graph.nodes if node.name == "grad"} == {""}


def data_of(html: str) -> Any:
    """Read the data of a page."""
    found = re.search(r'id="data">([^<]*)<', html)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def test_the_page_is_self_contained(resnet: Optimization) -> None:
    """Nothing is loaded from elsewhere, names are escaped, and the copyright holder is named."""
    html = page([resnet], "<script>alert(1)</script>")
    outside = re.sub(r'<script type="application/octet-stream"[^>]*>[^<]*</script>', "", html)
    assert not re.search(r"""(src|href)=["'](?!data:)""", outside)
    assert "<title>&lt;script&gt;" in html
    assert not re.search(r"\{\{[A-Z_]+\}\}", html)
    assert len(html) < 1_000_000
    data = data_of(html)
    (program,) = data["programs"]
    names = [stage["name"].rpartition("after ")[2] for stage in program["stages"]]
    assert names == [stage.name for stage in resnet.stages]
    assert "fuse_bn_act_ops" in program["overview"]


def test_the_costliest_ops_have_a_name_and_a_place(resnet: Optimization) -> None:
    """Costly ops are named also for a saved model without lines; a kind has its ops' sum."""
    found = re.sub(r"<[^>]*>+", "|", data_of(page([resnet], "x"))["programs"][0]["numbers"])
    found = re.sub(r"\|+", "|", found)
    assert "|the costliest ops|op|result or state|in|FLOPs|traffic|" in found
    assert re.search(r"\|conv2d\|conv2d_0.tmp\|layer 1\|", found)
    kinds = found.partition("|ops, with their cost after the passes|")[2]
    nodes = resnet.stages[-1].graph.nodes
    flops = sum(node.flops for node in nodes if node.name == "conv2d")
    assert f"|conv2d|20|20|{quantity(flops)}|" in kinds


def test_the_time_of_many_sizes() -> None:
    """A program of many sizes has one row for each kind of part; without times it has no bar."""
    report = Report(pass_context_for(None, ""))
    assert time_bar(report) == ""
    report.parts += [
        CompilationPart(PARSE, 0.5),
        *(CompilationPart(XLA, 0.25, f"x [{n}]") for n in range(8)),
    ]
    assert [list(row) for row in time_table(report).rows] == [
        ["parse", "", "500.0"], ["XLA", "8 sizes", "2000.0"], ["total", "", "2500.0"],
    ]  # fmt: skip
    assert 'class="XLA" style="flex-grow:2000000;' in time_bar(report)


def test_each_pass_has_a_segment(resnet: Optimization) -> None:
    """Both bars, of all parts and of the passes, have segments as wide as the pass's time."""
    bar = time_bar(resnet.report)
    rows = [row for row in time_rows(resnet.report) if row.kind == PASSES and row.seconds]
    assert len(rows) > 5
    for row in rows:
        title = f'title="{row.of} {row.seconds * 1e3:.1f} ms"'
        assert bar.count(f"flex-grow:{row.seconds * 1e6:.0f};") >= 2 and bar.count(title) == 2
    slowest = max(rows, key=lambda row: row.seconds)
    assert f"</i>{slowest.of} {slowest.seconds * 1e3:.1f} ms" in bar


def test_numbers_of_float32_are_short() -> None:
    """The nearest float32 to 0.01 is shown as 0.01; other numbers are unchanged."""
    text = """func.func @main(feed %x: tensor<?x8xf32>) -> (fetch "y": tensor<?x8xf32>) {
  %a = pd.leaky_relu(%x) {negative_slope = 0.009999999776482582}
  %y = pd.scale(%a) {scale = 0.1, bias = 1.0e300}
  func.return %y : tensor<?x8xf32>
}
"""
    graph = optimization("p", lambda: parse_text(text), pass_context_for(None, "")).stages[0].graph
    relu, scale = (node for node in graph.nodes if node.kind == OP)
    assert relu.attributes == {"negative_slope": "0.01"}
    assert (scale.attributes["scale"], scale.attributes["bias"]) == ("0.1", "1e+300")


def test_no_program_is_refused() -> None:
    """A page without programs is an error."""
    with pytest.raises(ValueError, match="no program"):
        page([], "x")


def test_model_explorer(resnet: Optimization) -> None:
    """Each stage has a graph; every edge leads to a node, every namespace to its clusters."""
    data = json.loads(model_explorer_json([resnet], "resnet"))
    assert len(data["graphs"]) == len(resnet.stages)
    for graph in data["graphs"]:
        names = {node["id"] for node in graph["nodes"]}
        assert len(names) == len(graph["nodes"])
        for node in graph["nodes"]:
            assert all(edge["sourceNodeId"] in names for edge in node["incomingEdges"])
    spaces = {node["namespace"].split("/")[0] for node in data["graphs"][0]["nodes"]}
    assert "residual blocks 1 to 2: each 2 conv2d, 2 batch_norm, 2 relu, add" in spaces
    facts = [each for node in data["graphs"][-1]["nodes"] for each in node["attrs"]]
    assert {"key": "fused", "value": "batch_norm + add + relu"} in facts


def test_of_a_compiled_program(tmp_path: Path) -> None:
    """`CompiledProgram.report` works after a run; before, its error says what to do."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [-1, 4], "float32")
        y = paddle.nn.functional.relu(paddle.add(x, x))
    compiled = static.CompiledProgram(main)
    with pytest.raises(RuntimeError, match="run it first"):
        compiled.report(tmp_path / "r.html")
    static.Executor().run(compiled, {"x": np.ones((2, 4), "float32")}, [y])
    compiled.report(tmp_path / "r.html", "mine")
    data = data_of((tmp_path / "r.html").read_text("utf-8"))
    assert data["title"] == "mine"
    for kind in ("parse", "passes", "trace", "lower", "XLA"):
        assert f'<i class="{kind}"' in data["programs"][0]["numbers"]
    compiled.report(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text("utf-8"))["graphs"]


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`graphopt report`, `graphopt-opt --report` and `--emit model-explorer` write reports."""
    model, out = str(MODELS / "infer_lenet" / "model.pdmodel"), tmp_path / "out.html"
    assert (
        graphopt(["report", model, "-o", str(out), "--build-strategy", "fuse_gemm_epilogue"]) == 0
    )
    assert len(data_of(out.read_text("utf-8"))["programs"]) == 1
    capsys.readouterr()
    assert opt([model, "--fuse-gemm-epilogue", "--report", str(out)]) == 0
    stages = data_of(out.read_text("utf-8"))["programs"][0]["stages"]
    assert [stage["name"] for stage in stages] == [FIRST, "1. after fuse-gemm-epilogue"]
    capsys.readouterr()
    assert opt([model, "--fuse-gemm-epilogue", "--emit", "model-explorer"]) == 0
    assert len(json.loads(capsys.readouterr().out)["graphs"]) == 2


@pytest.mark.exhaustive
def test_a_saved_model_that_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--run`, the compile time has all parts, for the sizes of `--dim`."""
    model, out = str(MODELS / "infer_lenet" / "model.pdmodel"), tmp_path / "out.html"
    assert graphopt(["report", model, "-o", str(out)]) == 0
    assert '<i class="XLA"' not in data_of(out.read_text("utf-8"))["programs"][0]["numbers"]
    assert graphopt(["report", model, "-o", str(out), "--run", "--dim", "3"]) == 0
    numbers = data_of(out.read_text("utf-8"))["programs"][0]["numbers"]
    for kind in ("parse", "passes", "trace", "lower", "XLA"):
        assert f'<i class="{kind}"' in numbers
    assert "x [3, 1, 28, 28]" in numbers
    capsys.readouterr()
    for given, text in (
        ([model, "--dim", "3"], "--dim needs --run"),
        (["x.mlir", "--run"], "--run takes a saved model or a script"),
        ([model, "--run", "--platform", "cpu"], "leave out --platform"),
    ):
        assert graphopt(["report", *given]) == 1
        assert text in capsys.readouterr().err


def test_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The script's programs are shown, programs with feeds first."""
    script, out = tmp_path / "script.py", tmp_path / "out.html"
    script.write_text(
        "import numpy as np, paddle\nfrom paddle import static\npaddle.enable_static()\n"
        "x = static.data('x', [-1, 4], 'float32')\ny = static.nn.fc(x, 3)\n"
        "exe = static.Executor()\nexe.run(static.default_startup_program())\n"
        "exe.run(feed={'x': np.ones((2, 4), 'float32')}, fetch_list=[y])\n",
        "utf-8",
    )
    assert graphopt(["report", str(script), "-o", str(out)]) == 0
    first, second = data_of(out.read_text("utf-8"))["programs"]
    kinds = [{node.get("k") for node in each["stages"][0]["nodes"]} for each in (first, second)]
    assert kinds == [{"op", "feed", "fetch"}, {"op"}]


@pytest.mark.exhaustive
def test_a_data_parallel_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has the passes of all its devices, and their communication."""
    script, out = tmp_path / "script.py", tmp_path / "out.html"
    monkeypatch.setenv("CPU_NUM", "2")
    script.write_text(
        "import numpy as np, paddle\nfrom paddle import static\npaddle.enable_static()\n"
        "x = static.data('x', [-1, 4], 'float32')\nloss = paddle.mean(static.nn.fc(x, 3))\n"
        "paddle.optimizer.SGD(0.1).minimize(loss)\nmain = static.default_main_program()\n"
        "exe = static.Executor()\nexe.run(static.default_startup_program())\n"
        "flags = static.BuildStrategy()\nflags.fuse_gemm_epilogue = True\n"
        "both = static.CompiledProgram(main).with_data_parallel(loss.name, flags)\n"
        "exe.run(both, {'x': np.ones((2, 4), 'float32')}, [loss])\n",
        "utf-8",
    )
    assert graphopt(["report", str(script), "-o", str(out)]) == 0
    first, _ = data_of(out.read_text("utf-8"))["programs"]
    # side by side are the program as read and after its optimizations, not the last stage of all
    last = first["stages"][first["pair"][1]]
    assert first["pair"][0] == 0 and not last["required"] and first["stages"][-1]["required"]
    assert "all_reduce" not in {node["n"] for node in last["nodes"]}
    assert [(one["why"], one["feeds"]) for one in first["compilations"]] == [
        ("new program", "x [2, 4]")
    ]
    assert "collectives of a step on 2 devices" in first["overview"]
    assert {"all_reduce"} < {node["n"] for node in first["stages"][-1]["nodes"]}
    assert '<i class="XLA"' in first["numbers"]


def test_why_a_program_was_compiled_again(tmp_path: Path) -> None:
    """Each set of sizes is a row, with the reason, a remedy, and its own parts of the time."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [-1, 4], "float32")
        y = paddle.nn.functional.relu(paddle.add(x, x))
    compiled, exe = static.CompiledProgram(main), static.Executor()
    for rows in (2, 3):
        exe.run(compiled, {"x": np.ones((rows, 4), "float32")}, [y])
    compiled.report(tmp_path / "out.html")
    (program,) = data_of((tmp_path / "out.html").read_text("utf-8"))["programs"]
    first, second = program["compilations"]
    assert (first["why"], first["feeds"]) == ("new program", "x [2, 4]")
    assert (second["why"], second["feeds"]) == ("other feed shape", "x [3, 4]")
    assert "feed one size" in second["fix"] and first["fix"].startswith("none")
    assert {"parse", "passes", XLA} <= first["seconds"].keys()
    assert XLA in second["seconds"] and "parse" not in second["seconds"]


def test_the_end_of_an_inference_model_is_no_initial_value() -> None:
    """A group of ops that has no operands and is fetched is in its block."""
    text = """func.func @main(feed %x: tensor<64x512xf32>) -> (fetch "y": tensor<64x512xf32>) {
  %m = pd.mean(%x) {axis = [-1], keepdim = true}
  %d = pd.subtract(%x, %m)
  %s = pd.multiply(%d, %d)
  %v = pd.mean(%s) {axis = [-1], keepdim = true}
  %r = pd.sqrt(%v)
  %y = pd.divide(%d, %r)
  func.return %y : tensor<64x512xf32>
}"""
    context = pass_context_for(strategy_of("build_cinn_pass"), "cpu")
    found = optimization("norm", lambda: parse_text(text), context)
    graph = found.stages[-1].graph
    (group,) = [node for node in graph.nodes if node.name == "fusion_group"]
    assert not any("initial" in cluster.label for cluster in graph.clusters)
    assert group.fused == "mean + subtract + multiply + mean + sqrt + divide"
    assert group.made == "group-reductions"
    # its box ends in it: the last op inside leads to it, and it leads to what is fetched
    assert [graph.nodes[at].name for at in group.inputs] == ["divide"]
    (fetched,) = [node for node in graph.nodes if node.kind == FETCHED]
    assert [graph.nodes[at].name for at in fetched.inputs] == ["fusion_group"]
    # it is one op, as explain counts it
    assert sum(node.kind == OP and not node.grouped for node in graph.nodes) == 1
    assert found.report.ops_after == 1


def test_rebuilt_updates_stay_the_users() -> None:
    """Updates of filters in another layout are not marked as made by a pass."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [-1, 3, 8, 8], "float32")
        loss = paddle.mean(paddle.nn.Conv2D(4, 8, 3)(paddle.nn.Conv2D(3, 4, 3)(x)))
        paddle.optimizer.Momentum(0.1).minimize(loss)
    made = static.CompiledProgram(main)._compilation(("x",), (loss.name,))
    context = replace(made.pass_context(), platform="cpu")
    graph = optimization("p", made.parse, context).stages[-1].graph
    updates = [node for node in graph.nodes if node.name == "momentum"]
    assert [node.made for node in updates] == [""] * 4
    assert any("store-filters" in node.rebuilt for node in updates)
