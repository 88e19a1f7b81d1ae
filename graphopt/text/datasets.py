"""Data sets of text, read at construction (paddle.text.datasets).

The samples are the samples of the readers in `paddle.dataset`, as arrays. Without a path each class
reads the file of `paddle.dataset`; `download` has no effect, as nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from graphopt.dataset import conll05, imdb, imikolov, movielens, uci_housing, wmt14, wmt16
from graphopt.frontend.missing import explain
from graphopt.frontend.mode import get_default_dtype
from graphopt.io.dataset import Dataset


def _one_of(mode: str, *modes: str) -> str:
    """Check a mode and return it in lower case; ValueError when there is no such part."""
    if mode.lower() not in modes:
        raise ValueError(f"mode should be {' or '.join(map(repr, modes))}, but got {mode!r}")
    return mode.lower()


def _reverse(ids: dict[str, int]) -> dict[int, str]:
    return {number: word for word, number in ids.items()}


class _Samples(Dataset):
    """Samples whose parts are numbers and lists; each part becomes an array."""

    def __init__(self, samples: Iterable[Sequence[Any]]) -> None:
        self.data = list(samples)

    def __getitem__(self, idx: int) -> tuple[Any, ...]:
        return tuple(np.array(part) for part in self.data[idx])

    def __len__(self) -> int:
        return len(self.data)


class Imdb(_Samples):
    """Reviews of films: ids of words (n,), and [0] for praise or [1] for blame."""

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        cutoff: int = 150,
        download: bool = True,
    ) -> None:
        self.mode = _one_of(mode, "train", "test")
        self.data_file = data_file or imdb.ARCHIVE.path()
        self.word_idx = imdb.dict_of(self.data_file, imdb.ALL_REVIEWS, cutoff)
        found = imdb.read_labelled(self.data_file, self.mode, self.word_idx)
        super().__init__((words, [label]) for words, label in found)


class Imikolov(_Samples):
    """Sentences of the Penn Treebank: windows of ids, or pairs of sentences with "SEQ"."""

    def __init__(
        self,
        data_file: str | None = None,
        data_type: str = "NGRAM",
        window_size: int = -1,
        mode: str = "train",
        min_word_freq: int = 50,
        download: bool = True,
    ) -> None:
        self.data_type = _one_of(data_type, "ngram", "seq").upper()
        self.mode = _one_of(mode, "train", "test")
        self.window_size, self.min_word_freq = window_size, min_word_freq
        self.data_file = data_file or imikolov.ARCHIVE.path()
        self.word_idx = imikolov.dict_of(self.data_file, min_word_freq)
        kind = getattr(imikolov.DataType, self.data_type)
        # only paddle.dataset uses the validation text as its test set
        name = f"./simple-examples/data/ptb.{self.mode}.txt"
        super().__init__(
            imikolov.samples_of(self.data_file, name, self.word_idx, window_size, kind)
        )


class Movielens(_Samples):
    """Ratings of films: four arrays of the user, three of the film, and the rating."""

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        test_ratio: float = 0.1,
        rand_seed: int = 0,
        download: bool = True,
    ) -> None:
        self.mode = _one_of(mode, "train", "test")
        self.test_ratio, self.rand_seed = test_ratio, rand_seed
        self.data_file = data_file or movielens.ARCHIVE.path()
        tables = movielens.tables_of(self.data_file)
        self.movie_info, self.user_info = tables.movies, tables.users
        self.movie_title_dict, self.categories_dict = tables.title_words, tables.categories
        found = movielens.ratings_of(self.data_file, rand_seed, test_ratio, self.mode == "test")
        super().__init__(
            (*([number] for number in user.value()), [movie.index], *movie.value()[1:], [rating])
            for user, movie, rating in found
        )


class UCIHousing(Dataset):
    """Prices of houses: 13 features, scaled, and [price], of the default dtype."""

    def __init__(
        self, data_file: str | None = None, mode: str = "train", download: bool = True
    ) -> None:
        self.mode = _one_of(mode, "train", "test")
        self.data_file = data_file or uci_housing.DATA.path()
        self.data = uci_housing.scaled_rows(self.data_file)[self.mode == "test"]
        self.dtype = get_default_dtype()

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        row = self.data[idx]
        return row[:-1].astype(self.dtype), row[-1:].astype(self.dtype)

    def __len__(self) -> int:
        return len(self.data)


class WMT14(_Samples):
    """English sentences, their French translations, and these shifted by a word."""

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        dict_size: int = -1,
        download: bool = True,
    ) -> None:
        self.mode = _one_of(mode, "train", "test", "gen")
        if dict_size <= 0:
            raise ValueError(f"dict_size should be a positive number, not {dict_size}")
        self.dict_size = dict_size
        self.data_file = data_file or wmt14.ARCHIVE.path()
        self.src_dict, self.trg_dict = wmt14.dictionaries(self.data_file, dict_size)
        super().__init__(wmt14.samples_of(self.data_file, self.mode, dict_size))

    def get_dict(self, reverse: bool = False) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return the ids of the source and target words, or the words by id with `reverse`."""
        if reverse:
            return _reverse(self.src_dict), _reverse(self.trg_dict)
        return self.src_dict, self.trg_dict


