"""Handwritten digits (paddle.dataset.mnist): 784 pixels in [-1, 1], and a label."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import numpy as np

from graphopt.dataset.archive import SourceFile
from graphopt.reader.decorator import Reader

TRAIN_IMAGES = SourceFile("mnist", "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873")
TRAIN_LABELS = SourceFile("mnist", "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432")
TEST_IMAGES = SourceFile("mnist", "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3")
TEST_LABELS = SourceFile("mnist", "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c")

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def pixels_and_labels(image_path: str, label_path: str) -> tuple[Pixels, Pixels]:
    """Read the images (n, height * width) and the labels (n,) of a pair of files.

    Raises ValueError when a file is shorter than its header states.
    """
    with gzip.open(label_path) as file:
        labels = file.read()
    with gzip.open(image_path) as file:
        images = file.read()
    count = int(np.frombuffer(labels, ">u4", 2)[1])
    size = int(np.prod(np.frombuffer(images, ">u4", 4)[2:]))
    pixels = np.frombuffer(images, np.uint8, count * size, offset=16).reshape(count, size)
    return pixels, np.frombuffer(labels, np.uint8, count, offset=8)


def train() -> Reader:
    """Create a reader of the training set."""
    return reader_creator(TRAIN_IMAGES.path(), TRAIN_LABELS.path(), 100)


def test() -> Reader:
    """Create a reader of the test set."""
    return reader_creator(TEST_IMAGES.path(), TEST_LABELS.path(), 100)


def reader_creator(image_filename: str, label_filename: str, buffer_size: int) -> Reader:
    """Create a reader of a pair of files; it reads them as a whole, and ignores `buffer_size`."""

    def samples() -> Iterator[tuple[Any, int]]:
        for image, label in zip(*pixels_and_labels(image_filename, label_filename), strict=True):
            yield image.astype(np.float32) / 255.0 * 2.0 - 1.0, int(label)

    return samples


def fetch() -> None:
    """Raise FileNotFoundError unless all files exist."""
    for source in (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS):
        source.path()
