"""tensor_parallel_degree: the devices of a replica have pieces of parameters, and train as one.

It trains as one device does; only storage and traffic differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt.ir.program import Variable
from graphopt.passes.fusions.fuse_gemm_epilogue import FuseGemmEpilogue
from graphopt.passes.table.flags import check_axis
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.testing import programs
from graphopt.testing.programs import Generated
from graphopt_tests.example_counts import examples
from graphopt_tests.report.test_report import data_of
from graphopt_tests.runtime.nets import Net, build, close, parameter, strategy, value, write
from graphopt_tests.runtime.replicas import agree, inputs_of, parallel, run
from graphopt_tests.runtime.trainings import (
    CLIPS,
    REDUCE,
    Array,
    minimize_as_drawn,
    module_text,
    same,
    saves_as_one_device,
    set_options,
    state_of,
)

COUNT = examples(12)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make collectives cheap, so that small parameters are cut."""

    def options(context: Any) -> Any:
        return {"degree": context.model, "replicas": context.replicas, "rows": 1, "latency": 0}

    set_options(monkeypatch, "tensor-parallel", options)


def after_steps(net: Net, program: Any, feeds: Callable[[int], dict[str, Array]]) -> Any:
    """Run three steps; return the mean losses and the state."""
    net.start()
    losses = [np.mean(net.run(feeds(seed), net.loss, program)[0]) for seed in range(3)]
    return {"loss": np.array(losses), **state_of(net)}


def trains_alike(
    net: Net,
    feeds: Callable[[int], dict[str, Array]],
    replicas: int,
    degree: int,
    tolerance: float = 1e-4,
) -> CompiledProgram:
    """Check that a mesh trains as one device; return the program of the mesh."""
    wanted = after_steps(net, net.main, feeds)
    program = net.parallel(replicas * degree, tensor_parallel_degree=degree)
    same(after_steps(net, program, feeds), wanted, tolerance)
    return program


# -- models ----------------------------------------------------------------------------------------


def transformer() -> tuple[Net, Callable[[int], dict[str, Array]]]:
    """Build embeddings, two layers of four heads, and logits."""

    def make() -> tuple[Variable, Variable]:
        ids = static.data("ids", [None, 6], "int64")
        x = paddle.nn.Embedding(48, 32)(ids)
        for _ in range(2):
            x = paddle.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0)(x)
        out = paddle.nn.Linear(32, 48)(x)
        label = paddle.reshape(ids, [-1, 6, 1])
        loss = paddle.mean(paddle.nn.functional.softmax_with_cross_entropy(out, label))
        clip = paddle.nn.ClipGradByGlobalNorm(0.5)
        # not Adam: biases of keys have no gradient but rounding, which it would scale up
        paddle.optimizer.Momentum(0.05, grad_clip=clip).minimize(loss)
        return loss, out

    def feeds(seed: int) -> dict[str, Array]:
        return {"ids": np.random.default_rng(seed).integers(0, 48, (4, 6))}

    return build(make, seed=3), feeds


def vision_transformer() -> tuple[Net, Callable[[int], dict[str, Array]]]:
    """Build patches by a convolution, positions, a layer, and the mean over patches."""

    def make() -> tuple[Variable, Variable]:
        image = static.data("image", [None, 3, 8, 8], "float32")
        x = paddle.nn.Conv2D(3, 32, 4, stride=4)(image)
        x = paddle.transpose(paddle.flatten(x, 2), [0, 2, 1])
        x = x + parameter("positions", np.zeros((4, 32)))
        y = paddle.nn.LayerNorm(32)(x)
        x = x + paddle.nn.MultiHeadAttention(32, 4)(y, y, y)
        y = paddle.nn.functional.gelu(paddle.nn.Linear(32, 64)(paddle.nn.LayerNorm(32)(x)))
        out = paddle.nn.Linear(32, 8)(paddle.mean(x + paddle.nn.Linear(64, 32)(y), 1))
        loss = paddle.mean(paddle.square(out - 0.5))
        paddle.optimizer.Momentum(0.05, weight_decay=0.01).minimize(loss)
        return loss, out

    def feeds(seed: int) -> dict[str, Array]:
        image = np.random.default_rng(seed).normal(size=(4, 3, 8, 8))
        return {"image": image.astype("float32")}

    return build(make, seed=3), feeds


