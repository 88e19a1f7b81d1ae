"""Each flag of BuildStrategy alone, observed as docs/reference/build-strategy.md documents.

`OBSERVERS` has a test for every flag with an effect; other flags must be documented as without one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt.errors import UnsupportedError, WorldError
from graphopt.ir.dialect.differentiated import segment_of
from graphopt.ir.dialect.ops.comm import AllGather, MpAllReduceSum
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.signature import signature_of
from graphopt.ir.program import Variable
from graphopt.lowering.stablehlo import to_stablehlo
from graphopt.passes.table.explain import as_text
from graphopt.passes.table.flags import BUILD_FLAGS
from graphopt.passes.table.manager import optimize
from graphopt.passes.table.order import ROWS
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.testing import parse
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.passes.flags import nets
from graphopt_tests.passes.flags.nets import ops_of, optimized, run, strategy

Observer = Callable[[str, Path], None]
OBSERVERS: dict[str, Observer] = {}
FLAGS = BuildStrategy.all_settings()
SWITCHES = [name for name, flag in BUILD_FLAGS.items() if isinstance(flag.default, bool)]


def observes(*flags: str) -> Callable[[Observer], Observer]:
    """Register the decorated function as the test of these flags."""

    def register(function: Observer) -> Observer:
        OBSERVERS.update(dict.fromkeys(flags, function))
        return function

    return register


# these compile deep networks twice
LONG = ("build_cinn_pass", "memory_optimize")


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "flag", [pytest.param(f, marks=pytest.mark.exhaustive if f in LONG else ()) for f in FLAGS]
)
def test_alone(flag: str, tmp_path: Path) -> None:
    """The documented effect of the flag is observed when no other flag is set."""
    if flag in OBSERVERS:
        assert not BUILD_FLAGS[flag].no_effect, "the table says that this flag does nothing"
        OBSERVERS[flag](flag, tmp_path)
    else:
        assert BUILD_FLAGS[flag].no_effect, f"no test observes {flag}: add one to OBSERVERS"
        does_nothing_and_says_so(flag)


@pytest.mark.parametrize("name", FLAGS)
def test_who_obeys(name: str) -> None:
    """Passes or the runtime obey a flag, or the table says why it has no effect."""
    flag = BUILD_FLAGS[name]
    selects = any(row.flag == name for row in ROWS)
    assert [selects, *map(bool, (flag.obeyed, flag.no_effect, flag.unsupported))].count(True) == 1
    assert bool(flag.effect) is not bool(flag.no_effect)
    assert bool(flag.pattern) is (selects or bool(flag.obeyed))


OTHER_VALUES: dict[str, Any] = {
    "mkldnn_enabled_op_types": {"relu"},
    "nccl_comm_num": 2,
    "bkcl_comm_num": 2,
    "hierarchical_allreduce_inter_nranks": 2,
}


def does_nothing_and_says_so(flag: str) -> None:
    """Check that the flag does not change the program, and that `explain` gives the reason."""
    default = getattr(BuildStrategy(), flag)
    value = OTHER_VALUES.get(flag, not default)
    with_flag, report = optimized(nets.two_layers, replicas=2, **{flag: value})
    without, _ = optimized(nets.two_layers, replicas=2)
    assert str(with_flag) == str(without)
    for text in (as_text(report, flag), as_text(report)):
        words = " ".join(text.split())
        assert f"{flag}: no effect here ({BUILD_FLAGS[flag].no_effect})" in words


# -- fusions: op counts ----------------------------------------------------------------------------

Counts = tuple[Callable[[], Any], str, int, str, int]
# the network, the op that comes with its number, and one that goes with what is left of it
FUSIONS: dict[str, Counts] = {
    "fuse_elewise_add_act_ops": (
        nets.add_and_relu,
        "fused_elemwise_add_activation",
        1,
        "relu",
        0,
    ),
    "fuse_bn_act_ops": (nets.norm_and_relu, "fused_batch_norm_act", 1, "relu", 0),
    "fuse_bn_add_act_ops": (nets.norm_add_relu, "fused_bn_add_activation", 1, "add", 0),
    "fuse_relu_depthwise_conv": (nets.depthwise, "depthwise_conv2d", 1, "relu", 0),
    "fuse_gemm_epilogue": (nets.linear_relu, "fused_gemm_epilogue", 1, "matmul", 0),
    "fused_attention": (nets.encoder_layer, "fused_attention", 1, "softmax", 0),
    "fused_feedforward": (nets.encoder_layer, "fused_feedforward", 1, "relu", 0),
    "fuse_dot_product_attention": (
        nets.encoder_layer,
        "fused_dot_product_attention",
        1,
        "softmax",
        0,
    ),
    "fuse_resunit": (nets.residual_units, "fused_bn_add_activation", 1, "relu", 0),
    "fuse_all_optimizer_ops": (nets.two_layers, "fused_sgd", 1, "sgd", 0),
}


@observes(*FUSIONS)
def op_counts(flag: str, _: Path) -> None:
    """The fused ops are in the IR only with the flag; `explain` counts them."""
    build, comes, count, goes, left = FUSIONS[flag]
    fused, report = optimized(build, **{flag: True})
    plain, _ = optimized(build, **{flag: False})
    assert ops_of(fused)[comes] == count
    assert (ops_of(fused)[goes], ops_of(plain)[goes] > left) == (left, True)
    assert as_text(report, flag).count("applied at") >= 1
    assert "left to" not in as_text(report, flag)


@observes("fuse_adamw")
def one_adamw(flag: str, _: Path) -> None:
    """The four updates of two layers are one op."""

    def updates(value: bool) -> Any:
        with fresh() as (main, _):
            loss = paddle.mean(nets.two_layers())
            paddle.optimizer.AdamW(0.1).minimize(loss)
            return paddle.explain(main, strategy(fuse_adamw=value), [loss]).to_json()["ops"]

    assert updates(False)["after"]["pd.adamw"] == 4
    after = updates(True)["after"]
    assert (after.get("pd.adamw", 0), after["pd.fused_adam_"]) == (0, 1)


GROUPED: dict[str, Callable[[], Any]] = {
    "enable_auto_fusion": nets.functions,
    "build_cinn_pass": nets.norms,
}


@observes(*GROUPED)
def groups(flag: str, _: Path) -> None:
    """Groups are in the IR and in `explain`; XLA needs less memory for the same numbers."""
    losses, state, (module, function) = run(GROUPED[flag], rows=256, **{flag: True})
    plain_losses, plain_state, (plain, kept) = run(GROUPED[flag], rows=256)
    taken = [f.memory_analysis().temp_size_in_bytes for f in (function, kept)]
    assert taken[0] < 0.75 * taken[1], taken
    assert (ops_of(module)["fusion_group"] > 0, ops_of(plain)["fusion_group"]) == (True, 0)
    _, report = optimized(GROUPED[flag], **{flag: True})
    assert "bytes stay inside; the derivative keeps" in as_text(report, flag)
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    for a, b in zip(state, plain_state, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_xla_fuses_the_loops_of_a_group() -> None:
    """Fifteen elementwise ops are one fusion in the HLO, with and without a group."""
    with fresh() as (main, _):
        h = nets.feed("x", 2048)
        for _ in range(3):
            h = paddle.nn.functional.relu(paddle.tanh(h * 1.5) + paddle.exp(h))
        program = paddle.static.CompiledProgram(main, strategy(enable_auto_fusion=True))
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(program, {"x": np.ones((2, 2048), "float32")}, [h])
        text = nets.executable_of(program).as_text()
        assert ops_of(nets.compiled_of(program).module)["fusion_group"] == 1
    assert len(re.findall(r" fusion\(", text)) == 1


# -- several devices -------------------------------------------------------------------------------


@observes("reduce_strategy")
def sums_of_gradients(flag: str, _: Path) -> None:
    """The IR has `pd.all_reduce`, but none with `_NoReduce`."""
    summed, _ = optimized(nets.two_layers, replicas=2, reduce_strategy="AllReduce")
    local, _ = optimized(nets.two_layers, replicas=2, reduce_strategy="_NoReduce")
    assert ops_of(summed)["all_reduce"] >= 1
    assert (ops_of(local)["all_reduce"], bool(signature_of(local).per_replica)) == (0, True)


def seed_of(**flags: Any) -> str:
    """Find the seed of the loss gradient on two devices: a constant or a feed."""
    text = str(optimized(nets.two_layers, replicas=2, **flags)[0])
    (found,) = re.findall(r"full.*value = ([0-9.]+)|pd.feed = \"(loss@GRAD)\"", text)
    return "".join(found)


@observes("gradient_scale_strategy")
def scale_of_the_seed(flag: str, _: Path) -> None:
    """`pd.grad` starts from the scaled constant, or from the feed."""
    assert [seed_of(gradient_scale_strategy=name) for name in ("CoeffNumDevice", "One")] == [
        "0.5",
        "1.0",
    ]
    assert seed_of(gradient_scale_strategy="Customized") == "loss@GRAD"


@observes("num_trainers")
def scale_of_trainers(flag: str, _: Path) -> None:
    """The seed is the inverse of devices times trainers."""
    assert seed_of(num_trainers=2) == "0.25"


@observes("trainer_id", "trainers_endpoints")
def messages_of_trainers(flag: str, _: Path) -> None:
    """The processes meet at the endpoints; an impossible trainer id is reported at once."""
    made = strategy(num_trainers=2, trainer_id=2, trainers_endpoints=["127.0.0.1:1", "127.0.0.1:2"])
    with fresh() as (main, _startup):
        loss = paddle.mean(nets.two_layers())
        paddle.optimizer.SGD(0.1).minimize(loss)
        program = paddle.static.CompiledProgram(main)
        with pytest.raises(WorldError, match="trainer id is 2, but this is a job of 2 trainers"):
            program.with_data_parallel(loss_name=loss.name, build_strategy=made)


@observes("sync_batch_norm")
def synchronised(flag: str, _: Path) -> None:
    """The IR has `sync = true`, and the statistics are no longer per replica."""
    module, _ = optimized(nets.norm_and_relu, replicas=2, sync_batch_norm=True)
    plain, _ = optimized(nets.norm_and_relu, replicas=2)
    assert (str(module).count("sync = true"), str(plain).count("sync = true")) == (1, 0)
    assert (len(signature_of(module).per_replica), len(signature_of(plain).per_replica)) == (0, 2)


@observes("fuse_all_reduce_ops")
def sums_in_groups(flag: str, _: Path) -> None:
    """Each layer has one `pd.all_reduce`, else each gradient has one."""
    joined, report = optimized(nets.two_layers, replicas=2, fuse_all_reduce_ops=True)
    apart, _ = optimized(nets.two_layers, replicas=2, fuse_all_reduce_ops=False)
    assert (ops_of(joined)["all_reduce"], ops_of(apart)["all_reduce"]) == (2, 4)
    assert "4 collectives before, 2 after" in as_text(report, flag)


@observes("fuse_broadcast_ops")
def gathers_as_one(flag: str, _: Path) -> None:
    """With Reduce, the small parameters share one `pd.all_gather`, else each has one."""
    reduces = {"reduce_strategy": BuildStrategy.ReduceStrategy.Reduce}
    joined, _ = optimized(nets.two_layers, replicas=2, fuse_broadcast_ops=True, **reduces)
    apart, _ = optimized(nets.two_layers, replicas=2, fuse_broadcast_ops=False, **reduces)
    assert (ops_of(joined)["all_gather"], ops_of(apart)["all_gather"]) == (1, 4)


@observes("shard_parameters")
def gathers_in_front_of_readers(flag: str, _: Path) -> None:
    """A `pd.all_gather` precedes the product; each of four devices stores a fourth of the bytes."""

    def wide() -> Variable:
        return paddle.nn.Linear(96, 96)(paddle.static.data("x", [None, 96], "float32"))

    module, report = optimized(wide, replicas=4, shard_parameters=True)
    gathers = [op for op in module.walk() if isinstance(op, AllGather) and op.attr("again")]
    readers = {type(use.operation) for op in gathers for use in op.results[0].uses}
    assert Matmul in readers
    sizes = {port.whole: port.shape for port in signature_of(module).arguments if port.whole}
    assert sizes[96, 96] == (96 * 96 // 4,)
    assert "has 384 bytes, and sharding pays from 32768" in as_text(report, flag)


@observes("tensor_parallel_degree")
def products_of_pieces(flag: str, _: Path) -> None:
    """A pair of products has one sum; each device of a replica stores half of the bytes."""

    def wide() -> Variable:
        x = paddle.nn.Linear(64, 256)(paddle.static.data("x", [None, 64], "float32"))
        return paddle.nn.Linear(256, 64)(paddle.nn.functional.relu(x))

    module, report = optimized(wide, replicas=2, tensor_parallel_degree=2)
    sums = [op for op in module.walk() if isinstance(op, MpAllReduceSum)]
    assert [type(op.operands[0].owner) for op in sums] == [Matmul]
    sizes = {port.whole: port.shape for port in signature_of(module).arguments if port.whole}
    assert sizes == {(64, 256): (64, 128), (256,): (128,), (256, 64): (128, 64)}
    assert "is cut by columns: saves" in as_text(report, flag)


@observes("sequential_run")
def the_same_order(flag: str, _: Path) -> None:
    """The order is that of enable_sequential_execution."""
    module, report = optimized(nets.two_layers, replicas=2, sequential_run=True)
    other, _ = optimized(nets.two_layers, replicas=2, enable_sequential_execution=True)
    assert str(module) == str(other)
    assert "sequential_run (order-collectives" in as_text(report)


@observes("enable_sequential_execution")
def collectives_in_order(flag: str, _: Path) -> None:
    """A fence precedes each later all-reduce; XLA joins none, and keeps the program's order."""
    apart = {"fuse_all_reduce_ops": False}
    losses, state, (module, function) = run(nets.two_layers, 2, steps=1, **{flag: True}, **apart)
    plain_losses, plain_state, (plain, joined) = run(nets.two_layers, 2, steps=1, **apart)
    assert (ops_of(module)["fence"], ops_of(plain)["fence"]) == (3, 0)
    found = re.findall(r"all-reduce\(%?([\w.-]+)", function.as_text())
    assert len(found) == 4
    assert len(re.findall(r"all-reduce\(", joined.as_text())) < 4
    np.testing.assert_array_equal(losses, plain_losses)
    for a, b in zip(state, plain_state, strict=True):
        np.testing.assert_array_equal(a, b)


