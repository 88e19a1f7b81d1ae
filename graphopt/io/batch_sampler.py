"""Samplers of batches: lists of indices (paddle.io)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from graphopt.distributed.parallel import ParallelEnv
from graphopt.io.dataset import IterableDataset
from graphopt.io.sampler import RandomSampler, Sampler, SequenceSampler


def _check(batch_size: Any, shuffle: Any, drop_last: Any) -> None:
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
        raise AssertionError(f"batch_size should be a positive integer, but got {batch_size}")
    for name, value in (("shuffle", shuffle), ("drop_last", drop_last)):
        if not isinstance(value, bool):
            raise AssertionError(f"{name} should be a boolean value, but got {type(value)}")


def batches(indices: Iterable[int], size: int, *, drop_last: bool) -> Iterator[list[int]]:
    """Split indices into runs of `size`; with `drop_last` a shorter last run is dropped."""
    left = iter(indices)
    while run := list(islice(left, size)):
        if len(run) == size or not drop_last:
            yield run


class BatchSampler(Sampler):
    """Batches of the indices of a dataset, or of a sampler (paddle.io.BatchSampler).

    Raises AssertionError for arguments that do not fit.
    """

    def __init__(
        self,
        dataset: Any = None,
        sampler: Any = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset)
        _check(batch_size, shuffle, drop_last)
        if (dataset is None) == (sampler is None):
            raise AssertionError("give either dataset or sampler")
        if isinstance(dataset, IterableDataset):
            raise AssertionError("dataset should not be a paddle.io.IterableDataset")
        if sampler is not None and (shuffle or not isinstance(sampler, Sampler)):
            raise AssertionError(
                f"sampler should be a paddle.io.Sampler, without shuffle; got {type(sampler)}"
            )
        if sampler is None:
            sampler = RandomSampler(dataset) if shuffle else SequenceSampler(dataset)
        self.sampler: Any = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        return batches(self.sampler, self.batch_size, drop_last=self.drop_last)

    def __len__(self) -> int:
        return _count(len(self.sampler), self.batch_size, drop_last=self.drop_last)


def _count(samples: int, size: int, *, drop_last: bool) -> int:
    return samples // size if drop_last else -(-samples // size)


class DistributedBatchSampler(BatchSampler):
    """This trainer's batches of the indices of a dataset (paddle.io.DistributedBatchSampler).

    Every trainer gets the same number of samples: indices from the start fill the last batches.
    `shuffle` draws by the epoch number, which `set_epoch` sets, with the same result in every
    trainer. `num_replicas` and `rank` default to the job's values (see
    `paddle.distributed.ParallelEnv`).
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        Sampler.__init__(self, dataset)
        _check(batch_size, shuffle, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.nranks = _at_least("num_replicas", num_replicas, 1, ParallelEnv().world_size)
        self.local_rank = _at_least("rank", rank, 0, ParallelEnv().rank)
        self.epoch = 0
        self.num_samples = -(-len(dataset) // self.nranks)
        self.total_size = self.num_samples * self.nranks

    def __iter__(self) -> Iterator[list[int]]:
        indices = np.resize(np.arange(len(self.dataset)), self.total_size).tolist()
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(indices)
            self.epoch += 1
        return batches(self._own(indices), self.batch_size, drop_last=self.drop_last)

    def _own(self, indices: list[int]) -> list[int]:
        """Select this trainer's share: a batch of each round, then a part of the rest."""
        size, round_size = self.batch_size, self.batch_size * self.nranks
        whole = self.total_size - self.total_size % round_size
        starts = range(self.local_rank * size, whole, round_size)
        own = [index for start in starts for index in indices[start : start + size]]
        part = (self.total_size - whole) // self.nranks
        start = whole + self.local_rank * part
        return own + indices[start : start + part]

    def __len__(self) -> int:
        return _count(self.num_samples, self.batch_size, drop_last=self.drop_last)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch number that seeds the next shuffle."""
        self.epoch = epoch


def _at_least(name: str, value: Any, least: int, default: int) -> int:
    """Check a number against a lower bound, with a default for None; AssertionError otherwise."""
    if value is None:
        return default
    if not isinstance(value, int) or value < least:
        raise AssertionError(f"{name} should be an integer of at least {least}, but got {value}")
    return value
