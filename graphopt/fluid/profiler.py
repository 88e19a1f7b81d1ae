"""Times of runs, printed as a table (paddle.fluid.profiler).

XLA compiles a program as one piece, so a row of the table is not an operator but a program, by its
number `Program.serial`. A row has the wall times of `Executor.run`; its longest one usually has the
compilation in it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any, NoReturn

from graphopt.errors import UnsupportedError
from graphopt.frontend.calls import publish
from graphopt.runtime.settings.run_times import RunTimes, keep, kept_times

Times = Sequence[float]
_STATES = ("CPU", "GPU", "All")
_TRACERS = ("Default", "OpDetail", "AllOpDetail")
# sorted_key -> its description in the report, and the sort key
_KEYS: dict[str, tuple[str, Callable[[Times], float] | None]] = {
    "default": ("event first end time", None),
    "calls": ("number of calls", len),
    "total": ("total time", sum),
    "max": ("maximum time", max),
    "min": ("minimum time", min),
    "ave": ("average time", lambda times: sum(times) / len(times)),
}
_COLUMNS = ("Calls", "Total", "Min.", "Max.", "Ave.", "Ratio.")
_WIDTH = 12
_PATH = str(Path(gettempdir()) / "profile")
_state = "CPU"


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Begin to record times, unless recording already (fluid.profiler.start_profiler).

    `state` is shown in the report; `tracer_option` has no effect. Raises ValueError for unknown
    values.
    """
    global _state
    if kept_times() is not None:
        return
    if state not in _STATES:
        raise ValueError("The state must be 'CPU' or 'GPU' or 'All'.")
    if tracer_option not in _TRACERS:
        raise ValueError("tracer option must be 'Default', 'OpDetail', 'AllOpDetail'.")
    _state = state
    keep(RunTimes())


def stop_profiler(sorted_key: str | None = None, profile_path: str = _PATH) -> None:
    """Print the times since `start_profiler`, and write the table to a file as text.

    Rows are sorted by their 'calls', 'total', 'max', 'min' or 'ave', the largest first. Paddle
    page: fluid.profiler.stop_profiler.
    """
    times = kept_times()
    if times is None:
        return
    key = sorted_key or "default"
    if key not in _KEYS:
        raise ValueError(
            "The sorted_key must be None or in 'calls', 'total', 'max', 'min' and 'ave'"
        )
    keep(None)
    text = _report(times, key)
    print(text, flush=True)
    Path(profile_path).write_text(text, "utf-8")


def reset_profiler() -> None:
    """Forget the times so far (fluid.profiler.reset_profiler)."""
    if kept_times() is not None:
        keep(RunTimes())


@contextmanager
def profiler(
    state: str,
    sorted_key: str | None = None,
    profile_path: str = _PATH,
    tracer_option: str = "Default",
) -> Generator[None]:
    """Call `start_profiler` before a `with` block and `stop_profiler` after it (fluid.profiler)."""
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


def cuda_profiler(output_file: str, output_mode: str | None = None, config: Any = None) -> NoReturn:
    """Raise UnsupportedError: it steers nvprof (fluid.profiler.cuda_profiler)."""
    if output_mode not in (None, "kvp", "csv"):
        raise ValueError("The output mode must be 'kvp' or 'csv'.")
    raise UnsupportedError(
        "fluid.profiler.cuda_profiler is not supported: it steers nvprof. Instead: jax.profiler"
    )


def _report(times: RunTimes, key: str) -> str:
    words, number = _KEYS[key]
    rows = [(f"thread{e.thread}::program_{e.program}", own) for e, own in times.seconds.items()]
    if number is not None:
        rows.sort(key=lambda row: number(row[1]), reverse=True)
    total = sum(sum(own) for _, own in rows)
    width = max([len(name) for name, _ in rows], default=0) + 8
    lines = [
        "",
        "------------------------->     Profiling Report     <-------------------------",
        "",
        f"Place: {_state}",
        "Time unit: ms",
        f"Sorted by {words} in descending order in the same thread",
        "",
        f"Total time: {1000 * total:g}",
        "",
        "-------------------------       Event Summary       -------------------------",
        "",
        "Event".ljust(width) + "".join(name.ljust(_WIDTH) for name in _COLUMNS),
    ]
    for name, own in rows:
        spent = [1000 * t for t in (sum(own), min(own), max(own), sum(own) / len(own))]
        cells = [len(own), *spent, sum(own) / total]
        lines.append(name.ljust(width) + "".join(f"{cell:g}".ljust(_WIDTH) for cell in cells))
    return "\n".join(lines) + "\n"


publish(globals(), __name__)
