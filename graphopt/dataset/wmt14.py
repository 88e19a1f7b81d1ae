"""English and French sentences (paddle.dataset.wmt14) as ids of words.

A sample is a source sentence between "<s>" and "<e>", its translation after "<s>", and the
translation before "<e>".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from graphopt.dataset.archive import SourceFile, members
from graphopt.dataset.words import sentence_pair
from graphopt.errors import FormatError
from graphopt.reader.decorator import Reader

ARCHIVE = SourceFile("wmt14", "wmt14.tgz", "0791583d57d5beb693b9414c5b36798c")
MODEL = SourceFile("wmt14", "wmt%2Fwmt14.tgz", "0cb4a5366189b6acba876491c8724fa3")

START, END, UNK_IDX = "<s>", "<e>", 2

_LONGEST = 80

Sample = tuple[list[int], list[int], list[int]]


def dictionaries(path: str, dict_size: int) -> tuple[dict[str, int], dict[str, int]]:
    """Read the ids of the first `dict_size` source words and target words of an archive."""
    return _dictionary(path, "src.dict", dict_size), _dictionary(path, "trg.dict", dict_size)


def _dictionary(path: str, ending: str, size: int) -> dict[str, int]:
    found = [
        {line.strip().decode(): number for number, line in enumerate(itertools.islice(file, size))}
        for _, file in members(path, lambda name: name.endswith(ending))
    ]
    if len(found) != 1:
        raise FormatError(f"{path} has {len(found)} files *{ending}, not one")
    return found[0]


def samples_of(path: str, part: str, dict_size: int) -> Iterator[Sample]:
    """Read the "train", "test" or "gen" samples of an archive that have at most 80 words."""
    source_ids, target_ids = dictionaries(path, dict_size)
    for _, file in members(path, lambda name: name.endswith(f"{part}/{part}")):
        for line in file:
            if (pair := sentence_pair(line)) is None:
                continue
            source = [source_ids.get(word, UNK_IDX) for word in [START, *pair[0], END]]
            target = [target_ids.get(word, UNK_IDX) for word in pair[1]]
            if max(len(source), len(target)) <= _LONGEST:
                yield source, [target_ids[START], *target], [*target, target_ids[END]]


def train(dict_size: int) -> Reader:
    """Create a reader of the training set, with dictionaries of `dict_size` words."""
    return _reader("train", dict_size)


def test(dict_size: int) -> Reader:
    """Create a reader of the test set, with dictionaries of `dict_size` words."""
    return _reader("test", dict_size)


def gen(dict_size: int) -> Reader:
    """Create a reader of the sentences to translate, with dictionaries of `dict_size` words."""
    return _reader("gen", dict_size)


def _reader(part: str, dict_size: int) -> Reader:
    path = ARCHIVE.path()
    return lambda: samples_of(path, part, dict_size)


def get_dict(
    dict_size: int, reverse: bool = True
) -> tuple[dict[int, str], dict[int, str]] | tuple[dict[str, int], dict[str, int]]:
    """Read the source and target words by id, or the ids by word without `reverse`."""
    source, target = dictionaries(ARCHIVE.path(), dict_size)
    if not reverse:
        return source, target
    return {i: word for word, i in source.items()}, {i: word for word, i in target.items()}


def fetch() -> None:
    """Raise FileNotFoundError unless both archives exist."""
    ARCHIVE.path()
    MODEL.path()