@observes("enable_backward_optimizer_op_deps")
def updates_behind_gradients(flag: str, _: Path) -> None:
    """With several trainers, a fence separates gradients from updates by default."""
    for value, trainers, fences in ((True, 2, 1), (False, 2, 0), (True, 1, 0)):
        module, _ = optimized(nets.two_layers, replicas=2, num_trainers=trainers, **{flag: value})
        assert ops_of(module)["fence"] == fences
    module, _ = optimized(nets.two_layers, num_trainers=2, fuse_all_optimizer_ops=True)
    assert ops_of(module)["fence"] == 1
    assert to_stablehlo(module).count("stablehlo.optimization_barrier") == 1


# -- order and memory ------------------------------------------------------------------------------

TWO_ORDERS = """
func.func @main(%a: tensor<4xf32> {{pd.feed = "a"}}, %b: tensor<4xf32> {{pd.feed = "b"}})
  -> (tensor<4xf32> {{pd.fetch = "y"}}) {{
  {0}
  {1}
  %y = pd.subtract(%p, %q) : tensor<4xf32>
  func.return %y : tensor<4xf32>
}}
"""


@observes("fix_op_run_order")
def one_order(flag: str, _: Path) -> None:
    """Programs that differ in the order of independent ops become equal."""
    lines = ["%p = pd.relu(%a) : tensor<4xf32>", "%q = pd.tanh(%b) : tensor<4xf32>"]

    def text(value: bool, *order: str) -> str:
        module = parse(TWO_ORDERS.format(*order))
        optimize(module, strategy(fix_op_run_order=value).pass_context())
        return str(module)

    assert text(True, *lines) == text(True, *reversed(lines))
    assert text(False, *lines) != text(False, *reversed(lines))


