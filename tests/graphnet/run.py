"""`make graphnet SOURCES=FOLDER`: real model graphs of GraphNet, compared with Paddle 3.

    python tests/graphnet/run.py FOLDER --paddle PYTHON [--half odd] [--only TEXT] [--untimed]

Each folder in FOLDER that has a `model.py` is a graph. PYTHON, which has Paddle 3, runs it and
saves it; graphopt reads it, verifies it, optimizes it with every flag, runs it plain and optimized,
and compares with Paddle's outputs. The findings are written into `docs/reference/graphnet.md` after
each graph. A later run adds the graphs that the page lacks, from this folder or another.
The graphs come from the repository PaddlePaddle/GraphNet and are not kept here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reference" / "graphnet.md"
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
    """List the graphs in the order of their paths' bytes: all, or the odd or even places."""
    every = sorted(
        (str(p.parent.relative_to(sources)) for p in sources.rglob("model.py")), key=os.fsencode
    )
    return {"odd": every[::2], "even": every[1::2], "all": every}[half]


class Worker:
    """A process that answers lines of JSON; started on demand, and restarted after some answers."""

    def __init__(self, command: Sequence[str], seconds: float, memory: int) -> None:
        self._command, self._seconds, self._memory = command, seconds, memory
        self._process: subprocess.Popen[str] | None = None
        self._answered = 0

    def ask(self, question: Any) -> Any:
        """Ask, and return the answer; RuntimeError after a time limit or a crash."""
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
        """End the process and its children."""
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
    """Examine one graph, and return the findings."""
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


def difference(found: Found) -> float:
    """Return the largest difference from Paddle's outputs, with and without flags."""
    return max((found[name] for name in ("plain", "flags") if name in found), default=0.0)


def slowness(found: Found) -> float:
    """Return the time with flags divided by the time without; 0 where it was not measured."""
    plain, flags = found.get("ms", (1.0, 0.0))
    return flags / plain


def describe(found: Found) -> str:
    """Describe the outcome of a graph, for its row."""
    if "paddle" in found:
        return f"Paddle: {found['paddle']}"
    if "error" in found:
        return str(found["error"])
    if difference(found) > TOLERANCE:
        return OTHER
    words = [DRAWS] * bool(found.get("draws"))
    if slowness(found) > SLOWER:
        words.append(f"with flags {slowness(found):.2f} of the time without")
    return "; ".join(words)


def summary(rows: Mapping[str, Found], listed: int) -> list[str]:
    """Format the lines of counts."""
    taken = [found for found in rows.values() if "paddle" not in found]
    ran = [found for found in taken if "flags" in found]
    equal = [value for value in map(difference, ran) if value <= TOLERANCE]
    timed = [found for found in ran if "ms" in found]
    counts = {
        "graphs": listed,
        "taken": len(rows),
        "saved by Paddle": len(taken),
        "read and verified": sum("read" in found for found in taken),
        "optimized with every flag": sum("optimized" in found for found in taken),
        "ran plain and optimized": len(ran),
        f"equal, within {TOLERANCE:g} of the output's largest number": len(equal),
        "timed plain and optimized": len(timed),
        f"slower with flags by more than {SLOWER - 1:.0%}": sum(
            slowness(f) > SLOWER for f in timed
        ),
    }
    lines = ["| | graphs |", "|---|---|", *(f"| {name} | {n} |" for name, n in counts.items()), ""]
    if ran:
        lines.append(f"The largest difference of equal outputs is {max(equal, default=0.0):.1e}.")
    if timed:
        middle = statistics.geometric_mean(map(slowness, timed))
        lines.append(f"With flags a run takes {middle:.2f} of the time without (geometric mean).")
    return lines


