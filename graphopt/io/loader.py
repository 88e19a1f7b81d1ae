"""DataLoader: batches of a dataset, made ahead of the steps that use them (paddle.io)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any

from graphopt.frontend.multi_slot import SlotDataset
from graphopt.frontend.prefetch import Prefetch
from graphopt.io.batch_sampler import BatchSampler
from graphopt.io.collate import (
    BatchRecipe,
    arrays_in,
    default_collate_fn,
    default_convert_fn,
    map_arrays,
)
from graphopt.io.dataset import IterableDataset
from graphopt.io.worker import Workers
from graphopt.reader.loaders import DatasetLoader, GeneratorLoader
from graphopt.runtime.devices.places import place_of
from graphopt.runtime.feeds.sent import send
from graphopt.runtime.state.slots import Slot, Tensor


class DataLoader:
    """The batches of a dataset: an epoch for each iteration over the loader, or over a call of it.

    With `return_list` a batch is a list of Tensors, with the structure of the samples; for several
    `places` it is a list of such lists, one for each. Without, it is a list with one feed for each
    place, {name: Tensor}, by the names of `feed_list`. With `batch_size` None the dataset makes the
    batches.

    A thread makes `prefetch_factor` batches ahead, unless `use_buffer_reader` is False, and sends
    them to the device of a single place that is not the host, by default the place of executors.
    `num_workers` processes make them, started for each epoch unless `persistent_workers`; they are
    forks of this process, and must not run programs. `timeout` seconds without a batch, and an
    error in a worker, raise RuntimeError. `use_shared_memory` has no effect: batches travel by
    pipes.

    Raises AssertionError and ValueError for arguments that do not fit. Paddle page:
    paddle.io.DataLoader.
    """

    def __init__(
        self,
        dataset: Any,
        feed_list: Sequence[Any] | None = None,
        places: Any = None,
        return_list: bool = True,
        batch_sampler: Any = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[Any], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        persistent_workers: bool = False,
    ) -> None:
        if not return_list and not feed_list:
            raise AssertionError("feed_list should be set when return_list=False")
        for name, value, least in (
            ("num_workers", num_workers, 0),
            ("prefetch_factor", prefetch_factor, 1),
            ("timeout", timeout, 0),
        ):
            if value < least:
                raise AssertionError(f"{name} should be at least {least}, but got {value}")
        self.dataset = dataset
        self.feed_list = feed_list
        self.places = list(places) if isinstance(places, (list, tuple)) else [places]
        self.return_list = return_list
        self.num_workers = num_workers
        self.use_buffer_reader = use_buffer_reader
        self.prefetch_factor = prefetch_factor
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.drop_last = drop_last
        self.batch_size = None if batch_sampler is not None else batch_size
        self.batch_sampler = self._sampler(batch_sampler, batch_size, shuffle, drop_last)
        whole = batch_sampler is None and batch_size is None
        self.collate_fn = collate_fn
        collate = collate_fn or (default_convert_fn if whole else default_collate_fn)
        self._recipe = BatchRecipe(dataset, collate, self.batch_size, drop_last)
        self._persistent = persistent_workers
        self._workers: Workers | None = None

    def _sampler(self, given: Any, batch_size: int | None, shuffle: bool, drop_last: bool) -> Any:
        """Build the batch sampler; None for an IterableDataset, or if the dataset makes batches."""
        if given is not None and (batch_size != 1 or shuffle or drop_last):
            raise AssertionError(
                "batch_size/shuffle/drop_last should not be set when batch_sampler is given"
            )
        if batch_size is not None and batch_size <= 0:
            raise AssertionError(f"batch_size should be None or positive, but got {batch_size}")
        if isinstance(self.dataset, IterableDataset):
            if shuffle:
                raise ValueError(f"IterableDataset not support shuffle, but got shuffle={shuffle}")
            if given is not None:
                raise ValueError("IterableDataset expect unspecified batch_sampler")
            return None
        if given is not None or batch_size is None:
            return given
        return BatchSampler(self.dataset, None, shuffle, batch_size, drop_last)

    def __len__(self) -> int:
        """Return the number of batches in an epoch; ValueError for an IterableDataset."""
        if isinstance(self.dataset, IterableDataset):
            raise ValueError("length of IterableDataset not supported")
        return len(self.dataset if self.batch_sampler is None else self.batch_sampler)

    def __call__(self) -> Iterator[Any]:
        return iter(self)

    def __iter__(self) -> Iterator[Any]:
        if not self.use_buffer_reader:
            return self._epoch()
        return Prefetch(self._epoch, self.prefetch_factor)

    def _indices(self) -> Iterable[Any]:
        """Iterate over the requests to the dataset, one for each batch."""
        if isinstance(self.dataset, IterableDataset):
            return repeat(None)
        return range(len(self.dataset)) if self.batch_sampler is None else self.batch_sampler

    def _batches(self) -> Iterator[Any]:
        if not self.num_workers:
            fetch = self._recipe.fetcher()
            for indices in self._indices():
                try:
                    batch = fetch(indices)
                except StopIteration:
                    return
                yield batch
            return
        workers, self._workers = self._workers, None
        if workers is None:
            workers = Workers(
                self._recipe,
                self.num_workers,
                self.prefetch_factor,
                self.timeout,
                self.worker_init_fn,
            )
        try:
            yield from workers.batches(self._indices())
        except BaseException:
            workers.close()
            raise
        # the workers of an unfinished epoch are not kept: a thread may still wait for them
        if self._persistent and self._workers is None:
            self._workers = workers
        else:
            workers.close()

    def __del__(self) -> None:
        workers: Workers | None = getattr(self, "_workers", None)
        if workers is not None:
            workers.close()

    def _epoch(self) -> Iterator[Any]:
        """Yield the batches of an epoch in the form that scripts get."""
        batches = self._batches()
        while group := list(islice(batches, len(self.places))):
            if self.return_list:
                lists = [map_arrays(self._send, batch) for batch in group]
                yield lists[0] if len(self.places) == 1 else lists
            else:
                yield [self._feed(batch) for batch in group]

    def _feed(self, batch: Any) -> dict[str, Tensor]:
        arrays = list(arrays_in(batch))
        names = [variable.name for variable in self.feed_list or ()]
        if len(arrays) != len(names):
            raise ValueError(
                f"DataLoader: a batch has {len(arrays)} arrays, but feed_list has {len(names)} "
                f"variables ({', '.join(names)})"
            )
        return {name: self._send(array) for name, array in zip(names, arrays, strict=True)}

    def _send(self, array: Any) -> Tensor:
        """Convert an array to a tensor; with one place and a prefetch thread start its transfer."""
        first = len(self.places) == 1 and self.use_buffer_reader
        return _tensor(send(array, place_of(self.places[0])) if first else array)

    @staticmethod
    def from_generator(
        feed_list: Sequence[Any] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """Create a loader of a generator's batches; see `graphopt.reader.loaders.GeneratorLoader`.

        `use_multiprocess` has no effect: a thread makes the batches, as in Paddle's static mode.
        """
        return GeneratorLoader(
            feed_list, capacity, use_double_buffer, iterable, return_list, drop_last
        )

    @staticmethod
    def from_dataset(dataset: SlotDataset, places: Any, drop_last: bool = True) -> DatasetLoader:
        """Create a loader of a data set's batches; see `graphopt.reader.loaders.DatasetLoader`."""
        return DatasetLoader(dataset, places, drop_last)


def _tensor(array: Any) -> Tensor:
    slot = Slot("batch")
    slot.put(array)
    return Tensor(slot)
