"""The time to a first result, to one of a new size, and to one of a known size, next to Paddle's.

    python benchmarks/first_result.py --quick
    python benchmarks/first_result.py --paddle PYTHON --packages FOLDER --models FOLDER
    python benchmarks/first_result.py --only jieba --fluid PYTHON --jieba FOLDER
    python benchmarks/first_result.py --trainings --paddle PYTHON
    python benchmarks/first_result.py --trainings --steps 100 --one-core --paddle PYTHON
    python benchmarks/first_result.py --timeline

Images of random sizes go through rapidocr-paddle, sentences through jieba's paddle mode, and models
run one by one. Each has its own process: by Paddle (`--paddle`, the Python of an environment with
paddlepaddle 2.6.2; `--fluid`, with 1.8.5, which jieba needs) and by graphopt with an empty cache,
with the cache of two such processes (or more, by `--fillings`), and, for a model, with a bundle.
The processes of a round alternate. `--packages` is a folder with rapidocr-paddle 1.4.5 and its
dependencies except NumPy, for both engines (`pip install --target`), and `--jieba` a folder with
jieba 0.42.1.

Times count from the start of the process, imports included: by the clock, and of its CPU. On a
machine with other load use the CPU times. With `--one-core` all processes share a core with one
that never waits. For a model whose first result takes longer than the goal, a second table has the
CPU seconds of each stage. Prints Markdown.

`--trainings` trains networks, each with a seed and without, and runs scripts of `examples/scripts`:
the first result is the first loss, and "a new size" is each further step. The last column is the
whole process, until its end. `--timeline` measures the CPU seconds of each stage to their first
loss, by graphopt with an empty cache.
"""

from __future__ import annotations

import argparse
import atexit
import compileall
import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
WORKER = HERE / "first_result_worker.py"
MODELS = HERE.parent / "tests" / "data" / "models"
STAGES = ("read", "parse and passes", "trace", "lower", "XLA compile")
TIMELINE = (
    *("imports", "JAX", "build", "backward", "startup", "parse", "passes"),
    *("trace", "lower", "XLA", "other"),
)
PADDLE = "Paddle"
EMPTY, FULL, BUNDLE = "empty cache", "full cache", "bundle"
# a process that never waits, and runs as long as this one
NEIGHBOUR = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"
# the largest ratio of the first result's time to Paddle's
GOALS = {EMPTY: 2.0, FULL: 1.0, BUNDLE: 1.0}
TRAINING_GOALS = {EMPTY: 2.5}
# the networks of `first_trainings.py`, and scripts that also run in Paddle 2.6
NETWORKS = ("resnet18", "bert_mini", "encoder", "texts", "bi_lstm", "deepfm", "critic")
SCRIPTS = ("mnist_dataloader", "char_lstm", "transformer_encoder", "half_precision")


class Task(NamedTuple):
    """A task for the worker; `sizes` are the sizes of a bundle, "" for none."""

    name: str
    kind: str
    given: Any
    sizes: str = ""

    @property
    def goals(self) -> dict[str, float]:
        """The upper bounds of its first result, relative to Paddle's time, by the way it runs."""
        return TRAINING_GOALS if self.kind in ("training", "script") else GOALS


# -- tasks -----------------------------------------------------------------------------------------


def model_tasks(folders: Sequence[Path], new_sizes: int, most: int) -> Iterator[Task]:
    """Yield a task for each folder's inference model: `model.pdmodel`, or its only model."""
    cases = [case for folder in folders for case in ([folder, *sorted(folder.iterdir())])]
    for case in [case for case in cases if case.is_dir()][: most or None]:
        program, *others = [*sorted(case.glob("*.pdmodel")), None]
        if program is None or (len(others) > 1 and program.stem != "model"):
            continue
        parameters = program.with_suffix(".pdiparams")
        if parameters.exists() and (shapes := shapes_of(program, new_sizes)):
            given = {"files": [str(program), str(parameters)], "shapes": shapes}
            first = shapes[0].items()
            sizes = ",".join(f"{name}={'x'.join(map(str, s))}" for name, (_, s) in first)
            yield Task(case.name, "model", given, sizes)


def training_tasks(steps: int) -> Iterator[Task]:
    """Yield the networks and the scripts, without a seed and with one."""
    for seed in (None, 3):
        ending = "" if seed is None else ", seed"
        for name in NETWORKS:
            given = {"network": name, "seed": seed, "steps": steps}
            yield Task(f"{name}{ending}", "training", given)
        for name in SCRIPTS:
            path = HERE.parent / "examples" / "scripts" / f"{name}.py"
            given = {"path": str(path), "seeded": seed is not None}
            yield Task(f"{name}.py{ending}", "script", given)


