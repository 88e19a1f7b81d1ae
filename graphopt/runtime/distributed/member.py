"""A trainer's connection to the meeting: joins by a deadline, sends heartbeats, and listens.

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
from collections.abc import Callable
from typing import Any

from graphopt.errors import TrainerError
from graphopt.runtime.distributed.meeting import CRASHED, END, LAST, SILENT, START
from graphopt.runtime.distributed.wire import MAX_LINE, Message, Wire, run
from graphopt.runtime.distributed.world import FAULT_EXIT, World

# The seconds between two attempts to reach trainer 0.
RETRY = 0.2
# The most answers kept for repeated requests.
MAX_ANSWERS = 16


class Member:
    """A trainer's view of the job; `stop` ends the process with an exit code."""

    def __init__(self, world: World, stop: Callable[[int], None] | None = None) -> None:
        self.world = world
        self._stop = stop or quit_now
        self.reason = ""
        self.busy_since: float | None = None
        self.steps = 0
        self.last_step: int | None = None
        self.stopping: Callable[[], object] = lambda: None  # called once the last step is known
        self._halted = self._parted = self._joined = self._fails = False
        self._lost = threading.Event()
        self._changed = threading.Condition()
        self._answers: dict[str, Message] = {}

    def join(self, **values: Any) -> Message:
        """Come to the start, return the answer; TrainerError if trainer 0 is absent or refuses.

        `values` must be equal on all trainers. Trainer 0 has a deadline for missing trainers, so
        this one needs none once it is connected.
        """
        run(self._connect())
        self.come(START, **values)
        return self.answer(START)

    async def _connect(self) -> None:
        """Connect to trainer 0, with retries until the deadline: it may start later."""
        limit, (host, port) = self.world.timeouts.start, self.world.meeting_place
        deadline, problem = time.monotonic() + limit, "no answer"
        while (left := deadline - time.monotonic()) > 0:
            try:
                opened = asyncio.open_connection(host, port, limit=MAX_LINE)
                self.wire = Wire(*await asyncio.wait_for(opened, min(left, 5.0)))
            except OSError as error:
                problem = str(error) or problem
            else:
                world = self.world
                hello = {"trainer": world.trainer, "trainers": world.trainers, "token": world.token}
                self.wire.send("hello", **hello, pid=os.getpid(), host=socket.gethostname())
                self._tasks = [asyncio.create_task(task) for task in (self._listen(), self._beat())]
                return
            await asyncio.sleep(min(RETRY, left))
        raise TrainerError(
            f"trainer 0 did not start within {limit:g} s: nothing listens at "
            f"{host}:{port} ({problem}); is it running, and is PADDLE_TRAINER_ENDPOINTS the same "
            "for every trainer? GRAPHOPT_START_TIMEOUT sets how long to wait"
        )

    def come(self, to: str, **fields: Any) -> None:
        """Report that this trainer has reached a step or barrier; omitted fields are empty."""
        said = {"wait": True, "does": {}, "values": {}, "key": None, "error": "", **fields}
        self.wire.send("come", to=to, steps=self.steps, **said)

    # -- the connection, in the event loop ---------------------------------------------------------

    async def _listen(self) -> None:
        while (message := await self.wire.receive()) is not None:
            match message["kind"]:
                case "stop" if not self._halted:
                    with self._changed:
                        self._halted = True
                        self.come(LAST)
                case "go":
                    self._go(message["to"], message)
                case "fault":
                    self._lose(message["trainer"], message["reason"])
                case _:
                    pass
        self.wire.close()
        self._lose(0, CRASHED)

    def _go(self, to: str, message: Message) -> None:
        """Keep the answer that all have come: an interrupted caller may request it again."""
        with self._changed:
            while len(self._answers) >= MAX_ANSWERS:
                del self._answers[next(iter(self._answers))]
            self._answers[to] = message
            self._joined, self._parted = True, self._parted or to == END
            if to == LAST:
                self.last_step = int(message["steps"])
            self._changed.notify_all()
        if to == LAST:
            self.stopping()

    async def _beat(self) -> None:
        def busy() -> float:
            return time.monotonic() - (self.busy_since or time.monotonic())

        await self.wire.watch(self.world.timeouts, busy)
        self._lose(0, SILENT.format(self.world.timeouts.silence))

    def _lose(self, trainer: int, reason: str) -> None:
        """End the job: print the reason, wake waiting threads, and end this process soon.

        Only wake the threads if trainers are still missing, or if the script has failed: its own
        exception gives the reason then.
        """
        if self._parted or self.reason:
            return
        this = " (this one)" if trainer == self.world.trainer else ""
        self.reason = f"{self.world.name(trainer)}{this} {reason}"
        if self._joined and not self._fails:
            mine = f"graphopt: trainer {self.world.trainer} of {self.world.trainers} stops: "
            # before a waiting thread wakes, which might end the process first
            print(mine + self.reason, file=sys.stderr, flush=True)
            # when trainer 0 is gone, JAX aborts the process within a second
            grace = self.world.timeouts.grace if trainer != 0 else 0.0
            grace += 1.0 if self.world.trainer == 0 else 0.0
            asyncio.get_running_loop().call_later(grace, self._stop, FAULT_EXIT)
        with self._changed:
            self._lost.set()
            self._changed.notify_all()

    # -- requests of the script --------------------------------------------------------------------

    def is_lost(self, wait: float = 0.0) -> bool:
        """Return whether the job is over; wait up to `wait` seconds for the news."""
        return self._lost.wait(wait) if wait else self._lost.is_set()

    def check(self) -> None:
        """Raise TrainerError when the job is over."""
        if self._lost.is_set():
            raise TrainerError(self.reason)

    def _wait(self, until: Callable[[], bool]) -> None:
        """Wait on the condition while all trainers live; TrainerError when one does not."""
        while not until():
            self.check()
            self._changed.wait(1.0)

    def next_step(self) -> int | None:
        """Count and return the step that this trainer is about to announce.

        Return None when the job is to end before it.
        """
        with self._changed:
            self._wait(lambda: not self._halted or self.last_step is not None)
            if self.is_last:
                return None
            self.steps += 1
            return self.steps

    @property
    def is_last(self) -> bool:
        """True when this trainer has begun all steps of a job that is to end."""
        return self.last_step is not None and self.steps >= self.last_step

    def answer(self, to: str) -> Message:
        """Wait until all trainers reach a step or barrier, and return trainer 0's answer."""
        with self._changed:
            self._wait(lambda: to in self._answers)
            return self._answers[to]

    def leave(self, error: str) -> bool:
        """Report the end, and wait until all have; return False when the job ended otherwise.

        With an `error`, which stops the others, wait for two seconds at most.
        """
        self._fails = bool(error)
        self.come(END, error=error)
        with self._changed:
            over = self._changed.wait_for(
                lambda: self._parted or self._lost.is_set(), timeout=2.0 if error else None
            )
        return over and self._parted


def quit_now(code: int) -> None:
    """End the process at once from any thread, even while the main thread is busy."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
