"""A worker from the side of the suite: its start, commands and end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from suite.engines import Engine

BENCHMARKS = Path(__file__).parents[1]


class WorkerError(Exception):
    """An error that a worker reported."""


class Process:
    """The process of one engine with one workload."""

    def __init__(
        self,
        engine: Engine,
        arguments: list[str],
        *,
        python: str,
        cores: int,
        environment: Mapping[str, str],
        log: Path,
        limit: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Start the worker; `limit` returns the seconds within which an answer must come."""
        own = [BENCHMARKS]
        if not engine.environment:
            own += [BENCHMARKS.parent, *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, own)),
            "SUITE_BEGAN": str(time.time()),
            # measure the code compiled in this process
            "JAX_ENABLE_COMPILATION_CACHE": "false",
            # the form of a step does not change while it is measured
            "FLAGS_graphopt_tier": "full",
            **{name: str(cores) for name in engine.threads},
            **environment,
        }
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [python, "-m", "suite.worker", engine.name, *arguments, str(cores)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=variables,
            )

        self._limit = limit
        self._lines: Queue[str] = Queue()
        self._told = 0
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """Queue the lines of the worker, and an empty one at its end."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def tell(self, command: str, **arguments: Any) -> None:
        """Send a command; `answer` returns the answers in order."""
        assert self._process.stdin is not None
        self._told += 1
        with suppress(BrokenPipeError):
            print(json.dumps({"do": command, **arguments}), file=self._process.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        """Return the answer to the first unanswered command.

        WorkerError when it does not come in time, or reports an error.
        """
        self._told -= 1
        seconds = self._limit()
        try:
            line = self._lines.get(timeout=seconds)
        except Empty:
            self._process.kill()
            raise WorkerError(f"no answer within {seconds:.0f} s") from None
        if not line:
            raise WorkerError(f"the worker ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def wait(self) -> None:
        """Wait until all sent commands are done; raise as `answer` does."""
        while self._told:
            self.answer()

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and return its answer; raise as `answer` does."""
        self.wait()
        self.tell(command, **arguments)
        return self.answer()

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def python_of(environment: str, peers: Path) -> str | None:
    """Find an environment's Python: `GRAPHOPT_BENCH_<NAME>`, or else the peer environment.

    Without an environment, or where that Python does not exist but this one has the package, it is
    this Python. Otherwise None.
    """
    if not environment:
        return sys.executable
    named = os.environ.get(f"GRAPHOPT_BENCH_{environment.upper()}")
    path = Path(named) if named else peers / environment / "bin" / "python"
    if not path.exists():
        return sys.executable if find_spec(environment) is not None else None
    return str(path)