def recommender() -> tuple[Net, Callable[[int], dict[str, Array]]]:
    """Build tables divisible by rows only or by columns only, and products of features."""

    def make() -> tuple[Variable, Variable]:
        dense = static.data("dense", [None, 8], "float32")
        features = [paddle.nn.Linear(8, 16)(dense)]
        for name, rows, width in (("a", 40, 16), ("b", 37, 16), ("c", 64, 6)):
            ids = static.data(name, [None], "int64")
            found = paddle.nn.Embedding(rows, width)(ids)
            features.append(found if width == 16 else paddle.nn.Linear(width, 16)(found))
        x = paddle.stack(features, 1)
        pairs = paddle.flatten(paddle.matmul(x, x, transpose_y=True), 1)
        out = paddle.nn.functional.relu(paddle.nn.Linear(16, 32)(pairs))
        out = paddle.nn.Linear(32, 1)(out)
        loss = paddle.mean(paddle.square(out - 1.0))
        paddle.optimizer.Adam(0.01).minimize(loss)
        return loss, out

    def feeds(seed: int) -> dict[str, Array]:
        generator = np.random.default_rng(seed)
        ids = {n: generator.integers(0, c, 8) for n, c in (("a", 40), ("b", 37), ("c", 64))}
        return {"dense": generator.normal(size=(8, 8)).astype("float32"), **ids}

    return build(make, seed=3), feeds


MODELS = {"transformer": transformer, "vision": vision_transformer, "recommender": recommender}


@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("replicas", "degree"), [(2, 4), (2, 2), (1, 4)])
def test_models_train_as_on_one_device(model: str, replicas: int, degree: int) -> None:
    """Models train alike by eight places on four devices, and by one device for each place."""
    net, feeds = MODELS[model]()
    program = trains_alike(net, feeds, replicas, degree)
    assert program.stats["mapper"] == ("vmap" if replicas * degree > 4 else "shard_map")
    text = module_text(program)
    assert "pd.cut" in text and "pd.mp_allreduce_sum" in text


# -- random programs -------------------------------------------------------------------------------

MESHES = st.sampled_from([(1, 2), (1, 4), (2, 2), (2, 4), (4, 2)])
WITH_PRODUCTS = programs(plant=FuseGemmEpilogue.RULES)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_random_programs() -> None:
    """On random meshes results equal those of replicas of one device each."""
    cut = 0

    @settings(max_examples=COUNT, suppress_health_check=[HealthCheck.filter_too_much])
    @given(WITH_PRODUCTS, MESHES)
    def check(generated: Generated, mesh: tuple[int, int]) -> None:
        nonlocal cut
        count, degree = mesh
        module = generated.module
        inputs = inputs_of(module, count)
        made = parallel(module, count, tensor_parallel_degree=degree)
        assume("pd.cut" in str(made))
        cut += 1
        wanted = run("lockstep", parallel(module, count), inputs)
        agree(run("vmap", made, inputs, model=degree), wanted, f"mesh {mesh}", 1e-4)

    check()
    assert cut >= COUNT // 2


WIDTH = 8
KINDS = (
    *("linear", "pair", "norm", "tied", "skip", "frozen", "twice", "dropout", "heads", "table"),
    *("loop", "branch"),
)
DRAWN = st.fixed_dictionaries(
    {
        "layers": st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
        "optimizer": st.sampled_from(["SGD", "Momentum", "Adam", "AdamW", "Adagrad", "Lars"]),
        "clip": st.sampled_from([None, *CLIPS]),
        "decay": st.booleans(),
        "mesh": MESHES,
        "flags": st.sampled_from(["", "memory_optimize", "fuse_gemm_epilogue", "build_cinn_pass"]),
    }
)


def loop(x: Variable, w: Variable) -> Variable:
    """Compute the same product twice in a loop."""
    first = paddle.full([1], 0, "int64")
    _, out = static.nn.while_loop(
        lambda index, _: index < 2,
        lambda index, y: [index + 1, paddle.tanh(paddle.matmul(y, w))],
        [first, x],
    )
    return out


