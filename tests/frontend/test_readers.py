"""Readers that wrap readers (paddle.reader, paddle.batch)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import graphopt as paddle
from graphopt.frontend.prefetch import Prefetch


def numbers(count: int) -> Callable[[], Iterator[int]]:
    return lambda: iter(range(count))


def failing() -> Iterator[int]:
    """Yield one sample, then raise an error."""
    yield 1
    raise KeyError("no second sample")


def test_batch() -> None:
    """The last batch is shorter, or dropped; every call starts again."""
    made = paddle.batch(numbers(5), 2)
    assert list(made()) == list(made()) == [[0, 1], [2, 3], [4]]
    assert list(paddle.batch(numbers(5), 2, drop_last=True)()) == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="batch_size should be a positive integer"):
        paddle.batch(numbers(5), 0)


def test_shuffle_draws_as_paddle() -> None:
    """Python's generator shuffles runs of the buffer's size."""
    random.seed(3)
    found = list(paddle.reader.shuffle(numbers(7), 4)())
    random.seed(3)
    runs = [list(range(4)), list(range(4, 7))]
    for run in runs:
        random.shuffle(run)
    assert found == [*runs[0], *runs[1]]


def test_readers_of_readers() -> None:
    """chain, map_readers, firstn, cache and buffered keep the order."""
    reader = paddle.reader
    assert list(reader.chain(numbers(2), numbers(1))()) == [0, 1, 0]
    assert list(reader.map_readers(lambda a, b: a + b, numbers(3), numbers(3))()) == [0, 2, 4]
    assert list(reader.firstn(numbers(9), 2)()) == [0, 1]
    assert list(reader.buffered(numbers(9), 2)()) == list(range(9))
    calls: list[int] = []
    kept = reader.cache(lambda: calls.append(1) or iter([4, 5]))
    assert (list(kept()), list(kept()), calls) == ([4, 5], [4, 5], [1])


def test_compose() -> None:
    """Tuples are joined; different lengths are an error unless alignment is not checked."""
    pairs = paddle.reader.map_readers(lambda a: (a, -a), numbers(2))
    assert list(paddle.reader.compose(pairs, numbers(2))()) == [(0, 0, 0), (1, -1, 1)]
    with pytest.raises(paddle.reader.ComposeNotAligned, match="not aligned"):
        list(paddle.reader.compose(numbers(2), numbers(3))())
    short = paddle.reader.compose(numbers(2), numbers(3), check_alignment=False)
    assert list(short()) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("order", [False, True])
def test_xmap_readers(order: bool) -> None:
    """Threads map the samples; with `order` they keep their order."""

    def slow_first(sample: int) -> int:
        time.sleep(0.02 if sample == 0 else 0)
        return 2 * sample

    found = list(paddle.reader.xmap_readers(slow_first, numbers(9), 3, 4, order)())
    assert sorted(found) == [2 * n for n in range(9)]
    assert not order or found == sorted(found)


def test_multiprocess_reader() -> None:
    """Each reader runs in a process; all samples arrive, and errors are reported."""
    both = paddle.reader.multiprocess_reader([numbers(3), numbers(2)])
    assert sorted(both()) == [0, 0, 1, 1, 2]
    with pytest.raises(RuntimeError, match="no second sample"):
        list(paddle.reader.multiprocess_reader([failing])())
    with pytest.raises(ValueError, match="at least one reader"):
        paddle.reader.multiprocess_reader([])


@pytest.mark.parametrize(
    "read",
    [
        lambda: paddle.reader.buffered(failing, 2)(),
        lambda: paddle.reader.xmap_readers(lambda s: s, failing, 2, 2)(),
        lambda: Prefetch(failing, 1),
    ],
)
def test_an_error_of_a_reader_is_raised(read: Callable[[], Iterator[Any]]) -> None:
    """An error of a thread reaches the loop, after the samples before it."""
    found: list[int] = []
    with pytest.raises(KeyError, match="no second sample"):
        found += read()
    assert found in ([], [1])


def test_prefetch_stays_within_its_size_and_ends() -> None:
    """No more items are made than fit, and a dropped generator ends its thread."""
    made: list[int] = []

    def source() -> Iterator[int]:
        for n in range(1000):
            made.append(n)
            yield n

    ahead = Prefetch(source, 3)
    assert next(ahead) == 0
    before = threading.active_count()
    time.sleep(0.05)
    assert len(made) <= 5
    ahead.close()
    deadline = time.monotonic() + 5
    while threading.active_count() >= before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() < before
