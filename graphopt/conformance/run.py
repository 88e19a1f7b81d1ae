"""Running many cases, in several processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from graphopt.conformance.cases import Corpus
from graphopt.conformance.check import CaseOutcome, check

# Cases that a process gets at once: enough to share what it compiled.
_BATCH = 40


def run(folder: Path, chosen: Sequence[int], jobs: int) -> Iterator[CaseOutcome]:
    """The outcomes of the cases with these numbers, in order."""
    batches = [chosen[at : at + _BATCH] for at in range(0, len(chosen), _BATCH)]
    if jobs == 1 or len(batches) < 2:
        for batch in batches:
            yield from _check_batch(folder, batch)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:  # a forked JAX may hang
        for outcomes in pool.map(_check_batch, [folder] * len(batches), batches):
            yield from outcomes


@cache
def _corpus(folder: Path) -> Corpus:
    return Corpus(folder)


def _check_batch(folder: Path, batch: Sequence[int]) -> list[CaseOutcome]:
    corpus = _corpus(folder)
    return [check(corpus, corpus.cases[index]) for index in batch]
