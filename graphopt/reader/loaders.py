"""Loaders of a generator's batches: DataLoader.from_generator, PyReader, py_reader.

An iterable loader yields feeds to a loop of the script. One that is not iterable belongs to the
program in which it was made: `start()` begins an epoch, each `Executor.run` takes the next batch,
and at the end raises `fluid.core.EOFException`, after which the script calls `reset()`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from graphopt.errors import EOFException, FeedError, GraphoptError, ReaderError
from graphopt.frontend.data_feeder import DataFeeder
from graphopt.frontend.lod_tensor import LoDTensor, create_lod_tensor
from graphopt.frontend.multi_slot import SlotDataset
from graphopt.frontend.prefetch import Prefetch
from graphopt.ir.program import Variable, default_main_program
from graphopt.ir.program.location import caller_location
from graphopt.reader.batch_queue import BatchQueue
from graphopt.reader.decorator import batch as batch_reader
from graphopt.runtime.devices.places import CPUPlace, Place, place_of
from graphopt.runtime.feeds.sent import send
from graphopt.runtime.state.slots import Tensor

Source = Callable[[], Iterable[Any]]


class DataLoaderBase:
    """The base of loaders: subclasses define how they are iterated over."""

    def __call__(self) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must have '__iter__'")

    def __next__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must have '__next__'")


def keep_data_loader_order(*args: bool) -> bool | None:
    """Return True without an argument: loaders keep the order of batches, whatever is set."""
    return None if args else True


class GeneratorLoader:
    """Feeds of `feed_list` from a generator, up to `capacity` batches made ahead by a thread.

    `set_sample_generator`, `set_sample_list_generator` and `set_batch_generator` set a generator of
    samples, of lists of samples, or of batches of arrays. An iterable loader yields a list with one
    feed {name: LoDTensor} for each place, or with `return_list` a list of lists of LoDTensors; with
    `drop_last` a last list with fewer feeds than places is left out. With `use_double_buffer` the
    thread sends batches to the device of a single place that is not the host. Raises ValueError
    without a capacity or variables. Paddle page: fluid.io.DataLoader.from_generator.
    """

    def __init__(
        self,
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        drop_last: bool = True,
    ) -> None:
        if not capacity:
            raise ValueError("Please give value to capacity.")
        if not feed_list:
            raise ValueError("Feed list must be given under static graph mode.")
        self._variables = list(feed_list)
        self.names = tuple(variable.name for variable in feed_list)
        self._capacity = capacity
        self._iterable = iterable
        self._return_list = return_list
        self._drop_last = drop_last
        self._places = 1
        self._place: Any = None
        self._sends = use_double_buffer
        self._source: Source | None = None
        self._epoch: Prefetch | None = None
        self._queue = BatchQueue(capacity)
        self._made_at = caller_location()
        if not iterable:
            default_main_program().readers.append(self)

    @property
    def queue(self) -> BatchQueue:
        """The batches that are made ahead. A script may push some itself, and not call `start`."""
        self._queue.is_known = not self._iterable
        return self._queue

    @property
    def iterable(self) -> bool:
        """True for a loader that a script iterates over."""
        return self._iterable

    def set_sample_generator(
        self, reader: Source, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> GeneratorLoader:
        """Take samples from a generator, and batch them; returns self."""
        return self.set_sample_list_generator(batch_reader(reader, batch_size, drop_last), places)

    def set_sample_list_generator(self, reader: Source, places: Any = None) -> GeneratorLoader:
        """Take batches, each a list of samples, from a generator; returns self."""
        feeder = DataFeeder(self._variables, None)

        def batches() -> Iterator[list[Any]]:
            for samples in reader():
                yield list(feeder.feed(samples).values())

        return self.set_batch_generator(batches, places)

    def set_batch_generator(self, reader: Source, places: Any = None) -> GeneratorLoader:
        """Take batches, each with an array or a LoDTensor for every variable; returns self.

        Raises AssertionError for an iterable loader without places.
        """
        if self._iterable and places is None:
            raise AssertionError("Places cannot be None when DataLoader is iterable")
        several = list(places) if isinstance(places, (list, tuple)) else [places]
        self._places, self._place = len(several), several[0] if several else None
        self._source = reader
        return self

    def __call__(self) -> GeneratorLoader:
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._iterable:
            raise AssertionError("DataLoader is not iterable")
        feeds = self._feeds()
        return self._group(feeds)

    def _group(self, feeds: Iterator[dict[str, Any]]) -> Iterator[Any]:
        while group := list(itertools.islice(feeds, self._places)):
            if self._drop_last and len(group) < self._places:
                return
            yield [list(feed.values()) for feed in group] if self._return_list else group

    def _feeds(self) -> Prefetch:
        """Start an epoch, whose feeds a thread makes ahead."""
        source = self._source
        if source is None:
            raise AssertionError("Data source of DataLoader has not set yet")
        epoch = Prefetch(lambda: map(self._feed, _batches(source)), self._capacity)
        self._queue.follow(epoch)
        return epoch

    def _feed(self, values: Any) -> dict[str, Any]:
        if isinstance(values, dict):
            values = [values[name] for name in self.names]
        if len(values) != len(self.names):
            raise FeedError(
                f"the generator of a DataLoader yields {len(values)} arrays, but feed_list has "
                f"{len(self.names)} variables ({', '.join(self.names)})"
            )
        # without a place, a loader's device is known only when the program runs
        is_known = self._iterable or self._place is not None
        sends = self._sends and self._places == 1 and is_known
        place = place_of(self._place) if sends else CPUPlace()
        return {n: _tensor(n, v, place) for n, v in zip(self.names, values, strict=True)}

    def start(self) -> None:
        """Begin an epoch; AssertionError for an iterable loader."""
        if self._iterable:
            raise AssertionError("start() cannot be called when DataLoader is iterable")
        self.reset()
        self._epoch = self._feeds()

    def reset(self) -> None:
        """End the epoch, also in its middle; AssertionError for an iterable loader."""
        if self._iterable:
            raise AssertionError("reset() cannot be called when DataLoader is iterable")
        self._queue.reopen()
        if self._epoch is not None:
            self._epoch.close()
            self._epoch = None

    def _reset(self) -> None:
        """End the epoch, of an iterable loader as well."""
        self._queue.end()
        if self._epoch is not None:
            self._epoch.close()
            self._epoch = None

    def read(self, count: int) -> list[dict[str, Any]]:
        """Read the next feeds of the epoch, one for each of `count` devices.

        Raises EOFException at the end of the epoch, and with `drop_last` where fewer are left;
        FeedError when no epoch was started and no batch was pushed to the queue.
        """
        if self._epoch is not None:
            group = list(itertools.islice(self._epoch, count))
        elif self._queue.is_known and self._queue.waits():
            group = [self._feed(batch) for batch in self._queue.take(count)]
        else:
            raise FeedError(
                f"the loader of {', '.join(self.names)} ({self._made_at}) is not started: call its "
                "start() before an epoch, and reset() after fluid.core.EOFException"
            )
        if not group or (self._drop_last and len(group) < count):
            raise EOFException("There is no next data.")
        return group


def _batches(source: Source) -> Iterator[Any]:
    """Yield the items of a generator; raise ReaderError from its exceptions, as Paddle does."""
    try:
        yield from source()
    except GraphoptError:
        raise
    except Exception as error:
        raise ReaderError(
            "Blocking queue is killed because the data reader raises an exception: "
            f"{type(error).__name__}: {error}"
        ) from error


class DatasetLoader(DataLoaderBase):
    """The batches of a data set of text files, in the order of the files.

    It yields a list with one feed {name: LoDTensor} for each of `places`. A last list with fewer
    feeds is left out, as are shorter batches with `drop_last`. Paddle page:
    fluid.io.DataLoader.from_dataset.

    Raises AssertionError for fewer files than places, TypeError unless `dataset` is a data set.
    """

    def __init__(self, dataset: SlotDataset, places: Any, drop_last: bool = True) -> None:
        if not isinstance(dataset, SlotDataset):
            raise TypeError(
                "DataLoader.from_dataset(): 'dataset' must be a data set of "
                f"fluid.DatasetFactory, found {type(dataset).__name__}"
            )
        self._dataset = dataset
        self._places = len(places) if isinstance(places, (list, tuple)) else 1
        self._drop_last = drop_last
        if len(dataset.filelist) < self._places:
            raise AssertionError(
                f"Filelist number of dataset {len(dataset.filelist)} must be not less than place "
                f"number {self._places}"
            )

    def __iter__(self) -> Iterator[list[dict[str, Tensor]]]:
        feeds = self._dataset.feeds(whole=self._drop_last)
        while len(group := list(itertools.islice(feeds, self._places))) == self._places:
            yield [{name: _rows(value) for name, value in feed.items()} for feed in group]


def _rows(value: Any) -> LoDTensor:
    """Convert a slot of a batch to a tensor: an array, or rows and their sequence lengths."""
    return create_lod_tensor(value[0], [value[1]]) if isinstance(value, tuple) else LoDTensor(value)


def _tensor(name: str, value: Any, place: Place) -> Tensor:
    """Convert a value of a generator to a tensor for 1.8 scripts; TypeError for uneven rows.

    It starts the transfer of an array to the device of a place.
    """
    if isinstance(value, Tensor):
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.array(None)
    if array.dtype == object:
        raise TypeError(
            f"the generator of a DataLoader yields no array for '{name}': its rows differ in "
            "length; give sequences as fluid.create_lod_tensor(data, lengths, place)"
        )
    return LoDTensor(send(array, place))


class PyReader(GeneratorLoader):
    """The loader of 1.x under its first names (Paddle page: fluid.io.PyReader)."""

    def __init__(
        self,
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ) -> None:
        super().__init__(feed_list, capacity, use_double_buffer, iterable, return_list)

    @property
    def thread(self) -> threading.Thread | None:
        """The thread that makes the batches of this epoch; None before the first."""
        return None if self._epoch is None else self._epoch.thread

    @property
    def _loader(self) -> PyReader:
        """The loader inside, which is this one."""
        return self

    def decorate_sample_generator(
        self, sample_generator: Source, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> None:
        """Call `set_sample_generator`."""
        self.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader: Source, places: Any = None) -> None:
        """Call `set_sample_list_generator`."""
        self.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader: Source, places: Any = None) -> None:
        """Call `set_batch_generator`."""
        self.set_batch_generator(reader, places)

    decorate_paddle_reader = decorate_sample_list_generator
    decorate_tensor_provider = decorate_batch_generator