def shapes_of(program: Path, new_sizes: int) -> list[dict[str, Any]]:
    """Draw input shapes: first one row, then random sizes; [] without inputs.

    An open axis has 1 to 8 rows, or a length of 5 to 64. Open heights of images are 32 to 256 in
    steps of 32, and open widths up to 480; images of open height come one by one.
    """
    from graphopt.models.model import read_program_only

    read = read_program_only(program)
    block = read.program.global_block()
    variables = [block.var(name) for name in read.feed_names]
    if not read.is_inference or not variables or any(v.lod_level for v in variables):
        return []
    generator = np.random.default_rng(0)
    pictures = [
        v for v in variables if len(v.shape) == 4 and v.shape[1] in (1, 3) and v.shape[2] != 1
    ]
    one_by_one = any(v.shape[2] < 0 for v in pictures)

    def sized(variable: Any, rows: int, length: int, height: int, width: int) -> list[int]:
        usual = [rows, length, length, length, length]
        if variable in pictures:
            usual = [rows, 0, height, width]
        return [usual[a] if size < 0 else size for a, size in enumerate(variable.shape)]

    def drawn() -> list[int]:
        rows = 1 if one_by_one else generator.integers(1, 9)
        height, width = 32 * generator.integers(1, 9), 32 * generator.integers(1, 16)
        return [int(n) for n in (rows, generator.integers(5, 65), height, width)]

    count = new_sizes if any(size < 0 for v in variables for size in v.shape) else 0
    return [
        {v.name: (v.dtype.numpy.name, sized(v, *sizes)) for v in variables}
        for sizes in [[1, 16, 64, 192], *(drawn() for _ in range(count))]
    ]


# -- measuring -------------------------------------------------------------------------------------


def run(command: Sequence[str], task: Task, environment: dict[str, str]) -> dict[str, Any] | str:
    """Run the worker; return its numbers, or the last line of its error."""
    text = json.dumps({"kind": task.kind, "given": task.given})
    began, before = time.time(), os.times()
    found = subprocess.run(
        [*command, str(WORKER), text],
        env=os.environ | environment | {"FIRST_RESULT_BEGAN": repr(began)},
        capture_output=True,
        text=True,
        check=False,
    )
    wall, after = time.time() - began, os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])
    for line in found.stdout.splitlines():
        if line.startswith("FIRST_RESULT "):
            return {**json.loads(line.removeprefix("FIRST_RESULT ")), "end": [[wall, cpu]]}
    return (found.stderr.strip().splitlines() or ["it ended without a result"])[-1]


def measure(task: Task, arguments: argparse.Namespace) -> dict[str, list[dict[str, Any] | str]]:
    """Measure a task; return the numbers of each way, one for each round."""
    found: dict[str, list[dict[str, Any] | str]] = {}
    _compile_modules()
    sentences = task.kind == "sentences"
    packages = arguments.jieba if sentences else arguments.packages
    paddle = arguments.fluid if sentences else arguments.paddle
    path = os.pathsep.join(filter(None, [packages, os.environ.get("PYTHONPATH", "")]))
    ours = [sys.executable, "-m", "graphopt", "run"]
    with tempfile.TemporaryDirectory() as folder:
        bundled = bundle_of(task, Path(folder))
        for number in range(arguments.rounds):
            cache = {"PYTHONPATH": path, "FLAGS_graphopt_cache_dir": f"{folder}/{number}"}
            ways = [(EMPTY, ours, task, cache), (FULL, ours, task, cache)]
            if paddle:
                ways.insert(1, (PADDLE, [paddle], task, {"PYTHONPATH": packages}))
            if bundled is not None:
                none = cache | {"FLAGS_graphopt_cache_dir": ""}
                ways.append((BUNDLE, ours, bundled, none))
            for name, command, each, environment in ways:
                # each process compiles some of the sizes that the earlier ones met
                for _ in range(arguments.fillings if name == FULL else 0):
                    run(command, each, environment)
                found.setdefault(name, []).append(run(command, each, environment))
    return found


@functools.cache
def _compile_modules() -> None:
    """Compile the modules of a checkout, as pip does for an installed package.

    Python would compile them again in each process where PYTHONDONTWRITEBYTECODE is set.
    """
    compileall.compile_dir(HERE.parent / "graphopt", quiet=2)


def bundle_of(task: Task, folder: Path) -> Task | None:
    """Compile a model to a bundle for its first size; return the task that runs it."""
    if not task.sizes:
        return None
    path = folder / "model.graphopt"
    program = task.given["files"][0]
    command = [sys.executable, "-m", "graphopt", "compile", program, "--sizes", task.sizes]
    made = subprocess.run([*command, "-o", str(path)], capture_output=True, text=True, check=False)
    if made.returncode:
        print(f"no bundle of {task.name}: {made.stderr.strip()}", file=sys.stderr)
        return None
    given = {"files": [str(path)], "shapes": task.given["shapes"][:1]}
    return task._replace(given=given)


