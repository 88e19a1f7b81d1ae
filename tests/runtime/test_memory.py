"""Ownership of arrays: copies, donation, steps in flight, 64-bit values."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Program, Variable
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.runners.runner import Runner
from graphopt_tests.runtime.nets import Net, build, close, fc_mean, parameter, rows, value

FEED = rows(0, 1, 2, 3)
DEVICES = [0, 1, 2, 6]


def program_of(net: Net, devices: int, **flags: Any) -> Any:
    return net.parallel(devices, **flags) if devices else net.main


def held(name: str) -> Any:
    """Return the runtime's array of a variable."""
    slot = static.global_scope().find_var(name)
    assert slot is not None
    return slot.value


@pytest.mark.parametrize("devices", DEVICES)
def test_reads_outlive_later_steps(devices: int) -> None:
    """Scope reads and fetches are writable copies."""
    net = fc_mean()
    program = program_of(net, devices)
    feed = rows(*range(max(2 * devices, 4)))
    reads, fetches = [], []
    for _ in range(3):
        fetches.append(net.run(feed, "w", program)[0])
        reads.append(value("w"))
    values = [float(read[0, 0]) for read in reads]
    assert len(set(values)) == 3
    for read, fetched, number in zip(reads, fetches, values, strict=True):
        assert read.flags.writeable and fetched.flags.writeable
        close(fetched, np.full((max(devices, 1), 1), number))
        read[:] = fetched[:] = 99
    before = value("w")
    net.run(feed, (), program)
    close(value("w") - before, [[-0.1 * feed["X"].mean()]])


@pytest.mark.every(3)
@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("even", [True, False])
def test_feeds_may_be_overwritten_after_a_run(devices: int, even: bool) -> None:
    """The caller's array is not read after `run` has returned."""
    if devices < 2 and not even:
        return
    net = build_wide()
    program = program_of(net, devices)
    count = 6 * 64 - (0 if even else 1)
    buffer = aligned((count, 256))
    for step in range(4):
        net.start()
        buffer[:] = step
        net.run({"x": buffer}, (), program)
        buffer[:] = 1e9
        close(value("w"), np.full((256, 1), 1.0 - step))


@pytest.mark.parametrize("wait", [True, False])
def test_arrays_of_jax_are_fed_as_they_are(monkeypatch: pytest.MonkeyPatch, *, wait: bool) -> None:
    """After the first step, JAX arrays are neither copied, donated nor checked."""
    net, x = build_wide(), jax.numpy.ones((4, 256))
    copied: list[Any] = []
    monkeypatch.setattr(type(x), "copy", copied.append)
    net.start()
    net.run({"x": x}, "w", return_numpy=wait)
    monkeypatch.setattr(Runner, "_checked_step", None)
    for _ in range(2):
        net.run({"x": x}, "w", return_numpy=wait)
    close(value("w"), np.full((256, 1), -2.0))
    close(np.asarray(x), np.ones((4, 256)))
    assert not copied


def build_wide() -> Net:
    """Build 256 weights of one, from which a step subtracts the mean of the feed."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 256], "float32")
        out = paddle.matmul(x, parameter("w", np.ones((256, 1))))
        loss = paddle.mean(out)
        paddle.optimizer.SGD(1.0).minimize(loss)
        return loss, out

    return build(make)


def aligned(shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Make an array that JAX could use without a copy."""
    size = shape[0] * shape[1]
    raw = np.empty(size * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size * 4].view(np.float32).reshape(shape)


@pytest.mark.parametrize("devices", DEVICES)
def test_initial_values_are_not_shared_between_devices(devices: int) -> None:
    """A parameter from one host array is updated once, not once for each device."""
    net = build_wide()
    program = program_of(net, devices)
    mine = aligned((256, 1))
    mine[:] = 5
    slot = static.global_scope().find_var("w")
    assert slot is not None
    slot.get_tensor().set(mine)
    for step in range(1, 4):
        net.run({"x": np.ones((12, 256), "float32")}, (), program)
        close(value("w"), np.full((256, 1), 5.0 - step))
    close(mine, np.full((256, 1), 5.0))


