"""Photographs and the class of each pixel (paddle.dataset.voc2012), as arrays. Needs Pillow."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from graphopt.dataset.archive import SourceFile
from graphopt.frontend.images.image import pillow
from graphopt.reader.decorator import Reader

ARCHIVE = SourceFile("voc2012", "VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd")

_FOLDER = "VOCdevkit/VOC2012"


class Images:
    """An archive of photographs, opened to be read in any order."""

    def __init__(self, path: str) -> None:
        self.archive = tarfile.TarFile(path)

    def names(self, part: str) -> list[str]:
        """Return the names of the photographs of "train", "val" or "trainval"."""
        return self._read(f"ImageSets/Segmentation/{part}.txt").decode().split()

    def pair(self, name: str) -> tuple[Any, Any]:
        """Open a photograph and the classes of its pixels, as Pillow images."""
        photograph = self._read(f"JPEGImages/{name}.jpg")
        classes = self._read(f"SegmentationClass/{name}.png")
        open_image = pillow().Image.open
        return open_image(io.BytesIO(photograph)), open_image(io.BytesIO(classes))

    def _read(self, name: str) -> bytes:
        file = self.archive.extractfile(f"{_FOLDER}/{name}")
        assert file is not None
        with file:
            return file.read()


def train() -> Reader:
    """Create a reader of all photographs: pixels (rows, columns, 3) and classes (rows, columns)."""
    return _reader("trainval")


def test() -> Reader:
    """Create a reader of the photographs of the training part, with the samples of `train`."""
    return _reader("train")


def val() -> Reader:
    """Create a reader of the photographs of the validation part, with the samples of `train`."""
    return _reader("val")


def _reader(part: str) -> Reader:
    path = ARCHIVE.path()

    def samples() -> Iterator[tuple[Any, Any]]:
        images = Images(path)
        with images.archive:
            for name in images.names(part):
                photograph, classes = images.pair(name)
                yield np.array(photograph), np.array(classes)

    return samples


def fetch() -> None:
    """Raise FileNotFoundError unless the archive exists."""
    ARCHIVE.path()
