"""A trainer's connection to the meeting: comes with a deadline, shows that it lives, and listens.

When a fault is reported, or trainer 0 is lost, the reason is printed, waiting threads get a
TrainerError, and the process ends by itself soon after: the main thread may be inside a collective
that never returns, where no exception reaches it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from graphopt.errors import TrainerError
from graphopt.runtime.distributed.meeting import CRASHED, silent
from graphopt.runtime.distributed.wire import MAX_LINE, Message, event_loop, own, receive, send
from graphopt.runtime.distributed.world import FAULT_EXIT, World

# Seconds between two attempts to reach trainer 0.
RETRY = 0.2
# The most answers kept for repeated requests.
MAX_ANSWERS = 16


class Member:
    """A trainer's view of the job; `stop` ends the process, with an exit code."""

    def __init__(self, world: World, stop: Callable[[int], None] | None = None) -> None:
        self.world = world
        self._stop = stop or quit_now
        self.reason = ""
        self.busy_since: float | None = None
        self.steps = 0
        self.last_step: int | None = None
        self.stopping: Callable[[], object] = lambda: None  # called when the last step is known
        self._halted = self._parted = False
        self._lost = threading.Event()
        self._changed = threading.Condition()
        self._answers: dict[str, Message] = {}

    async def join(self, versions: Mapping[str, str]) -> Message:
        """Come to trainer 0; its greeting, or TrainerError when it is not there or refuses."""
        limits, (host, port) = self.world.timeouts, self.world.meeting_place
        deadline = time.monotonic() + limits.start
        self._reader, self._writer = await self._connect(host, port, deadline)
        own(self._writer.get_extra_info("socket"))
        self.send(
            "hello",
            trainer=self.world.trainer,
            trainers=self.world.trainers,
            token=self.world.token,
            versions=dict(versions),
            pid=os.getpid(),
            host=socket.gethostname(),
        )
        # trainer 0 has the same deadline and says who is missing, so let it speak first
        left = deadline - time.monotonic() + limits.start
        message = await receive(self._reader, max(left, 1.0))
        if message is not None and message["kind"] == "welcome":
            self._tasks = [asyncio.create_task(task) for task in (self._listen(), self._beat())]
            return message
        self._writer.close()
        if message is None:
            raise TrainerError(f"{self.world.name(0)} ended before all trainers had come")
        if message["kind"] == "fault":
            raise TrainerError(self._tell(message["trainer"], message["reason"]))
        raise TrainerError(f"trainer 0 at {host}:{port} refuses: {message.get('reason')}")

    async def _connect(
        self, host: str, port: int, deadline: float
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Try until the deadline: trainer 0 may start later."""
        problem = "no answer"
        while (left := deadline - time.monotonic()) > 0:
            try:
                opened = asyncio.open_connection(host, port, limit=MAX_LINE)
                return await asyncio.wait_for(opened, min(left, 5.0))
            except OSError as error:
                problem = str(error) or problem
            await asyncio.sleep(min(RETRY, left))
        raise TrainerError(
            f"trainer 0 did not come within {self.world.timeouts.start:g} s: nothing listens at "
            f"{host}:{port} ({problem}); is it running, and is PADDLE_TRAINER_ENDPOINTS the same "
            "for every trainer? GRAPHOPT_START_TIMEOUT sets how long to wait"
        )

    def _tell(self, trainer: int, reason: str) -> str:
        this = " (this one)" if trainer == self.world.trainer else ""
        return f"{self.world.name(trainer)}{this} {reason}"

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message, from any thread; from a handler of a signal, too: it takes no lock."""
        event_loop().call_soon_threadsafe(lambda: send(self._writer, kind, **fields))

    def come(self, to: str, **fields: Any) -> None:
        """Say that this trainer is at a step or barrier; the fields that are left out are empty."""
        said = {"wait": True, "digest": "", "values": {}, "key": None, "error": "", **fields}
        self.send("come", to=to, steps=self.steps, **said)

    # -- what goes on beside the script ------------------------------------------------------------

    async def _listen(self) -> None:
        while (message := await receive(self._reader)) is not None:
            self._seen = time.monotonic()
            with self._changed:
                match message["kind"]:
                    case "halt":
                        self._halted = True
                        self.send("halted", steps=self.steps)
                    case "last":
                        self.last_step = int(message["step"])
                    case "farewell":
                        self._parted = True
                    case "go":  # kept: an interrupt may end a waiting caller, which asks again
                        while len(self._answers) >= MAX_ANSWERS:
                            del self._answers[next(iter(self._answers))]
                        self._answers[message["to"]] = message
                self._changed.notify_all()
            if message["kind"] == "fault":
                self._lose(message["trainer"], message["reason"])
            if message["kind"] == "last":
                self.stopping()
        self._writer.close()
        self._lose(0, CRASHED)

    async def _beat(self) -> None:
        limits = self.world.timeouts
        last = self._seen = time.monotonic()
        while not (self._lost.is_set() or self._parted):
            await asyncio.sleep(limits.beat)
            now, since = time.monotonic(), self.busy_since
            if now - last > limits.silence / 2:  # this process was stopped itself
                self._seen = now
            last = now
            self.send("beat", busy=now - since if since is not None else 0.0)
            if now - self._seen > limits.silence:
                self._lose(0, silent(limits.silence))

    def _lose(self, trainer: int, reason: str) -> None:
        """The job is over: say why, wake who waits, and end this process soon."""
        if self._parted or self.reason:
            return
        self.reason = self._tell(trainer, reason)
        mine = f"graphopt: trainer {self.world.trainer} of {self.world.trainers} stops: "
        # before any waiting thread is woken, which might end the process first
        print(mine + self.reason, file=sys.stderr, flush=True)
        with self._changed:
            self._lost.set()
            self._changed.notify_all()
        # JAX aborts the process by itself within a second when trainer 0 is gone
        grace = self.world.timeouts.grace if trainer != 0 else 0.0
        grace += 1.0 if self.world.trainer == 0 else 0.0
        asyncio.get_running_loop().call_later(grace, self._stop, FAULT_EXIT)

    # -- what the script asks ----------------------------------------------------------------------

    def is_lost(self, wait: float = 0.0) -> bool:
        """True when the job is over; `wait` gives the news so many seconds to arrive."""
        return self._lost.wait(wait) if wait else self._lost.is_set()

    def check(self) -> None:
        """TrainerError when the job is over."""
        if self._lost.is_set():
            raise TrainerError(self.reason)

    def _wait(self, until: Callable[[], bool]) -> None:
        """Wait, with the lock, as long as all trainers live; TrainerError when one does not."""
        while not until():
            self.check()
            self._changed.wait(1.0)

    def next_step(self) -> int | None:
        """The number of the step that this trainer is about to announce.

        None when the job ends before it, because its end was requested.
        """
        with self._changed:
            self._wait(lambda: not self._halted or self.last_step is not None)
            if self.is_last:
                return None
            self.steps += 1
            return self.steps

    @property
    def is_last(self) -> bool:
        """True when this trainer has begun all steps of a job whose end was requested."""
        return self.last_step is not None and self.steps >= self.last_step

    def answer(self, to: str) -> Message:
        """Wait until all trainers have come to a step or barrier; the answer of trainer 0."""
        with self._changed:
            self._wait(lambda: to in self._answers)
            return self._answers[to]

    def leave(self, error: str) -> bool:
        """Say goodbye and wait until all have; False when the job ended otherwise.

        With an `error`, which stops the others, it does not wait for long.
        """
        self.send("bye", error=error)
        with self._changed:
            over = self._changed.wait_for(
                lambda: self._parted or self._lost.is_set(), timeout=2.0 if error else None
            )
        return over and self._parted and not error


def quit_now(code: int) -> None:
    """End the process from any thread, even while the main thread is busy; nothing else runs."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
