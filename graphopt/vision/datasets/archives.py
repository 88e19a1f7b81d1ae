"""Images in the archives of well-known data sets.

Without paths the classes read the files of `paddle.dataset`. `download` has no effect, as nothing
is downloaded. `backend` is the kind of image, see `paddle.vision.set_image_backend`.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphopt.dataset import cifar, flowers, mnist, voc2012
from graphopt.dataset.archive import SourceFile, extract, members
from graphopt.frontend.images.image import pillow
from graphopt.frontend.mode import get_default_dtype
from graphopt.io.dataset import Dataset
from graphopt.vision.backend import choose_backend

Transform = Callable[[Any], Any]


class _Images(Dataset):
    """The mode, kind of image and transform that all these data sets have."""

    modes: tuple[str, ...] = ("train", "test")

    def __init__(self, mode: str, transform: Transform | None, backend: str | None) -> None:
        self.mode = mode.lower()
        if self.mode not in self.modes:
            raise ValueError(f"mode should be {' or '.join(map(repr, self.modes))}, not {mode!r}")
        self.backend = choose_backend(backend)
        self.transform = transform
        self.dtype = get_default_dtype()

    def transform_image(self, image: Any) -> Any:
        """Transform an image, and cast an array to the default dtype."""
        if self.transform is not None:
            image = self.transform(image)
        return image if self.backend == "pil" else image.astype(self.dtype)


class MNIST(_Images):
    """Handwritten digits: 28 by 28 pixels, and [label]."""

    files: Mapping[str, tuple[SourceFile, SourceFile]] = {
        "train": (mnist.TRAIN_IMAGES, mnist.TRAIN_LABELS),
        "test": (mnist.TEST_IMAGES, mnist.TEST_LABELS),
    }

    def __init__(
        self,
        image_path: str | None = None,
        label_path: str | None = None,
        mode: str = "train",
        transform: Transform | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, transform, backend)
        images, labels = self.files[self.mode]
        self.image_path = image_path or images.path()
        self.label_path = label_path or labels.path()
        self.images, self.labels = mnist.pixels_and_labels(self.image_path, self.label_path)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        pixels = self.images[idx].reshape(28, 28)
        image = pixels.astype(np.float32)
        if self.backend == "pil":
            image = pillow().Image.fromarray(pixels)
        return self.transform_image(image), self.labels[idx : idx + 1].astype(np.int64)

    def __len__(self) -> int:
        return len(self.labels)


def _clothes(digits: SourceFile, md5: str) -> SourceFile:
    """Derive a Fashion-MNIST file from the MNIST file of the same name."""
    return digits._replace(folder="fashion-mnist", md5=md5)


class FashionMNIST(MNIST):
    """Clothes, in the form of MNIST."""

    files: Mapping[str, tuple[SourceFile, SourceFile]] = {
        "train": (
            _clothes(mnist.TRAIN_IMAGES, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            _clothes(mnist.TRAIN_LABELS, "25c81989df183df01b3e8a0aad5dffbe"),
        ),
        "test": (
            _clothes(mnist.TEST_IMAGES, "bef4ecab320f06d8554ea6380940ec79"),
            _clothes(mnist.TEST_LABELS, "bb300cfdad3c16e7a12a480ee83cd310"),
        ),
    }


class Cifar10(_Images):
    """Small color images of 10 classes: 32 rows, 32 columns, 3 channels, and a label."""

    source = cifar.CIFAR10
    parts: Mapping[str, str] = {"train": "data_batch", "test": "test_batch"}

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        transform: Transform | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, transform, backend)
        self.data_file = data_file or self.source.path()
        part = self.parts[self.mode]
        batches = {
            name: list(cifar.batch_of(name, file))
            for name, file in members(self.data_file, lambda name: part in name)
        }
        self.data = [sample for name in sorted(batches) for sample in batches[name]]

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        pixels, label = self.data[idx]
        image = pixels.reshape(3, 32, 32).transpose(1, 2, 0)
        if self.backend == "pil":
            image = pillow().Image.fromarray(np.ascontiguousarray(image))
        return self.transform_image(image), np.array(label, np.int64)

    def __len__(self) -> int:
        return len(self.data)


class Cifar100(Cifar10):
    """Small color images of 100 classes."""

    source = cifar.CIFAR100
    parts: Mapping[str, str] = {"train": "train", "test": "test"}


class Flowers(_Images):
    """Photographs of flowers, and [label] from 1; the images go to a folder beside the archive.

    As in `paddle.dataset` the training set is the part that its authors call the test set.
    """

    modes = ("train", "valid", "test")

    def __init__(
        self,
        data_file: str | None = None,
        label_file: str | None = None,
        setid_file: str | None = None,
        mode: str = "train",
        transform: Transform | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, transform, backend)
        data_file = data_file or flowers.DATA.path()
        part = {
            "train": flowers.TRAIN_FLAG,
            "test": flowers.TEST_FLAG,
            "valid": flowers.VALID_FLAG,
        }[self.mode]
        self.labels = flowers.row_of(label_file or flowers.LABELS.path(), "labels")
        self.indexes = flowers.row_of(setid_file or flowers.PARTS.path(), part)
        self.data_path = data_file.removesuffix(".tgz") + "/"
        if not all(os.path.exists(self._path(number)) for number in self.indexes):
            with tarfile.open(data_file) as archive:
                extract(archive, self.data_path)

    def _path(self, number: int) -> str:
        return os.path.join(self.data_path, flowers.image_name(number))

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        number = self.indexes[idx]
        with pillow().Image.open(self._path(number)) as image:
            image.load()
        if self.backend == "cv2":
            image = np.array(image)
        return self.transform_image(image), self.labels[number - 1 : number].astype(np.int64)

    def __len__(self) -> int:
        return len(self.indexes)


class VOC2012(_Images):
    """Photographs, and images of the class of each pixel."""

    modes = ("train", "valid", "test")

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        transform: Transform | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, transform, backend)
        self.data_file = data_file or voc2012.ARCHIVE.path()
        self.opened = voc2012.Images(self.data_file)
        part = {"train": "trainval", "test": "train", "valid": "val"}[self.mode]
        self.data = self.opened.names(part)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        image, classes = self.opened.pair(self.data[idx])
        if self.backend == "cv2":
            image, classes = np.array(image), np.array(classes).astype(self.dtype)
        return self.transform_image(image), classes

    def __len__(self) -> int:
        return len(self.data)

    def __del__(self) -> None:
        if hasattr(self, "opened"):
            self.opened.archive.close()
