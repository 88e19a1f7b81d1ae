"""Sentences of the Penn Treebank (paddle.dataset.imikolov) as ids of words.

The words of the dictionary are bytes; its marks "<s>", "<e>" and "<unk>" are text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from graphopt.dataset.archive import SourceFile, lines
from graphopt.dataset.words import UNKNOWN, ids_by_count
from graphopt.reader.decorator import Reader

ARCHIVE = SourceFile(
    "imikolov", "imikolov%2Fsimple-examples.tgz", "30177ea32e27c525793142b6bf2c8e2d"
)
TRAIN_TEXT = "./simple-examples/data/ptb.train.txt"
TEST_TEXT = "./simple-examples/data/ptb.valid.txt"

WordIds = Mapping[Any, int]


class DataType:
    """Kinds of samples: windows of n words, or a sentence and the same shifted by a word."""

    NGRAM = 1
    SEQ = 2


def build_dict(min_word_freq: int = 50) -> dict[Any, int]:
    """Build the ids of words and marks that occur more than `min_word_freq` times in both texts."""
    return dict_of(ARCHIVE.path(), min_word_freq)


def dict_of(path: str, min_word_freq: int) -> dict[Any, int]:
    """Build the dictionary of an archive."""
    counts = Counter[bytes | str]()
    for name in (TRAIN_TEXT, TEST_TEXT):
        for line in lines(path, name):
            counts.update([*line.split(), "<s>", "<e>"])
    return ids_by_count(counts, min_word_freq)


def train(word_idx: WordIds, n: int, data_type: int = DataType.NGRAM) -> Reader:
    """Create a reader of the training set: windows of `n` words, or pairs of sentences.

    In a pair the first sentence begins with "<s>" and the second ends with "<e>". Sentences have
    fewer than `n` words; with n of 0 or below they have any length.
    """
    return lambda: samples_of(ARCHIVE.path(), TRAIN_TEXT, word_idx, n, data_type)


def test(word_idx: WordIds, n: int, data_type: int = DataType.NGRAM) -> Reader:
    """Create a reader of the test set, with the samples of `train`."""
    return lambda: samples_of(ARCHIVE.path(), TEST_TEXT, word_idx, n, data_type)


def samples_of(
    path: str, name: str, word_idx: WordIds, n: int, data_type: int
) -> Iterator[tuple[Any, ...]]:
    """Read the samples of a text in an archive."""
    if data_type == DataType.NGRAM and n < 0:
        raise ValueError(f"a window cannot have {n} words")
    unknown = word_idx[UNKNOWN]
    start, end = word_idx.get("<s>", unknown), word_idx.get("<e>", unknown)
    for line in lines(path, name):
        ids = [word_idx.get(word, unknown) for word in line.split()]
        if data_type == DataType.NGRAM:
            marked = [start, *ids, end]
            for last in range(n, len(marked) + 1):
                yield tuple(marked[last - n : last])
        elif data_type == DataType.SEQ:
            if n <= 0 or len(ids) < n:
                yield [start, *ids], [*ids, end]
        else:
            raise ValueError(f"data_type is DataType.NGRAM or DataType.SEQ, not {data_type}")


def fetch() -> None:
    """Raise FileNotFoundError unless the archive exists."""
    ARCHIVE.path()
