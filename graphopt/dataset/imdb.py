"""Reviews of films (paddle.dataset.imdb): ids of words, and 0 for praise or 1 for blame.

The words of the dictionary are bytes, its mark "<unk>" is text.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from graphopt.dataset.archive import SourceFile, members
from graphopt.dataset.words import UNKNOWN, ids_by_count
from graphopt.reader.decorator import Reader

ARCHIVE = SourceFile("imdb", "imdb%2FaclImdb_v1.tar.gz", "7c2ac02c03563afcf9b574c7e56c153a")
ALL_REVIEWS = re.compile(r"aclImdb/(train|test)/(pos|neg)/.*\.txt$")

_PUNCTUATION = string.punctuation.encode()


def tokenize(pattern: re.Pattern[str]) -> Iterator[list[bytes]]:
    """Read the words of each review whose path matches, in lower case, without punctuation."""
    return reviews(ARCHIVE.path(), pattern)


def reviews(path: str, pattern: re.Pattern[str]) -> Iterator[list[bytes]]:
    """Read the words of an archive's reviews, in lower case and without punctuation."""
    for _, file in members(path, pattern.match):
        yield file.read().translate(None, _PUNCTUATION).lower().split()


def build_dict(pattern: re.Pattern[str], cutoff: int) -> dict[Any, int]:
    """Build the ids of words that occur more than `cutoff` times in the matching reviews."""
    return dict_of(ARCHIVE.path(), pattern, cutoff)


def dict_of(path: str, pattern: re.Pattern[str], cutoff: int) -> dict[Any, int]:
    """Build the dictionary of an archive."""
    counts = Counter[bytes | str]()
    for words in reviews(path, pattern):
        counts.update(words)
    return ids_by_count(counts, cutoff)


def word_dict() -> dict[Any, int]:
    """Build the ids of words that occur more than 150 times in all reviews."""
    return build_dict(ALL_REVIEWS, 150)


def train(word_idx: Mapping[Any, int]) -> Reader:
    """Read the training set now, and return its reader: positive reviews, then negative ones."""
    return _reader("train", word_idx)


def test(word_idx: Mapping[Any, int]) -> Reader:
    """Read the test set now, and return its reader: positive reviews, then negative ones."""
    return _reader("test", word_idx)


def _reader(mode: str, word_idx: Mapping[Any, int]) -> Reader:
    samples = read_labelled(ARCHIVE.path(), mode, word_idx)
    return lambda: iter(samples)


def read_labelled(path: str, mode: str, word_idx: Mapping[Any, int]) -> list[tuple[list[int], int]]:
    """Read the word ids and labels of the "train" or "test" reviews in an archive."""
    unknown = word_idx[UNKNOWN]
    return [
        ([word_idx.get(word, unknown) for word in words], label)
        for label, kind in enumerate(("pos", "neg"))
        for words in reviews(path, re.compile(rf"aclImdb/{mode}/{kind}/.*\.txt$"))
    ]


def fetch() -> None:
    """Raise FileNotFoundError unless the archive exists."""
    ARCHIVE.path()
