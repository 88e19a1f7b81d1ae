"""A trainer's connection to the meeting: comes with a deadline, shows that it lives, and listens.

When a fault is reported, or trainer 0 is lost, the reason is printed, waiting threads get a
TrainerError, and the process ends by itself soon after: the main thread may be inside a collective
that never returns, where no exception reaches it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from graphopt.errors import TrainerError
from graphopt.runtime.distributed.wire import Channel, Message
from graphopt.runtime.distributed.world import LAUNCHER, World

# How a process ends that another trainer's fault has stopped (EX_TEMPFAIL: try again).
FAULT_EXIT = 75
# Seconds between two attempts to reach trainer 0.
RETRY = 0.2
# The most answers kept for repeated requests.
MAX_ANSWERS = 16


class Member:
    """Connects to trainer 0; TrainerError when it is not there in time or refuses.

    `stop` ends the process, with an exit code, from any thread.
    """

    def __init__(
        self,
        world: World,
        versions: Mapping[str, str],
        stop: Callable[[int], None] | None = None,
    ) -> None:
        self.world = world
        self._stop = stop or quit_now
        self.reason = ""
        self.busy_since: float | None = None
        self._lost = threading.Event()
        self._lock = threading.Condition()
        self.steps = 0
        self.last_step: int | None = None
        self.stopping: Callable[[], None] = lambda: None  # called when the last step is known
        self._halted = False
        self._answers: dict[tuple[str, Any], Message] = {}
        self._ended = False
        self._launcher = int(os.environ.get(LAUNCHER, "0") or 0)
        self._deadline = time.monotonic() + world.timeouts.start
        self.channel = self._connect()
        self.channel.send(
            "hello",
            trainer=world.trainer,
            trainers=world.trainers,
            token=world.token,
            versions=dict(versions),
            pid=os.getpid(),
            host=socket.gethostname(),
        )
        try:
            self.welcome = self._welcome()
        except TrainerError:
            self.channel.close()
            raise
        self._seen = time.monotonic()
        threading.Thread(target=self._listen, name="graphopt-listen", daemon=True).start()
        threading.Thread(target=self._beat, name="graphopt-beat", daemon=True).start()

    def _connect(self) -> Channel:
        """Try until the deadline: trainer 0 may start later."""
        host, port = self.world.meeting_place
        problem = "no answer"
        while (left := self._deadline - time.monotonic()) > 0:
            try:
                return Channel(socket.create_connection((host, port), timeout=min(left, 5.0)))
            except OSError as error:
                problem = error.strerror or str(error)
            time.sleep(min(RETRY, max(left, 0.0)))
        raise TrainerError(
            f"trainer 0 did not come within {self.world.timeouts.start:g} s: nothing listens at "
            f"{host}:{port} ({problem}); is it running, and is PADDLE_TRAINER_ENDPOINTS the same "
            "for every trainer? GRAPHOPT_START_TIMEOUT sets how long to wait"
        )

    def _welcome(self) -> Message:
        """Trainer 0's greeting when all trainers are there."""
        # trainer 0 has the same deadline and says who is missing, so let it speak first
        left = self._deadline - time.monotonic() + self.world.timeouts.start
        message = self.channel.receive(timeout=max(left, 1.0))
        if message is not None and message["kind"] == "welcome":
            return message
        if message is None:
            raise TrainerError(f"{self.world.name(0)} ended before all trainers had come")
        if message["kind"] == "fault":
            raise TrainerError(self._told(int(message["trainer"]), str(message["reason"])))
        host, port = self.world.meeting_place
        raise TrainerError(f"trainer 0 at {host}:{port} refuses: {message.get('reason')}")

    def _told(self, trainer: int, reason: str) -> str:
        this = " (this one)" if trainer == self.world.trainer else ""
        return f"{self.world.name(trainer)}{this} {reason}"

    # -- the threads -------------------------------------------------------------------------------

    def _listen(self) -> None:
        for message in self.channel.messages():
            self._seen = time.monotonic()
            match message["kind"]:
                case "fault":
                    self.lose(int(message["trainer"]), str(message["reason"]))
                case "halt":
                    with self._lock:
                        self._halted = True
                        steps = self.steps
                    self.channel.send("halted", steps=steps)
                case "last":
                    with self._lock:
                        self.last_step = int(message["step"])
                        self._lock.notify_all()
                    self.stopping()
                case "go" | "through" | "farewell":
                    about = message.get("number", message.get("name"))
                    with self._lock:
                        self._keep(message["kind"], about, message)
                        self._lock.notify_all()
                case _:
                    pass
        self.channel.close()
        if not self._ended:
            self.lose(0, "ended without a word: it crashed or was killed")

    def _keep(self, kind: str, about: Any, message: Message) -> None:
        """Keep the latest answers: an interrupt may end a waiting caller, which then asks again."""
        while len(self._answers) >= MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]
        self._answers[kind, about] = message

    def _beat(self) -> None:
        limits, last = self.world.timeouts, time.monotonic()
        while not self._lost.wait(limits.beat):
            now = time.monotonic()
            if now - last > limits.silence / 2:  # this process was stopped itself
                self._seen = now
            last = now
            since = self.busy_since
            self.channel.send("beat", busy=now - since if since is not None else 0.0)
            if self._ended:
                continue
            if now - self._seen > limits.silence:
                self.lose(
                    0,
                    f"gave no sign of life for {limits.silence:g} s: it is stopped, or its machine "
                    "or network is down",
                )
            if self._launcher and not _lives(self._launcher):
                self.lose(self.world.trainer, "has lost its launcher")

    # -- the end -----------------------------------------------------------------------------------

    def lose(self, trainer: int, reason: str) -> None:
        """The job is over: say why, wake who waits, and end this process soon."""
        with self._lock:
            if self._ended or self.reason:
                return
            self.reason = self._told(trainer, reason)
            mine = f"graphopt: trainer {self.world.trainer} of {self.world.trainers} stops: "
            # before any waiting thread is woken, which might end the process first
            print(mine + self.reason, file=sys.stderr, flush=True)
            self._lost.set()
            self._lock.notify_all()
        # JAX aborts the process by itself within a second when trainer 0 is gone
        grace = self.world.timeouts.grace if trainer != 0 else 0.0
        grace += 1.0 if self.world.trainer == 0 else 0.0
        threading.Thread(target=self._exit, args=(grace,), daemon=True).start()

    def _exit(self, grace: float) -> None:
        time.sleep(grace)
        self._stop(FAULT_EXIT)

    def lost(self, wait: float = 0.0) -> bool:
        """True when the job is over; `wait` gives the news so many seconds to arrive."""
        return self._lost.wait(wait) if wait else self._lost.is_set()

    def check(self) -> None:
        """TrainerError when the job is over."""
        if self._lost.is_set():
            raise TrainerError(self.reason)

    def next_step(self) -> int | None:
        """The number of the step that this trainer is about to announce.

        None when the job ends before it, because its end was requested.
        """
        with self._lock:
            while self._halted and self.last_step is None:
                self.check()
                self._lock.wait(1.0)
            if self.is_last:
                return None
            self.steps += 1
            return self.steps

    @property
    def is_last(self) -> bool:
        """True when this trainer has begun all steps of a job whose end was requested."""
        return self.last_step is not None and self.steps >= self.last_step

    def answer(self, kind: str, about: Any) -> Message:
        """Wait for an answer of trainer 0, as long as all trainers live."""
        with self._lock:
            while (kind, about) not in self._answers:
                self.check()
                self._lock.wait(1.0)
            return self._answers[kind, about]

    def leave(self, error: str) -> bool:
        """Say goodbye and wait until all have; False when the job ended otherwise.

        With an `error`, which stops the others, it does not wait for long.
        """
        self.channel.send("bye", error=error)
        limit = time.monotonic() + (2.0 if error else float("inf"))
        with self._lock:
            while ("farewell", None) not in self._answers:
                if self._lost.is_set() or time.monotonic() > limit:
                    return False
                self._lock.wait(0.2)
            self._ended = True
        return not error


def _lives(pid: int) -> bool:
    """True when there is such a process, or when that is unknown."""
    try:
        if os.name == "posix":
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def quit_now(code: int) -> None:
    """End the process from any thread, even while the main thread is busy; nothing else runs."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