@observes("memory_optimize")
def activations_computed_again(flag: str, _: Path) -> None:
    """Marked ops in the IR become barriers in StableHLO: less memory, and the same bits."""

    losses, state, (module, function) = run(nets.deep, rows=256, memory_optimize=True)
    plain_losses, plain_state, (plain, kept) = run(nets.deep, rows=256, memory_optimize=False)
    taken = [f.memory_analysis().temp_size_in_bytes for f in (function, kept)]
    assert taken[0] < 0.6 * taken[1], taken
    segments = {segment_of(op) for op in module.walk()} - {None}
    assert len(segments) >= 3
    assert all(segment_of(op) is None for op in plain.walk())
    barriers = to_stablehlo(module, unknown=4).count("optimization_barrier")
    assert barriers >= len(segments)
    assert "optimization_barrier" not in to_stablehlo(plain, unknown=4)
    np.testing.assert_array_equal(losses, plain_losses)
    for a, b in zip(state, plain_state, strict=True):
        np.testing.assert_array_equal(a, b)


@observes("enable_addto")
def parts_added_as_they_come(flag: str, _: Path) -> None:
    """Of a weight shared by eight layers, two gradients are live, not eight; same bits."""
    losses, state, (module, function) = run(nets.shared_weight, enable_addto=True)
    plain_losses, plain_state, (plain, kept) = run(nets.shared_weight)
    assert (str(module).count("addto = true"), str(plain).count("addto")) == (1, 0)
    size = 4 * 64 * 64
    assert kept.memory_analysis().temp_size_in_bytes > 7 * size
    assert function.memory_analysis().temp_size_in_bytes < 4 * size
    np.testing.assert_array_equal(losses, plain_losses)
    for a, b in zip(state, plain_state, strict=True):
        np.testing.assert_array_equal(a, b)
    _, report = optimized(nets.two_layers, enable_addto=True)
    assert "enable_addto (add-to" in as_text(report)
    assert "applied 0 times" in as_text(report, flag)


