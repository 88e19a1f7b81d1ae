"""Semantic roles of words (paddle.dataset.conll05): nine sequences for each verb of a sentence.

These are the words, five words around the verb (each repeated), the verb, a mark at these five
places, and the labels, all as ids. Ids of labels are in the order in which these first occur; in
Paddle they differ from one process to the next.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from graphopt.dataset.archive import SourceFile
from graphopt.errors import FormatError

DATA = SourceFile("conll05st", "conll05st-tests.tar.gz", "387719152ae52d60422c016e92a742fc")
WORDS = SourceFile("conll05st", "conll05st%2FwordDict.txt", "ea7fb7d4c75cc6254716f0177a506baa")
VERBS = SourceFile("conll05st", "conll05st%2FverbDict.txt", "0d2977293bbb6cbefab5b0f97db1e77c")
LABELS = SourceFile("conll05st", "conll05st%2FtargetDict.txt", "d8c7f03ceb5fc2e5a0fa7503a4353751")
EMBEDDING = SourceFile("conll05st", "conll05st%2Femb", "bf436eb0faa1f6f9103017f8be57cdb7")

WORDS_NAME = "conll05st-release/test.wsj/words/test.wsj.words.gz"
PROPS_NAME = "conll05st-release/test.wsj/props/test.wsj.props.gz"
UNK_IDX = 0

Ids = Mapping[str, int]
Clause = tuple[list[str], str, list[str]]
"""A sentence, one of its verbs, and the words' labels for this verb."""


def load_dict(filename: str) -> dict[str, int]:
    """Map each line of a file to its number."""
    with open(filename, encoding="utf-8") as file:
        return {line.strip(): number for number, line in enumerate(file)}


def load_label_dict(filename: str) -> dict[str, int]:
    """Map "B-x" and "I-x" for each label x of a file to ids, and then "O"."""
    with open(filename, encoding="utf-8") as file:
        roles = dict.fromkeys(line.strip()[2:] for line in file if line.strip()[:2] in ("B-", "I-"))
    labels = [f"{place}-{role}" for role in roles for place in "BI"]
    return {label: number for number, label in enumerate([*labels, "O"])}


def get_dict() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Load the dictionaries of words, verbs and labels."""
    return load_dict(WORDS.path()), load_dict(VERBS.path()), load_label_dict(LABELS.path())


def get_embedding() -> str:
    """Return the path of the trained word vectors."""
    return EMBEDDING.path()


def corpus_reader(
    data_path: str, words_name: str, props_name: str
) -> Callable[[], Iterator[Clause]]:
    """Read sentences, verbs and labels from two files of an archive."""

    def clauses() -> Iterator[Clause]:
        for words, columns in _sentences(data_path, words_name, props_name):
            verbs = [verb for verb in columns[0] if verb != "-"]
            for verb, marks in zip(verbs, columns[1:], strict=True):
                yield words, verb, list(_labels(marks))

    return clauses


def _sentences(
    data_path: str, words_name: str, props_name: str
) -> Iterator[tuple[list[str], list[Sequence[str]]]]:
    """Read the words of each sentence, and the columns of its annotations.

    An empty line ends a sentence; a last sentence without one is dropped.
    """
    with (
        tarfile.open(data_path) as archive,
        gzip.GzipFile(fileobj=archive.extractfile(words_name)) as words_file,
        gzip.GzipFile(fileobj=archive.extractfile(props_name)) as props_file,
    ):
        words: list[str] = []
        rows: list[list[str]] = []
        for word, row in zip(words_file, props_file, strict=False):
            if fields := row.decode().split():
                words.append(word.decode().strip())
                rows.append(fields)
            elif rows:
                yield words, list(zip(*rows, strict=True))
                words, rows = [], []


def _labels(marks: Iterable[str]) -> Iterator[str]:
    """Label each word: B-x at the start of a bracket "(x*", I-x up to its end "*)", O elsewhere."""
    role, inside = "O", False
    for mark in marks:
        if "(" in mark:
            role, inside = mark[1 : mark.find("*")], ")" not in mark
            yield f"B-{role}"
        elif mark in ("*", "*)"):
            yield f"I-{role}" if inside or mark == "*)" else "O"
            inside = inside and mark == "*"
        else:
            raise FormatError(f"unexpected label: {mark}")


def reader_creator(
    corpus_reader: Callable[[], Iterable[Clause]],
    word_dict: Ids,
    predicate_dict: Ids,
    label_dict: Ids,
) -> Callable[[], Iterator[tuple[list[int | None], ...]]]:
    """Read the nine sequences of ids; None is a verb or label that a dictionary lacks."""

    def samples() -> Iterator[tuple[list[int | None], ...]]:
        for clause in corpus_reader():
            yield ids_of(clause, word_dict, predicate_dict, label_dict)

    return samples


def ids_of(
    clause: Clause, word_dict: Ids, predicate_dict: Ids, label_dict: Ids
) -> tuple[list[int | None], ...]:
    """Map a clause to its nine sequences; ValueError for a clause without the label B-V."""
    words, verb, labels = clause
    place = labels.index("B-V")
    near = range(place - 2, place + 3)
    padded = {-2: "bos", -1: "bos", len(labels): "eos", len(labels) + 1: "eos"}
    context = [padded.get(i) or words[i] for i in near]
    return (
        [word_dict.get(word, UNK_IDX) for word in words],
        *([word_dict.get(word, UNK_IDX)] * len(words) for word in context),
        [predicate_dict.get(verb)] * len(words),
        [int(i in near) for i in range(len(labels))],
        [label_dict.get(label) for label in labels],
    )


def test() -> Callable[[], Iterator[tuple[list[int | None], ...]]]:
    """Create a reader of the test set.

    Paddle trains with it too, as the training set is not free.
    """
    dictionaries = get_dict()
    return reader_creator(corpus_reader(DATA.path(), WORDS_NAME, PROPS_NAME), *dictionaries)


def fetch() -> None:
    """Raise FileNotFoundError unless all files exist."""
    for source in (WORDS, VERBS, LABELS, EMBEDDING, DATA):
        source.path()
