"""Start a script as several trainers on this machine: python -m graphopt.launch --nproc 2 train.py

Each trainer is a process with Paddle's environment (PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ID,
PADDLE_TRAINER_ENDPOINTS, PADDLE_CURRENT_ENDPOINT, and FLAGS_selected_gpus, 0 unless it is set) on
free ports of the loopback address, and with all other variables of the launcher. Its number
precedes each line of its output. The script may import graphopt or paddle.

Signals are passed on. After SIGTERM to the launcher or to a trainer all trainers end after the same
step, by SystemExit in the script; trainers that still run after --stop-timeout seconds are killed.
When one trainer fails, the launcher ends the others. With --max-restarts it then restarts all
trainers, so that the script resumes from its saved state. The exit code is the code of the trainer
that failed first in the last start (128 + n for signal n, 143 for SIGTERM).
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphopt.display.units import several
from graphopt.runtime.distributed.world import (
    FAULT_EXIT,
    STOPPED,
    TOKEN,
    Timeouts,
    free_ports,
)

HOST = "127.0.0.1"
# The seconds in which trainers must exit when another one has failed.
TO_END = 4.0
# The seconds in which they must exit after an external SIGTERM: `docker stop` kills after 10.
TO_STOP = 8.0
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1
_output = threading.Lock()


class Trainer:
    """A trainer's process, started, and the thread that shows its output."""

    def __init__(self, options: argparse.Namespace, environment: Mapping[str, str]) -> None:
        runner = ["-m", "graphopt", "run"] if options.script.endswith(".py") else []
        self.number = int(environment["PADDLE_TRAINER_ID"])
        self.process = subprocess.Popen(
            [sys.executable, *runner, options.script, *options.arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            preexec_fn=_die_with_parent if _LIBC else None,
        )
        self.reader = threading.Thread(target=self._show, daemon=True)

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while the trainer runs."""
        return self.process.poll()

    def _show(self) -> None:
        """Print the trainer's output, line by line."""
        for line in self.process.stdout or ():
            with _output:
                print(f"[{self.number}]", line.rstrip("\n"), flush=True)

    def signal(self, number: int) -> None:
        """Send a signal to the trainer and to its child processes."""
        try:
            os.killpg(self.process.pid, number)
        except (OSError, AttributeError):  # it has exited, or Windows has no groups
            if self.code is None:
                self.process.send_signal(number)


def _die_with_parent() -> None:
    """Ask Linux to kill this process if the launcher is killed and cannot do so itself."""
    assert _LIBC is not None
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


class Stop:
    """The end requested by a signal, and until when trainers may save."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.number = 0
        self.limit = math.inf
        self._waiting: list[int] = []

    def receive(self, number: int, _: Any = None) -> None:
        """Handle a signal; trainers get it as soon as all of them have started.

        The first signal counts; Ctrl-C sets no limit, because the user can press it again.
        """
        self.number = self.number or number
        self._waiting.append(number)
        if number != signal.SIGINT:
            self.limit = min(self.limit, time.monotonic() + self.timeout)

    def pass_on(self, trainers: Sequence[Trainer]) -> None:
        """Send the received signals to trainers."""
        while self._waiting:
            number = self._waiting.pop(0)
            for trainer in trainers:
                trainer.signal(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, the only one of its process; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m graphopt.launch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    options = parser.parse_args(arguments)
    stop = Stop(options.stop_timeout)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows has no SIGHUP
            signal.signal(getattr(signal, name), stop.receive)
    code = _run(options, stop)
    for left in reversed(range(options.max_restarts)):
        if code == 0 or stop.number:
            break
        _say(f"restarting all trainers; {several(left, 'restart')} left")
        code = _run(options, stop)
    return code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    # the other spellings are from Paddle's launcher and torchrun
    names = ("--nproc", "--nproc_per_node", "--nproc-per-node")
    add(*names, type=_at_least(1), required=True, metavar="N", help="number of trainers")
    add(
        "--devices-per-proc",
        type=_at_least(1),
        metavar="D",
        help="number of CPU devices of each trainer; sets CPU_NUM (default: from the environment)",
    )
    add(
        "--max-restarts",
        type=_at_least(0),
        default=0,
        metavar="N",
        help="maximum number of restarts of all trainers after one fails (default: 0)",
    )
    add(
        "--stop-timeout",
        type=float,
        default=TO_STOP,
        metavar="S",
        help=f"seconds for trainers to save and exit after SIGTERM (default: {TO_STOP:g})",
    )
    add("script", help="the script to run")
    add("arguments", nargs=argparse.REMAINDER, help="the arguments of the script")


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more")
        return int(text)

    return number


def trainer_environments(
    options: argparse.Namespace, base: Mapping[str, str]
) -> list[dict[str, str]]:
    """Build the environment of each trainer."""
    common = {**base, TOKEN: secrets.token_hex(16), "PYTHONUNBUFFERED": "1"}
    # scripts for several trainers read their device's number here
    common.setdefault("FLAGS_selected_gpus", "0")
    common.pop("PADDLE_MASTER", None)
    if options.devices_per_proc is not None:
        common["CPU_NUM"] = str(options.devices_per_proc)
        flags = common.get("XLA_FLAGS", "").split()
        count = "--xla_force_host_platform_device_count"
        common["XLA_FLAGS"] = " ".join(flag for flag in flags if not flag.startswith(count))
    endpoints = [f"{HOST}:{port}" for port in free_ports(HOST, options.nproc)]
    return [
        {
            **common,
            "PADDLE_TRAINERS_NUM": str(options.nproc),
            "PADDLE_TRAINER_ID": str(number),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            "PADDLE_CURRENT_ENDPOINT": endpoint,
        }
        for number, endpoint in enumerate(endpoints)
    ]


def _say(text: str) -> None:
    with _output:
        print(f"graphopt.launch: {text}", file=sys.stderr, flush=True)


def _run(options: argparse.Namespace, stop: Stop) -> int:
    """Start all trainers once and watch them to their end; return the exit code."""
    explain = Timeouts.of(os.environ).grace + 1.5
    trainers: list[Trainer] = []
    try:
        for environment in trainer_environments(options, os.environ):
            trainers.append(Trainer(options, environment))
        # start threads after the forks: a process with threads should not fork
        for trainer in trainers:
            trainer.reader.start()
        return _watch(trainers, stop, explain)
    finally:
        _end(trainers, TO_END if stop.limit == math.inf else 0.0)


def _watch(trainers: Sequence[Trainer], stop: Stop, explain: float) -> int:
    """Wait until all trainers succeed or one fails; return the exit code.

    After a failure the others have `explain` seconds to report and end. After SIGTERM, even to one
    of them, they have the time of `stop`.
    """
    failed: list[Trainer] = []
    limit = math.inf
    while True:
        failed += [trainer for trainer in trainers if trainer.code and trainer not in failed]
        if failed and limit == math.inf:
            if any(trainer.code == STOPPED for trainer in failed):
                stop.receive(signal.SIGTERM)
            limit = time.monotonic() + explain if stop.limit == math.inf else stop.limit
        running = [trainer for trainer in trainers if trainer.code is None]
        if not running or time.monotonic() > min(stop.limit, limit):
            break
        stop.pass_on(running)
        time.sleep(0.05)
    if not running and not failed:
        return 0
    still = ", ".join(str(trainer.number) for trainer in running)
    if stop.number:
        late = f"trainer {still} did not end within {stop.timeout:g} s (--stop-timeout); killed"
        is_late = still and time.monotonic() > stop.limit
        name = signal.Signals(stop.number).name
        _say(f"{name}, and {late}" if is_late else f"ended by {name}")
        return 128 + stop.number
    # a trainer that stopped for another one's fault is not the first failure
    first = min(failed, key=lambda trainer: trainer.code == FAULT_EXIT)
    code = first.code or 0
    how = f"failed with code {code}"
    if code < 0:
        how = f"was ended by {signal.Signals(-code).name}"
    elif code == FAULT_EXIT:
        how = f"stopped because of another trainer (code {code}); see the message above"
    _say(f"trainer {first.number} {how}" + (f"; ending trainer {still}" if still else ""))
    return 128 - code if code < 0 else code


def _end(trainers: Sequence[Trainer], patience: float) -> None:
    """End the running processes, and wait until all their output is shown."""
    running = [trainer for trainer in trainers if trainer.code is None]
    for trainer in running:
        trainer.signal(signal.SIGTERM)
    limit = time.monotonic() + patience
    while time.monotonic() < limit and any(trainer.code is None for trainer in running):
        time.sleep(0.05)
    for trainer in trainers:
        trainer.signal(signal.SIGKILL)  # including processes that a trainer started
        trainer.process.wait()
    for trainer in trainers:
        if trainer.reader.is_alive():
            trainer.reader.join(timeout=1.0)


if __name__ == "__main__":
    sys.exit(main())