def stages(task: Task) -> dict[str, float]:
    """Measure CPU seconds of each stage of a model's first size, in this process."""
    import jax
    import numpy as np

    from graphopt.ir.dialect.types import dtype_of, shape_of
    from graphopt.lowering.needs_data import NeedsData
    from graphopt.models.model import read_model
    from graphopt.runtime.compile.compilation import Compilation
    from graphopt.runtime.compile.compiling import compile_program
    from graphopt.runtime.devices.places import CPUPlace

    seconds: dict[str, float] = {}

    def timed(stage: str, work: Any) -> Any:
        began = time.process_time()
        made = work()
        seconds[stage] = time.process_time() - began
        return made

    jax.config.update("jax_enable_compilation_cache", False)
    model = timed("read", lambda: read_model(*task.given["files"]))
    names = tuple(sorted(model.feed_names)), tuple(model.fetch_names)
    compilation = Compilation(model.program, *names, None, (CPUPlace(),))
    compiled = timed("parse and passes", lambda: compile_program(compilation))
    plan, shapes = compiled.plan, task.given["shapes"][0]
    state = [
        tuple(jax.ShapeDtypeStruct(shape_of(p.type), dtype_of(p.type).numpy) for p in ports)
        for ports in (plan.updated, (*plan.read_only, *plan.prepared))
    ]
    feeds = tuple(jax.ShapeDtypeStruct(shapes[p.name][1], shapes[p.name][0]) for p in plan.feeds)
    function = compiled.map_replicas(1, even=True).function
    # programs whose sizes depend on data are never compiled as a whole
    with jax.enable_x64(True), contextlib.suppress(NeedsData):
        key = jax.ShapeDtypeStruct((2,), np.uint32)
        traced = timed("trace", lambda: function.trace(*state, feeds, key))
        lowered = timed("lower", traced.lower)
        timed("XLA compile", lambda: lowered.compile(compiled.options()))
    return seconds


def timeline(tasks: Sequence[Task]) -> Iterator[str]:
    """Yield the table of the stages to the first loss of trainings and scripts with a seed."""
    titles = [*TIMELINE, "first loss", "peak MB"]
    yield f"| training | {' | '.join(titles)} |"
    yield "|---|" + "---|" * len(titles)
    _compile_modules()
    for task in tasks:
        work = {"work": task.given, "full": False}
        command = [sys.executable, "-m", "graphopt", "run"]
        found = run(command, Task(task.name, "timeline", work), {"FLAGS_graphopt_cache_dir": ""})
        if isinstance(found, str):
            yield f"| {task.name} | {found} |"
            continue
        cells = [f"{found.get(title, 0.0):.2f}" for title in titles[:-1]]
        yield f"| {task.name} | {' | '.join(cells)} | {found['peak MB']:.0f} |"


# -- the report ------------------------------------------------------------------------------------


def median(rounds: Sequence[Any], key: str, clock: int) -> float | None:
    """Compute the median over the rounds of the first result's time, or of all times of `key`."""
    good = [each for each in rounds if not isinstance(each, str)]
    values = (
        [each[key][clock] for each in good]
        if key == "first"
        else [time[clock] for each in good for time in each.get(key, ())]
    )
    return statistics.median(values) if values else None


def highest(rounds: Sequence[Any], key: str, clock: int) -> float | None:
    """Find the longest time."""
    good = [each for each in rounds if not isinstance(each, str)]
    return max((time[clock] for each in good for time in each[key]), default=None)


def total(rounds: Sequence[Any], clock: int) -> float | None:
    """Compute the median over the rounds of the time from the start to the last new size."""
    good = [each for each in rounds if not isinstance(each, str)]
    sums = [each["first"][clock] + sum(time[clock] for time in each["new"]) for each in good]
    return statistics.median(sums) if sums else None


def cell(wall: float | None, cpu: float | None) -> str:
    """Format seconds by the clock, and of the CPU."""
    return "" if wall is None or cpu is None else f"{wall:.2f} ({cpu:.2f})"


