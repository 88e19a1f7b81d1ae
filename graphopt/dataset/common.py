"""The folder of data sets, and samples in user files (paddle.dataset.common)."""

from __future__ import annotations

import glob
import hashlib
import importlib
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import IO, Any

from graphopt.reader.decorator import Reader

DATA_HOME = os.path.expanduser("~/.cache/paddle/dataset")

_WITH_FILES = (
    *("cifar", "conll05", "flowers", "imdb", "imikolov", "mnist"),
    *("movielens", "uci_housing", "voc2012", "wmt14", "wmt16"),
)


def md5file(fname: str) -> str:
    """Compute the MD5 sum of a file, in hexadecimal digits."""
    with open(fname, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def download(url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
    """Find a file of a data set; nothing is downloaded.

    The file is in the folder `module_name` of DATA_HOME, as `save_name` or else the last part of
    `url`. Raises FileNotFoundError when it is missing, and warns when its MD5 sum is not `md5sum`:
    it may be a part of the data set that was made by hand.
    """
    folder = os.path.join(DATA_HOME, module_name)
    path = os.path.join(folder, save_name or url.rpartition("/")[2])
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"no file {os.path.basename(path)!r} in the folder {folder}; graphopt downloads "
            "nothing: get this file of the data set and put it there"
        )
    found = md5file(path)
    if found != md5sum:
        warnings.warn(
            f"{path} is not the file that Paddle downloads: its MD5 sum is {found}, not {md5sum}",
            stacklevel=2,
        )
    return path


def fetch_all() -> None:
    """Raise FileNotFoundError unless the files of all data sets exist."""
    for name in _WITH_FILES:
        importlib.import_module(f"graphopt.dataset.{name}").fetch()


def split(
    reader: Reader,
    line_count: int,
    suffix: str = "%05d.pickle",
    dumper: Callable[[list[Any], IO[Any]], Any] = pickle.dump,
) -> None:
    """Write samples to files of about `line_count`, called `suffix % 0`, `suffix % 1`, and so on.

    `dumper` writes a list of samples to an open file: of bytes for `pickle.dump`, else of text.
    """
    if not callable(dumper):
        raise TypeError("dumper should be callable.")
    mode = "wb" if dumper is pickle.dump else "w"
    for number, samples in enumerate(_runs(reader, line_count)):
        with open(suffix % number, mode) as file:
            dumper(samples, file)


def _runs(reader: Reader, line_count: int) -> Iterator[list[Any]]:
    """Split samples into lists; the first has one sample more than the others, as in Paddle."""
    samples: list[Any] = []
    for number, sample in enumerate(reader()):
        samples.append(sample)
        if number >= line_count and number % line_count == 0:
            yield samples
            samples = []
    if samples:
        yield samples


def cluster_files_reader(
    files_pattern: str,
    trainer_count: int,
    trainer_id: int,
    loader: Callable[[IO[Any]], list[Any]] = pickle.load,
) -> Reader:
    """Read every `trainer_count`th of the files that `split` wrote, from file `trainer_id` on.

    `loader` reads the samples of an open file: of bytes for `pickle.load`, else of text.
    """

    def samples() -> Iterator[Any]:
        if not callable(loader):
            raise TypeError("loader should be callable.")
        mode = "rb" if loader is pickle.load else "r"
        for path in sorted(glob.glob(files_pattern))[trainer_id::trainer_count]:
            with open(path, mode) as file:
                yield from loader(file)

    return samples
