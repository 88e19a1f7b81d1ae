"""Images in user folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from graphopt.frontend.images.image import pillow
from graphopt.io.dataset import Dataset
from graphopt.vision.backend import get_image_backend

IMG_EXTENSIONS = (
    *(".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm"),
    *(".tif", ".tiff", ".webp"),
)

Loader = Callable[[str], Any]
Check = Callable[[str], bool]


def default_loader(path: str) -> Any:
    """Load an RGB image, as a Pillow image or as an array (see `get_image_backend`)."""
    with pillow().Image.open(path) as image:
        found = image.convert("RGB")
    return np.array(found) if get_image_backend() == "cv2" else found


def _files(
    root: str, extensions: Sequence[str] | None, is_valid_file: Check | None
) -> Iterator[str]:
    """Find the files under a folder that `extensions` or `is_valid_file` accepts, sorted.

    By default these are images.
    """
    endings = tuple(ending.lower() for ending in extensions or IMG_EXTENSIONS)

    def is_wanted(path: str) -> bool:
        if is_valid_file is None or extensions is not None:
            return path.lower().endswith(endings)
        return is_valid_file(path)

    for folder, _, names in sorted(os.walk(os.path.expanduser(root), followlinks=True)):
        for name in sorted(names):
            if is_wanted(path := os.path.join(folder, name)):
                yield path


class DatasetFolder(Dataset):
    """The files in the subfolders of a folder; the label is the index of the sorted subfolder.

    `loader` maps a path to a sample. Files end in one of `extensions`; without `extensions`,
    `is_valid_file` selects them. By default they are images. Raises RuntimeError when there is
    none.
    """

    def __init__(
        self,
        root: str,
        loader: Loader | None = None,
        extensions: Sequence[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
        is_valid_file: Check | None = None,
    ) -> None:
        self.root, self.transform, self.extensions = root, transform, extensions
        self.loader = loader or default_loader
        self.classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}
        self.samples = [
            (path, label)
            for name, label in self.class_to_idx.items()
            for path in _files(os.path.join(root, name), extensions, is_valid_file)
        ]
        self.targets = [label for _, label in self.samples]
        if not self.samples:
            raise RuntimeError(f"no file to read in the folders of {root}")

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, label = self.samples[index]
        sample = self.loader(path)
        return (sample if self.transform is None else self.transform(sample)), label

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(Dataset):
    """The files under a folder, each in a list; with the arguments of `DatasetFolder`."""

    def __init__(
        self,
        root: str,
        loader: Loader | None = None,
        extensions: Sequence[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
        is_valid_file: Check | None = None,
    ) -> None:
        self.root, self.transform, self.extensions = root, transform, extensions
        self.loader = loader or default_loader
        self.samples = list(_files(root, extensions, is_valid_file))
        if not self.samples:
            raise RuntimeError(f"no file to read in {root}")

    def __getitem__(self, index: int) -> list[Any]:
        sample = self.loader(self.samples[index])
        return [sample if self.transform is None else self.transform(sample)]

    def __len__(self) -> int:
        return len(self.samples)