@pytest.mark.parametrize("devices", [0, 1, 2])
@pytest.mark.parametrize("inplace", [True, False])
def test_enable_inplace_donates(devices: int, inplace: bool) -> None:
    """The old parameter's buffer is reused, or it stays valid."""
    net = fc_mean()
    if devices:
        program: Any = net.parallel(devices, enable_inplace=inplace)
    else:
        strategy = static.BuildStrategy()
        strategy.enable_inplace = inplace
        program = CompiledProgram(net.main, strategy)
    net.run(FEED, (), program)
    old = held("w")
    net.run(FEED, (), program)
    assert old.is_deleted() is inplace
    if not inplace:
        close(np.array(old), [[1.85]])
    (executable,) = program._runner.executables()
    assert ("input_output_alias" in executable.function.as_text()) is inplace


def test_new_values_take_the_old_ones_buffers() -> None:
    """Parameters and moments of one shape keep their own buffers, so that XLA copies none."""
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        h = static.data("x", [2, 3])
        for _ in range(3):
            h = static.nn.fc(h, 3)
        loss = paddle.mean(h)
        paddle.optimizer.Adam(0.1).minimize(loss)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup, scope=scope)
    executor.run(main, feed={"x": np.ones((2, 3), "float32")}, fetch_list=[loss], scope=scope)
    (executable,) = [e for e in executor._runner.executables() if e.plan.feeds]
    plan, text = executable.plan, executable.function.as_text()
    pairs = re.findall(r"\{(\d+)\}: \((\d+), \{\}", text.splitlines()[0])
    results = (*plan.fetches, *plan.written)
    names = {results[int(to)].name: plan.updated[int(of)].name for to, of in pairs}
    assert len(names) == len(plan.updated)
    assert all(to == of for to, of in names.items())


@pytest.mark.parametrize("devices", [0, 2])
def test_what_is_only_read_is_never_donated(devices: int) -> None:
    """Test programs do not move parameters and moving statistics."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("X", [None, 1], "float32")
        out = static.nn.batch_norm(paddle.matmul(x, parameter("w", [[2.0]])), is_test=True)
        return paddle.mean(out), out

    net = build(make)
    program = program_of(net, devices)
    net.run(FEED, net.loss, program)
    names = ("w", "batch_norm_0.w_1", "batch_norm_0.w_2")
    arrays = [held(name) for name in names]
    for _ in range(2):
        net.run(FEED, net.loss, program)
    assert [held(name) is array for name, array in zip(names, arrays, strict=True)] == [True] * 3


def test_many_steps_that_nobody_waits_for() -> None:
    """Unfetched steps on two devices do not accumulate until XLA's threads run out."""
    net = fc_mean(rate=0.001)
    program = net.parallel(2)
    for _ in range(200):
        net.run(FEED, (), program)
    close(value("w"), [[2 - 200 * 0.0015]], 1e-4)


@pytest.mark.every(5)
@pytest.mark.parametrize("devices", [0, 1, 2, 6])
@pytest.mark.parametrize(
    ("dtype", "number"), [("int64", 2**40 + 1), ("float64", 1e300), ("int64", -(2**62))]
)
def test_64_bits_are_kept(devices: int, dtype: str, number: float) -> None:
    """Feeds, state and fetches of 64 bits survive exactly."""
    main, startup = Program(), Program()
    with static.program_guard(main, startup):
        x = static.data("x", [None], dtype)
        total = static.create_global_var([1], 0, dtype, persistable=True, name="total")
        out = paddle.add(x, total)
        paddle.assign(total, total)
    net = Net(main, out, out, startup).start()
    slot = static.global_scope().find_var("total")
    assert slot is not None
    slot.get_tensor().set(np.array([number], dtype))
    feed = {"x": np.zeros(12, dtype)}
    program: Any = net.main
    if devices:
        program = CompiledProgram(main).with_data_parallel(places=static.cpu_places(devices))
    for _ in range(2):
        out_value, state = net.run(feed, (out, "total"), program)
        assert out_value.dtype == state.dtype == dtype
        assert out_value.tolist() == [number] * 12
        assert set(state.tolist()) == {number}
    assert value("total").tolist() == [number]


def test_runs_do_not_leak() -> None:
    """The number of live arrays does not grow with the steps."""
    net = fc_mean()
    program = net.parallel(2)

    def live(steps: int) -> int:
        for _ in range(steps):
            net.run(FEED, (net.loss, "w"), program)
        return len(jax.live_arrays())

    live(3)
    assert live(20) <= live(3)
