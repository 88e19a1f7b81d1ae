"""fluid.profiler: times of runs around training loops, in the form of Paddle's report."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.errors import UnsupportedError
from graphopt.fluid import profiler
from graphopt.runtime.settings.run_times import keep, kept_times
from graphopt_tests.frontend.test_fluid import fresh


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    yield
    keep(None)


def rows(report: str) -> dict[str, list[float]]:
    """Return the numbers of each event of a report."""
    lines = [line.split() for line in report.splitlines() if line.startswith("thread")]
    return {name: [float(number) for number in numbers] for name, *numbers in lines}


@pytest.mark.exhaustive
def test_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile"
    with fresh() as main:
        x = fluid.data("x", [None, 3])
        loss = fluid.layers.mean(fluid.layers.fc(x, 4))
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        test = main.clone(for_test=True)
        feed = {"x": np.ones([2, 3], "float32")}
        with profiler.profiler("CPU", "calls", str(path)) as made:
            exe.run(fluid.default_startup_program())
            for _ in range(5):
                exe.run(fluid.CompiledProgram(main), feed, [loss])
            exe.run(test, feed, [loss])
            thread = threading.Thread(target=exe.run, args=[test, feed, [loss]])
            thread.start()
            thread.join()
        exe.run(main, feed, [loss])
    assert made is None
    report = capsys.readouterr().out
    assert path.read_text().strip() == report.strip()
    assert "Place: CPU\nTime unit: ms\nSorted by number of calls in descending order" in report
    found = rows(report)
    assert next(iter(found)) == f"thread0::program_{main.serial}"
    assert f"thread1::program_{test.serial}" in found
    assert [row[0] for row in found.values()] == [5, 1, 1, 1]
    calls, total, least, most, mean, _ = found[f"thread0::program_{main.serial}"]
    assert 0 < least <= mean <= most <= total
    assert mean == pytest.approx(total / calls, rel=1e-4)
    assert sum(row[-1] for row in found.values()) == pytest.approx(1, rel=1e-4)


def test_start_reset_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with fresh() as main:
        x = fluid.layers.fill_constant([1], "float32", 1.0)
        exe = fluid.Executor(fluid.CPUPlace())
        profiler.start_profiler("All", "OpDetail")
        profiler.start_profiler("no state, but it is on already")
        for _ in range(3):
            exe.run(main, fetch_list=[x])
        profiler.reset_profiler()
        exe.run(main, fetch_list=[x])
        profiler.stop_profiler("max", str(tmp_path / "profile"))
        profiler.stop_profiler()
    assert [row[0] for row in rows(capsys.readouterr().out).values()] == [1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["XPU"], "The state must be"),
        (["CPU", "calls", "p", "Most"], "tracer option must be"),
        (["CPU", "longest"], "The sorted_key must be"),
    ],
)
def test_mistakes(arguments: list[Any], words: str) -> None:
    with pytest.raises(ValueError, match=words), profiler.profiler(*arguments):
        pass
    # as in Paddle, it is still on when only the order of the rows was wrong
    assert (kept_times() is not None) == (arguments[-1] == "longest")


def test_nvprof_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"jax\.profiler"):
        profiler.cuda_profiler("out.txt", "csv")
    with pytest.raises(ValueError, match="output mode"):
        profiler.cuda_profiler("out.txt", "xml")
