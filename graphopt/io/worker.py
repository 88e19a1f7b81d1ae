"""Batches made by processes (the workers of paddle.io.DataLoader)."""

from __future__ import annotations

import random
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from graphopt.frontend.prefetch import Prefetch
from graphopt.io.collate import BatchRecipe
from graphopt.reader.processes import start

_BATCH, _FAILED, _END = "batch", "failed", "end"
_CLOSE = "close"


@dataclass(frozen=True)
class WorkerInfo:
    """The worker that runs: its number, how many there are, its dataset and the common seed."""

    id: int
    num_workers: int
    dataset: Any
    seed: int


_here: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return the worker that runs in this process; None elsewhere (paddle.io.get_worker_info).

    An IterableDataset selects its share of the samples by it.
    """
    return _here


def _work(
    pipe: Connection,
    others: list[Connection],
    recipe: BatchRecipe,
    info: WorkerInfo,
    init: Callable[[int], Any] | None,
) -> None:
    """Make a batch for every request; runs in the worker's process.

    A request is (epoch, indices). A thread receives the requests, so that the loader's process
    never waits to send one while this process sends a batch.
    """
    global _here
    _here = info
    for other in others:
        other.close()  # the pipe ends for this process when the loader's process exits
    random.seed(info.seed + info.id)
    np.random.seed(np.random.SeedSequence([info.seed, info.id]).generate_state(4))
    epoch, fetch = None, recipe.fetcher()
    try:
        if init is not None:
            init(info.id)
        for requested, indices in Prefetch(lambda: _requests(pipe), sys.maxsize):
            if requested != epoch:
                epoch, fetch = requested, recipe.fetcher()
            pipe.send(_answer(fetch, indices))
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    except Exception:
        pipe.send((_FAILED, traceback.format_exc()))


def _requests(pipe: Connection) -> Iterator[Any]:
    try:
        while (request := pipe.recv()) != _CLOSE:
            yield request
    except (EOFError, OSError):
        return


def _answer(fetch: Callable[[Any], Any], indices: Any) -> tuple[str, Any]:
    try:
        return _BATCH, fetch(indices)
    except StopIteration:
        return _END, None
    except Exception:
        return _FAILED, traceback.format_exc()


class Workers:
    """The processes of a DataLoader.

    Batches come in the order of the requests. `timeout` is in seconds, 0 for no limit; `init` is
    called with the number of the worker in each process.
    """

    def __init__(
        self,
        recipe: BatchRecipe,
        count: int,
        ahead: int,
        timeout: float,
        init: Callable[[int], Any] | None,
    ) -> None:
        self.ahead = ahead * count
        self.timeout = timeout or None
        self.epoch = 0
        seed = int(np.random.randint(low=0, high=sys.maxsize))
        self.pipes: list[Any] = []
        self.processes: list[BaseProcess] = []
        for number in range(count):
            ours, theirs = Pipe()
            self.pipes.append(ours)
            info = WorkerInfo(number, count, recipe.dataset, seed)
            made = start(_work, theirs, list(self.pipes), recipe, info, init)
            self.processes.append(made)
            theirs.close()

    def batches(self, indices: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches of an epoch; RuntimeError when a worker fails, dies or times out."""
        self.epoch += 1
        requests, alive = iter(indices), deque(range(len(self.pipes)))
        under_way = deque[int]()
        try:
            while True:
                while alive and len(under_way) < self.ahead:
                    request = next(requests, _CLOSE)
                    if request is _CLOSE:
                        break
                    worker = alive[0]
                    alive.rotate(-1)
                    self.pipes[worker].send((self.epoch, request))
                    under_way.append(worker)
                if not under_way:
                    return
                worker = under_way.popleft()
                kind, value = self._receive(worker)
                if kind == _BATCH:
                    yield value
                elif kind == _FAILED:
                    raise RuntimeError(f"DataLoader worker {worker} caught an error:\n{value}")
                elif worker in alive:
                    alive.remove(worker)
        finally:
            # drop batches that the caller did not take, which the next epoch must not get
            for worker in under_way:
                self._receive(worker)

    def _receive(self, worker: int) -> tuple[str, Any]:
        pipe, process = self.pipes[worker], self.processes[worker]
        try:
            if not wait([pipe, process.sentinel], self.timeout):
                return _FAILED, f"no batch within {self.timeout} s"
            return pipe.recv()
        except (EOFError, ConnectionResetError):
            process.join()
            return _FAILED, f"its process (pid {process.pid}) ended with code {process.exitcode}"

    def close(self) -> None:
        """End the processes."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            with suppress(OSError):
                pipe.send(_CLOSE)
            pipe.close()
            process.terminate()
            process.join()
        self.pipes, self.processes = [], []
