"""shard_parameters: each of D devices holds 1/D of parameters, gradients and state (FSDP).

It trains as one device does; only storage and traffic differ.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphopt as paddle
from graphopt import static
from graphopt.ir.dialect.ops.comm import AllGather
from graphopt.ir.program import Program, Variable
from graphopt.passes.fusions.fuse_bn_act import FuseBnAct
from graphopt.passes.fusions.fuse_gemm_epilogue import FuseGemmEpilogue
from graphopt.passes.parallel.shard_parameters import share_of
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.testing import programs
from graphopt.testing.programs import Generated
from graphopt_tests.example_counts import examples
from graphopt_tests.runtime.nets import (
    Net,
    build,
    close,
    parameter,
    strategy,
    value,
    write,
)
from graphopt_tests.runtime.replicas import agree, inputs_of, parallel, run
from graphopt_tests.runtime.trainings import (
    CLIPS,
    Array,
    minimize_as_drawn,
    module_text,
    same,
    saves_as_one_device,
    set_options,
    state_of,
)


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shard parameters of any size."""

    def options(context: Any) -> Any:
        return {"parts": context.replicas, "smallest": 1}

    set_options(monkeypatch, "shard-parameters", options)


COUNT = examples(12)
WITH_PARAMETERS = programs(plant=[*FuseGemmEpilogue.RULES, *FuseBnAct.RULES])


@pytest.mark.exhaustive
@pytest.mark.usefixtures("any_size")
def test_random_programs() -> None:
    """On 2, 4 and 8 replicas the results equal those with whole parameters."""
    sharded = 0

    @settings(max_examples=COUNT)
    @given(WITH_PARAMETERS, st.sampled_from([2, 4, 8]))
    def check(generated: Generated, count: int) -> None:
        nonlocal sharded
        module = generated.module
        inputs = inputs_of(module, count)
        wanted = run("lockstep", parallel(module, count), inputs)
        made = parallel(module, count, shard_parameters=True)
        agree(run("lockstep", made, inputs), wanted, "in parts", 1e-4)
        sharded += any(isinstance(op, AllGather) and op.attr("again") for op in made.walk())

    check()
    assert sharded >= COUNT // 2


# -- nets that train -------------------------------------------------------------------------------

WIDTH = 8
DRAWN = st.fixed_dictionaries(
    {
        "layers": st.lists(
            st.sampled_from(["linear", "norm", "tied", "skip", "frozen", "twice"]),
            min_size=1,
            max_size=4,
        ),
        "deep": st.booleans(),
        "optimizer": st.sampled_from(["SGD", "Momentum", "Adam", "AdamW", "Lars"]),
        "clip": st.sampled_from([None, *CLIPS]),
        "decay": st.booleans(),
        "devices": st.sampled_from([2, 4, 8]),
        "memory_optimize": st.booleans(),
    }
)


def drawn_net(drawn: dict[str, Any]) -> Net:
    """Build a net of these layers; if deep, of twelve similar ones."""
    generator = np.random.default_rng(0)

    def weight(*shape: int, **options: Any) -> Variable:
        return parameter(f"w{len(made)}", generator.normal(size=shape) / 3, **options)

    made: list[Variable] = []

    def layer(x: Variable, kind: str) -> Variable:
        if kind == "norm":
            scale, shift = weight(WIDTH), parameter(f"b{len(made)}", np.zeros(WIDTH))
            made.append(scale)
            return paddle.nn.functional.layer_norm(x, [WIDTH], scale, shift)
        w = weight(WIDTH, WIDTH, trainable=kind != "frozen") if kind != "tied" or not made else None
        w = made[0] if w is None else w
        made.append(w)
        y = paddle.matmul(x, w, transpose_y=kind == "tied" and list(w.shape) == [WIDTH, WIDTH])
        y = paddle.matmul(y, w) if kind == "twice" else y
        return x + paddle.tanh(y) if kind == "skip" else paddle.tanh(y)

    def make() -> tuple[Variable, Variable]:
        out = x = static.data("x", [None, WIDTH], "float32")
        made.append(weight(WIDTH, WIDTH))
        out = paddle.matmul(x, made[0])
        for kind in [*drawn["layers"], *(["skip"] * 13 if drawn["deep"] else [])]:
            out = layer(out, kind)
        loss = paddle.mean(paddle.square(out - 1.0))
        minimize_as_drawn(loss, drawn)
        return loss, out

    return build(make)


