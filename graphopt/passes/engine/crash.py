"""A crash inside a pass: the program before that pass is written to a file that replays it.

The file is `graphopt-crash-<pass>-<hash>.mlir` in the folder that GRAPHOPT_CRASH_DIR names, else in
the system's temporary folder. The same crash gives the same file, and a folder gets at most `MOST`
of them, so that a loop that fails fills no disk. It holds the program, its constants and the
source lines of its ops, and neither parameters nor data. A program whose text is longer than
`LONGEST` is not written. With GRAPHOPT_CRASH_DIR set to nothing, no file is.

Nothing is copied while all goes well: after a crash the program is built again, and the passes
before the one that failed run again.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import xdsl
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from graphopt.errors import (
    LockError,
    PassError,
    StrategyError,
    StrictError,
    UnsupportedError,
    comes_again,
)
from graphopt.passes.engine import bisect, replay_file
from graphopt.passes.engine.replay_file import ReplayFile

VARIABLE = "GRAPHOPT_CRASH_DIR"
LONGEST = 16 << 20
MOST = 100
# errors that passes raise on purpose, about the program and not about a pass
ON_PURPOSE = (UnsupportedError, StrategyError, StrictError, LockError, OSError, MemoryError)
Apply = Callable[[ModuleOp, Sequence["PassStep"]], object]


@dataclass(frozen=True)
class PassStep:
    """Passes that run together: the fusions of one sweep, or one pass of another kind."""

    passes: tuple[ModulePass, ...]
    ctx: Context | None = None
    together: bool = False
    flags: tuple[str, ...] = ()
    """The flag of each pass; empty for a clean-up, which is not in the table."""
    dump: str = ""
    """Paddle's name of the stage of the program after the step; empty if the stage is not kept."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The passes as `-p` takes them."""
        return tuple(str(made) for made in self.passes)

    @property
    def names(self) -> str:
        """The passes without their parameters."""
        return ", ".join(made.name for made in self.passes)


@dataclass(frozen=True)
class Crash:
    """Facts about a pass that failed: the steps so far, the failing one last."""

    steps: tuple[PassStep, ...]
    error: Exception
    again: Callable[[], ModuleOp] | None
    """Rebuilds the program as it was before the first step."""
    apply: Apply
    """Runs steps on a module, with the checks of the failed run."""
    verify_each: bool
    limit: int
    """The limit of rewrites at the start; negative for no limit."""

    def is_own(self) -> bool:
        """Return whether the steps raise the error again; otherwise it came from outside."""
        if self.again is None:
            return True
        with bisect.limit_rewrites(self.limit):
            return comes_again(partial(self.apply, self.again(), self.steps), self.error)

    def report(self) -> PassError:
        """Write the replay file; build the PassError with the failed step and the file's path."""

        def store() -> tuple[PassStep, str]:
            if self.again is None:
                return self.steps[-1], ""
            before, step, left = self._narrow(self.again)
            return step, self._store(before, step, left)

        try:
            step, note = store()
        except Exception as error:  # the failure of the pass matters more
            if not comes_again(store, error):
                raise
            step = self.steps[-1]
            note = f"\n(no file was written: {type(error).__name__}: {error})"
        if isinstance(self.error, PassError):
            return PassError(f"{self.error}{note}")
        said = f"{type(self.error).__name__}: {self.error}{_place(self.error)}"
        return PassError(f"{step.names} failed, which is a bug there: {said}{note}")

    def _narrow(self, again: Callable[[], ModuleOp]) -> tuple[ModuleOp, PassStep, int]:
        """Rebuild the program before the last step, and narrow that step to one pass that fails.

        Return the program, the step, and the number of rewrites that may still happen.
        """
        before, step = again(), self.steps[-1]
        with bisect.limit_rewrites(self.limit) as limit:
            self.apply(before, self.steps[:-1])
            left = limit.left
        for made in step.passes if len(step.passes) > 1 else ():
            alone = replace(step, passes=(made,))
            if self._fails(before.clone(), alone, left):
                return before, alone, left
        return before, step, left

    def _store(self, before: ModuleOp, step: PassStep, left: int) -> str:
        folder = os.environ.get(VARIABLE)
        if folder == "":
            return f"\n(no file was written: {VARIABLE} is empty)"
        invalid = isinstance(self.error, PassError)
        what = "leaves invalid IR" if invalid else f"raises {type(self.error).__name__}"
        shown = "".join(traceback.format_exception(self.error))
        replay = ReplayFile(
            what=f"{step.names} {what}",
            kind="pass",
            module=before,
            steps=(step.texts,),
            limit=left,
            verify_each=self.verify_each,
            versions=versions(),
            imports=_files_of(step.passes),
            notes=f"The IR only: no parameters, no data.\n\n{shown}",
        )
        path = store(replay, Path(folder or tempfile.gettempdir()), step.names)
        return f"\nthe program before it is in {path}; replay it: {replay.command(path)}"

    def _fails(self, module: ModuleOp, step: PassStep, left: int) -> bool:
        with bisect.limit_rewrites(left):
            return comes_again(lambda: self.apply(module, [step]), self.error)


def _is_own(file: str | None) -> bool:
    """True for a file of graphopt or xDSL."""
    folders = (Path(__file__).parents[2], Path(xdsl.__file__).parent)
    return file is None or any(Path(file).is_relative_to(folder) for folder in folders)


def _place(error: Exception) -> str:
    """Format the last frame of an error outside graphopt and xDSL; "" if there is none."""
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if not _is_own(each.filename)
    ]
    return f" [at {frames[-1].filename}:{frames[-1].lineno}]" if frames else ""


def _files_of(passes: Sequence[ModulePass]) -> tuple[str, ...]:
    """List the files that `--import` needs for third-party passes, but no script that ran."""
    modules = [sys.modules.get(type(made).__module__) for made in passes]
    files = [each.__file__ for each in modules if each is not None and each.__name__ != "__main__"]
    return tuple(dict.fromkeys(str(file) for file in files if not _is_own(file)))


def store(replay: ReplayFile, folder: Path, name: str) -> Path:
    """Write a replay file named by its hash, readable by the user only; keep an equal one."""
    same = replay_file.write(replace(replay, notes=""))  # tracebacks hold addresses
    if len(same) > LONGEST:
        raise ValueError(f"it would take {len(same)} bytes, more than {LONGEST}")
    digest = hashlib.sha256(same.encode()).hexdigest()[:12]
    stem = re.sub(r"[^\w-]+", "-", name)[:40].strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"graphopt-crash-{stem}-{digest}.mlir"
    if len(list(folder.glob("graphopt-crash-*.mlir"))) >= MOST and not path.exists():
        raise ValueError(f"{folder} holds {MOST} such files already; remove them")
    text = replay_file.write(replay, path)
    try:
        # O_EXCL follows no link that another user has put there
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except BaseException:  # a later crash would take a partial file for a complete one
        path.unlink()
        raise
    return path


def versions() -> str:
    """Format the versions of graphopt, xDSL, JAX and NumPy."""
    found: list[str] = []
    for package in ("graphopt", "xdsl", "jax", "numpy"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
