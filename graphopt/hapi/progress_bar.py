"""The line of a progress bar: steps done, values and time, as `paddle.Model` prints them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any

import numpy as np

Values = Sequence[tuple[str, Any]]
BAR, LINE = 1, 2
WIDTH = 30


class ProgressBar:
    """Prints the state of `steps` steps: over and over in one place (BAR), or as lines (LINE)."""

    def __init__(self, steps: int | None, verbose: int) -> None:
        if steps is not None and steps <= 0:
            raise TypeError("num should be None or integer (> 0)")
        columns = get_terminal_size().columns
        self._width = min(WIDTH, int(columns * 0.6), columns - 50)
        self._steps, self._verbose = steps, verbose
        self._start = time.time()
        self._printed = 0

    def update(self, done: int, values: Values = ()) -> None:
        """Print that `done` steps are complete."""
        seconds = (time.time() - self._start) / done if done else 0.0
        text = "".join(
            f" - {name}:{''.join(map(_number, value if isinstance(value, list) else [value]))}"
            for name, value in values
        )
        if self._verbose == BAR:
            self._over(done, text, seconds)
        elif self._verbose > BAR:
            count = f"step {self._count_text(done)}" if self._steps else f"step {done:3d}"
            sys.stdout.write(f"{count}{text} - {_time(seconds)}/step\n")
        sys.stdout.flush()

    def _count_text(self, done: int) -> str:
        """Format the number of steps, padded to the width of the last one."""
        return f"{done:{len(str(self._steps))}d}/{self._steps}"

    def _over(self, done: int, text: str, seconds: float) -> None:
        """Overwrite the printed line."""
        line = f"step {done:3d}"
        left = 0 if self._steps is None else self._steps - done
        if self._steps is not None:
            full = int(self._width * (done / self._steps))
            tip = ">" if left > 0 else "="
            bar = "=" * (full - 1) + tip if full > 0 else ""
            line = f"step {self._count_text(done)} [{bar}{'.' * (self._width - full)}]"
        line += text + (f" - ETA: {_clock(seconds * left)}" if left > 0 else "")
        line += f" - {_time(seconds)}/step"
        end = "" if left > 0 else "\n"
        sys.stdout.write("\b" * self._printed + "\r" + line.ljust(self._printed) + end)
        self._printed = len(line)


def _number(value: Any) -> str:
    """Format a value with a space before it; a floating-point number has four decimals."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, (float, np.floating)):
        return f" {value:.4f}" if abs(value) > 1e-3 else f" {value:.4e}"
    return f" {value}"


def _time(seconds: float) -> str:
    if seconds >= 1 or seconds == 0:
        return f"{seconds:.0f}s"
    return f"{seconds * 1e3:.0f}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f}us"


def _clock(seconds: float) -> str:
    """Format a remaining time: `5s`, `2:05`, `1:02:05`."""
    if seconds > 3600:
        return f"{seconds // 3600:.0f}:{seconds % 3600 // 60:02.0f}:{int(seconds % 60):02d}"
    if seconds > 60:
        return f"{seconds // 60:.0f}:{int(seconds % 60):02d}"
    return f"{int(seconds)}s"
