"""Messages between trainers: JSON objects, one a line, of bounded length, over TCP.

Nothing but numbers, strings, lists and objects can arrive, and nothing that arrives is run. All
messages of a process are sent and read in one event loop, on a thread of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

# A message describes a program in outline, so this is plenty.
MAX_LINE = 1 << 22

Message = dict[str, Any]
Result = TypeVar("Result")

_sockets: list[Any] = []


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process's messages, which runs from now on."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_let_go)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="graphopt-trainers", daemon=True).start()
    return loop


def own(socket: Any) -> None:
    """Keep a socket from processes that this one forks: they may live longer, and hold it open."""
    _sockets[:] = [*(known for known in _sockets if known.fileno() >= 0), socket]


def _let_go() -> None:
    """Close the sockets in a process that was forked, whatever has the same number later."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for socket in _sockets:
        if socket.fileno() >= 0:
            os.dup2(nothing, socket.fileno())
    os.close(nothing)


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in the event loop, from another thread; its result, or what it raises."""
    future = asyncio.run_coroutine_threadsafe(coroutine, event_loop())
    if (error := future.exception()) is not None:
        raise error.with_traceback(None)  # its frames are the loop's
    return future.result()


def send(writer: asyncio.StreamWriter, kind: str, **fields: Any) -> None:
    """Send a message; when the other side is gone, the reader will notice it."""
    text = json.dumps({"kind": kind, **fields}, separators=(",", ":"))
    writer.write(text.encode() + b"\n")


async def receive(reader: asyncio.StreamReader, timeout: float | None = None) -> Message | None:
    """The next message; None at the end, on anything that is no message, and when late."""
    try:
        line = await asyncio.wait_for(reader.readline(), timeout)
        message = json.loads(line) if line.endswith(b"\n") else None
    except (OSError, ValueError, RecursionError):
        return None
    is_message = isinstance(message, dict) and isinstance(message.get("kind"), str)
    return message if is_message else None
