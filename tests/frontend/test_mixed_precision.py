"""Half precision: programs with Paddle's casts, and trainings with its losses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.errors import ProgramError
from graphopt.fluid.contrib import mixed_precision
from graphopt.ir.program import OpRole
from graphopt.static import amp
from graphopt_tests.frontend import mixed_networks as networks
from graphopt_tests.frontend.programs import fresh, run, start, types, weight

RECORDED = json.loads((Path(__file__).parents[1] / "data/mixed_precision.json").read_text())
NETS = {"mlp": networks.mlp, "conv": networks.conv}
FLUID_NETS = {"mlp": networks.fluid_mlp, "conv": networks.fluid_conv}
PLAIN_NETS = {"mlp": networks.mlp, "conv": networks.dropped, "trans": networks.attention}
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda home: home.SGD(0.2),
    "momentum": lambda home: home.Momentum(0.1, 0.9),
    "adam": lambda home: home.Adam(0.01),
}
# white and gray operators of the two networks; without them only the scaling is left
IN_FLOAT32 = {
    *("conv2d", "mul", "matmul", "matmul_v2"),
    *("elementwise_add", "relu", "reshape2", "pool2d", "batch_norm", "flatten2"),
}
ALL_BUT_A_FEW = pytest.mark.exhaustive


def minimized(net: Callable[..., Any], optimizer: Callable[[], Any]) -> tuple[Any, Any]:
    """Minimize a network's loss in the default program; return loss and optimizer."""
    x, y = static.data("x", [None, 8]), static.data("y", [None, 1], "int64")
    loss = net(x, y)
    made = optimizer()
    made.minimize(loss)
    return loss, made


def own_types(block: Any) -> list[str]:
    """List the operators of a block without the backward pass."""
    return [op.type for op in block.ops if not op.role & OpRole.BACKWARD]


def decorated(case: str) -> Any:
    """Return the optimizer of a recorded case."""
    sgd = paddle.optimizer.SGD(0.1)
    match case.split():
        case [_, "old"]:
            return amp.decorate(sgd, amp.CustomOpLists(custom_black_list=["elementwise_add"]), 8.0)
        case [_, "old", "pure"]:
            return amp.decorate(sgd, use_pure_fp16=True, use_fp16_guard=False)
        case [_, "bf16"]:
            return amp.bf16.decorate_bf16(sgd)
        case [_, "varnames"]:
            lists = amp.CustomOpLists({"elementwise_add"}, None, {"fc_0.tmp_0", "fc_0.w_0"})
            return amp.decorate(sgd, lists)
        case [_, dtype, level]:
            momentum = paddle.optimizer.Momentum(0.1, 0.9)
            return amp.decorate(momentum, level=level, dtype=dtype)
        case [_, dtype, level, "promote"]:
            options = {"use_promote": True, "master_grad": True}
            return amp.decorate(paddle.optimizer.Adam(0.1), level=level, dtype=dtype, **options)
        case _:
            raise AssertionError(case)


USUAL = ("mlp float16 O1", "conv float16 O2", "trans float16 O1", "mlp bf16", "conv varnames")


@pytest.mark.filterwarnings("ignore:Accumulating with FP16")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if case in USUAL else ALL_BUT_A_FEW)
        for case in RECORDED["programs"]
    ],
)
def test_the_program_is_paddles(case: str) -> None:
    """The operators are Paddle's, except for the backward pass, which is one operator here."""
    with fresh() as (main, _):
        minimized(PLAIN_NETS[case.split()[0]], lambda: decorated(case))
        assert own_types(main.global_block()) == RECORDED["programs"][case].split()


@pytest.mark.parametrize("case", RECORDED["fluid_programs"])
def test_the_program_is_that_of_1_8(case: str) -> None:
    """The blocks are Paddle's; some have a reshape2, as a shape is [1] in Paddle 1."""
    lists = mixed_precision.AutoMixedPrecisionLists(["softmax"], ["relu"], ["fc_0.tmp_0"])
    options = {"amp_lists": lists, "use_dynamic_loss_scaling": False} if "lists" in case else {}
    with fresh() as (main, _):
        sgd = fluid.optimizer.SGD(0.2)
        minimized(FLUID_NETS[case.split()[0]], lambda: mixed_precision.decorate(sgd, **options))
        found = [[t for t in own_types(block) if t != "reshape2"] for block in main.blocks]
    theirs = [block.split() for block in RECORDED["fluid_programs"][case]]
    assert found == [[t for t in block if t != "reshape2"] for block in theirs]