@observes("enable_inplace")
def donated(flag: str, _: Path) -> None:
    """The old and new parameters and moments share their bytes."""
    aliased = [
        run(nets.two_layers, steps=1, enable_inplace=value)[2][1].memory_analysis()
        for value in (True, False)
    ]
    size = 2 * 4 * (8 * 8 + 8 + 8 * 4 + 4)
    assert [analysis.alias_size_in_bytes for analysis in aliased] == [size, 0]


@observes("debug_graphviz_path")
def files(flag: str, folder: Path) -> None:
    """Three graphs, drawings and texts are written, at the stages of their names."""
    run(nets.linear_relu, debug_graphviz_path=str(folder / "g"), fuse_gemm_epilogue=True)
    stages = ("_original_graph", "_fused_graph", "_multi_devices_graph")
    wanted = {f"g{stage}{end}" for stage in stages for end in (".dot", ".svg", ".mlir")}
    assert {path.name for path in folder.iterdir()} == wanted
    for stage in stages:
        ops = ops_of(parse((folder / f"g{stage}.mlir").read_text("utf-8")))
        assert ops["fused_gemm_epilogue"] == (stage != "_original_graph")
        dot = (folder / f"g{stage}.dot").read_text("utf-8")
        assert dot.startswith("digraph G {") and dot.count('[label="pd.') == ops.total()
        drawing = (folder / f"g{stage}.svg").read_text("utf-8")
        assert drawing.startswith("<svg") and drawing.count('<g class="op">') == ops.total()