def drawn_net(drawn: dict[str, Any]) -> Net:
    """Build a net of these layers."""
    generator = np.random.default_rng(0)
    made: list[Variable] = []

    def weight(*shape: int, **options: Any) -> Variable:
        made.append(parameter(f"w{len(made)}", generator.normal(size=shape) / 3, **options))
        return made[-1]

    def layer(x: Variable, ids: Variable, kind: str) -> Variable:
        functional = paddle.nn.functional
        if kind == "norm":
            return functional.layer_norm(x, [WIDTH], weight(WIDTH), weight(WIDTH))
        if kind == "pair":
            y = functional.relu(paddle.matmul(x, weight(WIDTH, 16)) + weight(16))
            return paddle.matmul(y, weight(16, WIDTH)) + weight(WIDTH)
        if kind == "loop":
            return loop(x, weight(WIDTH, WIDTH))
        if kind == "branch":
            w, v = weight(WIDTH, WIDTH), weight(WIDTH, WIDTH)
            other = paddle.mean(x) > 0.0
            return static.nn.cond(other, lambda: paddle.matmul(x, w), lambda: paddle.matmul(x, v))
        if kind == "table":
            return x + functional.embedding(ids, weight(12, WIDTH))
        if kind == "dropout":
            y = functional.dropout(paddle.matmul(x, weight(WIDTH, 16)), 0.5)
            return paddle.matmul(y, weight(16, WIDTH))
        if kind == "heads":
            q, k, v = (
                paddle.reshape(paddle.matmul(x, weight(WIDTH, WIDTH)), [-1, 4, 2]) for _ in range(3)
            )
            scores = functional.softmax(paddle.sum(q * k, -1, keepdim=True), -1)
            return paddle.matmul(paddle.reshape(scores * v, [-1, WIDTH]), weight(WIDTH, WIDTH))
        w = made[0] if kind == "tied" else weight(WIDTH, WIDTH, trainable=kind != "frozen")
        y = paddle.matmul(x, w, transpose_y=kind == "tied")
        y = paddle.matmul(y, w) if kind == "twice" else y
        return x + paddle.tanh(y) if kind == "skip" else paddle.tanh(y)

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, WIDTH], "float32")
        ids = static.data("ids", [None], "int64")
        out = paddle.matmul(x, weight(WIDTH, WIDTH))
        for kind in drawn["layers"]:
            out = layer(out, ids, kind)
        loss = paddle.mean(paddle.square(out - 1.0))
        minimize_as_drawn(loss, drawn)
        return loss, out

    return build(make, seed=3)


def fed(seed: int) -> dict[str, Array]:
    """Draw rows for a drawn net."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(8, WIDTH)).astype("float32")
    return {"x": x, "ids": generator.integers(0, 12, 8)}


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_random_nets_train_as_replicas_of_one_device() -> None:
    """Any layers, optimizer, clip, decay and flags agree on random meshes; most have pieces."""
    cut = 0

    @settings(max_examples=COUNT)
    @given(DRAWN)
    def check(drawn: dict[str, Any]) -> None:
        nonlocal cut
        with static.scope_guard(static.Scope()), paddle.utils.unique_name.guard():
            net = drawn_net(drawn)
            replicas, degree = drawn["mesh"]
            flags = {drawn["flags"]: True} if drawn["flags"] else {}
            # of one replica alone dropout would draw other numbers than of one device
            alone = "dropout" in drawn["layers"] and replicas == 1
            plain = net.parallel(replicas, **flags)
            wanted = after_steps(net, plain, fed)
            program = net.parallel(replicas * degree, tensor_parallel_degree=degree, **flags)
            found = after_steps(net, program, fed)
            assert wanted.keys() == found.keys()
            if not alone:
                same(found, wanted, 1e-3)
            cut += "pd.cut" in module_text(program)

    check()
    assert cut >= COUNT // 2


@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_a_loop_reads_whole_parameters() -> None:
    """A loop reads whole parameters; a parameter before it may be cut."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, WIDTH], "float32")
        made = np.random.default_rng(0).normal(size=(3, WIDTH, 16)) / 3
        y = paddle.nn.functional.relu(paddle.matmul(x, parameter("wide", made[0])))
        y = paddle.matmul(y, parameter("narrow", made[1].T))
        out = loop(y, parameter("inner", made[2, :, :WIDTH]))
        loss = paddle.mean(paddle.square(out - 1.0))
        paddle.optimizer.Momentum(0.05).minimize(loss)
        return loss, out

    program = trains_alike(build(make, seed=3), lambda seed: {"x": fed(seed)["x"]}, 2, 2)
    assert "pd.cut" in module_text(program)
    shown = program.explain("tensor_parallel_degree")
    assert "a branch or a loop needs all of 'inner'" in shown


# -- how -------------------------------------------------------------------------------------------


