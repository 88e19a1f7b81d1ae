"""The server of `graphopt serve`: one page for one person, on this machine alone.

It listens on the loopback address, and answers requests only under a path that begins with a token
and for a host of that address, so that neither other users nor pages of other sites reach it.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

LOOPBACK = "127.0.0.1"
LARGEST = 256 << 20
"""The most bytes of a request, whose files are in base64 and so a third larger."""
PATIENCE = 180
"""The seconds after which work on a request is stopped."""
WORKERS = 2
"""The number of requests that are handled at a time."""
_PACKAGE = files("graphopt.playground")
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; "
        "img-src data: blob:; connect-src 'self'; frame-src 'self' blob:; worker-src blob:; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Playground(ThreadingHTTPServer):
    """The server, with the token of its link."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(16)
        self.free = threading.BoundedSemaphore(WORKERS)
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def link(self) -> str:
        """The address of the page, with the token."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def answer(self, request: bytes) -> bytes:
        """Work on a request in a process with limits and return the answer, as JSON."""
        command = [sys.executable, "-m", "graphopt.playground.work"]
        with self.free:
            try:
                done = subprocess.run(command, input=request, capture_output=True, timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                return _error(f"stopped after {PATIENCE} seconds")
        if done.returncode or not done.stdout:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            return _error(
                f"the process that works on the program failed: {''.join(last) or 'out of memory'}"
            )
        return done.stdout


class _Handler(BaseHTTPRequestHandler):
    """One request of the browser."""

    server: Playground  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version, sys_version = "graphopt", ""
    timeout = 60

    def do_GET(self) -> None:
        if self._path() == "":
            self._send(page().encode(), "text/html; charset=utf-8")
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        if self._path() != "work" or self.headers.get("Content-Type") != "application/json":
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > LARGEST:
            self._send(
                _error(f"the program is larger than {LARGEST >> 20} MiB"), "application/json"
            )
            self.close_connection = True
            return
        self._send(self.server.answer(self.rfile.read(int(length))), "application/json")

    def _path(self) -> str | None:
        """Return the path after the token; None where the request is not for this page."""
        port = self.server.server_port
        if self.headers.get("Host") not in (f"{LOOPBACK}:{port}", f"localhost:{port}"):
            return None
        _, token, *rest = self.path.partition("?")[0].split("/", 2)
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            return None
        return rest[0] if rest else None

    def _refuse(self, status: HTTPStatus) -> None:
        self._send(b"not found\n", "text/plain", status)

    def _send(self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a log would have the token."""


def page() -> str:
    """Render the page, with the examples."""
    html = (_PACKAGE / "assets" / "playground.html").read_text("utf-8")
    # escapes `<` as JSON allows, because the text is inside of a script
    return html.replace("{{EXAMPLES}}", json.dumps(examples()).replace("<", "\\u003c"))


def examples() -> dict[str, str]:
    """Read the example programs, by name."""
    found = sorted((_PACKAGE / "examples").iterdir(), key=lambda path: path.name)
    return {path.name.removesuffix(".mlir"): path.read_text("utf-8") for path in found}


def _error(text: str) -> bytes:
    return json.dumps({"error": text}).encode()
