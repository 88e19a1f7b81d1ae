"""Start a script as several trainers on this machine: python -m graphopt.launch --nproc 2 train.py

Each trainer is a process with Paddle's environment (PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ID,
PADDLE_TRAINER_ENDPOINTS, PADDLE_CURRENT_ENDPOINT, and FLAGS_selected_gpus, 0 unless it is set) on
ports of the loopback address that are free now. Its output is shown after its number. The script
may import graphopt or paddle.

Signals are passed on. After SIGTERM to the launcher or to a trainer all trainers end after the same
step, with SystemExit where the script is; those that have not ended in --stop-timeout seconds are
killed. When one trainer fails, the others are ended, and the exit code is that of the first failure
(128 + n for signal n, 143 for SIGTERM).
"""

from __future__ import annotations

import argparse
import ctypes
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from graphopt.display.units import several
from graphopt.runtime.distributed.member import FAULT_EXIT
from graphopt.runtime.distributed.stopping import STOPPED
from graphopt.runtime.distributed.wire import listen
from graphopt.runtime.distributed.world import (
    LAUNCHER,
    SILENCE_TIMEOUT,
    START_TIMEOUT,
    STEP_TIMEOUT,
    TOKEN,
    Timeouts,
)

# Seconds that trainers have to end when another one has failed.
TO_END = 4.0
# Seconds that they have after SIGTERM from outside: `docker stop` kills after 10.
TO_STOP = 8.0
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@dataclass
class Trainer:
    """A process that was started, and the thread that shows its output."""

    number: int
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    reader: threading.Thread | None = None

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal, None while it runs."""
        return self.process.poll()

    def show(self) -> None:
        """Start to print its output."""
        self.reader = threading.Thread(target=_show, args=(self.number, self.output), daemon=True)
        self.reader.start()

    def signal(self, number: int) -> None:
        """Send a signal to it and to its child processes."""
        try:
            os.killpg(self.process.pid, number)
        except (OSError, AttributeError):
            if self.code is None:
                self.process.send_signal(number)


@dataclass
class Stop:
    """The end requested by a signal, and until when trainers may save."""

    timeout: float
    number: int = 0
    limit: float | None = None

    def begin(self, number: int) -> None:
        """The first signal counts; Ctrl-C sets no limit, because the user can press it again."""
        self.number = self.number or number
        if number != signal.SIGINT and self.limit is None:
            self.limit = time.monotonic() + self.timeout

    @property
    def is_over(self) -> bool:
        """True when the time is over."""
        return self.limit is not None and time.monotonic() > self.limit


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    options = _parser().parse_args(arguments)
    trainers: list[Trainer] = []
    stop, reached = Stop(options.stop_timeout), 0

    def pass_on(number: int, _: Any) -> None:
        nonlocal reached
        stop.begin(number)
        reached = len(trainers)
        for trainer in trainers[:reached]:
            trainer.signal(number)

    before = {number: signal.signal(number, pass_on) for number in _SIGNALS}
    try:
        environments = trainer_environments(options, os.environ)
        _say(
            f"{several(options.nproc, 'trainer')}; waits {environments[0][START_TIMEOUT]} s for "
            f"all to come, {environments[0][SILENCE_TIMEOUT]} s for a sign of life"
        )
        for environment in environments:
            trainers.append(_start(options, environment))
        # a signal may come while a trainer is started
        for trainer in trainers[reached:] if stop.number else ():
            trainer.signal(stop.number)
        # threads start after the forks: a process with threads should not fork
        for trainer in trainers:
            trainer.show()
        explain = Timeouts.of(environments[0]).grace + 1.5
        return _watch(trainers, stop, explain)
    finally:
        _end(trainers, 0.0 if stop.limit is not None else TO_END)
        for number, handler in before.items():
            signal.signal(number, handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m graphopt.launch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    return parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    limits = Timeouts()
    add = parser.add_argument
    add("--nproc", type=_positive, required=True, metavar="N", help="how many trainers")
    add(
        "--devices-per-proc",
        type=_positive,
        metavar="D",
        help="CPU devices of each trainer (CPU_NUM); by default as the environment says",
    )
    add("--host", default="127.0.0.1", help="address of trainer 0 (127.0.0.1)")
    add(
        "--start-timeout",
        type=float,
        metavar="S",
        help=f"seconds until all trainers have come ({START_TIMEOUT}, {limits.start:g})",
    )
    add(
        "--silence-timeout",
        type=float,
        metavar="S",
        help=f"seconds without a sign of life ({SILENCE_TIMEOUT}, {limits.silence:g})",
    )
    add(
        "--step-timeout",
        type=float,
        metavar="S",
        help=f"seconds that one step may take, or others wait ({STEP_TIMEOUT}, {limits.step:g})",
    )
    add(
        "--stop-timeout",
        type=float,
        default=TO_STOP,
        metavar="S",
        help=f"seconds that trainers have to save and end after SIGTERM ({TO_STOP:g})",
    )
    add("script", help="the script to run")
    add("arguments", nargs=argparse.REMAINDER, help="its arguments")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def trainer_environments(options: Any, base: Any) -> list[dict[str, str]]:
    """The environment of each trainer."""
    common = {**base, TOKEN: secrets.token_hex(16), LAUNCHER: str(os.getpid())}
    given = Timeouts.of(base)
    for name, asked, default in (
        (START_TIMEOUT, options.start_timeout, given.start),
        (SILENCE_TIMEOUT, options.silence_timeout, given.silence),
        (STEP_TIMEOUT, options.step_timeout, given.step),
    ):
        common[name] = f"{default if asked is None else asked:g}"
    Timeouts.of(common)
    common["PYTHONUNBUFFERED"] = "1"
    # scripts of several trainers take the number of their device from here
    common.setdefault("FLAGS_selected_gpus", "0")
    common.pop("PADDLE_MASTER", None)
    if options.devices_per_proc is not None:
        common["CPU_NUM"] = str(options.devices_per_proc)
        flags = common.get("XLA_FLAGS", "").split()
        count = "--xla_force_host_platform_device_count"
        common["XLA_FLAGS"] = " ".join(flag for flag in flags if not flag.startswith(count))
    host = f"[{options.host}]" if ":" in options.host else options.host
    endpoints = [f"{host}:{port}" for port in _free_ports(options.host, options.nproc)]
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


def _free_ports(host: str, count: int) -> list[int]:
    """So many different ports that are free now."""
    sockets = [listen(host, 0) for _ in range(count)]
    ports = [socket.getsockname()[1] for socket in sockets]
    for socket in sockets:
        socket.close()
    return ports


def _start(options: Any, environment: dict[str, str]) -> Trainer:
    runner = ["-m", "graphopt", "run"] if options.script.endswith(".py") else []
    process = subprocess.Popen(
        [sys.executable, *runner, options.script, *options.arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_die_with_parent if sys.platform == "linux" else None,
    )
    assert process.stdout is not None
    return Trainer(int(environment["PADDLE_TRAINER_ID"]), process, process.stdout)


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """Ask Linux to kill this process when the launcher is killed and can do it no more."""
    assert _LIBC is not None
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


_output = threading.Lock()


def _show(number: int, stream: IO[bytes]) -> None:
    """Print a trainer's output, line by line."""
    for line in stream:
        text = line.decode("utf-8", "replace").rstrip("\n")
        with _output:
            print(f"[{number}] {text}", flush=True)