def fed(count: int, seed: int) -> dict[str, Array]:
    """Draw rows for a drawn net."""
    x = np.random.default_rng(seed).normal(size=(count, WIDTH))
    return {"x": x.astype("float32")}


def after_steps(net: Net, program: Any, count: int = 8) -> dict[str, Array]:
    """Run two steps; return the mean losses and the state."""
    net.start()
    losses = [np.mean(net.run(fed(count, seed), net.loss, program)[0]) for seed in range(2)]
    return {"loss": np.array(losses), **state_of(net)}


@pytest.mark.slow
@pytest.mark.usefixtures("any_size")
@settings(max_examples=COUNT)
@given(DRAWN)
def test_random_nets_train_as_on_one_device(drawn: dict[str, Any]) -> None:
    """Any layers, optimizer, clip and decay agree, rolled up or not, on 2, 4 and 8 devices."""
    with static.scope_guard(static.Scope()), paddle.utils.unique_name.guard():
        net = drawn_net(drawn)
        wanted = after_steps(net, net.main)
        program = net.parallel(
            drawn["devices"], shard_parameters=True, memory_optimize=drawn["memory_optimize"]
        )
        same(after_steps(net, program), wanted, 1e-4)
        assert "again = true" in module_text(program)


def wide(layers: int = 2, width: int = 96, optimizer: Any = None) -> Net:
    """Build linear layers with weights of 36 KB, above the limit for whole parameters."""

    def make() -> tuple[Variable, Variable]:
        out = static.data("x", [None, width], "float32")
        for _ in range(layers):
            out = out + paddle.tanh(paddle.nn.Linear(width, width)(out))
        loss = paddle.mean(paddle.square(out))
        (optimizer or paddle.optimizer.Adam)(0.01).minimize(loss)
        return loss, out

    return build(make, seed=3)


def rows_of(count: int, width: int = 96) -> dict[str, Array]:
    """Draw rows for a wide net."""
    x = np.random.default_rng(count).normal(size=(count, width))
    return {"x": x.astype("float32")}