# -- what nothing can obey -------------------------------------------------------------------------


@observes("async_mode", "is_distribution")
def refused(flag: str, _: Path) -> None:
    """Compiling raises; `explain` reports the refusal without compiling."""
    with pytest.raises(UnsupportedError, match=rf"{flag} = True: there is no parameter server"):
        run(nets.linear_relu, **{flag: True})
    with fresh() as (main, _):
        nets.linear_relu()
        result = paddle.explain(main, strategy(**{flag: True})).flags[flag]
    assert (result.status, "compiling raises" in result.text) == ("refused", True)


def test_every_flag_ends_in_a_status() -> None:
    """`explain` gives each flag a status, set or not; unknown names are refused."""
    with fresh() as (main, _):
        nets.linear_relu()
        plain = paddle.explain(main)
        everything = paddle.explain(main, strategy(**dict.fromkeys(SWITCHES, True)))
    for explanation in (plain, everything):
        assert set(explanation.flags) >= set(FLAGS)
        for flag in FLAGS:
            assert flag in explanation.text(flag)
    statuses = {result.status for result in everything.flags.values()}
    assert statuses >= {"applied", "nothing to do", "refused", "no effect here"}
    with pytest.raises(ValueError, match="did you mean fuse_gemm_epilogue"):
        plain.text("fuse_gemm_epilog")
