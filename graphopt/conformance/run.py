"""Running many cases, in several processes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from graphopt.conformance.cases import Corpus
from graphopt.conformance.check import CaseOutcome, check
from graphopt.device import get_device, set_device

# The cases of a batch for a process: enough to share compiled code.
_BATCH = 40
# With a time limit, a batch is smaller, and every _APART-th one runs first.
_SMALL_BATCH, _APART = 10, 32


def run(
    folder: Path,
    chosen: Sequence[int],
    jobs: int,
    *,
    device: str = "cpu",
    seconds: float = math.inf,
) -> Iterator[CaseOutcome]:
    """Run the cases with these numbers on a device and yield their outcomes in order.

    No batch begins after `seconds`. With such a limit, early batches come from all parts of the
    folder.
    """
    end, has_end = time.monotonic() + seconds, seconds < math.inf
    size, step = (_SMALL_BATCH, _APART) if has_end else (_BATCH, 1)
    batches = [chosen[at : at + size] for at in range(0, len(chosen), size)]
    batches = [batch for first in range(step) for batch in batches[first::step]]
    if jobs == 1 or len(batches) < 2:
        for batch in batches:
            if time.monotonic() < end:
                yield from _check_batch(folder, batch, device)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:  # a forked JAX may hang
        under_way: list[Future[list[CaseOutcome]]] = []
        for batch in batches:
            if len(under_way) >= 2 * jobs:
                yield from under_way.pop(0).result()
            if time.monotonic() < end:
                under_way.append(pool.submit(_check_batch, folder, batch, device))
        for future in under_way:
            if time.monotonic() < end or not future.cancel():
                yield from future.result()


@cache
def _corpus(folder: Path) -> Corpus:
    return Corpus(folder)


def _check_batch(folder: Path, batch: Sequence[int], device: str) -> list[CaseOutcome]:
    if get_device() != device:
        set_device(device)
    corpus = _corpus(folder)
    return [check(corpus, corpus.cases[index]) for index in batch]
