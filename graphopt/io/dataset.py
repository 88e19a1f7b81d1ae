"""Datasets: samples by index or one after the other (paddle.io)."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from graphopt.ir.program.location import caller_level


class Dataset:
    """Samples by index: subclasses define `__getitem__` and `__len__` (paddle.io.Dataset)."""

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError(_lacks("__getitem__", self))

    def __len__(self) -> int:
        raise NotImplementedError(_lacks("__len__", self))


class IterableDataset(Dataset):
    """Samples one after the other: subclasses define `__iter__` (paddle.io.IterableDataset)."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(_lacks("__iter__", self))

    def __getitem__(self, idx: Any) -> Any:
        raise RuntimeError(_wrong_call_text("__getitem__", self))

    def __len__(self) -> int:
        raise RuntimeError(_wrong_call_text("__len__", self))


def _lacks(method: str, dataset: Dataset) -> str:
    return f"'{method}' not implement in class {type(dataset).__name__}"


def _wrong_call_text(method: str, dataset: Dataset) -> str:
    return f"'{method}' should not be called for IterableDataset {type(dataset).__name__}"


class TensorDataset(Dataset):
    """Rows of arrays of one length; a sample has a row of each (paddle.io.TensorDataset)."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.tensors = [np.asarray(tensor) for tensor in tensors]
        if len({len(tensor) for tensor in self.tensors}) != 1:
            raise AssertionError("tensors not have same shape of the 1st dimension")

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


def _check_datasets(
    datasets: Iterable[Dataset], owner: str, *, iterable: bool = False
) -> list[Any]:
    """List the datasets; AssertionError if there are none, or for the wrong kind."""
    found = list(datasets)
    if not found:
        raise AssertionError(f"{owner}: the input datasets should not be empty")
    for dataset in found:
        if isinstance(dataset, IterableDataset) is not iterable:
            kind = "only supports" if iterable else "does not support"
            raise AssertionError(f"{owner} {kind} paddle.io.IterableDataset")
    return found


class ComposeDataset(Dataset):
    """The fields of the samples of several datasets side by side (paddle.io.ComposeDataset)."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = _check_datasets(datasets, "ComposeDataset")
        if len({len(dataset) for dataset in self.datasets}) != 1:
            raise AssertionError("lengths of datasets should be same")

    def __len__(self) -> int:
        return len(self.datasets[0])

    def __getitem__(self, idx: Any) -> tuple[Any, ...]:
        fields: list[Any] = []
        for dataset in self.datasets:
            sample = dataset[idx]
            fields += sample if isinstance(sample, (list, tuple)) else [sample]
        return tuple(fields)


class ChainDataset(IterableDataset):
    """Iterable datasets one after the other (paddle.io.ChainDataset)."""

    def __init__(self, datasets: Iterable[IterableDataset]) -> None:
        self.datasets = _check_datasets(datasets, "ChainDataset", iterable=True)

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            yield from dataset


class ConcatDataset(Dataset):
    """The samples of several datasets one after the other (paddle.io.ConcatDataset)."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = _check_datasets(datasets, "ConcatDataset")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        if idx < -len(self):
            raise ValueError("absolute value of index should not exceed dataset length")
        idx += len(self) if idx < 0 else 0
        at = bisect_right(self.cumulative_sizes, idx)
        return self.datasets[at][idx - (self.cumulative_sizes[at - 1] if at else 0)]


class Subset(Dataset):
    """The samples of a dataset with these indices (paddle.io.Subset)."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: int) -> Any:
        return self.dataset[self.indices[idx]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """Split a dataset into random subsets of these lengths (paddle.io.random_split).

    NumPy's generator draws the samples. Lengths that add up to 1 are fractions of the dataset; the
    samples left over by rounding down go to the subsets in turn. `generator` has no effect, as in
    Paddle. Raises ValueError when the lengths do not add up to the length of the dataset, or a
    fraction is outside of 0 to 1.
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of(lengths, len(dataset))
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = np.random.permutation(len(dataset)).tolist()
    counts = [int(length) for length in lengths]
    ends = accumulate(counts)
    return [Subset(dataset, indices[end - n : end]) for end, n in zip(ends, counts, strict=True)]


def _lengths_of(fractions: Sequence[float], size: int) -> list[int]:
    """Convert fractions to lengths of subsets that add up to `size` samples."""
    for index, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {index} is not between 0 and 1")
    lengths = [math.floor(size * fraction) for fraction in fractions]
    for left in range(size - sum(lengths)):
        lengths[left % len(lengths)] += 1
    for index, length in enumerate(lengths):
        if length == 0:
            warnings.warn(
                f"Length of split at index {index} is 0. This might result in an empty dataset.",
                stacklevel=caller_level(),
            )
    return lengths
