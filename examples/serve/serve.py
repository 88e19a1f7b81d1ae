"""Serve a model over HTTP, with only the standard library.

    python serve.py MODEL --warm inputs.npz [--warm other.npz] [--at-once 2] [--port 8000]

POST /run takes the inputs by name as an .npz file, and answers with the outputs as one. GET /health
runs the model on the first warm-up inputs: 503 until all warm-up inputs have run, 200 where the
model works, 500 where it fails. A wrong request gets 400, with the reason.
"""

from __future__ import annotations

import argparse
import io
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any
from zipfile import BadZipFile

import numpy as np

from graphopt.errors import GraphoptError
from graphopt.inference import Config, Predictor, create_predictor

Arrays = Mapping[str, np.ndarray[Any, Any]]
LARGEST = 64 * 2**20
"""The bytes of a request at most."""


class Model:
    """A model, which runs as many requests concurrently as it has predictors."""

    def __init__(self, path: str, warm: list[Arrays], at_once: int) -> None:
        first = create_predictor(Config(path))
        self._free: SimpleQueue[Predictor] = SimpleQueue()
        for each in (first, *(first.clone() for _ in range(at_once - 1))):
            self._free.put(each)
        self.warm = warm
        self.is_warm = threading.Event()

    def warm_up(self) -> None:
        """Run all warm-up inputs, so that no request waits for their compilation."""
        for inputs in self.warm:
            self.run(inputs)
        self.is_warm.set()

    def run(self, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """Compute the outputs by name; ValueError for a missing input."""
        predictor = self._free.get()
        try:
            names = predictor.get_input_names()
            if missing := [name for name in names if name not in inputs]:
                raise ValueError(f"missing inputs: {', '.join(missing)}")
            found = predictor.run([inputs[name] for name in names])
            return dict(zip(predictor.get_output_names(), found, strict=True))
        finally:
            self._free.put(predictor)


class Handler(BaseHTTPRequestHandler):
    """The requests of one connection."""

    model: Model

    def do_GET(self) -> None:
        if self.path != "/health":
            return self.answer(404, b"GET /health or POST /run")
        if not self.model.is_warm.is_set():
            return self.answer(503, b"warming up")
        try:
            self.model.run(self.model.warm[0])
        except Exception as error:
            return self.answer(500, str(error).encode())
        return self.answer(200, b"ok")

    def do_POST(self) -> None:
        if self.path != "/run":
            return self.answer(404, b"GET /health or POST /run")
        length = int(self.headers.get("Content-Length", 0))
        if length > LARGEST:
            return self.answer(413, b"too large")
        try:
            with np.load(io.BytesIO(self.rfile.read(length)), allow_pickle=False) as inputs:
                outputs = self.model.run(dict(inputs))
        except (ValueError, OSError, EOFError, BadZipFile, GraphoptError) as error:
            return self.answer(400, str(error).encode())
        written = io.BytesIO()
        np.savez(written, **outputs)
        return self.answer(200, written.getvalue())

    def answer(self, status: int, body: bytes) -> None:
        """Send a status and a body."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def make_server(model: Model, host: str, port: int) -> ThreadingHTTPServer:
    """Create a server of the model; it answers requests while the model warms up."""
    handler = type("Handler", (Handler,), {"model": model})
    threading.Thread(target=model.warm_up, daemon=True).start()
    return ThreadingHTTPServer((host, port), handler)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a bundle, or the folder of a saved model")
    parser.add_argument("--warm", action="append", required=True, help="inputs by name, an .npz")
    parser.add_argument("--at-once", type=int, default=2, help="requests that run at once")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    warm = [dict(np.load(path, allow_pickle=False)) for path in given.warm]
    model = Model(given.model, warm, given.at_once)
    server = make_server(model, given.host, given.port)
    print(f"http://{given.host}:{given.port}: GET /health says when it is warm", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