def _say(text: str) -> None:
    with _output:
        print(f"graphopt.launch: {text}", file=sys.stderr, flush=True)


def _watch(trainers: Sequence[Trainer], stop: Stop, explain: float) -> int:
    """Wait until all have ended well, or one has not; returns the exit code.

    After a failure the others have `explain` seconds to report and end; after SIGTERM
    to one of them those of `stop`.
    """
    while True:
        ended = [trainer for trainer in trainers if trainer.code]
        if ended:
            break
        if all(trainer.code == 0 for trainer in trainers):
            return 0
        if stop.is_over:
            return _killed(trainers, stop)
        time.sleep(0.05)
    if any(trainer.code == STOPPED for trainer in ended):
        stop.begin(signal.SIGTERM)
    # a trainer that stopped because of another one is not the first failure
    limit = stop.limit if stop.limit is not None else time.monotonic() + explain
    while time.monotonic() < limit and any(trainer.code is None for trainer in trainers):
        time.sleep(0.05)
    if stop.number:
        if stop.is_over and any(trainer.code is None for trainer in trainers):
            return _killed(trainers, stop)
        _say(f"ended by {signal.Signals(stop.number).name}")
        return 128 + stop.number
    failed = [trainer for trainer in trainers if trainer.code and trainer.code != FAULT_EXIT]
    first = next((t for t in ended if t in failed), (failed or ended)[0])
    code = first.code or 0
    how = f"failed with code {code}"
    if code < 0:
        how = f"was ended by {signal.Signals(-code).name}"
    elif code == FAULT_EXIT:
        how = f"stopped because of another one (code {code}), as it says above"
    still = [str(trainer.number) for trainer in trainers if trainer.code is None]
    more = f"; ending trainer {', '.join(still)}" if still else ""
    _say(f"trainer {first.number} {how}{more}")
    return 128 - code if code < 0 else code


def _killed(trainers: Sequence[Trainer], stop: Stop) -> int:
    """The exit code when trainers have not ended in time; prints which."""
    still = ", ".join(str(trainer.number) for trainer in trainers if trainer.code is None)
    _say(
        f"{signal.Signals(stop.number).name}, and trainer {still} did not end within "
        f"{stop.timeout:g} s (--stop-timeout); killed"
    )
    return 128 + stop.number


def _end(trainers: Sequence[Trainer], patience: float) -> None:
    """End the processes that still run, and wait until all their output is shown."""
    running = [trainer for trainer in trainers if trainer.code is None]
    for trainer in running:
        trainer.signal(signal.SIGTERM)
    limit = time.monotonic() + patience
    while time.monotonic() < limit and any(trainer.code is None for trainer in running):
        time.sleep(0.05)
    for trainer in trainers:
        trainer.signal(signal.SIGKILL)  # also processes that a trainer started
        trainer.process.wait()
    for trainer in trainers:
        if trainer.reader is not None:
            trainer.reader.join(timeout=1.0)


if __name__ == "__main__":
    sys.exit(main())
