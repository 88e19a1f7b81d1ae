"""Kills trainers of a running job, which continues from its last checkpoint: no saved step is lost.

`make storm-checkpoints` runs it; `python tests/storms/jobs.py COUNT --format orbax --seed N` kills
one of two trainers COUNT times with SIGKILL, at random moments, and lets
`graphopt.launch --max-restarts` start the job again. It prints the seconds from a kill to the end
of the first step after it, and how many steps were run again. The exit status is 1 when a step that
was reported as saved came again, when the state of a step was not that step's, or when the job took
longer than LIMIT seconds to be back.

Every step adds 1 to the only parameter, so the state after k steps is known.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

import graphopt as paddle
from graphopt import static

LIMIT = 30.0
# Checkpoints of Orbax that stay.
KEPT = 3


def train(folder: Path, format: str) -> None:
    """Train forever as one trainer, with a checkpoint after each step."""
    trainer = paddle.distributed.get_rank()
    x = static.data("x", [None, 1])
    zero = paddle.nn.initializer.Constant(0.0)
    w = paddle.create_parameter([1], "float32", name="w", default_initializer=zero)
    loss = paddle.mean(x * w)
    paddle.optimizer.SGD(-1.0).minimize(loss)
    main, exe = static.default_main_program(), static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    program = static.CompiledProgram(main).with_data_parallel(loss.name)
    steps = [int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()]
    if format == "orbax":
        done = max(steps, default=0)
        if done:
            static.load(main, str(folder / str(done)))
    elif (folder / "state.pdparams").exists():
        static.load(main, str(folder / "state"))
    value = np.array(static.global_scope().find_var("w").get_tensor()).item()
    done = max(steps, default=0) if format == "orbax" else int(value)
    print(f"pid {os.getpid()} goes on from {done} with {value:g}", flush=True)
    feed, saving = {"x": np.ones((1, 1), "float32")}, None
    while True:
        exe.run(program, feed=feed, fetch_list=[loss])
        done += 1
        print(f"step {done}", flush=True)
        if format == "paddle" and trainer == 0:
            static.save(main, str(folder / "state"))
            print(f"saved {done}", flush=True)
        if format == "orbax":
            if saving is not None:
                saving.result()
                print(f"saved {done - 1}", flush=True)
            saving = static.save(main, str(folder / str(done)), format="orbax")
            if trainer == 0 and done > KEPT:
                shutil.rmtree(folder / str(done - KEPT), ignore_errors=True)


@dataclass
class Job:
    """The output of a job since the last kill, and the results of all kills."""

    pids: dict[str, int] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    step: int = 0
    saved: int = 0
    killed: float = 0.0
    seconds: list[float] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def hear(self, line: str) -> None:
        """Process a line of output."""
        if told := re.match(r"\[(\d)\] pid (\d+) goes on from (\d+) with (\d+)", line):
            trainer, pid, number, value = told[1], *map(int, told.groups()[1:])
            if trainer in self.pids:
                self.wrong.append("the job failed by itself")
            self.pids[trainer] = pid
            if number < self.saved or number != value:
                self.wrong.append(f"{line}, after step {self.saved} was saved")
            if self.killed and trainer == "0":
                self.again.append(self.step - number)
            self.step = number
        elif told := re.match(r"\[(\d)\] step (\d+)", line):
            self.step = max(self.step, int(told[2]))
            if told[1] in self.pids:
                self.begun.add(told[1])
        elif told := re.match(r"\[\d\] saved (\d+)", line):
            self.saved = max(self.saved, int(told[1]))

    def kill(self, chance: random.Random) -> str:
        """Kill one trainer with SIGKILL; return its number."""
        trainer = chance.choice(sorted(self.pids))
        os.kill(self.pids[trainer], signal.SIGKILL)
        self.killed = time.monotonic()
        self.pids.clear()
        self.begun.clear()
        return trainer


def lines(stream: IO[str], chance: random.Random, job: Job, count: int) -> Iterator[str]:
    """Yield the lines of a job; kill a trainer each time that both have run a step or more."""
    moment = 0.0
    for line in stream:
        yield line.rstrip()
        if job.wrong:
            return
        if len(job.begun) < 2:
            moment = 0.0
        elif not moment:
            if job.killed:
                job.seconds.append(time.monotonic() - job.killed)
                print(f"kill {len(job.seconds)}: {job.seconds[-1]:.1f} s", flush=True)
            if len(job.seconds) == count:
                return
            moment = time.monotonic() + chance.uniform(0.0, 3.0)
        elif time.monotonic() > moment:
            job.kill(chance)


def storm(folder: Path, format: str, count: int, chance: random.Random) -> Job:
    """Kill trainers of a job so many times."""
    command = [sys.executable, "-m", "graphopt.launch", "--nproc", "2", "--devices-per-proc", "1"]
    command += ["--max-restarts", str(count + 1), __file__, "0", "--train", str(folder)]
    environment = os.environ | {"FLAGS_graphopt_cache_dir": str(folder / "cache")}
    job = Job()
    with subprocess.Popen(
        [*command, "--format", format],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment | {"JAX_PLATFORMS": "cpu"},
    ) as process:
        assert process.stdout is not None
        for line in lines(process.stdout, chance, job, count):
            job.hear(line)
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    if process.returncode != 128 + signal.SIGTERM:
        job.wrong.append(f"the launcher ended with code {process.returncode}")
    return job


def main() -> int:
    """Run the storm, print its results; return 1 when a step was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--format", choices=("paddle", "orbax"), default="paddle")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    paddle.enable_static()
    if options.train:
        train(options.train, options.format)
    with tempfile.TemporaryDirectory() as folder:
        job = storm(Path(folder), options.format, options.count, random.Random(options.seed))
    seconds = np.array(job.seconds)
    late = int((seconds > LIMIT).sum()) + options.count - len(seconds)
    shares = {name: f"{np.quantile(seconds, at):.1f}" for name, at in QUANTILES.items()}
    print(f"{options.format}: {len(seconds)} kills; seconds to the first step after: {shares}")
    print(f"steps run again: {sorted(job.again)}; saved steps lost: {len(job.wrong)}; late: {late}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (used.ru_utime + used.ru_stime) / (1 + len(seconds))
    print(f"CPU seconds of all processes for one start: {cpu:.1f}")
    print(*job.wrong, sep="\n")
    return 1 if job.wrong or late else 0


QUANTILES = {"least": 0.0, "half": 0.5, "9 of 10": 0.9, "most": 1.0}

if __name__ == "__main__":
    sys.exit(main())
