"""Ratings of films by users (paddle.dataset.movielens).

Ids of title words and of categories are in the order in which these first occur; in Paddle they
differ from one process to the next.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from graphopt.dataset.archive import SourceFile
from graphopt.reader.decorator import Reader

ARCHIVE = SourceFile("movielens", "movielens%2Fml-1m.zip", "c4d9eecfca2ab87c1945afe126590906")

age_table = [1, 18, 25, 35, 45, 50, 56]

_TITLE = re.compile(r"(.*)\(\d+\)$")


@dataclass(frozen=True)
class MovieInfo:
    """A film: its number, categories and title, and the ids of the categories and title words."""

    index: int
    categories: list[str]
    title: str
    category_ids: list[int]
    title_ids: list[int]

    def value(self) -> list[Any]:
        """Return the number, the ids of the categories, and the ids of the title's words."""
        return [self.index, list(self.category_ids), list(self.title_ids)]

    def __str__(self) -> str:
        return f"<MovieInfo id({self.index}), title({self.title}), categories({self.categories})>"

    __repr__ = __str__


@dataclass(frozen=True)
class UserInfo:
    """A user: number, sex, place of the age in `age_table`, and job."""

    index: int
    is_male: bool
    age: int
    job_id: int

    def value(self) -> list[int]:
        """Return the number, 0 for a man or 1 for a woman, age and job."""
        return [self.index, 0 if self.is_male else 1, self.age, self.job_id]

    def __str__(self) -> str:
        sex = "M" if self.is_male else "F"
        return (
            f"<UserInfo id({self.index}), gender({sex}), age({age_table[self.age]}), "
            f"job({self.job_id})>"
        )

    __repr__ = __str__


@dataclass(frozen=True)
class Tables:
    """The films and users of an archive by number, and the ids of title words and categories."""

    movies: dict[int, MovieInfo]
    users: dict[int, UserInfo]
    title_words: dict[str, int]
    categories: dict[str, int]


@lru_cache(maxsize=1)
def tables_of(path: str) -> Tables:
    """Read the tables of an archive."""
    tables = Tables({}, {}, {}, {})
    for number, name, kinds in _rows(path, "movies"):
        found = _TITLE.match(name)
        if found is None:
            raise ValueError(f"{path}: no year after the title {name!r}")
        title, categories = found.group(1), kinds.split("|")
        tables.movies[int(number)] = MovieInfo(
            int(number),
            categories,
            title,
            [tables.categories.setdefault(c, len(tables.categories)) for c in categories],
            [
                tables.title_words.setdefault(word, len(tables.title_words))
                for word in title.lower().split()
            ],
        )
    for number, sex, age, job, _ in _rows(path, "users"):
        user = UserInfo(int(number), sex == "M", age_table.index(int(age)), int(job))
        tables.users[user.index] = user
    return tables


def _rows(path: str, table: str) -> Iterator[list[str]]:
    """Read the fields of each line of a table."""
    with zipfile.ZipFile(path) as archive, archive.open(f"ml-1m/{table}.dat") as file:
        for line in file:
            yield line.decode("latin-1").strip().split("::")


def train(rand_seed: int = 0, test_ratio: float = 0.1) -> Reader:
    """Create a reader of the training set: the user's numbers, the film's, and a rating in a list.

    Ratings are from -3 to 5. Each is in the test set with probability `test_ratio`, drawn with
    `rand_seed`.
    """
    return lambda: _samples(rand_seed, test_ratio, is_test=False)


def test(rand_seed: int = 0, test_ratio: float = 0.1) -> Reader:
    """Create a reader of the test set, with the samples of `train`."""
    return lambda: _samples(rand_seed, test_ratio, is_test=True)


def _samples(rand_seed: int, test_ratio: float, *, is_test: bool) -> Iterator[list[Any]]:
    for user, movie, rating in ratings_of(ARCHIVE.path(), rand_seed, test_ratio, is_test):
        yield [*user.value(), *movie.value(), [rating]]


def ratings_of(
    path: str, rand_seed: int, test_ratio: float, is_test: bool
) -> Iterator[tuple[UserInfo, MovieInfo, float]]:
    """Read the ratings of one of the two sets of an archive."""
    tables = tables_of(path)
    chance = np.random.RandomState(rand_seed)
    for user, movie, stars, _ in _rows(path, "ratings"):
        if (chance.random_sample() < test_ratio) == is_test:
            yield tables.users[int(user)], tables.movies[int(movie)], float(stars) * 2 - 5.0


def get_movie_title_dict() -> dict[str, int]:
    """Return the ids of title words."""
    return tables_of(ARCHIVE.path()).title_words


def movie_categories() -> dict[str, int]:
    """Return the ids of the categories."""
    return tables_of(ARCHIVE.path()).categories


def movie_info() -> dict[int, MovieInfo]:
    """Return the films by number."""
    return tables_of(ARCHIVE.path()).movies


def user_info() -> dict[int, UserInfo]:
    """Return the users by number."""
    return tables_of(ARCHIVE.path()).users


def max_movie_id() -> int:
    """Return the highest number of a film."""
    return max(movie_info())


def max_user_id() -> int:
    """Return the highest number of a user."""
    return max(user_info())


def max_job_id() -> int:
    """Return the highest number of a job."""
    return max(user.job_id for user in user_info().values())


def fetch() -> None:
    """Raise FileNotFoundError unless the archive exists."""
    ARCHIVE.path()
