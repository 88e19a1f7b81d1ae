"""reduce_strategy=Reduce: updates and optimizer state are sharded over the devices.

It trains as AllReduce does; only storage and traffic differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.dialect.signature import signature_of
from graphopt.ir.program import Variable
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests.runtime.nets import (
    Net,
    build,
    close,
    parameter,
    regression,
    regression_feed,
    value,
)
from graphopt_tests.runtime.trainings import (
    CLIPS,
    OPTIMIZERS,
    REDUCE,
    Array,
    module_text,
    same,
    state_of,
    trained,
)

# with moments, and with norms of a whole parameter
QUICK = ("Adam", "Lamb")
EXHAUSTIVE = ("Lars", "NAdam", "Rprop")


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in EXHAUSTIVE),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in OPTIMIZERS
            if name not in (*QUICK, *EXHAUSTIVE)
        ),
    ],
)
def test_every_optimizer(name: str) -> None:
    """Losses, parameters and state equal AllReduce's; w [3, 2] is padded on 4 devices."""
    net = regression(lambda: OPTIMIZERS[name](0.05))
    program = net.parallel(4, reduce_strategy=REDUCE)
    wanted = trained(net, net.parallel(4))
    same(trained(net, program), wanted)
    assert program.explanations()[0].applied("shard-updates") == 2


QUICK_CLIPS = {("value", None), ("norm", "L1"), ("global", "L2")}


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("clip", "decay"),
    [
        pytest.param(c, d, marks=() if (c, d) in QUICK_CLIPS else pytest.mark.slow)
        for c in (None, *CLIPS)
        for d in (None, "L1", "L2")
    ],
)
def test_clips_and_decay(clip: str | None, decay: str | None) -> None:
    """Norms are of whole gradients, whatever a device's shard."""
    kinds = {"L1": paddle.regularizer.L1Decay, "L2": paddle.regularizer.L2Decay}

    def optimizer() -> Any:
        return paddle.optimizer.Momentum(
            0.1,
            grad_clip=CLIPS[clip]() if clip else None,
            weight_decay=kinds[decay](0.1) if decay else None,
        )

    net = regression(optimizer)
    program = net.parallel(4, reduce_strategy=REDUCE)
    wanted = trained(net, net.parallel(4), steps=2)
    same(trained(net, program, steps=2), wanted)
    text = module_text(program)
    assert text.count("pd.reduce_scatter") == 2
    # one number travels for all norms together, or one for each
    assert text.count("pd.all_reduce") == {"global": 1, "norm": 2}.get(clip or "", 0)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("devices", "count", "mapper"),
    [
        (2, 4, "shard_map"),
        (3, 7, "lockstep"),
        pytest.param(1, 4, "alone", marks=pytest.mark.exhaustive),
        pytest.param(6, 12, "vmap", marks=pytest.mark.exhaustive),
    ],
)
def test_every_mapper(devices: int, count: int, mapper: str) -> None:
    """Reduce works on one device, several, uneven rows, and more places than devices."""
    net = regression(lambda: paddle.optimizer.Adam(0.1, grad_clip=CLIPS["global"]()))
    program = net.parallel(devices, reduce_strategy=REDUCE)
    wanted = trained(net, net.parallel(devices), count)
    same(trained(net, program, count), wanted)
    assert program.stats["mapper"] == mapper
    assert ("pd.reduce_scatter" in module_text(program)) == (devices > 1)


def test_one_device_is_all_reduce() -> None:
    """On one device Reduce acts as AllReduce, and reads back as Reduce."""
    net = regression()
    program = net.parallel(1, reduce_strategy=REDUCE)
    trained(net, program)
    assert "pd.reduce_scatter" not in module_text(program)
    assert program._strategy.reduce_strategy is REDUCE


