"""A training script for the storms: it is interrupted, or calls a function that raises, and counts.

Usage: worker.py PROGRAM FAULT COUNT. The faults: `interrupt` (SIGINT from the reader of this
output), `alarm` (a timer of this process, whose handler raises), `thread` (a thread that sets an
exception in this one), `raise` (the function of the program raises).

Every parameter of its net has the gradient 1, so that after k steps of Momentum(1.0, momentum=1.0)
each velocity is k and each parameter -k (k + 1) / 2: the state of a whole step differs from every
mixture of two. It prints `ready` before an interrupt from outside, and at the end `lost N of
COUNT`, where N counts faults after which state was missing, mixed or of a step that never ran.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt.errors import CallbackError, TrainerError

PARAMETERS = 8
STEPS = 3
"""The steps of one call, in the program that makes several."""
KIND = "float64"
"""The dtype of everything, so that numbers stay exact for millions of steps."""
STEPS_OF_A_FAULT = 12
"""The steps of two trainers for each interrupt: both must run equally many."""
# seconds without an interrupt before there is another one
PATIENCE = 5.0


class Training:
    """A program of some kind, its steps, and its expected state."""

    def __init__(self, kind: str, *, calls: bool) -> None:
        self.kind = kind
        self.fails = False
        self.moments = random.Random(0)
        self.trainer = paddle.distributed.get_rank()
        self.main, startup = static.Program(), static.Program()
        with static.program_guard(self.main, startup):
            self.loss = self._net(calls=calls)
            paddle.optimizer.Momentum(1.0, momentum=1.0).minimize(self.loss)
        self.exe = static.Executor(paddle.CPUPlace())
        self.exe.run(startup)
        self.names = [v.name for v in self.main.list_vars() if v.persistable]
        self.names = [n for n in self.names if "learning_rate" not in n]
        self.program: Any = self._compiled()
        self.each = STEPS if kind == "steps" else 1
        self.rows = 4
        self.begun = self.done = 0

    def _net(self, *, calls: bool) -> Any:
        """Build the mean over the rows of the sum of all products of a feed and a parameter.

        The sum would do without data parallelism. `compiling` uses it, as 1 / rows is rounded for
        the many numbers of rows that it feeds.
        """
        over_rows = paddle.sum if self.kind == "compiling" else paddle.mean
        x = static.data("x", [None, 3], KIND)
        if calls:
            out = self.main.global_block().create_var(name="out", shape=[-1, 3], dtype=KIND)
            static.py_func(self.function, x, out)
            x = out
        zeros = paddle.nn.initializer.Constant(0.0)
        weights = [
            paddle.create_parameter([3], KIND, default_initializer=zeros) for _ in range(PARAMETERS)
        ]
        return sum(over_rows(paddle.sum(x * weight, axis=1)) for weight in weights)

    def function(self, x: Any) -> Any:
        """Return the array, or raise; the program calls it."""
        if self.fails:
            raise ValueError("no such file")
        return x

    def _compiled(self) -> Any:
        if self.kind in ("plain", "compiling"):
            return self.main
        strategy, execution = static.BuildStrategy(), static.ExecutionStrategy()
        strategy.fuse_all_optimizer_ops = self.kind == "stacked"
        execution.num_iteration_per_run = STEPS if self.kind == "steps" else 1
        execution.mapper = "pmap" if self.kind == "pmap" else "auto"
        several = self.kind in ("devices", "pmap", "processes")
        places = None if several else [paddle.CPUPlace()]
        return static.CompiledProgram(self.main).with_data_parallel(
            self.loss.name, strategy, execution, places=places
        )

    def step(self) -> None:
        """Run once, on as many rows as the kind of program needs."""
        x = np.ones((self.rows, 3), KIND)
        if self.kind == "compiling":
            self.rows += 4
            x[1:] = 0
        self.begun += self.each
        self.exe.run(self.program, feed={"x": x}, fetch_list=[self.loss])
        self.done += self.each

    def count(self) -> int:
        """Return the steps in the state, -1 for a mixture; raise when state is missing."""
        scope = static.global_scope()
        values = {name: np.array(scope.find_var(name).get_tensor()) for name in self.names}
        velocities = [values[n] for n in values if "velocity" in n]
        assert len(velocities) == PARAMETERS == len(values) - PARAMETERS, list(values)
        k = int(velocities[0][0])
        weight = -k * (k + 1) / 2
        wanted = {name: k if "velocity" in name else weight for name in values}
        return k if all((values[n] == wanted[n]).all() for n in values) else -1

    def is_kept(self) -> bool:
        """Return whether the state is a whole step's, and training continues from it.

        The interrupted step may or may not count.
        """
        try:
            k = self.count()
            kept = self.done <= k <= self.begun
            if not kept:
                print(f"lost: the state of {k} steps after {self.done} to {self.begun}", flush=True)
            self.done = self.begun = k
            if kept and self.kind not in ("processes", "compiling"):
                self.step()
                kept = self.count() == self.done
        except (RuntimeError, ValueError) as error:
            print("lost:", type(error).__name__, str(error)[:200], flush=True)
            kept = False
        if not kept:
            self.reset()
        return kept

    def reset(self) -> None:
        """Reset the state to zero steps."""
        for name in self.names:
            shape = self.main.global_block().var(name).shape
            static.global_scope().find_var(name).get_tensor().set(np.zeros(shape, KIND))
        self.begun = self.done = 0


def interrupted(training: Training, fault: str) -> bool:
    """Train until a signal, a timer or a thread raises KeyboardInterrupt.

    Python ignores exceptions in JAX's callback of the collector: after a while without an
    interrupt another one is sent.
    """
    try:
        while True:
            begin(fault, training.moments)
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                training.step()
    except KeyboardInterrupt:
        return training.is_kept()


def begin(fault: str, moments: random.Random) -> None:
    """Arrange for KeyboardInterrupt to be raised soon."""
    seconds = 0.0002 + moments.random() * 0.002
    if fault == "interrupt":
        print("ready", os.getpid(), flush=True)
    elif fault == "alarm":
        signal.setitimer(signal.ITIMER_REAL, seconds)
    else:
        main = ctypes.c_ulong(threading.main_thread().ident or 0)
        what = ctypes.py_object(KeyboardInterrupt)
        send = ctypes.pythonapi.PyThreadState_SetAsyncExc
        threading.Timer(seconds, send, (main, what)).start()


def raising(training: Training) -> bool:
    """Train until the function of the program has raised."""
    training.step()
    training.fails = True
    try:
        training.step()
    except CallbackError as error:
        assert isinstance(error.__cause__, ValueError)
        assert "'out'" in str(error)
        assert __file__ in str(error)
    else:
        return False
    finally:
        training.fails = False
    training.begun = training.done
    return training.is_kept()


def alone(kind: str, fault: str, count: int) -> int:
    """Count how often one process lost state."""
    training = Training(kind, calls=fault == "raise")
    training.step()
    if kind == "stacked":
        slot = static.global_scope().find_var(training.names[0])
        assert type(slot.value).__name__ == "Item", "state does not lie in stacks"
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    if fault == "raise":
        return sum(not raising(training) for _ in range(count))
    return sum(not interrupted(training, fault) for _ in range(count))


def together(fault: str, count: int) -> int:
    """Count how often two trainers lost state; trainer 1 has the faults.

    They agree on the end by the number of steps, which both must have run.
    """
    training = Training("processes", calls=fault == "raise")
    guilty, lost = training.trainer == 1, 0
    training.step()
    if fault == "raise":
        for _ in range(count):
            training.step()
            training.fails = guilty
            try:
                training.step()
            except (CallbackError, TrainerError) as error:
                assert isinstance(error, CallbackError) == guilty
            training.fails = False
            training.begun = training.done
            lost += not training.is_kept()
    else:
        faults, waits, goes_on = 0, False, True
        while goes_on:
            try:  # around the loop: the signal comes anywhere after "ready"
                while training.done < STEPS_OF_A_FAULT * count or (guilty and waits):
                    if guilty and not waits and faults < count:
                        waits = True
                        print("ready", os.getpid(), flush=True)
                    if training.done < STEPS_OF_A_FAULT * count:
                        training.step()
                goes_on = False
            except KeyboardInterrupt:
                faults, waits = faults + 1, False
                lost += not training.is_kept()
        if guilty:
            print(f"interrupted {faults} times", flush=True)
    assert training.count() == training.done
    return lost


def main() -> None:
    """Run one storm."""
    # a shell starts its background jobs with SIGINT ignored, and children inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind, fault, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    lost = together(fault, count) if kind == "processes" else alone(kind, fault, count)
    print(f"lost {lost} of {count}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("FLAGS_graphopt_cache_dir", "")
    main()
