"""A worker as the suite sees it: started, asked, and ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suite.engines import Engine

BENCHMARKS = Path(__file__).parents[1]


class WorkerError(Exception):
    """A worker could not do what it was asked; the message says why."""


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
    ) -> None:
        own = BENCHMARKS if engine.environment else f"{BENCHMARKS}{os.pathsep}{BENCHMARKS.parent}"
        variables = {
            **os.environ,
            "PYTHONPATH": str(own),
            # what is compiled is what is measured
            "JAX_ENABLE_COMPILATION_CACHE": "false",
            # and stays as it is while it is measured
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

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a command; WorkerError when there is none or it tells of an error."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(json.dumps({"do": command, **arguments}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(f"the worker ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def python_of(environment: str, peers: Path) -> str | None:
    """The Python of an environment: this one, `GRAPHOPT_BENCH_<NAME>`, or what the set-up built.

    None when it is absent.
    """
    if not environment:
        return sys.executable
    named = os.environ.get(f"GRAPHOPT_BENCH_{environment.upper()}")
    path = Path(named) if named else peers / environment / "bin" / "python"
    return str(path) if path.exists() else None
