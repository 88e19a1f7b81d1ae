"""The forms of oneDNN's kernels that this machine may use, tried in a child process first.

A form is tried once for a machine and a version of jaxlib; the verdict is kept beside the compiled
programs. A child process tries it, in the background, because a configuration that oneDNN does not
know ends the process. Until there is a verdict, XLA computes. Without a directory, the verdict is
for this process only.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from graphopt.errors import FormatError
from graphopt.ir.formats.commit import write_files
from graphopt.lowering.kernels.onednn_here import why_not_half, why_not_here
from graphopt.passes.target.choose_kernel import FORMS, HALF
from graphopt.runtime.compile.background import submit
from graphopt.runtime.compile.kernel_trial import BEGINS, ENDS
from graphopt.runtime.devices.cache_place import is_private, machine_directory
from graphopt.runtime.settings.flags import must_repeat
from graphopt.runtime.state.aside import call_aside

SECONDS = 120.0
"""The limit of a trial in seconds; a trial that takes longer is killed, and its form refused."""
FOLDER = "kernels"
COMMAND = (sys.executable, "-m", "graphopt.runtime.compile.kernel_trial")

Verdicts = Mapping[str, str]
"""The reason to refuse each form that was tried; "" for a form that works."""


class Kernels(NamedTuple):
    """The forms to use, and the reason why other forms are missing."""

    forms: tuple[str, ...] = ()
    why: str = ""


def kernels(*, now: bool = False) -> Kernels:
    """Return the usable forms, and start their trial in the background if none has run.

    With `now`, run the trial here and wait for it, unless it has begun: for the background thread
    only.
    """
    if reason := why_not_here():
        return Kernels(why=reason)
    if must_repeat():
        return Kernels(why="a flag requests the same bits in every run")
    verdicts = read_verdicts()
    if verdicts is None and now:
        _trial().finish()
        verdicts = read_verdicts()
    if verdicts is None:
        _trial().start()
        return Kernels(
            why="it is being tried in the background; programs compiled later may use it"
        )
    refused = [f"{form}: {reason}" for form, reason in verdicts.items() if reason]
    return Kernels(tuple(form for form in FORMS if verdicts.get(form) == ""), "; ".join(refused))


# -- verdicts --------------------------------------------------------------------------------------

_own: dict[str, Verdicts] = {}


def read_verdicts() -> Verdicts | None:
    """Read the verdicts for this machine and version; None before the first trial ends."""
    name = _name()
    if name not in _own and (directory := machine_directory()) is not None:
        found = call_aside(lambda: _read_file(directory / FOLDER / name))
        if found is not None:
            _own[name] = found
    return _own.get(name)


def _read_file(file: Path) -> Verdicts | None:
    try:
        found: Any = json.loads(file.read_text("utf-8")) if is_private(file.parent) else None
    except (OSError, ValueError):
        return None
    is_whole = isinstance(found, dict) and set(found) == set(FORMS)
    return {form: str(found[form]) for form in FORMS} if is_whole else None


def write_verdicts(verdicts: Verdicts) -> None:
    """Keep verdicts for this process and, where there is a directory, for others."""
    name = _name()
    _own[name] = dict(verdicts)
    directory = machine_directory()
    if directory is None:
        return
    text = json.dumps(dict(verdicts), indent=2).encode()
    with suppress(OSError, FormatError):
        folder = directory / FOLDER
        folder.mkdir(0o700, exist_ok=True)
        write_files({folder / name: [text]}, lasting=False)


@functools.cache
def _name() -> str:
    """Name the verdict file by jaxlib's version and a hash of the trials and kernels."""
    found = hashlib.sha256(version("jaxlib").encode())
    root = Path(__file__).parents[2]
    files = ("kernels/onednn.py", "kernels/onednn_blocks.py")
    for file in ("runtime/compile/kernel_trial.py", *(f"lowering/{name}" for name in files)):
        found.update((root / file).read_bytes())
    return f"onednn-{version('jaxlib')}-{found.hexdigest()[:12]}.json"


# -- trials ----------------------------------------------------------------------------------------


class KernelTrial:
    """A background trial of all forms; a process that ends does not wait for it."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._started = self._stopped = False

    def start(self) -> None:
        """Submit the trial to the background thread, once."""
        with self._lock:
            if self._started:
                return
            self._started = True
        submit(self)
        # Exit handlers run in reverse order: this one runs before the thread's, which waits for the
        # child.
        atexit.register(self.stop)

    def finish(self) -> None:
        """Run the trial on this thread, unless it has begun."""
        with self._lock:
            if self._started:
                return
            self._started = True
        atexit.register(self.stop)
        self.work()

    def stop(self) -> None:
        """Kill the child process, and keep no verdicts."""
        with self._lock:
            self._stopped = True
            if self._child is not None:
                self._child.kill()

    def work(self) -> None:
        """Try the forms, and keep the verdicts."""
        with suppress(OSError):
            verdicts = self.verdicts()
            if verdicts is not None:
                write_verdicts(verdicts)

    def verdicts(self) -> Verdicts | None:
        """Collect a verdict on each form; return None when the trial was stopped."""
        found: dict[str, str] = {}
        if reason := why_not_half():
            found[HALF] = reason
        while left := [form for form in FORMS if form not in found]:
            said, code = self._wait_for_child(left)
            if self._stopped:
                return None
            found |= _read(said)
            # A child that does not reach the next form is not started for this form again.
            begun = _form_begun(said) or left[0]
            found.setdefault(begun, _how(code))
        return found

    def _wait_for_child(self, forms: Sequence[str]) -> tuple[str, int]:
        """Run a child that tries `forms`, and return its output and exit code."""
        with self._lock:
            if self._stopped:
                return "", 0
            self._child = subprocess.Popen(
                [*COMMAND, *forms],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=_environment(),
            )
        child = self._child
        try:
            said, _ = child.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            said, _ = child.communicate()
        return said, child.returncode


def _environment() -> dict[str, str]:
    """Build a child's environment: on the CPU, with this package, without caches or trials."""
    said: dict[str, Any] = {
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "FLAGS_graphopt_kernels": "off",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, sys.path)]),
    }
    return {**os.environ, **said}


def _read(said: str) -> dict[str, str]:
    """Parse the verdicts in a child's output."""
    lines = [line.split(" ", 2) for line in said.splitlines()]
    return {line[1]: line[2].strip() for line in lines if len(line) == 3 and line[0] == ENDS}


def _form_begun(said: str) -> str:
    """Find the last form that a child began to try."""
    lines = [line.split(" ") for line in said.splitlines()]
    return next((line[1] for line in reversed(lines) if line[0] == BEGINS and line[1:]), "")


def _how(code: int) -> str:
    """Describe the exit code of a child that ended during a trial."""
    return f"its trial ended with signal {-code}" if code < 0 else f"its trial ended with {code}"


@functools.cache
def _trial() -> KernelTrial:
    return KernelTrial()
