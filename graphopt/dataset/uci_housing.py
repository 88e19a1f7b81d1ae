"""Prices of houses (paddle.dataset.uci_housing): 13 features, scaled, and a price."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from graphopt.dataset.archive import SourceFile, extract
from graphopt.reader.decorator import Reader

DATA = SourceFile("uci_housing", "housing.data", "d4accdce7a25600298819f8e28e8d593")
MODEL = SourceFile("uci_housing", "fit_a_line.fluid.tar", "6e6dd637ccd5993961f68bfbde46090b")

feature_names = [
    *("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE"),
    *("DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
]

Rows = np.ndarray[Any, np.dtype[np.float64]]


def scaled_rows(path: str) -> tuple[Rows, Rows]:
    """Read and scale the rows; return the first four fifths, and the rest.

    Each feature is shifted to mean 0 over all rows and scaled to range 1; the price is unchanged.
    """
    rows = np.fromfile(path, sep=" ")
    columns = len(feature_names) + 1
    rows = rows.reshape(len(rows) // columns, columns)
    features = rows[:, :-1]
    means = features.sum(axis=0) / len(rows)
    rows[:, :-1] = (features - means) / (features.max(axis=0) - features.min(axis=0))
    train_rows = int(len(rows) * 0.8)
    return rows[:train_rows], rows[train_rows:]


def train() -> Reader:
    """Create a reader of the training set."""
    return _reader(scaled_rows(DATA.path())[0])


def test() -> Reader:
    """Create a reader of the test set."""
    return _reader(scaled_rows(DATA.path())[1])


def _reader(rows: Rows) -> Reader:
    def samples() -> Iterator[tuple[Rows, Rows]]:
        for row in rows:
            yield row[:-1], row[-1:]

    return samples


def predict_reader() -> tuple[Rows]:
    """Return the features of the first row of the test set, in a tuple."""
    return (scaled_rows(DATA.path())[1][0][:-1],)


def fluid_model() -> str:
    """Extract the files of the trained model to a new folder, and return its path."""
    folder = tempfile.mkdtemp()
    with tarfile.open(MODEL.path()) as archive:
        extract(archive, folder)
    return folder


def fetch() -> None:
    """Raise FileNotFoundError unless the file exists."""
    DATA.path()
