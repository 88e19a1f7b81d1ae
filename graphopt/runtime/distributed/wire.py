"""Connections between trainers: JSON objects, one per line, of bounded length, over TCP.

Only numbers, strings, lists and objects can arrive, and no received data is run as code. All
messages of a process are sent and read in one event loop, on a thread of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, TypeVar

from graphopt.runtime.distributed.world import Timeouts

# The most bytes of a message: descriptions of programs are far shorter.
MAX_LINE = 1 << 22

Message = dict[str, Any]
Result = TypeVar("Result")

_sockets: list[Any] = []


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """Start the event loop of this process's messages; later calls return the same one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_let_go)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="graphopt-trainers", daemon=True).start()
    return loop


def own(socket: Any) -> None:
    """Register a socket to close in forked processes, which may live longer and hold it open."""
    _sockets[:] = [*(known for known in _sockets if known.fileno() >= 0), socket]


def _let_go() -> None:
    """Replace the sockets in a forked process by the null device, so no number is reused."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for socket in _sockets:
        if socket.fileno() >= 0:
            os.dup2(nothing, socket.fileno())
    os.close(nothing)


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in the event loop from another thread; return or raise its outcome."""
    future = asyncio.run_coroutine_threadsafe(coroutine, event_loop())
    if (error := future.exception()) is not None:
        raise error.with_traceback(None)  # drop the traceback: its frames belong to the event loop
    return future.result()


class Wire:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._seen = time.monotonic()
        own(writer.get_extra_info("socket"))

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message from any thread, or from a signal handler: it takes no lock.

        When the other side is gone, `receive` notices it.
        """
        text = json.dumps({"kind": kind, **fields}, separators=(",", ":"))
        event_loop().call_soon_threadsafe(self._writer.write, text.encode() + b"\n")

    def close(self) -> None:
        """Close the connection from any thread, once all messages are sent."""
        event_loop().call_soon_threadsafe(self._writer.close)

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Read the next message; None at the end, for invalid data, and after the timeout."""
        try:
            line = await asyncio.wait_for(self._reader.readline(), timeout)
            message = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError, RecursionError):
            return None
        self._seen = time.monotonic()
        is_message = isinstance(message, dict) and isinstance(message.get("kind"), str)
        return message if is_message else None

    async def watch(self, limits: Timeouts, busy: Callable[[], float] = lambda: 0.0) -> None:
        """Send heartbeats, and return when the other side has been silent for too long.

        A heartbeat carries for how many seconds this side has been `busy`.
        """
        last = time.monotonic()
        while True:
            self.send("beat", busy=busy())
            await asyncio.sleep(limits.beat)
            now = time.monotonic()
            if now - last > limits.silence / 2:  # this process itself was suspended
                self._seen = now
            elif now - self._seen > limits.silence:
                return
            last = now
