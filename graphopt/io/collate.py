"""Collating samples to batches, and batches as trees of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from graphopt.io.dataset import IterableDataset

_TEXT = (str, bytes)


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Stack each field of the samples along a new first axis; texts stay a list.

    Arrays and numbers become arrays, mappings and sequences are collated field by field. Raises
    RuntimeError when samples have different numbers of fields, TypeError for other kinds.
    """
    sample = batch[0]
    if isinstance(sample, (np.ndarray, np.generic)):
        return np.stack(batch, axis=0)
    if isinstance(sample, Number):
        return np.array(batch)
    if isinstance(sample, _TEXT):
        return batch
    if isinstance(sample, Mapping):
        return {key: default_collate_fn([other[key] for other in batch]) for key in sample}
    if isinstance(sample, Sequence):
        if len({len(other) for other in batch}) != 1:
            raise RuntimeError("fields number not same among samples in a batch")
        return [default_collate_fn(field) for field in zip(*batch, strict=True)]
    if hasattr(sample, "__array__"):
        return np.stack([np.asarray(each) for each in batch], axis=0)
    raise TypeError(
        "a sample has arrays, numbers, texts, dictionaries and lists of them, but this one has "
        f"{type(sample).__name__}; give DataLoader a collate_fn"
    )


def default_convert_fn(batch: Any) -> Any:
    """Convert the sequences of a batch from the dataset to lists."""
    return _map(lambda leaf: leaf, batch)


def map_arrays(function: Callable[[np.ndarray[Any, Any]], Any], batch: Any) -> Any:
    """Apply `function` to each array of a batch."""
    return _map(lambda leaf: function(leaf) if isinstance(leaf, np.ndarray) else leaf, batch)


def _map(function: Callable[[Any], Any], batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return {key: _map(function, value) for key, value in batch.items()}
    if isinstance(batch, Sequence) and not isinstance(batch, _TEXT):
        return [_map(function, value) for value in batch]
    return function(batch)


def arrays_in(batch: Any) -> Iterator[Any]:
    """Iterate over the arrays of a batch, in order."""
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, Sequence) and not isinstance(batch, _TEXT):
        for value in batch:
            yield from arrays_in(value)
    elif hasattr(batch, "__array__"):
        yield batch


class BatchRecipe(NamedTuple):
    """A recipe for batches: `size` is None where the dataset makes them itself."""

    dataset: Any
    collate: Callable[[Any], Any]
    size: int | None
    drop_last: bool

    @property
    def iterates(self) -> bool:
        """True for a dataset without indices."""
        return isinstance(self.dataset, IterableDataset)

    def fetcher(self) -> Callable[[Any], Any]:
        """Return a function that maps a sampler's request to a batch; StopIteration at the end."""
        return (
            self._collate_iterated(iter(self.dataset)) if self.iterates else self._collate_indices
        )

    def _collate_indices(self, indices: Any) -> Any:
        if isinstance(indices, list):
            return self.collate([self.dataset[index] for index in indices])
        return self.collate(self.dataset[indices])

    def _collate_iterated(self, samples: Iterator[Any]) -> Callable[[Any], Any]:
        def fetch(_: Any) -> Any:
            if self.size is None:
                return self.collate(next(samples))
            found = list(islice(samples, self.size))
            if not found or (self.drop_last and len(found) < self.size):
                raise StopIteration
            return self.collate(found)

        return fetch