def test_state_is_spread() -> None:
    """A device holds its share of each state, and whole parameters."""
    net = regression(lambda: paddle.optimizer.Adam(0.1), width=6)
    program = net.parallel(4, reduce_strategy=REDUCE)
    trained(net, program, width=6)
    shares = {"w_moment1_0": 12, "w_moment2_0": 12, "b_moment1_0": 2, "w": 12}
    for name, elements in shares.items():
        slot = static.global_scope().find_var(name)
        assert slot is not None and slot.value is not None
        shards = slot.value.addressable_shards
        assert len(shards) == 4
        own = elements if name == "w" else -(-elements // 4)
        assert {shard.data.nbytes for shard in shards} == {4 * own}, name
    assert "of 4 states, not 112" in program.explain()


@pytest.mark.exhaustive
def test_batch_norm_and_unsynchronised_statistics() -> None:
    """Each device has its own moving statistics (Paddle's Reduce on CPU mixes them up)."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 3], "float32")
        hidden = paddle.matmul(x, parameter("w", np.eye(3)))
        out = static.nn.batch_norm(hidden, moving_mean_name="mm", moving_variance_name="mv")
        loss = paddle.mean(paddle.square(out - 1.0))
        paddle.optimizer.Momentum(0.1).minimize(loss)
        return loss, out

    net = build(make)
    for sync in (False, True):
        feed = {"x": regression_feed(8)["x"]}
        results: list[dict[str, Array]] = []
        for reduce in (BuildStrategy.ReduceStrategy.AllReduce, REDUCE):
            net.start()
            program = net.parallel(2, reduce_strategy=reduce, sync_batch_norm=sync)
            merged = net.run(feed, ("mm", "mv", net.loss), program)
            merged = net.run(feed, ("mm", "mv", net.loss), program)
            results.append({**dict(zip("mvl", merged, strict=True)), **state_of(net)})
        same(results[1], results[0])


def test_scope_reads_and_writes_are_whole() -> None:
    """Reads give the whole state; writes and a restart reach every device's shard."""
    net = regression(lambda: paddle.optimizer.Momentum(0.1))
    feed = regression_feed(8)
    program, other = net.parallel(4, reduce_strategy=REDUCE), net.parallel(4)
    mark = np.arange(6, dtype="float32").reshape(3, 2)
    results: list[dict[str, Array]] = []
    for chosen in (program, other):
        net.start()
        net.run(feed, (), chosen)
        assert value("w_velocity_0").shape == (3, 2)
        slot = static.global_scope().find_var("w_velocity_0")
        assert slot is not None
        assert slot.get_tensor().shape() == [3, 2]
        assert repr(slot.get_tensor()).count("[") == 4
        slot.get_tensor().set(mark)
        net.run(feed, (), chosen)
        after_write = value("w_velocity_0")
        net.start()
        net.run(feed, (), chosen)
        results.append({"after_write": after_write, **state_of(net)})
    same(results[0], results[1])


def test_a_run_that_fetches_state_gets_all_of_it() -> None:
    """A fetched velocity is gathered on every device."""
    net = regression(lambda: paddle.optimizer.Momentum(0.1))
    (merged,) = net.run(regression_feed(8), "w_velocity_0", net.parallel(4, reduce_strategy=REDUCE))
    close(merged, np.tile(value("w_velocity_0"), (4, 1)))


@pytest.mark.exhaustive
def test_strategies_take_turns() -> None:
    """Plain runs, AllReduce and Reduce on 2, 4 and 6 devices alternate on one scope."""
    net = regression(lambda: paddle.optimizer.Adam(0.1))
    programs: list[Any] = [
        net.parallel(4, reduce_strategy=REDUCE),
        net.parallel(2),
        net.parallel(2, reduce_strategy=REDUCE),
        net.main,
        net.parallel(6, reduce_strategy=REDUCE),
    ]
    net.start()
    for step in range(10):
        net.run(regression_feed(12, seed=step), (), programs[step % 5])
    found = state_of(net)
    net.start()
    for step in range(10):
        net.run(regression_feed(12, seed=step))
    same(found, state_of(net), 1e-5)


def test_save_and_load(tmp_path: Any) -> None:
    """A checkpoint has whole arrays; training continues from it under the other strategy."""
    net = regression(lambda: paddle.optimizer.Adam(0.1))
    program = net.parallel(4, reduce_strategy=REDUCE)
    feed = regression_feed(8)
    net.run(feed, (), program)
    static.save(net.main, str(tmp_path / "model"))
    net.run(feed, (), program)
    wanted = state_of(net)
    net.start()
    static.load(net.main, str(tmp_path / "model"), net.executor)
    net.run(feed, (), net.parallel(2))
    same(state_of(net), wanted)


@pytest.mark.exhaustive
def test_mixed_precision_master_weights() -> None:
    """float32 master weights are sharded, too, and the parameters are rounded copies."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 3], "float32")
        initial = paddle.nn.initializer.Constant(0.3)
        attr = paddle.ParamAttr(name="w", initializer=initial)
        w = static.create_parameter([3, 2], "bfloat16", attr=attr)
        out = paddle.matmul(paddle.cast(x, "bfloat16"), w)
        loss = paddle.mean(paddle.square(paddle.cast(out, "float32") - 1.0))
        paddle.optimizer.Adam(0.1, multi_precision=True).minimize(loss)
        return loss, out

    net = build(make)
    feed = {"x": regression_feed(8)["x"]}
    results: list[dict[str, Array]] = []
    for reduce in (BuildStrategy.ReduceStrategy.AllReduce, REDUCE):
        net.start()
        program = net.parallel(2, reduce_strategy=reduce)
        for _ in range(3):
            net.run(feed, (), program)
        results.append({n: a.astype("float32") for n, a in state_of(net).items()})
    same(results[1], results[0])
    kept = {
        p.name for p in signature_of(program._compiled_programs()[0].module).arguments if p.shard_of
    }
    assert any("master" in name for name in kept), kept


@pytest.mark.exhaustive
def test_fuse_adamw_goes_together_with_it() -> None:
    """One fused update works on the shards of all parameters."""
    net = regression(lambda: paddle.optimizer.AdamW(0.1))
    program = net.parallel(4, reduce_strategy=REDUCE, fuse_adamw=True)
    wanted = trained(net, net.parallel(4))
    same(trained(net, program), wanted)
    assert module_text(program).count("pd.fused_adam_") == 1
    assert program.explanations()[0].applied("shard-updates") == 1


def test_what_needs_the_whole_is_told() -> None:
    """A non-elementwise op between gradient and update reads whole values, and is reported."""

    net = changed_gradient(lambda grad: grad - paddle.mean(grad, axis=0, keepdim=True))
    program = net.parallel(2, reduce_strategy=REDUCE)
    feed = {"x": regression_feed(4)["x"]}
    net.run(feed, (), program)
    found = state_of(net)
    net.start()
    net.run(feed, (), net.parallel(2))
    same(found, state_of(net))
    assert "read-whole: pd.mean" in program.explain("reduce_strategy")


def changed_gradient(change: Callable[[Variable], Variable]) -> Net:
    """Build a layer of w [3, 2] whose gradient is changed before momentum."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 3], "float32")
        out = paddle.matmul(x, parameter("w", np.ones((3, 2))))
        loss = paddle.mean(paddle.square(out))
        optimizer = paddle.optimizer.Momentum(0.1)
        ((w, grad),) = optimizer.backward(loss)
        optimizer.apply_gradients([(w, change(grad))])
        return loss, out

    return build(make)


def test_a_check_of_all_elements_stays_in_parts() -> None:
    """A check for finite gradients, as in loss scaling, reduces shards to one number a device."""

    def change(grad: Variable) -> Variable:
        finite = paddle.all(paddle.isfinite(grad))
        return paddle.where(finite, grad, paddle.zeros_like(grad))

    net = changed_gradient(change)
    good = {"x": regression_feed(8)["x"]}
    bad = {"x": np.where(np.arange(24).reshape(8, 3) == 3, np.inf, good["x"]).astype("float32")}
    results: list[dict[str, Array]] = []
    for reduce in (BuildStrategy.ReduceStrategy.AllReduce, REDUCE):
        program = net.parallel(4, reduce_strategy=reduce)
        net.start()
        for feed in (good, bad, good):
            net.run(feed, (), program)
        results.append(state_of(net))
    assert np.isfinite(results[0]["w"]).all()
    same(results[1], results[0])
    assert module_text(program).count("pd.all_gather") == 1


def test_noise_of_each_device_has_no_parts() -> None:
    """A gradient that differs between devices is not sharded."""
    net = changed_gradient(lambda grad: grad + paddle.uniform([3, 2], "float32", 0.0, 1e-3))
    program = net.parallel(2, reduce_strategy=REDUCE)
    net.run({"x": regression_feed(4)["x"]}, (), program)
    assert "pd.reduce_scatter" not in module_text(program)
    assert "differs-between-replicas" in program.explain("reduce_strategy")