INTRODUCTION = """# Model graphs of GraphNet

`make graphnet SOURCES=FOLDER` writes this page. FOLDER has the Paddle samples of the repository
PaddlePaddle/GraphNet: graphs of real models, in operators of Paddle 3. A run takes the graphs at
odd places in the order of their paths, unless `--half` selects others, and adds those that the
page lacks; several runs wrote this page. Paddle 3.3.1 runs each graph with random parameters of
the recorded ranges and saves it. graphopt reads and verifies the saved graph, runs it without
flags and with every flag of BuildStrategy, and compares the outputs with Paddle's.
"""
OTHER = "other numbers"
CAUSES = {
    "PaddleX/PP-OCRv3_mobile_det/subgraph_1": (
        "24 of 965,632; with inputs changed by 1e-7 Paddle's own change as much, at 21 places"
    ),
    "PaddleX/PP-OCRv4_mobile_det/subgraph_0": (
        "compared with the same graph in float64, Paddle is off by 9.3e-3 and graphopt by 2.6e-3"
    ),
    "PaddleX/PP-OCRv4_server_det/subgraph_0": (
        "compared with the same graph in float64, Paddle is off by 0.19 and graphopt by 0.035"
    ),
    "PaddleX/PP-OCRv4_server_seal_det": (
        "3 of 9,830,400; with inputs changed by 1e-7 Paddle's own change by up to 1.4e-3"
    ),
    "PaddleX/FCOS-ResNet50/subgraph_1": (
        "compared with the same graph in float64, Paddle is off by 1.3e-3 and graphopt by 1.9e-3"
    ),
    "PaddleX/FasterRCNN-ResNet50/subgraph_21": (
        "of 1,000 proposals, two whose scores are nearly equal are in the other order"
    ),
    "PaddleX/Mask-RT-DETR-L/subgraph_11": (
        "with inputs changed by 1e-7 Paddle's own boxes change by 1.0 of the largest number; "
        "scores and masks before the decoder are equal"
    ),
    "PaddleX/Mask-RT-DETR-L/subgraph_17": (
        "compared with the same graph in float64, Paddle is off by 0.127 and graphopt by 0.133"
    ),
    "PaddleX/Mask-RT-DETR-S/subgraph_10": (
        "with inputs changed by 1e-7 Paddle's own boxes change by 0.95 of the largest number; "
        "scores and masks before the decoder are equal"
    ),
    "PaddleX/Mask-RT-DETR-S/subgraph_14": (
        "with inputs changed by 1e-7 none of Paddle's own 100 boxes stays; scores, places and "
        "boxes before the decoder are equal"
    ),
}
"""Why a graph has other numbers, as a look at each showed."""
DRAWS = "draws random numbers: compared with the run without flags"
TABLES = {"fired": "pass that fired", "declined": "pass that declined: reason"}


@dataclass
class Page:
    """The findings: a row for each graph, and how often each pass fired or declined."""

    rows: dict[str, Found] = field(default_factory=dict)
    passes: dict[str, dict[str, tuple[int, int]]] = field(
        default_factory=lambda: {key: {} for key in TABLES}
    )
    """Times and graphs, by the key of a table and the name of a row."""

    def add(self, graph: str, found: Found) -> None:
        """Add a graph that the page lacks."""
        assert graph not in self.rows
        self.rows[graph] = found
        for key, counts in self.passes.items():
            for name, more in found.get(key, {}).items():
                times, graphs = counts.get(name, (0, 0))
                counts[name] = times + more, graphs + 1

    def write(self, file: Path, graphs: int) -> None:
        """Write the page as Markdown; `graphs` is the number of known graphs."""
        lines = [INTRODUCTION, *summary(self.rows, graphs)]
        for key, title in TABLES.items():
            counts = sorted(self.passes[key].items(), key=lambda row: (-row[1][0], row[0]))
            lines += ["", f"| {title} | times | graphs |", "|---|---|---|"]
            lines += [f"| {name} | {times} | {graphs} |" for name, (times, graphs) in counts]
        lines += ["", "| graph | ops | with flags | difference | time | |"]
        lines += ["|---|---|---|---|---|---|"]
        for graph in sorted(self.rows, key=os.fsencode):
            cells = cells_of(self.rows[graph])
            if cells[-1] == OTHER and graph in CAUSES:
                cells[-1] += f": {CAUSES[graph]}"
            lines.append(f"| {graph} | {' | '.join(cells)} |")
        file.write_text("\n".join(lines) + "\n", "utf-8")


