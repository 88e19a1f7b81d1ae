"""Readers made of readers (paddle.reader, paddle.batch; also fluid.io).

A reader is a function without arguments that returns an iterator of samples. Each function here
returns one, which can be called once for every epoch.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from graphopt.frontend.missing import explain
from graphopt.frontend.prefetch import Prefetch
from graphopt.reader.processes import read_in_processes

Reader = Callable[[], Iterable[Any]]


class ComposeNotAligned(ValueError):
    """One of the readers of `compose` ended before the others."""


def batch(reader: Reader, batch_size: int, drop_last: bool = False) -> Reader:
    """Group samples into lists of `batch_size`; the last one may be shorter (paddle.batch).

    With `drop_last` a shorter last list is left out. Raises ValueError for sizes below 1.
    """
    size = int(batch_size)
    if size <= 0:
        raise ValueError(
            f"batch_size should be a positive integer value, but got batch_size={size}"
        )

    def batches() -> Iterator[list[Any]]:
        samples = iter(reader())
        while group := list(itertools.islice(samples, size)):
            if len(group) == size or not drop_last:
                yield group

    return batches


def cache(reader: Reader) -> Reader:
    """Read everything at once and keep it in memory (paddle.reader.cache)."""
    samples = tuple(reader())
    return lambda: iter(samples)


def map_readers(func: Callable[..., Any], *readers: Reader) -> Reader:
    """Apply `func` to one sample of each reader (paddle.reader.map_readers)."""
    return lambda: map(func, *(reader() for reader in readers))


def shuffle(reader: Reader, buf_size: int) -> Reader:
    """Shuffle within runs of `buf_size` samples, by Python's `random` (paddle.reader.shuffle)."""

    def read_shuffled() -> Iterator[Any]:
        samples = iter(reader())
        while run := list(itertools.islice(samples, max(buf_size, 1))):
            random.shuffle(run)
            yield from run

    return read_shuffled


def chain(*readers: Reader) -> Reader:
    """Read one reader after the other (paddle.reader.chain)."""
    return lambda: itertools.chain(*[reader() for reader in readers])


def compose(*readers: Reader, check_alignment: bool = True) -> Reader:
    """Join one sample of each reader to one tuple (paddle.reader.compose).

    The samples of the returned reader raise ComposeNotAligned when a reader ends before the others;
    without `check_alignment` the samples after the end of the shortest reader are left out.
    """

    def read_composed() -> Iterator[tuple[Any, ...]]:
        sources = [reader() for reader in readers]
        rows = itertools.zip_longest(*sources) if check_alignment else zip(*sources, strict=False)
        for row in rows:
            if check_alignment and any(item is None for item in row):
                raise ComposeNotAligned("outputs of readers are not aligned.")
            yield tuple(
                value for item in row for value in (item if isinstance(item, tuple) else (item,))
            )

    return read_composed


def buffered(reader: Reader, size: int) -> Reader:
    """Read up to `size` samples ahead in a thread (paddle.reader.buffered)."""
    return lambda: Prefetch(reader, size)


def firstn(reader: Reader, n: int) -> Reader:
    """Read the first `n` samples (paddle.reader.firstn)."""
    return lambda: itertools.islice(reader(), n)


def xmap_readers(
    mapper: Callable[[Any], Any],
    reader: Reader,
    process_num: int,
    buffer_size: int,
    order: bool = False,
) -> Reader:
    """Apply `mapper` in `process_num` threads, at most `buffer_size` samples ahead.

    Samples come in the order in which they are ready, or in the reader's with `order`. Paddle page:
    paddle.reader.xmap_readers.
    """

    def read_mapped() -> Iterator[Any]:
        with ThreadPoolExecutor(process_num, "xmap_readers") as pool:
            under_way = deque[Future[Any]]()
            try:
                for sample in Prefetch(reader, buffer_size):
                    under_way.append(pool.submit(mapper, sample))
                    if len(under_way) >= max(buffer_size, process_num):
                        yield _next(under_way, order=order)
                while under_way:
                    yield _next(under_way, order=order)
            finally:
                for future in under_way:
                    future.cancel()

    return read_mapped


def _next(under_way: deque[Future[Any]], *, order: bool) -> Any:
    """Pop the result of the first sample, or without `order` of one that is ready."""
    if order:
        return under_way.popleft().result()
    done = wait(under_way, return_when=FIRST_COMPLETED).done
    ready = next(future for future in under_way if future in done)
    under_way.remove(ready)
    return ready.result()


def multiprocess_reader(
    readers: Sequence[Reader], use_pipe: bool = True, queue_size: int = 1000
) -> Reader:
    """Read each reader in a process of its own, samples as they come.

    `use_pipe` and `queue_size` have no effect: samples travel by pipes. Raises ValueError when
    there is no reader; a sample of None raises ValueError, an error of a reader RuntimeError.
    Paddle page: paddle.reader.multiprocess_reader.
    """
    if not isinstance(readers, (list, tuple)) or not readers:
        raise ValueError("`readers` must be list or tuple with at least one reader")
    return lambda: read_in_processes(readers)


explain(globals())
