"""The full form of a step, compiled from the program on by a separate process.

Passes, tracing and lowering hold the GIL, which steps in NumPy need, too. XLA cannot stop a
compilation, and aborts a process that exits while it compiles. The child gets the program, and
leaves its results in the cache on disk, as any process does. It has a process group of its own, as
a Ctrl-C is not meant for it, but stays in the session of its parent: Linux divides its time by
sessions first, and only within a session by priority.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from graphopt.errors import GraphoptError
from graphopt.lowering.plan import Plan, Replicated
from graphopt.passes.table.parts import CompilationPart
from graphopt.runtime.compile.background import wait_for
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.directory import most_bytes
from graphopt.runtime.disk.seen import note_compiled
from graphopt.runtime.disk.summaries import compiled_or_known, key_on_disk
from graphopt.runtime.settings.flags import FULL, flags_set, set_flags
from graphopt.runtime.settings.jax_import import import_jax

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

FedTypes = Sequence[tuple[str, tuple[int, ...], str]]
"""The names, shapes and dtypes of feeds."""
_START = "from graphopt.runtime.steps.in_child import main; main()"
_OTHER_SETTINGS = 3
"""The exit code of a child whose JAX settings differ from the parent's."""
_is_other: list[bool] = []


class Job(NamedTuple):
    """A program to compile for feeds of these types, `sizes` in words, and its key on disk.

    `note` is the note file of its sizes. `flags` are those that the parent has set. `jax_settings`
    are JAX's settings that decide the names of executables; None where the parent has not imported
    JAX.
    """

    compilation: Compilation
    fed: FedTypes
    sizes: str
    key: str
    note: Path | None
    flags: Mapping[str, Any]
    jax_settings: Any

    @classmethod
    def of(cls, compiled: Compiled, fed: FedTypes, sizes: str, note: Path | None) -> Job | None:
        """Build the job of a program; None if it has no key by which to find it."""
        compilation = compilation_for(compiled, fed)
        key = key_on_disk(compilation)
        if key is None:
            return None
        # a runner has a proxy of its program, which a pickle would read as another program
        program = compilation.program.global_block().program
        compilation = replace(compilation, program=program)
        return cls(compilation, fed, sizes, key, note, flags_set(), _jax_settings())


def compilation_for(compiled: Compiled, fed: FedTypes) -> Compilation:
    """Specialize a compilation to feeds of these types, where passes choose by sizes."""
    compilation = compiled.compilation
    return compilation.for_types(fed) or compilation if compiled.wants_sizes else compilation


def has_children() -> bool:
    """Return whether a child process can compile for this one.

    That requires POSIX, and a plain Python interpreter: an application that embeds Python would
    start itself again.
    """
    name = Path(sys.executable or "").name
    is_python = name.startswith("python") and not hasattr(sys, "frozen")
    return fcntl is not None and is_python and not _is_other


def compile_in_child(job: Job, nicer: int) -> list[CompilationPart]:
    """Have a child compile, and wait; return the times of its parts, [] if it did nothing.

    Its priority is `nicer` steps of `nice` below this process's, and cannot be raised later. This
    process may end meanwhile, and the child goes on. Raise RuntimeError when a signal ends the
    child, for XLA would end this process, too.
    """
    path = os.pathsep.join(filter(None, sys.path))
    given = {"PYTHONPATH": path, "JAX_COMPILATION_CACHE_MAX_SIZE": str(most_bytes())}
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(nicer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | given,
            process_group=0,
        )
        said, _ = wait_for(lambda: process.communicate(pickle.dumps(job)))
    except (OSError, pickle.PicklingError, TypeError):
        return []
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise RuntimeError(f"the compiling process was ended by signal {name}")
    if process.returncode == _OTHER_SETTINGS:
        _is_other.append(True)
    with suppress(ValueError, TypeError, IndexError):
        return [CompilationPart(**each) for each in json.loads(said.splitlines()[-1])]
    return []


def main() -> None:
    """Compile the job on standard input, unless another process writes its entry first."""
    os.nice(int(sys.argv[1]))
    job: Job = pickle.load(sys.stdin.buffer)
    set_flags(dict(job.flags))
    import_jax()
    if job.jax_settings not in (None, _jax_settings()):
        sys.exit(_OTHER_SETTINGS)
    try:
        parts = _compile(job)
    except GraphoptError:  # the parent raises the error
        sys.exit(1)
    print(json.dumps([asdict(part) for part in parts]))


def _compile(job: Job) -> list[CompilationPart]:
    """Compile the full form and keep it; return the times of the parts."""
    from graphopt.runtime.steps.xla_forms import XlaForms

    compiled = compiled_or_known(job.compilation)
    plan = compiled.plan
    if compiled.key != job.key or [port.name for port in plan.feeds] != [n for n, *_ in job.fed]:
        return []
    replicated = compiled.map_replicas(1, even=True)
    arguments = types_of_plan(plan, replicated, job.fed)
    forms = XlaForms(compiled, replicated, arguments, job.sizes)
    if (known := forms.known) is None:
        return []
    with _alone(known.folder / f".{known.name}.lock"):
        if forms.load(FULL) is not None:
            return []
        forms.make(FULL, keeps=True)
    if forms.is_kept:
        note_compiled(job.note)
    return compiled.parts


def types_of_plan(plan: Plan, replicated: Replicated, fed: FedTypes) -> Any:
    """Build the argument types of a step whose sizes are known, for feeds of these types."""
    import jax

    updated = tuple(map(replicated.type_of, plan.updated))
    state = tuple(map(replicated.type_of, (*plan.read_only, *plan.prepared)))
    feeds = tuple([jax.ShapeDtypeStruct(shape, dtype) for _, shape, dtype in fed])
    return updated, state, feeds, jax.ShapeDtypeStruct((2,), "uint32")


def _jax_settings() -> Any:
    if "jax" not in sys.modules:
        return None
    from graphopt.runtime.disk.known import settings

    return settings()


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Lock an entry against other processes that would write it."""
    assert fcntl is not None
    lock.parent.mkdir(0o700, exist_ok=True)
    with lock.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