def wide(optimizer: Any = None) -> Net:
    """Build a pair of linear layers that are cut at the default cost."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 64], "float32")
        h = paddle.nn.functional.relu(paddle.nn.Linear(64, 256)(x))
        out = paddle.nn.Linear(256, 64)(h)
        loss = paddle.mean(paddle.square(out - 1.0))
        (optimizer or paddle.optimizer.Adam)(0.01).minimize(loss)
        return loss, out

    return build(make, seed=3)


def rows_of(seed: int, count: int = 8) -> dict[str, Array]:
    """Draw rows for a wide net."""
    x = np.random.default_rng(seed).normal(size=(count, 64))
    return {"x": x.astype("float32")}


@pytest.mark.exhaustive
def test_a_device_has_its_piece(tmp_path: Path) -> None:
    """Weights, the bias between them, and their moments are cut; explain and the report show it."""
    net = wide()
    program = net.parallel(4, tensor_parallel_degree=2)
    net.run(rows_of(0), net.loss, program)
    first, second = [p.name for p in net.main.all_parameters() if len(p.shape) == 2]
    pieces = {
        first: (64, 128),
        f"{first}_moment1_0": (64, 128),
        second: (128, 64),
        first.replace(".w", ".b"): (128,),
        second.replace(".w", ".b"): (64,),
    }
    for name, shape in pieces.items():
        slot = static.global_scope().find_var(name)
        assert slot is not None and slot.value is not None
        assert {shard.data.shape for shard in slot.value.addressable_shards} == {shape}, name
    shown = program.explain("tensor_parallel_degree")
    assert f"'{first}' is cut by columns: saves" in shown
    assert f"'{second}' is cut by rows: saves" in shown
    assert "costs 1 all-reduce of 65.5 kB" in shown
    assert "tensor_parallel_degree: " in program.explain()
    assert "pd.mp_allreduce_sum" in program.explain()
    program.report(tmp_path / "page.html")
    data = json.dumps(data_of((tmp_path / "page.html").read_text("utf-8")))
    assert "is cut by columns: saves" in data and "mp_allreduce_sum" in data


def test_files_are_those_of_one_device(tmp_path: Path) -> None:
    """Files have one device's bytes, and training continues from them."""
    net = wide(paddle.optimizer.Momentum)
    program = net.parallel(4, tensor_parallel_degree=2)
    saves_as_one_device(net, program, [rows_of(seed) for seed in (0, 1, 3)], tmp_path)


def test_reads_writes_and_fetches_are_whole() -> None:
    """A fetched parameter, its gradient, and a value that a script sets are whole."""
    net = wide(paddle.optimizer.SGD)
    first = net.main.all_parameters()[0].name
    fetches = (first, f"{first}@GRAD")
    wanted = net.run(rows_of(1), fetches)
    net.start()
    program = net.parallel(4, tensor_parallel_degree=4)
    found = net.run(rows_of(1), fetches, program)
    for new, old in zip(found, wanted, strict=True):
        close(new, old, 1e-4)
    write(first, np.zeros((64, 256)))
    net.run(rows_of(1), (), program)
    assert np.abs(value(first)).max() < 0.1


@pytest.mark.exhaustive
def test_several_steps_in_one_call() -> None:
    """Pieces are carried from step to step."""
    net = wide(paddle.optimizer.SGD)
    states: list[dict[str, Array]] = []
    for steps, calls in ((1, 2), (2, 1)):
        net.start()
        program = net.parallel(4, steps=steps, tensor_parallel_degree=2)
        for _ in range(calls):
            net.run(rows_of(0), (), program)
        states.append(state_of(net))
    same(states[1], states[0], 1e-5)


@pytest.mark.parametrize(
    ("flags", "devices", "rows", "error", "words"),
    [
        ({"shard_parameters": True}, 4, 8, UnsupportedError, "together with shard_parameters"),
        ({"reduce_strategy": REDUCE}, 4, 8, UnsupportedError, "together with reduce_strategy"),
        ({}, 3, 8, ValueError, "does not divide the 3 places"),
        ({}, 4, 7, UnsupportedError, "does not run with the mapper lockstep"),
    ],
)
def test_what_does_not_go_together(
    flags: dict[str, Any], devices: int, rows: int, error: type[Exception], words: str
) -> None:
    """Each conflict is refused by name, before a step."""
    net = wide()
    program = net.parallel(devices, tensor_parallel_degree=2, **flags)
    with pytest.raises(error, match=words):
        net.run(rows_of(0, rows), net.loss, program)


def test_several_trainers_are_refused() -> None:
    """Several trainers are refused, as each would need all pieces."""
    context = strategy(num_trainers=2, tensor_parallel_degree=2).pass_context(
        replicas=2, data_parallel=True
    )
    with pytest.raises(UnsupportedError, match="together with 2 trainers"):
        check_axis(context)
