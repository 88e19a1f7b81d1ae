"""`make graphnet SOURCES=FOLDER`: real model graphs of GraphNet, beside Paddle 3.

    python tests/graphnet/run.py FOLDER --paddle PYTHON [--half odd] [--only TEXT] [--untimed]

Each folder in FOLDER that has a `model.py` is a graph. PYTHON, which has Paddle 3, runs it and
saves it; graphopt reads it, verifies it, optimises it with every flag, runs it plain and optimised,
and compares with Paddle's outputs. What is found is kept under `out/graphnet`, where a later run
goes on, and shown in `docs/reference/graphnet.md`. The graphs come from the repository
PaddlePaddle/GraphNet and are not kept here.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reference" / "graphnet.md"
KEPT = ROOT / "out" / "graphnet"
TOLERANCE = 1e-3
"""The largest difference of equal outputs, as a share of the output's largest number."""
GRAPHS_OF_A_WORKER = 40
"""A process is replaced after so many, as each leaves some memory."""
SETTINGS = {"JAX_PLATFORMS": "cpu", "FLAGS_graphopt_tier": "full", "FLAGS_graphopt_cache_dir": ""}
"""Every run is that of the form that later runs have, and nothing of another version is run."""
SLOWER = 1.2
"""The time of a run with flags, in those without, from which the page names a graph."""

Found = Mapping[str, Any]


def folders_of(sources: Path, half: str) -> list[str]:
    """The graphs in the order of their paths' bytes: all, or those at odd or even places."""
    every = sorted(
        (str(p.parent.relative_to(sources)) for p in sources.rglob("model.py")), key=os.fsencode
    )
    return {"odd": every[::2], "even": every[1::2], "all": every}[half]


class Worker:
    """A process that answers lines of JSON; started when it is needed, and again after some."""

    def __init__(self, command: Sequence[str], seconds: float, memory: int) -> None:
        self._command, self._seconds, self._memory = command, seconds, memory
        self._process: subprocess.Popen[str] | None = None
        self._answered = 0

    def ask(self, question: Any) -> Any:
        """The answer; RuntimeError when none came, and the process is ended."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = Timer(self._seconds, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        try:
            print(json.dumps(question), file=process.stdin, flush=True)
            for line in process.stdout:
                if line.startswith(("true", '"')):  # other lines are what a framework prints
                    return json.loads(line)
        except BrokenPipeError:
            pass
        finally:
            late = not timer.is_alive()
            timer.cancel()
            self._answered += 1
            if self._answered == GRAPHS_OF_A_WORKER:
                self.end()
        code = process.wait()
        self.end()
        raise RuntimeError(
            f"took longer than {self._seconds:g} s" if late else f"ended with {code}"
        )

    def _start(self) -> subprocess.Popen[str]:
        self._answered = 0
        self._process = subprocess.Popen(
            self._command,
            env={**os.environ, **SETTINGS, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        os.setpriority(os.PRIO_PROCESS, self._process.pid, 5)
        limit = self._memory << 30
        resource.prlimit(self._process.pid, resource.RLIMIT_AS, (limit, limit))
        return self._process

    def end(self) -> None:
        """End the process, with those that it started."""
        if (process := self._process) is None:
            return
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._process = None


def examine(graph: Path, paddle: Worker, ours: Worker) -> dict[str, Any]:
    """What is found for one graph."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            if why := paddle.ask([str(graph), folder]):
                return {"paddle": why[:300]}
        except RuntimeError as error:
            return {"paddle": str(error)}
        note = Path(folder) / "found.json"
        try:
            ours.ask(folder)
            return json.loads(note.read_text("utf-8"))
        except RuntimeError as error:
            found = json.loads(note.read_text("utf-8")) if note.exists() else {}
            return {**found, "error": str(error)}


def is_equal(found: Found) -> bool:
    """Whether all outputs that were compared are Paddle's."""
    return all(found[name] <= TOLERANCE for name in ("plain", "flags") if name in found)


def slowness(found: Found) -> float:
    """The time with flags as a share of that without; 0 where it was not measured."""
    plain, flags = found.get("ms", (1.0, 0.0))
    return flags / plain


def describe(found: Found) -> str:
    """The words of a row about how it ended."""
    if "paddle" in found:
        return f"Paddle: {found['paddle']}"
    if "error" in found:
        return str(found["error"])
    if not is_equal(found):
        return "other numbers"
    words = ["draws random numbers: compared with the run without flags"] * bool(found.get("draws"))
    if slowness(found) > SLOWER:
        words.append(f"with flags {slowness(found):.2f} of the time without")
    return "; ".join(words)