def cells_of(found: Found) -> list[str]:
    """Format the cells of a graph's row; the difference needs a run with flags."""
    return [
        str(found.get("ops", "")),
        str(found.get("ops_after", "")),
        f"{difference(found):.1e}" if "flags" in found else "",
        f"{slowness(found):.2f}" if "ms" in found else "",
        " ".join(describe(found).replace("|", "\\|").replace(f"{ROOT}/", "").split()),
    ]


def found_of(cells: Sequence[str]) -> Found:
    """Parse a row into findings, from which `cells_of` makes the same row."""
    ops, ops_after, difference, time, words = cells
    words = OTHER if words.startswith(OTHER) else words.replace("\\|", "|")
    if words.startswith("Paddle: "):
        return {"paddle": words.removeprefix("Paddle: ")}
    found: dict[str, Any] = {}
    if ops:
        found |= {"read": True, "ops": int(ops)}
    if ops_after:
        found |= {"optimized": True, "ops_after": int(ops_after)}
    if difference:
        found["flags"] = float(difference)
    if time:
        found["ms"] = (1.0, float(time))
    found["draws"] = words.startswith(DRAWS)
    return found if describe(found) == words else {**found, "error": words}


def read_page(file: Path) -> Page:
    """Read the page that `Page.write` wrote; without a file, return an empty page."""
    page = Page()
    if not file.exists():
        return page
    keys = {title: key for key, title in TABLES.items()}
    table = ""
    for line in file.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) < 2 or cells[0].startswith("---"):
            table = table if cells else ""
        elif not table:
            table = cells[0] or "summary"
        elif table in keys:
            page.passes[keys[table]][cells[0]] = int(cells[1]), int(cells[2])
        elif table == "graph":
            page.rows[cells[0]] = found_of(cells[1:])
    return page


def main() -> int:
    """Examine the graphs that the page lacks, and write the page after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", type=Path)
    parser.add_argument("--paddle", required=True, help="the Python that has Paddle 3")
    parser.add_argument("--half", choices=("odd", "even", "all"), default="odd")
    parser.add_argument("--only", default="", help="graphs whose paths contain this text")
    parser.add_argument("--untimed", action="store_true", help="do not time the runs")
    parser.add_argument("--again", action="store_true", help="begin a new page")
    parser.add_argument("--seconds", type=float, default=600, help="the limit of a process")
    parser.add_argument("--memory", type=int, default=32, help="the limit of a process in GiB")
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args()
    graphs = folders_of(args.sources, args.half)
    if not graphs:
        parser.error(f"{args.sources} has no folder with a model.py")
    sizes = {graph: (args.sources / graph / "model.py").stat().st_size for graph in graphs}
    page = Page() if args.again else read_page(args.page)
    paddle = Worker([args.paddle, str(HERE / "in_paddle.py")], args.seconds, args.memory)
    command = [sys.executable, str(HERE / "in_graphopt.py"), *["--untimed"] * args.untimed]
    ours = Worker(command, args.seconds, args.memory)
    known = len(page.rows.keys() | set(graphs))
    for graph in sorted(graphs, key=sizes.__getitem__):  # the small ones first
        if args.only in graph and graph not in page.rows:
            found = examine(args.sources / graph, paddle, ours)
            page.add(graph, found)
            page.write(args.page, known)
            print(f"{graph}: {describe(found) or 'equal'}", flush=True)
    paddle.end()
    ours.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
