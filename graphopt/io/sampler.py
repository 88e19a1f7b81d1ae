"""Samplers: the order in which the samples of a dataset are read (paddle.io).

The random ones draw from NumPy's global generator, as Paddle's do: `np.random.seed` decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from typing import Any

import numpy as np


class Sampler:
    """Indices of samples: subclasses define `__iter__` (paddle.io.Sampler)."""

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError


class SequenceSampler(Sampler):
    """Every index in order (paddle.io.SequenceSampler)."""

    def __init__(self, data_source: Sized) -> None:
        super().__init__(data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Random indices: every one once, or `num_samples` with `replacement`.

    `generator` is an iterator of indices to use instead. Raises TypeError and ValueError for
    arguments that do not fit. Paddle page: paddle.io.RandomSampler.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Iterator[int] | None = None,
    ) -> None:
        super().__init__(data_source)
        if not isinstance(replacement, bool):
            raise TypeError(f"expect boolean value for replacement, but got {replacement=}")
        if num_samples is not None and not replacement:
            raise ValueError("num_samples should not be specified while replacement is False")
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer, but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """The number of indices in an epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        if self.generator is not None:
            for _, index in zip(range(self.num_samples), self.generator, strict=False):
                yield index
            return
        n = len(self.data_source)
        count = self.num_samples if self.replacement else n
        yield from np.random.choice(np.arange(n), count, replace=self.replacement).tolist()

    def __len__(self) -> int:
        return self.num_samples


class WeightedRandomSampler(Sampler):
    """`num_samples` indices at random by weights [N], or for each row of weights [M, N].

    Raises ValueError for arguments and AssertionError for weights that cannot be drawn from.
    Paddle page: paddle.io.WeightedRandomSampler.
    """

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True) -> None:
        super().__init__()
        if not isinstance(num_samples, int) or num_samples <= 0:
            raise ValueError("num_samples should be a positive integer")
        if not isinstance(replacement, bool):
            raise ValueError("replacement should be a boolean value")
        self.weights = np.asarray(weights)
        self.num_samples = num_samples
        self.replacement = replacement

    def __iter__(self) -> Iterator[int]:
        rows = self.weights.reshape(-1, self.weights.shape[-1])
        if not (np.isfinite(rows).all() and (rows >= 0).all()):
            raise AssertionError("weights should be finite and not negative")
        wanted = 1 if self.replacement else self.num_samples
        if ((rows > 0).sum(axis=1) < wanted).any():
            raise AssertionError(f"each row of weights needs at least {wanted} positive values")
        for row in rows:
            p = row / row.sum()
            yield from np.random.choice(len(row), self.num_samples, self.replacement, p).tolist()

    def __len__(self) -> int:
        return self.num_samples * (self.weights.size // self.weights.shape[-1])


class SubsetRandomSampler(Sampler):
    """These indices in random order (paddle.io.SubsetRandomSampler)."""

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__()
        if len(indices) == 0:
            raise ValueError(
                "The length of `indices` in SubsetRandomSampler should be greater than 0."
            )
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return (self.indices[i] for i in np.random.permutation(len(self.indices)))

    def __len__(self) -> int:
        return len(self.indices)
