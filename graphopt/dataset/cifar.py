"""Small images (paddle.dataset.cifar): 3072 pixels in [0, 1], channels first, and a label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from graphopt.dataset.archive import SourceFile, members
from graphopt.errors import FormatError
from graphopt.reader.decorator import Reader

CIFAR10 = SourceFile("cifar", "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a")
CIFAR100 = SourceFile("cifar", "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85")


def train10(cycle: bool = False) -> Reader:
    """Create a reader of the training set of 10 classes; with `cycle` it restarts at its end."""
    return _reader(CIFAR10.path(), "data_batch", cycle)


def test10(cycle: bool = False) -> Reader:
    """Create a reader of the test set of 10 classes; with `cycle` it restarts at its end."""
    return _reader(CIFAR10.path(), "test_batch", cycle)


def train100() -> Reader:
    """Create a reader of the training set of 100 classes."""
    return _reader(CIFAR100.path(), "train")


def test100() -> Reader:
    """Create a reader of the test set of 100 classes."""
    return _reader(CIFAR100.path(), "test")


def _reader(path: str, part: str, cycle: bool = False) -> Reader:
    def epoch() -> Iterator[tuple[Any, int]]:
        for name, file in members(path, lambda name: part in name):
            for pixels, label in batch_of(name, file):
                yield (pixels / 255.0).astype(np.float32), label

    def samples() -> Iterator[tuple[Any, int]]:
        yield from epoch()
        while cycle:
            yield from epoch()

    return samples


def batch_of(name: str, file: IO[bytes]) -> Iterator[tuple[Any, int]]:
    """Read the images (3072,) of bytes and their labels from a pickled file.

    Reading the pickle runs no code. Raises FormatError for a pickle without images and labels.
    """
    from graphopt.ir.formats.pickle.reader import read_pickle

    found = read_pickle(file.read(), name)
    entries = {
        key.decode() if isinstance(key, bytes) else key: value for key, value in found.items()
    }
    labels = entries.get("labels", entries.get("fine_labels"))
    if labels is None or "data" not in entries:
        raise FormatError(f"{name}: no images and labels, but {', '.join(map(str, entries))}")
    for pixels, label in zip(entries["data"], labels, strict=False):
        yield pixels, int(label)


def fetch() -> None:
    """Raise FileNotFoundError unless both archives exist."""
    CIFAR10.path()
    CIFAR100.path()
