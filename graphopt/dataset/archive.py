"""The files of data sets: their paths, and the members of archives."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from graphopt.dataset import common
from graphopt.errors import UnsafeError


class SourceFile(NamedTuple):
    """A file of a data set: its folder in DATA_HOME, its name there, and its MD5 sum."""

    folder: str
    name: str
    md5: str

    def path(self) -> str:
        """Return the path; FileNotFoundError for a missing file names its folder."""
        return common.download(self.name, self.folder, self.md5)


def members(path: str, chosen: Callable[[str], object]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield names and contents of the tar archive's files whose name is `chosen`, in its order."""
    with tarfile.open(path) as archive:
        for member in archive:
            if chosen(member.name) and (file := archive.extractfile(member)) is not None:
                yield member.name, file


def lines(path: str, name: str) -> Iterator[bytes]:
    """Read the lines of one file of a tar archive; KeyError when it is missing."""
    with tarfile.open(path) as archive:
        file = archive.extractfile(name)
        if file is None:
            raise KeyError(f"{name!r} in {os.path.basename(path)!r} is not a file")
        yield from file


def extract(archive: tarfile.TarFile, folder: str) -> None:
    """Extract an archive into a folder; UnsafeError for a file that would be outside."""
    top = os.path.realpath(folder)
    for member in archive:
        target = os.path.realpath(os.path.join(top, member.name))
        if os.path.commonpath([top, target]) != top:
            raise UnsafeError(f"{archive.name}: {member.name!r} would be outside of its folder")
        if (source := archive.extractfile(member)) is not None:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                shutil.copyfileobj(source, file)