def report(tasks: Sequence[Task], found: dict[str, Any]) -> list[str]:
    """Format the table of all tasks, the failures, and the stages of tasks that miss a goal."""
    lines = [
        "| what | how | first result | all | a new size | the slowest | a known size | the end |",
        "|---|---|---|---|---|---|---|---|",
    ]
    missed: list[Task] = []
    trouble: list[str] = []
    for task in tasks:
        ways = found[task.name]
        theirs = median(ways.get(PADDLE, ()), "first", 1)
        for way, rounds in ways.items():
            trouble += [f"{task.name}, {way}: {each}" for each in rounds if isinstance(each, str)]
            cells = [cell(*(median(rounds, "first", clock) for clock in (0, 1)))]
            cells += [cell(*(total(rounds, clock) for clock in (0, 1)))]
            cells += [cell(*(median(rounds, "new", clock) for clock in (0, 1)))]
            cells += [cell(*(highest(rounds, "new", clock) for clock in (0, 1)))]
            cells += [cell(*(median(rounds, "known", clock) for clock in (0, 1)))]
            cells += [cell(*(median(rounds, "end", clock) for clock in (0, 1)))]
            own, goal = median(rounds, "first", 1), task.goals.get(way)
            if goal and theirs and own and own > goal * theirs:
                cells[0] += f", {own / theirs:.1f} x"
                if task.kind == "model" and task not in missed:
                    missed.append(task)
            lines.append(f"| {task.name} | {way} | {' | '.join(cells)} |")
    lines += ["", *(f"- {line}" for line in trouble + list(differences(tasks, found)))]
    if missed:
        lines += ["", f"| CPU seconds | {' | '.join(STAGES)} |", "|---|" + "---|" * len(STAGES)]
    for task in missed:
        seconds = stages(task)
        cells = [f"{seconds[stage]:.2f}" if stage in seconds else "" for stage in STAGES]
        lines.append(f"| {task.name} | {' | '.join(cells)} |")
    return lines


def differences(tasks: Sequence[Task], found: dict[str, Any]) -> Iterator[str]:
    """List the tasks whose results differ from Paddle's: other texts, or means off by over 1e-3."""
    for task in tasks:
        ways = found[task.name]
        theirs = next((r for r in ways.get(PADDLE, ()) if not isinstance(r, str)), None)
        compared = theirs is not None and task.kind not in ("training", "script")
        for way, rounds in ways.items():
            for each in rounds if theirs is not None and compared and way != PADDLE else ():
                if isinstance(each, str):
                    continue
                pairs = list(zip(each["results"], theirs["results"], strict=False))
                other = sum(not alike(*pair) for pair in pairs)
                if other:
                    yield f"{task.name}, {way}: {other} of {len(pairs)} results are not Paddle's"


def alike(one: Any, other: Any) -> bool:
    """True for equal texts, and for numbers that are close."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-3 * max(1.0, abs(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other


def main() -> None:
    """Measure every task, and print the report."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--quick", action="store_true", help="few items of each kind, one round")
    options.add_argument("--paddle", default=os.environ.get("GRAPHOPT_BENCH_PADDLE262", ""))
    options.add_argument("--fluid", default=os.environ.get("GRAPHOPT_BENCH_PADDLE185", ""))
    options.add_argument("--packages", default="", help="a folder with rapidocr_paddle")
    options.add_argument("--jieba", default="", help="a folder with jieba")
    options.add_argument("--models", type=Path, action="append", default=[])
    options.add_argument("--trainings", action="store_true", help="trainings in place of models")
    options.add_argument("--timeline", action="store_true", help="stages of trainings")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--fillings", type=int, default=1, help="processes before a full cache")
    options.add_argument("--items", type=int, default=100, help="pictures, sentences, new sizes")
    options.add_argument("--steps", type=int, default=20, help="of a training")
    options.add_argument("--one-core", action="store_true", help="share one core, which is busy")
    options.add_argument("--only", default="", help="tasks with this in their name")
    arguments = options.parse_args()
    if arguments.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        busy = [sys.executable, "-c", NEIGHBOUR, str(os.getpid())]
        atexit.register(subprocess.Popen(busy).kill)
    if arguments.quick:
        arguments.rounds, arguments.items = 1, min(arguments.items, 4)
    folders = arguments.models or [MODELS]
    tasks = [*model_tasks(folders, arguments.items, 6 if arguments.quick else 0)]
    if arguments.trainings or arguments.timeline:
        tasks = [*training_tasks(min(arguments.items, arguments.steps))]
    elif arguments.packages:
        tasks.append(Task("rapidocr", "pictures", arguments.items))
    if arguments.jieba and not arguments.trainings:
        tasks.append(Task("jieba", "sentences", arguments.items))
    tasks = [task for task in tasks if arguments.only in task.name]
    if arguments.timeline:
        seeded = [task for task in tasks if task.name.endswith(", seed")]
        print("\n".join(timeline(seeded)))
        return
    found: dict[str, Any] = {}
    for task in tasks:
        found[task.name] = measure(task, arguments)
        print(f"measured {task.name}", file=sys.stderr, flush=True)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    cores = "one busy core" if arguments.one_core else f"{os.cpu_count()} cores"
    print(f"{cores}, load {load:.1f}, {arguments.rounds} rounds. Seconds by the")
    print(
        "clock, in brackets of the CPU; a factor where the goal in Paddle's CPU time is missed.\n"
    )
    print("\n".join(report(tasks, found)))


if __name__ == "__main__":
    main()
