"""Batches of a dataset, in this process or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from graphopt.io.dataset import IterableDataset


class BatchRecipe(NamedTuple):
    """The making of batches: `size` is None where the dataset makes them itself."""

    dataset: Any
    collate: Callable[[Any], Any]
    size: int | None
    drop_last: bool

    @property
    def iterates(self) -> bool:
        """True for a dataset without indices."""
        return isinstance(self.dataset, IterableDataset)

    def fetcher(self) -> Callable[[Any], Any]:
        """A function from what a sampler gives to a batch; StopIteration at the end."""
        return self._iterated(iter(self.dataset)) if self.iterates else self._indexed

    def _indexed(self, indices: Any) -> Any:
        if isinstance(indices, list):
            return self.collate([self.dataset[index] for index in indices])
        return self.collate(self.dataset[indices])

    def _iterated(self, samples: Iterator[Any]) -> Callable[[Any], Any]:
        def fetch(_: Any) -> Any:
            if self.size is None:
                return self.collate(next(samples))
            found = list(islice(samples, self.size))
            if not found or (self.drop_last and len(found) < self.size):
                raise StopIteration
            return self.collate(found)

        return fetch