def summary(rows: Mapping[str, Found], listed: int) -> list[str]:
    """The lines of counts."""
    taken = [found for found in rows.values() if "paddle" not in found]
    ran = [found for found in taken if "flags" in found]
    timed = [found for found in ran if "ms" in found]
    counts = {
        "graphs": listed,
        "taken": len(rows),
        "saved by Paddle": len(taken),
        "read and verified": sum("read" in found for found in taken),
        "optimised with every flag": sum("optimised" in found for found in taken),
        "ran plain and optimised": len(ran),
        f"equal, within {TOLERANCE:g} of the output's largest number": sum(map(is_equal, ran)),
        "timed plain and optimised": len(timed),
        f"slower with flags by more than {SLOWER - 1:.0%}": sum(
            slowness(f) > SLOWER for f in timed
        ),
    }
    lines = ["| | graphs |", "|---|---|", *(f"| {name} | {n} |" for name, n in counts.items()), ""]
    differences = [found[name] for found in ran for name in ("plain", "flags") if name in found]
    if differences:
        equal = [value for value in differences if value <= TOLERANCE]
        lines.append(f"The largest difference of equal outputs is {max(equal, default=0.0):.1e}.")
    if timed:
        middle = statistics.geometric_mean(map(slowness, timed))
        lines.append(f"With flags a run takes {middle:.2f} of the time without (geometric mean).")
    return lines


def count_table(title: str, rows: Mapping[str, Found], key: str) -> list[str]:
    """A table of passes or reasons: how often, and in how many graphs."""
    times: Counter[str] = Counter()
    graphs: Counter[str] = Counter()
    for found in rows.values():
        times.update(found.get(key, {}))
        graphs.update(dict.fromkeys(found.get(key, {}), 1))
    lines = ["", f"| {title} | times | graphs |", "|---|---|---|"]
    return lines + [f"| {name} | {n} | {graphs[name]} |" for name, n in times.most_common()]


def write_page(rows: Mapping[str, Found], listed: int, page: Path) -> None:
    """Write the report as Markdown."""
    lines = [
        "# Model graphs of GraphNet",
        "",
        "Written by `make graphnet SOURCES=FOLDER`, where FOLDER has the samples for Paddle of the",
        "repository PaddlePaddle/GraphNet: graphs of real models, in operators of Paddle 3. Those",
        "at odd places are taken, in the order of their paths. Paddle 3.3.1 runs each with random",
        "parameters of the recorded ranges and saves it. graphopt reads and verifies it, runs it",
        "without flags and with every flag of BuildStrategy, and compares with Paddle's outputs.",
        "",
        *summary(rows, listed),
        *count_table("pass that fired", rows, "fired"),
        *count_table("pass that declined: reason", rows, "declined"),
        "",
        "| graph | ops | with flags | difference | time | |",
        "|---|---|---|---|---|---|",
    ]
    for graph, found in rows.items():
        worst = [found[name] for name in ("plain", "flags") if name in found]
        cells = (
            found.get("ops", ""),
            found.get("ops_after", ""),
            f"{max(worst):.1e}" if worst else "",
            f"{slowness(found):.2f}" if "ms" in found else "",
            describe(found).replace("|", "\\|").replace(f"{ROOT}/", ""),
        )
        lines.append(f"| {graph} | " + " | ".join(map(str, cells)) + " |")
    page.write_text("\n".join(lines) + "\n", "utf-8")


def main() -> int:
    """Examine the graphs that no earlier run has, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", type=Path)
    parser.add_argument("--paddle", required=True, help="the Python that has Paddle 3")
    parser.add_argument("--half", choices=("odd", "even", "all"), default="odd")
    parser.add_argument("--only", default="", help="graphs whose paths contain this text")
    parser.add_argument("--untimed", action="store_true", help="do not time the runs")
    parser.add_argument("--again", action="store_true", help="examine those of earlier runs too")
    parser.add_argument("--seconds", type=float, default=600, help="the limit of a process")
    parser.add_argument("--memory", type=int, default=32, help="the limit of a process in GiB")
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args()
    graphs = folders_of(args.sources, args.half)
    if not graphs:
        parser.error(f"{args.sources} has no folder with a model.py")
    sizes = {graph: (args.sources / graph / "model.py").stat().st_size for graph in graphs}
    paddle = Worker([args.paddle, str(HERE / "in_paddle.py")], args.seconds, args.memory)
    command = [sys.executable, str(HERE / "in_graphopt.py"), *["--untimed"] * args.untimed]
    ours = Worker(command, args.seconds, args.memory)
    for graph in sorted(graphs, key=sizes.__getitem__):  # the small ones first
        kept = KEPT / f"{graph}.json"
        if args.only in graph and (args.again or not kept.exists()):
            found = examine(args.sources / graph, paddle, ours)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found), "utf-8")
            print(f"{graph}: {describe(found) or 'equal'}", flush=True)
    paddle.end()
    ours.end()
    files = {graph: KEPT / f"{graph}.json" for graph in graphs}
    rows = {g: json.loads(f.read_text("utf-8")) for g, f in files.items() if f.exists()}
    write_page(rows, len(graphs), args.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
