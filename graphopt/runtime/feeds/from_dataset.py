"""Training on all batches of a data set, with reports of fetched values in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from graphopt.display.units import several
from graphopt.runtime.feeds.fetch import fetch_names


class DatasetSource(Protocol):
    """The members of a data set that a run reads."""

    thread_num: int

    def feeds(self) -> Iterator[dict[str, Any]]:
        """Yield the feed of each batch."""
        ...


# (number of the batch, labels of the values, names of the variables, values)
Report = Callable[[int, Sequence[str], Sequence[str], Sequence[Any]], None]


def run_from_dataset(
    run: Callable[[dict[str, Any], list[Any]], list[Any]],
    dataset: DatasetSource | None,
    thread: int,
    fetch_list: Any,
    fetch_info: Sequence[str] | None,
    print_period: int,
    fetch_handler: Any,
    report: Report,
) -> None:
    """Run a step for each batch; report the fetched values of each `print_period`-th one.

    `run` makes a step from a feed and a fetch list. A `fetch_handler` gets the values of its
    variables once in `period_secs` seconds. Raise RuntimeError without a data set or threads,
    AssertionError unless `fetch_info` names every fetch.
    """
    if dataset is None:
        raise RuntimeError("dataset is need and should be initialized")
    fetches = list(fetch_list or ())
    words = list(fetch_info or ())
    if len(fetches) != len(words):
        raise AssertionError(
            f"fetch_list has {several(len(fetches), 'value')} and fetch_info "
            f"{several(len(words), 'name')}; give one for each"
        )
    if thread <= 0 and dataset.thread_num <= 0:
        raise RuntimeError(
            "You should set thread num first, either in Dataset or in Executor.train_from_dataset"
        )
    names = fetch_names(fetches)
    watched: dict[str, Any] = getattr(fetch_handler, "var_dict", {})
    last = time.monotonic()
    for number, feed in enumerate(dataset.feeds(), 1):
        values = run(feed, [*fetches, *watched.values()])
        if fetches and number % print_period == 0:
            report(number, words, names, values[: len(names)])
        if fetch_handler is not None and time.monotonic() - last >= fetch_handler.period_secs:
            last = time.monotonic()
            found = zip(watched, values[len(names) :], strict=True)
            fetch_handler.handler({name: np.array(value) for name, value in found})


def one_line(
    number: int, words: Sequence[str], names: Sequence[str], values: Sequence[Any]
) -> None:
    """Print the values of a batch as Paddle 2.6 does, in one line."""
    found = [
        f"{word}[{np.size(value)}]:[{' '.join(elements(value))}]"
        for word, value in zip(words, map(np.array, values), strict=True)
    ]
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"time: [{now}], batch: [{number}], {', '.join(found)}", flush=True)


def elements(value: np.ndarray[Any, Any]) -> list[str]:
    """Format the elements of an array with six digits, as C++ streams print them."""
    is_float = value.dtype.kind == "f"
    return [f"{each:g}" if is_float else str(int(each)) for each in value.reshape(-1)]
