"""Models exported with open sizes, compared with declared sizes and with Paddle's predictor.

    python benchmarks/open_sizes.py --paddle PYTHON
    python benchmarks/open_sizes.py --paddle PYTHON --models FOLDER --only resnet

PYTHON is the interpreter of an environment with paddlepaddle 2.6.2. It exports the networks of
`open_sizes_networks.py`, and the saved models in the folders, once with open sizes and once for
each of three inputs. One predictor of graphopt runs the open export on all three inputs, and three
others run one declared export each. Where XLA compiled the same text for both, they are the same
code, and only the first is timed. Paddle's predictor, with oneDNN, runs the export with open sizes.
They alternate on one core, to which this process and its children are bound. The numbers are CPU
milliseconds of a run, with its input and output copies; ratios are medians over the ratios within a
round. graphopt runs in its full form, without padding. Where it misses the goal against Paddle, the
form with oneDNN kernels is measured too: a program that runs for long takes it where it is faster.
Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import first_result

HERE = Path(__file__).parent
WORKER = HERE / "open_sizes_worker.py"
OPEN, DECLARED, PADDLE, KERNELS = "open", "declared", "Paddle", "kernels"
# the largest ratio of a run's time to the declared export's, and to Paddle's
GOALS = {DECLARED: 1.03, PADDLE: 1.2}
# the rows and open sizes of the three inputs
PICTURES = ([1, 224, 224], [4, 128, 128], [2, 160, 224])
SENTENCES = ([1, 16], [8, 48], [4, 100])

Shapes = Mapping[str, tuple[str, Sequence[int]]]


class Refused(Exception):
    """An error that a worker reported."""


class Worker:
    """A process that answers requests (`open_sizes_worker.py`); after its end a new one starts."""

    def __init__(self, command: Sequence[str], **environment: str) -> None:
        self._command, self._environment = [*command, str(WORKER)], environment
        self._process: subprocess.Popen[str] | None = None

    def ask(self, name: str, *arguments: Any) -> Any:
        """Call a function of the worker and return its result; its error raises `Refused`."""
        process = self._process = self._process or subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **self._environment},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps([name, *arguments]), file=process.stdin, flush=True)
        for line in process.stdout:
            if line.startswith("ANSWER "):
                answer = json.loads(line.removeprefix("ANSWER "))
                if "error" in answer:
                    raise Refused(answer["error"])
                return answer["found"]
        self._process = None
        raise Refused(f"the process ended with {process.wait()}")

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


class Row(NamedTuple):
    """The measurements of one input: milliseconds, ratios, and the difference of the results."""

    shapes: str
    milliseconds: Mapping[str, float]
    ratios: Mapping[str, float]
    note: str


# -- measuring -------------------------------------------------------------------------------------


def network_shapes(worker: Worker) -> dict[str, list[Shapes]]:
    """List three inputs of each network."""
    found = worker.ask("inputs")

    def sized(shape: Sequence[int | None], number: int) -> list[int]:
        rows, *sizes = PICTURES[number] if len(shape) == 4 else SENTENCES[number]
        usual = [rows, *([0] * (len(shape) - 1 - len(sizes))), *sizes][: len(shape)]
        return [usual[axis] if size is None else size for axis, size in enumerate(shape)]

    return {
        name: [
            {key: (dtype, sized(shape, number)) for key, (dtype, shape) in inputs.items()}
            for number in range(3)
        ]
        for name, inputs in found.items()
    }


def model_shapes(folders: Sequence[Path]) -> dict[str, tuple[Path, Sequence[Shapes]]]:
    """Find the saved models with open sizes in the folders, with three inputs of each."""
    found: dict[str, tuple[Path, Sequence[Shapes]]] = {}
    for folder in folders:
        for case in sorted(folder.glob("*/model.pdmodel")):
            parameters = case.with_suffix(".pdiparams")
            shapes = first_result.shapes_of(case, 2) if parameters.exists() else []
            if len(shapes) == 3 and case.parent.name not in found:
                found[case.parent.name] = case.with_suffix(""), shapes
    return found


def start(paddle: str) -> dict[str, Worker]:
    """Start the processes; open and declared sizes share one."""
    ours = [sys.executable, "-m", "graphopt", "run"]
    settings = {
        "FLAGS_graphopt_tier": "full",
        "FLAGS_graphopt_kernels": "off",
        "FLAGS_graphopt_buckets": "off",
        "FLAGS_graphopt_cache_dir": "",
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)]),
    }
    opened = Worker(ours, **settings)
    kernels = Worker(ours, **settings | {"FLAGS_graphopt_kernels": "on"})
    opened.ask("watch")
    return {PADDLE: Worker([paddle]), OPEN: opened, DECLARED: opened, KERNELS: kernels}


def measure(
    workers: Mapping[str, Worker],
    task: tuple[str, str, Sequence[Shapes]],
    rounds: int,
    seconds: float,
) -> Iterator[Row | str]:
    """Measure a network or a model; yield its rows, or a text for a failure.

    `task` has the function that exports it, its name, and its inputs.
    """
    export, given, inputs = task
    with tempfile.TemporaryDirectory() as folder:
        try:
            paths = workers[PADDLE].ask(export, given, folder, [None, *inputs])
            for name in (PADDLE, OPEN):
                workers[name].ask("load", OPEN, paths[0])
            for number, shapes in enumerate(inputs):
                workers[DECLARED].ask("load", f"{DECLARED} {number}", paths[number + 1])
                declared = f"{DECLARED} {number}"
                yield measure_input(workers, declared, paths[0], shapes, rounds, seconds)
            for name in (PADDLE, OPEN):
                workers[name].ask("forget")
        except Refused as refusal:
            yield str(refusal)


def measure_input(
    workers: Mapping[str, Worker],
    declared: str,
    path: str,
    shapes: Shapes,
    rounds: int,
    seconds: float,
) -> Row:
    """Time all ways on one input, alternating; `declared` is the predictor for its sizes."""
    keys = {OPEN: OPEN, PADDLE: OPEN}
    results = {way: workers[way].ask("begin", key, shapes) for way, key in keys.items()}
    compiled = workers[OPEN].ask("texts")
    texts = workers[DECLARED].ask("texts", declared, shapes)
    is_same = bool(texts) and set(texts) <= set(compiled)
    if not is_same:
        keys[DECLARED] = declared
        results[DECLARED] = workers[DECLARED].ask("begin", declared, shapes)
    off = max(
        abs(one - other) / max(1.0, abs(other))
        for way in results
        for one, other in zip(results[way], results[PADDLE], strict=True)
    )
    spent: dict[str, list[float]] = {way: [] for way in keys}

    def ratio(one: str, other: str) -> float:
        pairs = zip(reversed(spent[one]), reversed(spent[other]), strict=False)
        return statistics.median(mine / theirs for mine, theirs in pairs)

    for number in range(2 * rounds):
        if number == rounds:
            if ratio(OPEN, PADDLE) <= GOALS[PADDLE]:
                break
            workers[KERNELS].ask("forget")
            workers[KERNELS].ask("load", OPEN, path)
            workers[KERNELS].ask("begin", OPEN, shapes)
            keys[KERNELS], spent[KERNELS] = OPEN, []
        for way, key in list(keys.items())[:: -1 if number % 2 else 1]:
            spent[way].append(workers[way].ask("spend", key, shapes, seconds))
    medians = {way: 1e3 * statistics.median(times) for way, times in spent.items()}
    ratios = {PADDLE: ratio(OPEN, PADDLE)}
    if not is_same:
        ratios[DECLARED] = ratio(OPEN, DECLARED)
    if KERNELS in spent:
        ratios[KERNELS] = ratio(KERNELS, PADDLE)
    text = "; ".join("x".join(map(str, shape)) for _, shape in shapes.values())
    return Row(text, medians, ratios, f"results differ by {off:.0e}" if off > 1e-3 else "")


# -- the report ------------------------------------------------------------------------------------


def line(name: str, row: Row | str) -> str:
    """Format a line of the table."""
    if isinstance(row, str):
        return f"| `{name}` | {row} |" + " |" * 4
    ways = [f"{row.milliseconds[way]:.3g}" for way in (OPEN, PADDLE)]
    best = min(row.ratios[PADDLE], row.ratios.get(KERNELS, 9e9))
    marked = ["same code"]
    if DECLARED in row.ratios:
        marked = [f"{row.ratios[DECLARED]:.2f} of {row.milliseconds[DECLARED]:.3g}"]
    marked.append(f"**{best:.2f}**" if best > GOALS[PADDLE] else f"{best:.2f}")
    if KERNELS in row.ratios and best == row.ratios[KERNELS]:
        marked[1] += f", oneDNN (XLA {row.ratios[PADDLE]:.2f})"
    shapes = f"{row.shapes}; {row.note}" if row.note else row.shapes
    return f"| `{name}` | {shapes} | {' | '.join([*ways, *marked])} |"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--paddle", default=os.environ.get("GRAPHOPT_BENCH_PADDLE262", ""))
    options.add_argument("--models", type=Path, action="append", default=[])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=0.05, help="of a turn")
    options.add_argument("--only", default="", help="names, as a regular expression")
    arguments = options.parse_args()
    if not arguments.paddle:
        options.error("--paddle: the Python of an environment with paddlepaddle 2.6.2 is needed")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    print(f"Load {load:.1f}. CPU milliseconds of a run.\n")
    print("| model | input | open | Paddle | open / declared | graphopt / Paddle |")
    print("|---|---|---|---|---|---|")
    workers = start(arguments.paddle)
    tasks: dict[str, tuple[str, str, Sequence[Shapes]]] = {}
    for name, (prefix, sizes) in model_shapes(arguments.models or [first_result.MODELS]).items():
        tasks[name] = "export_model", str(prefix), sizes
    for name, sizes in network_shapes(workers[OPEN]).items():
        tasks[name] = "export_network", name, sizes
    for name, task in tasks.items():
        if re.search(arguments.only, name):
            for row in measure(workers, task, arguments.rounds, arguments.seconds):
                print(line(name, row), flush=True)
    for worker in workers.values():
        worker.end()


if __name__ == "__main__":
    main()