def weights(net: Net) -> list[str]:
    """List the names of the weights of a wide net."""
    return [p.name for p in net.main.all_parameters() if len(p.shape) == 2]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("devices", "count", "mapper"),
    [
        (4, 8, "shard_map"),
        pytest.param(3, 7, "lockstep", marks=pytest.mark.exhaustive),
        pytest.param(12, 12, "vmap", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize("layers", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_every_mapper(layers: int, devices: int, count: int, mapper: str) -> None:
    """Even and uneven rows, more places than devices, and loops over layers agree."""
    net = wide(layers)
    feed = rows_of(count)
    results: list[dict[str, Array]] = []
    for sharded in (False, True):
        net.start()
        program = net.parallel(devices, shard_parameters=sharded)
        losses = [net.run(feed, net.loss, program)[0] for _ in range(2)]
        results.append({"loss": np.array(losses), **state_of(net)})
        assert program.stats["mapper"] == mapper
    same(results[1], results[0], 1e-5)
    assert "again = true" in module_text(program)
    assert ("pd.layers" in module_text(program)) == (layers == 12)


def test_a_device_has_its_part() -> None:
    """Weights and their moments are sharded; the small biases are whole."""
    net = wide()
    program = net.parallel(4, shard_parameters=True)
    net.run(rows_of(8), net.loss, program)
    (weight, *_) = weights(net)
    for name, share in {
        weight: 96 * 96 // 4,
        f"{weight}_moment1_0": 96 * 96 // 4,
        weight.replace(".w", ".b"): 96,
    }.items():
        slot = static.global_scope().find_var(name)
        assert slot is not None and slot.value is not None
        assert {shard.data.size for shard in slot.value.addressable_shards} == {share}, name
    shown = program.explain("shard_parameters")
    assert "has 384 bytes, and sharding pays from 32768" in shown
    assert "shard_parameters: each device has" in program.explain()


def test_files_are_those_of_one_device(tmp_path: Path) -> None:
    """Files have one device's bytes, and training continues from them."""
    net = wide(optimizer=paddle.optimizer.Momentum)
    program = net.parallel(4, shard_parameters=True)
    saves_as_one_device(net, program, [rows_of(8)] * 3, tmp_path)


@pytest.mark.exhaustive
def test_scope_reads_writes_and_fetches_are_whole() -> None:
    """Fetched parameters, gradients, and values that a script sets are whole."""
    net = wide()
    (weight, *_) = weights(net)
    program = net.parallel(2, shard_parameters=True)
    plain = net.parallel(2)
    feed, fetches = rows_of(8), (weight, f"{weight}@GRAD")
    wanted = net.run(feed, fetches, plain)
    net.start()
    found = net.run(feed, fetches, program)
    close(found[0], wanted[0])
    # the owner of the parameter has the sum, as with reduce_strategy=Reduce
    rows = 96
    sums = [found[1][at * rows : (at + 1) * rows] for at in range(2)]
    assert any(np.allclose(each, wanted[1][:rows], 1e-5, 1e-6) for each in sums)
    write(weight, np.zeros((96, 96)))
    net.run(feed, (), program)
    assert np.abs(value(weight)).max() < 0.02


@pytest.mark.exhaustive
def test_a_program_that_only_reads() -> None:
    """A test clone shares the shards, and sees the latest parameters."""
    tests: list[Program] = []

    def make() -> tuple[Variable, Variable]:
        out = paddle.nn.Linear(96, 96)(static.data("x", [None, 96], "float32"))
        loss = paddle.mean(paddle.square(out))
        tests.append(static.default_main_program().clone(for_test=True))
        paddle.optimizer.Momentum(0.1).minimize(loss)
        return loss, out

    net = build(make, seed=3)
    train = net.parallel(2, shard_parameters=True)
    test = CompiledProgram(tests[0]).with_data_parallel(
        build_strategy=strategy(shard_parameters=True), places=static.cpu_places(2)
    )
    feed = rows_of(4)
    (weight,) = weights(net)
    slot = static.global_scope().find_var(weight)
    assert slot is not None
    for _ in range(2):
        net.run(feed, (), train)
        held = slot.value
        (found,) = net.run(feed, net.out, test)
        assert slot.value is held
        close(found, net.run(feed, net.out, tests[0])[0], 1e-4)
    assert "pd.all_gather" in module_text(test)


@pytest.mark.exhaustive
def test_several_steps_in_one_call() -> None:
    """Shards are carried from step to step."""
    net = wide()
    wanted = after_calls(net, net.parallel(2, shard_parameters=True), 2)
    same(after_calls(net, net.parallel(2, steps=2, shard_parameters=True), 1), wanted, 1e-5)


def after_calls(net: Net, program: CompiledProgram, calls: int) -> dict[str, Array]:
    net.start()
    for _ in range(calls):
        net.run(rows_of(8), (), program)
    return state_of(net)


def tables(count: int, rows: int, optimizer: Any = None) -> Net:
    """Build tables of 64 columns with lookups side by side, and a product."""

    def make() -> tuple[Variable, Variable]:
        ids = [static.data(f"ids{at}", [None], "int64") for at in range(count)]
        found = paddle.concat([paddle.nn.Embedding(rows, 64)(each) for each in ids], 1)
        out = paddle.nn.Linear(64 * count, 256)(found)
        loss = paddle.mean(paddle.square(out))
        (optimizer or paddle.optimizer.SGD)(0.1).minimize(loss)
        return loss, out

    return build(make, seed=3)


def test_tables_side_by_side() -> None:
    """Two parameters are whole at a time, for which XLA has to schedule by memory."""
    net, size = tables(3, 256), 256 * 64 * 4
    program = net.parallel(2, shard_parameters=True)
    feed = {f"ids{at}": np.arange(4) for at in range(3)}
    net.run(feed, net.loss, program)
    (compiled,) = program._compiled_programs()
    share = share_of(compiled.module)
    assert share is not None
    # the product's parameter, or its gradient, is as large as three tables
    assert share.whole == 3 * size + size
    assert "MEMORY" in compiled.options()["xla_cpu_scheduler_type"]
    without = wide()
    program = without.parallel(2, shard_parameters=True)
    without.run(rows_of(4), without.loss, program)
    (compiled,) = program._compiled_programs()
    assert "xla_cpu_scheduler_type" not in compiled.options()


def test_filters() -> None:
    """The estimate counts the gradient of a convolution's filters twice."""
    channels = 64

    def make() -> tuple[Variable, Variable]:
        out = static.data("x", [None, channels, 6, 6], "float32")
        out = paddle.nn.Conv2D(channels, channels, 3)(out)
        loss = paddle.mean(paddle.square(out))
        paddle.optimizer.SGD(0.1).minimize(loss)
        return loss, out

    net = build(make, seed=3)
    program = net.parallel(2, shard_parameters=True)
    net.run({"x": np.ones((2, channels, 6, 6), "float32")}, net.loss, program)
    (compiled,) = program._compiled_programs()
    share = share_of(compiled.module)
    assert share is not None
    assert share.whole == 3 * channels * channels * 9 * 4


SCRIPT = """
import dataclasses, json, sys
import numpy as np
import graphopt as paddle
from graphopt import static
from graphopt.passes.parallel.shard_parameters import share_of

paddle.enable_static()
layers, width, tables = int(sys.argv[1]), 256, int(sys.argv[2])
feed = {f"ids{at}": np.arange(16) for at in range(tables)}
found = [paddle.nn.Embedding(8000, 64)(static.data(name, [None], "int64")) for name in feed]
feed = feed or {"x": np.ones((16, width), "float32")}
out = paddle.concat(found, 1) if found else static.data("x", [None, width], "float32")
for _ in range(layers):
    out = out + paddle.tanh(paddle.nn.Linear(width, width)(out))
loss = paddle.mean(paddle.square(out))
paddle.optimizer.Adam(0.01).minimize(loss)
exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
strategy = static.BuildStrategy()
strategy.shard_parameters = True
program = static.CompiledProgram(static.default_main_program()).with_data_parallel(
    loss.name, strategy, places=static.cpu_places(8)
)
exe.run(program, feed, [loss])
(executable,) = program._runner.executables()
found = executable.function.memory_analysis()
rows = program.explanations()[0].to_json()["collectives"]
print(json.dumps({
    "mapper": program.stats["mapper"],
    "predicted": sum(dataclasses.astuple(share_of(executable.compiled.module))),
    "peak": found.argument_size_in_bytes + found.output_size_in_bytes
        - found.alias_size_in_bytes + found.temp_size_in_bytes,
    "said": sum(row["payload"] for row in rows if row["after"] == rows[-1]["after"]),
    "hlo": program.text("hlo"),
}))
"""


def measured(layers: int, tables: int) -> dict[str, Any]:
    """Run the script with so many layers on so many tables; return its figures."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(layers), str(tables)],
        env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_memory_with_tables() -> None:
    """The peak of a device is as predicted for tables with lookups side by side."""
    found = measured(layers=1, tables=4)
    assert found["predicted"] == pytest.approx(found["peak"], rel=0.1)


@pytest.mark.slow  # eight devices, and code that XLA has optimized
@pytest.mark.parametrize("layers", [4, 12])
def test_memory_and_communication(layers: int) -> None:
    """The peak is as predicted, and at most three times the parameters' bytes are sent."""
    found = measured(layers, tables=0)
    assert found["mapper"] == "shard_map"
    assert found["predicted"] == pytest.approx(found["peak"], rel=0.1)
    parameters = 4 * layers * (256 * 256 + 256)
    sent = bytes_in(found["hlo"])
    # XLA does not gather for the derivative of the first layer, whose input has none
    assert 2 * parameters < sent <= found["said"] <= 3.01 * parameters
    # the next layer's whole parameters go from turn to turn
    loops = re.findall(r"= (\(.*?\)) while\(", found["hlo"])
    assert len(loops) == 2 * (layers == 12)
    assert all("f32[256,256]" in carried for carried in loops)


def bytes_in(hlo: str) -> int:
    """Sum the bytes of all collectives in HLO; a loop's count once for each iteration."""
    turns = dict(re.findall(r'body=%(\S+?),.*"known_trip_count":\{"n":"(\d+)"\}', hlo))
    total = 0
    for computation in re.split(r"\n\n", hlo):
        name = computation.lstrip().removeprefix("%").partition(" ")[0]
        pattern = r"= f32\[([\d,]*)\]\S* (all-gather|reduce-scatter|all-reduce)\("
        for shape, kind in re.findall(pattern, computation):
            size = 4 * math.prod(map(int, filter(None, shape.split(","))))
            size *= int(turns.get(name, 1))
            total += size * (8 if kind == "reduce-scatter" else 1)
            total += size * (kind == "all-reduce")
    return total
