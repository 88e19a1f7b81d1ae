"""The memory of intermediate values stays with the process, and the numbers do not change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import pytest

from graphopt.runtime.devices import heap as heap_of_c
from graphopt.runtime.devices.heap import MAPPED
from graphopt.runtime.steps import scratch
from graphopt.runtime.steps.scratch import (
    ALIGNMENT,
    CHANGES,
    COPIED_LATER,
    HELD,
    Scratch,
    scratch_of,
    temporary_bytes,
)

GLIBC = sys.platform == "linux" and heap_of_c._glibc() is not None
SCRIPT = """
import json, resource, threading
import numpy as np
import graphopt as paddle
from graphopt import static

STEPS = 12
paddle.seed(1)
x = static.data("x", [1000, 26])
h = static.nn.fc(x, 10000, activation="relu")
loss = paddle.mean(paddle.square(paddle.nn.functional.softmax(h)))
paddle.optimizer.SGD(0.1).minimize(loss)
executor = static.Executor()
executor.run(static.default_startup_program())
room = np.random.default_rng(0).standard_normal(1000 * 26 + 1).astype("float32")
feed = {"x": room[1:].reshape(1000, 26)}  # at no multiple of 64 bytes
losses, faults = [], []

def run():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    losses.append(executor.run(feed=feed, fetch_list=[loss])[0].item().hex())
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

for _ in range(STEPS):
    run()
thread = threading.Thread(target=run)
thread.start()
thread.join()
print(json.dumps({"losses": losses, "faults": faults[:STEPS]}))
"""


def ran(keeps: str) -> dict[str, list[Any]]:
    """Run a process that trains for twelve steps, and for one in a thread; return its report."""
    environment = {**os.environ, "FLAGS_graphopt_keep_scratch": keeps, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.exhaustive
@pytest.mark.skipif(not GLIBC, reason="needs glibc")
def test_pages_are_mapped_once() -> None:
    """After the first steps the kernel maps few pages, and the losses have the same bits.

    On a busy machine XLA's threads allocate their own blocks in up to four of the first steps.
    """
    kept, mapped = ran("1"), ran("0")
    assert len(kept["losses"]) == 13 and kept["losses"] == mapped["losses"]
    assert min(mapped["faults"]) > max(MAPPED // 4096, 3 * min(kept["faults"])), (kept, mapped)


def compiled(size: int) -> jax.stages.Compiled:
    """Compile an executable that holds so many numbers until its end."""
    sums = jax.jit(lambda x: (y := jax.numpy.cumsum(x) * 2, jax.numpy.sort(y)[::-1])[1].sum())
    return sums.lower(jax.ShapeDtypeStruct((size,), "float32")).compile()


@dataclass
class Heap:
    """A heap that notes its requests."""

    asked: list[Any] = field(default_factory=list)

    def mallopt(self, option: int, value: int) -> None:
        self.asked.append((option, value))

    def malloc_trim(self, _: int) -> None:
        self.asked.append("trim")

    def of(self, step: Scratch | None) -> list[Any]:
        """Return the requests of a run."""
        assert step is not None
        del self.asked[:]
        with step:
            pass
        return self.asked


OPENED, CLOSED = (scratch._MMAP_MAX, 0), (scratch._MMAP_MAX, scratch._MOST_MAPPED)


@pytest.fixture
def heap(monkeypatch: pytest.MonkeyPatch) -> Heap:
    made = Heap()
    monkeypatch.setattr(heap_of_c, "_glibc", lambda: made)
    monkeypatch.setattr(scratch, "_ran", scratch._Ran())
    monkeypatch.setattr(heap_of_c, "_most", [0])
    return made


def test_large_blocks_only(monkeypatch: pytest.MonkeyPatch, heap: Heap) -> None:
    """Small steps, other threads, and runs without the flag make no request."""
    small, large = compiled(1000), compiled(MAPPED // 4)
    assert temporary_bytes(small) < MAPPED <= temporary_bytes(large)
    assert temporary_bytes(lambda *_: ((), ())) == 0
    assert scratch_of(small) is None and not heap.asked
    monkeypatch.setenv("FLAGS_graphopt_keep_scratch", "0")
    assert scratch_of(large) is None and not heap.asked
    monkeypatch.setenv("FLAGS_graphopt_keep_scratch", "1")
    kept = scratch_of(large)
    assert kept is not None and heap.asked
    del heap.asked[:]
    thread = threading.Thread(target=heap.of, args=(kept,))
    thread.start()
    thread.join()
    assert not heap.asked and heap.of(kept)[-2:] == [OPENED, CLOSED]


def test_the_heap_of_a_smaller_block_does_not_shrink(heap: Heap) -> None:
    """The heap's limits are set once, without requests in the runs."""
    function = compiled(HELD // 2)
    size = temporary_bytes(function)
    assert HELD <= size < MAPPED and scratch_of(function) is None
    limit = heap_of_c._TRIM_THRESHOLD, 2 * size + MAPPED
    assert limit in heap.asked
    heap_of_c.keep_heap(1)  # of a program that needs less
    assert heap.asked[-1] == limit


def test_a_block_is_given_back_for_another(heap: Heap) -> None:
    """A block is freed for another one, unless steps alternate for long."""
    function = compiled(MAPPED // 4)
    one, other = scratch_of(function), scratch_of(function)
    heap.of(one)
    assert heap.of(one) == [OPENED, CLOSED]
    for turn in range(CHANGES):
        assert heap.of((other, one)[turn % 2]) == ["trim", OPENED, CLOSED]
    assert heap.of(other) == heap.of(one) == [OPENED, CLOSED]
    del heap.asked[:], other
    assert heap.asked == ["trim"]


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "bfloat16"])
def test_feeds_begin_where_jax_does_not_copy(dtype: str) -> None:
    """Large arrays are copied to an aligned place if needed; others are not copied."""
    kind = jax.numpy.dtype(dtype)
    room = np.random.default_rng(0).integers(0, 2, COPIED_LATER + 1).astype(kind)
    for array in (room[1:], room[::-1], room[: COPIED_LATER // 4 * 4].reshape(4, -1).T):
        found = scratch._align_array(array)
        assert found.__array_interface__["data"][0] % ALIGNMENT == 0 and found.flags.c_contiguous
        assert found.dtype == kind and np.array_equal(found, array)
        assert scratch._align_array(found) is found
    small = room[1 : 1 + COPIED_LATER // 16]
    assert scratch._align_array(small) is small
