"""A step is one dispatch to a device: runs and transfers are counted by JAX's own events."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.io import DataLoader, Dataset
from graphopt.runtime import executor
from graphopt.runtime.devices.places import CUDAPlace
from graphopt.runtime.feeds import fetch, ids, sent
from graphopt.runtime.state import arrays as state_arrays

STEPS = 3
# in the profile of a CPU: each execution of a compiled program, and each array that is sent
RUNS, SENT = "CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice", "DevicePut"
SENT_APART = "DevicePutWithSharding"


class Training(NamedTuple):
    """A training step with random draws, a scheduled rate, and 64-bit labels."""

    executor: Any
    main: Any
    fetches: list[Any]
    scope: Any
    rate: Any

    def step(self, feed: Any, *, read: bool = True) -> Any:
        """Run one step."""
        return self.executor.run(self.main, feed, self.fetches, scope=self.scope, return_numpy=read)


@pytest.fixture(scope="module")
def training() -> Training:
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with static.program_guard(main, startup), static.scope_guard(scope):
        x, y = static.data("x", [None, 8]), static.data("y", [None, 1], "int64")
        h = paddle.nn.functional.dropout(static.nn.fc(x, 6, activation="relu"), 0.5)
        loss = paddle.mean(paddle.nn.functional.cross_entropy(static.nn.fc(h, 3), y))
        rate = paddle.optimizer.lr.StepDecay(0.1, 2, 0.9)
        paddle.optimizer.Momentum(rate).minimize(loss)
        executor = static.Executor()
        executor.run(startup)
    return Training(executor, main, [loss, h], scope, rate)


def arrays() -> dict[str, Any]:
    return {"x": np.ones((4, 8), "float32"), "y": np.zeros((4, 1), "int64")}


def on_device() -> dict[str, Any]:
    with jax.enable_x64(True):
        return jax.device_put(arrays())


@pytest.fixture
def as_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a CPU device stand for a GPU, to which loaders send batches."""
    monkeypatch.setattr(sent, "devices_of", lambda platform: jax.devices("cpu"))


class Named(NamedTuple):
    name: str


def counted(step: Callable[[], object], folder: Path) -> Counter[str]:
    """Count the events of some steps in a profile by JAX."""
    with jax.profiler.trace(str(folder)):
        for _ in range(STEPS):
            step()
    (file,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
    planes: Any = jax.profiler.ProfileData.from_file(file).planes
    return Counter(event.name for plane in planes for line in plane.lines for event in line.events)


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize(("fed", "count"), [(arrays, 2), (on_device, 0)])
def test_a_step_is_one_dispatch(
    training: Training, fed: Callable[[], Any], count: int, read: bool, tmp_path: Path
) -> None:
    """Only NumPy feeds and the random key are transferred; the rate stays on the device."""
    feed, step = fed(), training.step
    for _ in range(3):
        step(feed, read=read)
    found = counted(lambda: step(feed, read=read), tmp_path)
    assert found[RUNS] == STEPS
    assert found[SENT] == (count + 1) * STEPS
    assert not found[SENT_APART]


def test_a_new_rate_is_sent(training: Training, tmp_path: Path) -> None:
    """A changed rate is transferred once, in the next step."""
    feed = arrays()
    training.step(feed)

    def changed() -> None:
        for _ in range(2):
            training.rate.step()
        training.step(feed)
        training.step(feed)

    assert counted(changed, tmp_path)[SENT_APART] == STEPS
    held = training.scope.find_var(next(iter(training.main.lr_schedulers))).get_tensor()
    assert np.array(held) == np.float32(training.rate())


@pytest.mark.usefixtures("as_apart")
@pytest.mark.parametrize("by_generator", [False, True])
def test_batches_of_loaders_are_on_the_device(
    training: Training, by_generator: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader's thread transfers batches; a step transfers none, and does not read labels."""
    given = arrays()
    batch = loaded(given, by_generator)
    given["x"][:] = 7  # the script has its array back
    step = training.step
    before = step(arrays(), read=False)
    for _ in range(3):
        step(batch)
    monkeypatch.setattr(ids, "as_numpy", lambda array: state_arrays._on_host[id(array)])
    found = counted(lambda: step(batch), tmp_path)
    assert found[RUNS] == STEPS
    assert found[SENT] == STEPS  # the key
    assert np.array(batch["x"]).tolist() == arrays()["x"].tolist()
    assert len(before) == 2


def loaded(given: dict[str, Any], by_generator: bool) -> dict[str, Any]:
    """Return the first batch of a loader, for a place that is not the host."""
    place, names = CUDAPlace(0), [Named(name) for name in given]
    if by_generator:
        loader = DataLoader.from_generator(names, capacity=2)
        loader.set_batch_generator(lambda: iter([list(given.values())]), [place])
    else:
        rows = list(zip(*given.values(), strict=True))
        loader = DataLoader(
            Rows(rows), batch_size=len(rows), places=place, return_list=False, feed_list=names
        )
    return next(iter(loader))[0]


class Rows(Dataset):
    """Some rows."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)


def test_copies_begin_before_the_first_is_waited_for(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All fetches start copying before one is awaited; unread fetches are not copied."""
    told: list[str] = []
    read = fetch.to_numpy

    class Far:
        def __init__(self, array: Any) -> None:
            self.array = array

        def copy_to_host_async(self) -> None:
            told.append("begun")

    def given(arrays: Any, *, return_numpy: bool) -> Any:
        return as_results([Far(array) for array in arrays], return_numpy=return_numpy)

    def waited(far: Any) -> Any:
        told.append("read")
        return read(far.array)

    as_results = fetch.as_results
    monkeypatch.setattr(fetch, "is_apart", lambda array: True)
    monkeypatch.setattr(executor, "as_results", given)
    monkeypatch.setattr(fetch, "to_numpy", waited)
    training.step(arrays())
    assert told == ["begun", "begun", "read", "read"]
    told.clear()
    training.step(arrays(), read=False)
    assert not told


def test_state_stays_where_it_is(training: Training) -> None:
    """A step writes new state over the donated old state: the addresses are the same."""

    def places() -> dict[str, int]:
        names = [p.name for p in training.main.all_parameters()]
        slots = {name: training.scope.find_var(name) for name in names}
        return {name: slot.value.unsafe_buffer_pointer() for name, slot in slots.items()}

    for _ in range(3):
        training.step(arrays())
    before = places()
    training.step(arrays())
    assert places() == before and len(before) == 4