def train(fetches: list[Any], overflows: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return the fetches of twenty steps; in some of them the feed overflows."""
    start()
    rows: list[list[float]] = []
    for step in range(20):
        feed = networks.batch(step)
        if step in overflows:
            with np.errstate(over="ignore"):
                feed["x"] *= np.float32(3e38)
        rows.append([np.ravel(value)[0] for value in run(fetches, **feed)])
    return np.array(rows, "float64")


def compare(found: np.ndarray[Any, Any], recorded: dict[str, Any], rtol: float) -> None:
    """Compare the losses of the steps without overflow, and every loss scaling factor."""
    loss = np.array(recorded["loss"], "float64")
    where = np.isfinite(loss)
    np.testing.assert_allclose(found[where, 0], loss[where], rtol=rtol)
    if "scale" in recorded:
        assert found[:, 1].tolist() == recorded["scale"]


def cases(losses: str, usual: tuple[str, ...]) -> list[Any]:
    """Return the names of recorded trainings; all but the usual ones are marked."""
    return [pytest.param(n, marks=() if n in usual else ALL_BUT_A_FEW) for n in RECORDED[losses]]


@pytest.mark.every(3)
@pytest.mark.parametrize("case", cases("losses", ("mlp scaled adam", "conv scaled momentum")))
def test_losses_are_paddles(case: str) -> None:
    """Losses are Paddle's, with overflows at steps 3 and 9 to 12; bfloat16 has its precision."""
    net, kind, name = case.split()

    def scaled() -> Any:
        lists = amp.CustomOpLists(custom_black_list=IN_FLOAT32)
        optimizer = OPTIMIZERS[name](paddle.optimizer)
        options = {"incr_every_n_steps": 4, "decr_every_n_nan_or_inf": 2}
        return amp.decorate(optimizer, lists, init_loss_scaling=1024.0, **options)

    def bf16() -> Any:
        kept = {"conv2d"} if net == "conv" else None
        lists = amp.bf16.AutoMixedPrecisionListsBF16(custom_fp32_list=kept)
        return amp.bf16.decorate_bf16(OPTIMIZERS[name](paddle.optimizer), lists)

    with fresh():
        loss, made = minimized(NETS[net], scaled if kind == "scaled" else bf16)
        if kind == "scaled":
            found = train([loss, made.get_loss_scaling()], (3, 9, 10, 11, 12))
        else:
            found = train([loss], ())
    recorded = RECORDED["losses"][case]
    if kind == "scaled":
        compare(found, recorded, 1e-5)
    else:
        np.testing.assert_allclose(found[:, 0], recorded["loss"], atol=0.03)


@pytest.mark.parametrize("case", cases("fluid_losses", ("mlp adam",)))
def test_losses_are_those_of_1_8(case: str) -> None:
    """Losses are those of 1.8, with overflows at steps 3 and 9 to 15."""
    net, name = case.split()

    def scaled() -> Any:
        lists = mixed_precision.AutoMixedPrecisionLists(custom_black_list=IN_FLOAT32)
        optimizer = OPTIMIZERS[name](fluid.optimizer)
        return mixed_precision.decorate(optimizer, lists, 1024.0, 4, 2, 2.0, 0.5)

    with fresh():
        loss, made = minimized(FLUID_NETS[net], scaled)
        found = train([loss, made.get_loss_scaling()], (3, *range(9, 16)))
    compare(found, RECORDED["fluid_losses"][case], 1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_float16_trains_like_float32(level: str) -> None:
    """Losses agree within float16's precision; O2 has half parameters and master weights."""
    losses: dict[str, Any] = {}
    for name in ("float32", "float16"):
        with fresh() as (main, _):
            test = None

            def made(name: str = name) -> Any:
                sgd = paddle.optimizer.Momentum(0.1, 0.9)
                options = {"level": level, "init_loss_scaling": 128.0}
                return sgd if name == "float32" else amp.decorate(sgd, **options)

            x, y = static.data("x", [4, 8]), static.data("y", [4, 1], "int64")
            loss = networks.mlp(x, y)
            test = main.clone(for_test=True)
            optimizer = made()
            optimizer.minimize(loss)
            start()
            if name == "float16":
                optimizer.amp_init(paddle.CPUPlace(), test_program=test, use_fp16_test=True)
                half = "float16" if level == "O2" else "float32"
                assert main.global_block().var("w1").get_value().numpy().dtype == half
                assert ("cast" in types(test)) and main.global_block().var("w1").dtype == half
            rows = [float(run([loss], **networks.batch(step))[0]) for step in range(12)]
            (tested,) = static.Executor(paddle.CPUPlace()).run(test, networks.batch(0), [loss])
            losses[name] = [*rows, float(tested)]
    np.testing.assert_allclose(losses["float16"], losses["float32"], rtol=5e-3, atol=5e-3)
    assert losses["float16"] != losses["float32"]


def test_master_weights_take_the_rounded_values() -> None:
    """Master weights are rewritten only with `rewrite_master_weight`."""
    with fresh() as (main, startup):
        x = static.data("x", [4, 8])
        weights = networks.attr("w", (8, 2), 1)
        loss = paddle.mean(static.nn.fc(x, 2, weight_attr=weights, bias_attr=False))
        optimizer = amp.decorate(paddle.optimizer.SGD(0.1), level="O2", dtype="bfloat16")
        optimizer.minimize(loss)
        start()
        master = main.global_block().var("w_fp32_master_0")
        optimizer.amp_init(paddle.CPUPlace())
        exact = networks.values((8, 2), 1)
        np.testing.assert_array_equal(master.get_value().numpy(), exact)
        # the programs of the parameters count, whichever are the default ones
        with static.program_guard(static.Program(), static.Program()):
            optimizer.amp_init(paddle.CPUPlace(), rewrite_master_weight=True)
        assert np.all(master.get_value().numpy() != exact)
        assert "cast" in types(startup)


@pytest.mark.exhaustive
def test_devices_share_the_factor() -> None:
    """Data parallelism takes the script's loss, whose multiple is differentiated."""
    with fresh() as (main, _):
        loss, made = minimized(networks.mlp, lambda: amp.decorate(paddle.optimizer.SGD(0.2)))
        start()
        with pytest.raises(ValueError, match="is not the variable that the program"):
            static.CompiledProgram(main).with_data_parallel(loss_name="x")
        places = static.cpu_places(2)
        program = static.CompiledProgram(main).with_data_parallel(loss.name, places=places)
        executor = static.Executor(paddle.CPUPlace())
        first, last = (
            executor.run(program, networks.batch(0), [loss, made.get_scaled_loss()])
            for _ in range(2)
        )
        np.testing.assert_allclose(first[1], first[0] * 65536, rtol=1e-6)
        assert last[0].mean() < first[0].mean()


def test_the_guard_of_o2() -> None:
    """Only operators in the guard, and their parameters, are in half precision."""
    with fresh() as (main, _):
        x, y = static.data("x", [4, 8]), static.data("y", [4, 1], "int64")
        with amp.fp16_guard():
            hidden = static.nn.fc(x, 4)
        loss = paddle.mean(paddle.nn.functional.cross_entropy(static.nn.fc(hidden, 10), y))
        optimizer = paddle.optimizer.SGD(0.1, multi_precision=True)
        amp.decorate(optimizer, use_pure_fp16=True).minimize(loss)
        dtypes = {p.name: f"{p.dtype}" for p in main.all_parameters()}
    assert dtypes == {
        "fc_0.w_0": "float16",
        "fc_0.b_0": "float16",
        "fc_1.w_0": "float32",
        "fc_1.b_0": "float32",
    }


def test_loops_and_branches_compute_in_float32() -> None:
    """Values that loops and branches read or change stay float32; a step runs."""
    with fresh() as (main, _):
        x = static.data("x", [4, 8])
        hidden = static.nn.fc(x, 8, bias_attr=False)
        kept = paddle.matmul(hidden, hidden, transpose_y=True)
        out = static.nn.cond(
            paddle.mean(kept) > 0.0, lambda: kept * 2.0, lambda: paddle.matmul(kept, kept)
        )
        loss = paddle.mean(out)
        amp.decorate(paddle.optimizer.SGD(0.1)).minimize(loss)
        start()
        (value,) = run([loss], x=np.ones((4, 8), "float32"))
        assert np.isfinite(value)
        assert kept.dtype == "float32"
        assert main.global_block().var(f"{x.name}.cast_fp16").dtype == "float16"


def test_a_cast_is_not_read_after_its_source_changed() -> None:
    """After its operand changes, the second product reads a second cast."""
    with fresh() as (main, _):
        x, w = static.data("x", [2, 2]), weight("w", np.eye(2))
        first = paddle.matmul(x, w)
        paddle.assign(x * 3.0, x)
        loss = paddle.mean(first + paddle.matmul(x, w))
        lists = amp.CustomOpLists(custom_black_list=["elementwise_add", "scale", "assign"])
        amp.decorate(paddle.optimizer.SGD(0.0), lists).minimize(loss)
        start()
        (value,) = run([loss], x=np.ones((2, 2), "float32"))
        assert value == pytest.approx(4.0)
        assert types(main).count("cast") == 5


def test_a_failed_rewrite_leaves_the_program() -> None:
    """An operator that refuses half precision is named with its line; the program is unchanged."""
    with fresh() as (main, _):
        x, y = static.data("x", [4, 8]), static.data("y", [8, 8], "float64")
        hidden = paddle.cast(static.nn.fc(x, 8), "float64")
        paddle.matmul(hidden, y)
        before = str(main)
        lists = amp.CustomOpLists(custom_white_list=["cast"])
        with pytest.raises(ProgramError, match=r"matmul_v2.*test_mixed_precision\.py"):
            amp.cast_model_to_fp16(main, lists, use_fp16_guard=False, level="O1")
        assert str(main) == before


def test_arguments() -> None:
    """Unknown levels and dtypes, overlapping lists, and calls in the wrong order raise."""
    sgd = paddle.optimizer.SGD(0.1)
    with pytest.raises(ValueError, match="level should be"):
        amp.decorate(sgd, level="O3")
    with pytest.raises(ValueError, match="dtype should be"):
        amp.decorate(sgd, dtype="float64")
    with pytest.raises(ValueError, match="overlaps custom_black_list with < relu >"):
        amp.CustomOpLists(["relu"], ["relu"])
    with pytest.warns(UserWarning, match="bfloat16 amp training is disabled"):
        made = amp.decorate(sgd, dtype="bfloat16", use_dynamic_loss_scaling=True)
    with pytest.raises(AssertionError, match="Please call minimize"):
        made.get_loss_scaling()
    with pytest.raises(AssertionError, match="minimize method first"):
        made.amp_init(paddle.CPUPlace())
    with pytest.warns(UserWarning, match="set to OD"):
        amp.decorate(sgd, amp.CustomOpLists(), level="OD")
    with fresh():
        loss, made = minimized(networks.mlp, lambda: amp.decorate(sgd, level="O2"))
        with pytest.raises(ValueError, match="run the startup program"):
            made.amp_init(paddle.CPUPlace())
        assert made.get_scaled_loss() is not loss
    assert amp.bf16.convert_float_to_uint16([1.0]).tolist() == [0x3F80]


def test_level_zero_casts_nothing() -> None:
    """Level O0 only scales the loss."""
    with fresh() as (main, _):
        minimized(networks.mlp, lambda: amp.decorate(paddle.optimizer.SGD(0.1), level="O0"))
        assert "cast" not in types(main)
        assert "update_loss_scaling" in types(main)
