"""The number of threads that compute, under each setting that should limit them.

    python benchmarks/bench_threads.py [--seconds 2]

A process for each setting and each form runs a network of four large products repeatedly. The table
has the cores that it took (CPU time over wall time, which other processes reduce) and the threads
that did at least a twentieth of the work (which they do not affect). The rule that NumPy has one
thread while other processes take the cores is off, for it would hide the settings.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FORMS = {"host": "NumPy", "full": "XLA"}
CONFIG = "`set_cpu_math_library_num_threads(1)`"
SETTINGS: dict[str, dict[str, str]] = {
    "nothing": {},
    "`OMP_NUM_THREADS=1`": {"OMP_NUM_THREADS": "1"},
    "`OPENBLAS_NUM_THREADS=1`": {"OPENBLAS_NUM_THREADS": "1"},
    "`PJRT_NPROC=1`": {"PJRT_NPROC": "1"},
    "`XLA_FLAGS=--xla_cpu_multi_thread_eigen=false`": {
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"
    },
    "`FLAGS_paddle_num_threads=1`": {"FLAGS_paddle_num_threads": "1"},
    CONFIG: {},
    "`ExecutionStrategy.num_threads = 1`": {"BENCH_STRATEGY": "1"},
    "`taskset -c 0`": {"BENCH_TASKSET": "1"},
    "a quota of one core": {"BENCH_QUOTA": "1"},
}
SIZE, LAYERS = 1024, 4


def spent() -> dict[str, int]:
    """Read the CPU time of each thread of this process, in ticks."""
    found: dict[str, int] = {}
    for thread in Path("/proc/self/task").iterdir():
        try:
            fields = (thread / "stat").read_text("utf-8").rpartition(")")[2].split()
        except OSError:  # the thread has ended
            continue
        found[thread.name] = int(fields[11]) + int(fields[12])
    return found


def network() -> tuple[Any, Any, Any]:
    """Build a network and initialize its parameters; return its executor, input and output."""
    import graphopt as paddle
    from graphopt import static

    paddle.enable_static()
    x = out = static.data("x", [None, SIZE], "float32")
    for _ in range(LAYERS):
        out = paddle.nn.functional.relu(static.nn.fc(out, SIZE))
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    return exe, x, out


def work(seconds: float) -> None:
    """Run the network for `seconds`, and print the cores and the threads that it took."""
    import numpy as np

    import graphopt as paddle
    from graphopt import inference, static
    from graphopt.runtime.host import blas_threads

    blas_threads.CROWDED, blas_threads.idle_seconds = 0.0, lambda: None
    paddle.enable_static()
    rows = np.ones((SIZE, SIZE), "float32")
    if "BENCH_CONFIG" in os.environ:
        config = inference.Config(os.environ["BENCH_CONFIG"])
        config.set_cpu_math_library_num_threads(1)
        predictor = inference.create_predictor(config)

        def run() -> None:
            predictor.run([rows])
    else:
        exe, _, out = network()
        program = static.default_main_program()
        if "BENCH_STRATEGY" in os.environ:
            strategy = static.ExecutionStrategy()
            strategy.num_threads = 1
            program = static.CompiledProgram(program).with_data_parallel(
                exec_strategy=strategy, places=[paddle.CPUPlace()]
            )

        def run() -> None:
            exe.run(program, feed={"x": rows}, fetch_list=[out])

    for _ in range(3):
        run()
    before, began, cpu = spent(), time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        run()
    cores = (time.process_time() - cpu) / (time.perf_counter() - began)
    ticks = [count - before.get(name, 0) for name, count in spent().items()]
    print(json.dumps([cores, sum(each * 20 >= sum(ticks) for each in ticks)]))


@contextmanager
def quota_group() -> Iterator[Path | None]:
    """Create a control group with the time of one core; None where that is not permitted."""
    for mounted, limit in (
        ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
        ("/sys/fs/cgroup", "cpu.max"),
    ):
        group = Path(mounted) / f"graphopt-bench-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text("100000", "utf-8")
            yield group
        except OSError:
            continue
        finally:
            group.rmdir()
        return
    yield None


def measure(setting: dict[str, str], form: str, seconds: float, group: Path | None) -> str:
    """Measure the cores and the threads of one process, as a cell of the table."""
    settings = {"FLAGS_graphopt_tier": form, "FLAGS_graphopt_cache_dir": "", **setting}
    command = [sys.executable, os.path.abspath(__file__), "--work", "--seconds", str(seconds)]
    if "BENCH_TASKSET" in setting:
        command = ["taskset", "-c", "0", *command]
    if "BENCH_QUOTA" in setting:
        if group is None:
            return "not measured"
        enter = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        command = ["sh", "-c", enter, "sh", *command]
    done = subprocess.run(
        command, env=os.environ | settings, stdout=subprocess.PIPE, text=True, check=True
    )
    cores, threads = json.loads(done.stdout.splitlines()[-1])
    return f"{cores:.2f} cores, {threads} thread{'s' * (threads != 1)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.seconds)
        return
    from graphopt import static

    print(f"| setting | {' | '.join(FORMS.values())} |\n|---|---|---|")
    with TemporaryDirectory() as folder, quota_group() as group:
        exe, x, out = network()
        static.save_inference_model(f"{folder}/model", [x], [out], exe)
        SETTINGS[CONFIG]["BENCH_CONFIG"] = folder
        for name, setting in SETTINGS.items():
            cells = [measure(setting, form, arguments.seconds, group) for form in FORMS]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
