"""English and German sentences (paddle.dataset.wmt16) as ids of words.

A sample is a source sentence between "<s>" and "<e>", its translation after "<s>", and the
translation before "<e>".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from graphopt.dataset.archive import SourceFile, lines
from graphopt.dataset.words import sentence_pair
from graphopt.reader.decorator import Reader

ARCHIVE = SourceFile("wmt16", "wmt16.tar.gz", "0c38be43600334966403524a40dcd81e")

TOTAL_EN_WORDS = 11250
TOTAL_DE_WORDS = 19220
MARKS = START, END, UNKNOWN = "<s>", "<e>", "<unk>"

_COLUMNS = ("en", "de")
_MOST = {"en": TOTAL_EN_WORDS, "de": TOTAL_DE_WORDS}

Sample = tuple[list[int], list[int], list[int]]


def dictionary(path: str, lang: str, dict_size: int) -> dict[str, int]:
    """Build the ids of the marks, and of the most frequent words of an archive's training set."""
    words = _by_count(path, lang)[: max(min(dict_size, _MOST[lang]) - len(MARKS), 0)]
    return {word: number for number, word in enumerate([*MARKS, *words])}


@lru_cache(maxsize=2)
def _by_count(path: str, lang: str) -> list[str]:
    """Sort the words of the training set by frequency; ties are in order of first occurrence."""
    column = _COLUMNS.index(lang)
    counts = Counter[str]()
    for line in lines(path, "wmt16/train"):
        if pair := sentence_pair(line):
            counts.update(pair[column])
    return [word for word, _ in counts.most_common()]


def samples_of(
    path: str, part: str, src_dict_size: int, trg_dict_size: int, src_lang: str
) -> Iterator[Sample]:
    """Read the samples of "train", "test" or "val" in an archive."""
    column = _COLUMNS.index(src_lang)
    source_ids = dictionary(path, src_lang, src_dict_size)
    target_ids = dictionary(path, _COLUMNS[1 - column], trg_dict_size)
    start, end, unknown = (source_ids[mark] for mark in MARKS)
    for line in lines(path, f"wmt16/{part}"):
        if pair := sentence_pair(line):
            source = [source_ids.get(word, unknown) for word in pair[column]]
            target = [target_ids.get(word, unknown) for word in pair[1 - column]]
            yield [start, *source, end], [start, *target], [*target, end]


def train(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """Create a reader of the training set, from `src_lang` ("en" or "de") to the other language.

    The dictionaries have at most `src_dict_size` and `trg_dict_size` words, marks included.
    """
    return _reader("train", src_dict_size, trg_dict_size, src_lang)


def test(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """Create a reader of the test set, with the samples of `train`."""
    return _reader("test", src_dict_size, trg_dict_size, src_lang)


def validation(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """Create a reader of the validation set, with the samples of `train`."""
    return _reader("val", src_dict_size, trg_dict_size, src_lang)


def _reader(part: str, src_dict_size: int, trg_dict_size: int, src_lang: str) -> Reader:
    _check_lang(src_lang)
    path = ARCHIVE.path()
    return lambda: samples_of(path, part, src_dict_size, trg_dict_size, src_lang)


def _check_lang(lang: str) -> None:
    if lang not in _COLUMNS:
        raise ValueError(f"the language is 'en' (English) or 'de' (German), not {lang!r}")


def get_dict(lang: str, dict_size: int, reverse: bool = False) -> dict[str, int] | dict[int, str]:
    """Build the ids of a language's words, or the words by id with `reverse`."""
    _check_lang(lang)
    ids = dictionary(ARCHIVE.path(), lang, dict_size)
    return {number: word for word, number in ids.items()} if reverse else ids


def fetch() -> None:
    """Raise FileNotFoundError unless the archive exists."""
    ARCHIVE.path()