class WMT16(_Samples):
    """Sentences of `lang` ("en" or "de"), their translations, and these shifted by a word.

    Each language has its own dictionary; Paddle 2.6 builds both from words of `lang`.
    """

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        src_dict_size: int = -1,
        trg_dict_size: int = -1,
        lang: str = "en",
        download: bool = True,
    ) -> None:
        self.mode = _one_of(mode, "train", "test", "val")
        if min(src_dict_size, trg_dict_size) <= 0:
            raise ValueError("src_dict_size and trg_dict_size should be positive numbers")
        self.lang = _one_of(lang, "en", "de")
        self.data_file = data_file or wmt16.ARCHIVE.path()
        other = "de" if self.lang == "en" else "en"
        self.src_dict = wmt16.dictionary(self.data_file, self.lang, src_dict_size)
        self.trg_dict = wmt16.dictionary(self.data_file, other, trg_dict_size)
        super().__init__(
            wmt16.samples_of(self.data_file, self.mode, src_dict_size, trg_dict_size, self.lang)
        )

    def get_dict(self, lang: str, reverse: bool = False) -> dict[Any, Any]:
        """Return the ids of a language's words, or the words by id with `reverse`."""
        ids = self.src_dict if lang == self.lang else self.trg_dict
        return _reverse(ids) if reverse else ids


class Conll05st(_Samples):
    """Semantic roles: nine arrays of ids for each verb of a sentence, see `paddle.dataset`."""

    def __init__(
        self,
        data_file: str | None = None,
        word_dict_file: str | None = None,
        verb_dict_file: str | None = None,
        target_dict_file: str | None = None,
        emb_file: str | None = None,
        download: bool = True,
    ) -> None:
        self.data_file = data_file or conll05.DATA.path()
        self.word_dict = conll05.load_dict(word_dict_file or conll05.WORDS.path())
        self.predicate_dict = conll05.load_dict(verb_dict_file or conll05.VERBS.path())
        self.label_dict = conll05.load_label_dict(target_dict_file or conll05.LABELS.path())
        self.emb_file = emb_file or conll05.EMBEDDING.path()
        clauses = conll05.corpus_reader(self.data_file, conll05.WORDS_NAME, conll05.PROPS_NAME)
        dictionaries = (self.word_dict, self.predicate_dict, self.label_dict)
        super().__init__(conll05.ids_of(clause, *dictionaries) for clause in clauses())

    def get_dict(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Return the dictionaries of words, verbs and labels."""
        return self.word_dict, self.predicate_dict, self.label_dict

    def get_embedding(self) -> str:
        """Return the path of the trained word vectors."""
        return self.emb_file


explain(globals())
