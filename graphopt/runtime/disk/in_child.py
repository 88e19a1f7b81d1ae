"""A compilation in a process of its own, which may outlive the one that needs it.

XLA cannot stop a compilation, and aborts a process that leaves while it compiles. The child is
given a lowered program, and writes its executable on disk, where the parent and later processes
find it. It has a group of its own, as a Ctrl-C is not for it, but stays in the session of its
parent: Linux shares out its time by sessions first, and only within one by priority.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from graphopt.runtime.disk.entries import write_entry

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

CODE = b"the code" * (1 << 13)
"""The bytes of a record in place of code: so many that pickle has them outside of frames."""
_START = "from graphopt.runtime.disk.in_child import main; main()"


class Job(NamedTuple):
    """A lowered program for one device of a client with so many, with options of XLA as it takes
    them, and the entry to write: a pickled record of an executable, with CODE in it.
    """

    module: bytes
    options: bytes
    device: int
    devices: int
    record: bytes
    file: str
    most_bytes: int


def has_children() -> bool:
    """True where a process can compile for this one: on POSIX, where Python is no part of a program
    that would start once more.
    """
    name = Path(sys.executable or "").name
    return fcntl is not None and name.startswith("python") and not hasattr(sys, "frozen")


def start(job: Job, nicer: int) -> subprocess.Popen[bytes]:
    """A process that compiles; it ends with 0 when the entry is there. OSError as starting one.

    Its priority is so many steps of `nice` below that of this process. It cannot be raised later.
    """
    path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _START, str(nicer)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path},
        process_group=0,
    )
    assert process.stdin is not None
    # one that has ended says so by its exit code
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(pickle.dumps(tuple(job)))
    return process


def main() -> None:
    """Compile the job on standard input, unless another process has written its entry by then."""
    os.nice(int(sys.argv[1]))
    job = Job(*pickle.load(sys.stdin.buffer))
    file = Path(job.file)
    with _lock_file(file):
        if not file.exists():
            payload = _with_code(job.record, _compile_job(job))
            sys.exit(0 if write_entry(file, payload, job.most_bytes) else 1)


def _compile_job(job: Job) -> bytes:
    # not JAX, whose import takes several times as long
    from jaxlib import xla_client

    client = xla_client.make_cpu_client(num_devices=job.devices)
    options = xla_client.CompileOptions.ParseFromString(job.options)
    devices = [device for device in client.devices() if device.id == job.device]
    made = client.compile_and_load(job.module, xla_client.DeviceList(tuple(devices)), options)
    return client.serialize_executable(made)


def _with_code(record: bytes, code: bytes) -> bytes:
    """A record with code in its place, as bytes with a length of 64 bits."""
    before, after = record.split(pickle.BINBYTES + struct.pack("<I", len(CODE)) + CODE)
    return before + pickle.BINBYTES8 + struct.pack("<Q", len(code)) + code + after


@contextmanager
def _lock_file(file: Path) -> Iterator[None]:
    """Alone among the processes that would write an entry."""
    assert fcntl is not None
    lock = file.with_name(f".{file.name}.lock")
    file.parent.mkdir(0o700, exist_ok=True)
    with lock.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
