"""Messages between trainers: JSON objects, one a line, of bounded length, over TCP.

Nothing but numbers, strings, lists and objects can arrive, and nothing that arrives is run.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

# A message describes a program in outline, so this is plenty.
MAX_LINE = 1 << 22

Message = dict[str, Any]


class Channel:
    """One connection; `send` may be called from several threads, `receive` from one."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._reader = connection.makefile("rb")
        self._lock = threading.Lock()

    def send(self, kind: str, **fields: Any) -> bool:
        """Send a message; False when the other side is gone, which the reader will notice too."""
        data = json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode() + b"\n"
        try:
            with self._lock:
                self._connection.sendall(data)
        except OSError:
            return False
        return True

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None at the end, on anything that is no message, and when late."""
        try:
            self._connection.settimeout(timeout)
            line = self._reader.readline(MAX_LINE)
            message = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
            return None
        return message

    def messages(self) -> Iterator[Message]:
        """All messages until the other side is gone."""
        while (message := self.receive()) is not None:
            yield message

    def close(self) -> None:
        """End the connection; the other side, and who reads here, see its end."""
        end(self._connection)
        self._reader.close()


def end(connection: socket.socket) -> None:
    """Close a socket so that a thread that waits for it is woken."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on this address and no other; OSError when it cannot."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    server = socket.socket(family, socket.SOCK_STREAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, port))
        server.listen(128)
    except OSError:
        server.close()
        raise
    return server


def free_ports(host: str, count: int) -> list[int]:
    """So many different ports that are free now."""
    servers = [listen(host, 0) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports
