"""Readers in processes of their own."""

from __future__ import annotations

import multiprocessing
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

_SAMPLE, _FAILED, _END = "sample", "failed", "end"


def _read(reader: Callable[[], Iterable[Any]], pipe: Connection) -> None:
    """Send every sample of a reader, then its end; runs in the other process."""
    try:
        for sample in reader():
            if sample is None:
                raise ValueError("sample has None")
            pipe.send((_SAMPLE, sample))
        pipe.send((_END, None))
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    except Exception:
        pipe.send((_FAILED, traceback.format_exc()))


def start(target: Callable[..., None], *args: Any) -> BaseProcess:
    """Start a daemon process that runs `target` with this process's memory.

    The process is a fork, as in Paddle: readers and datasets are often local functions, which no
    other start method can pass on. JAX warns about forks, because a child that calls JAX may hang;
    these children only read.
    """
    process = multiprocessing.get_context("fork").Process(target=target, args=args, daemon=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork", RuntimeWarning)
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
        process.start()
    return process


def read_in_processes(readers: Sequence[Callable[[], Iterable[Any]]]) -> Iterator[Any]:
    """Yield the samples of all readers as they come; RuntimeError if one fails or is killed."""
    pipes = dict[Any, BaseProcess]()
    try:
        for reader in readers:
            ours, theirs = multiprocessing.Pipe(duplex=False)
            pipes[ours] = start(_read, reader, theirs)
            theirs.close()
        while pipes:
            for pipe in wait(list(pipes)):
                kind, value = _receive_message(pipe, pipes[pipe])
                if kind == _SAMPLE:
                    yield value
                elif kind == _END:
                    pipes.pop(pipe).join()
                else:
                    raise RuntimeError(f"multiprocess_reader: a reader failed:\n{value}")
    finally:
        for process in pipes.values():
            process.terminate()


def _receive_message(pipe: Any, process: BaseProcess) -> tuple[str, Any]:
    """Receive the next message of a process; a failure message if it ended without one."""
    try:
        return pipe.recv()
    except EOFError:
        process.join()
        return _FAILED, f"its process ended with code {process.exitcode}"
