"""Photographs of 102 kinds of flowers (paddle.dataset.flowers): pixels, and a label from 0.

As in Paddle the training set is the larger part, which its authors call the test set, and the test
set is their training set.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from graphopt.dataset.archive import SourceFile, members
from graphopt.dataset.image import load_image_bytes, simple_transform
from graphopt.reader.decorator import Reader, map_readers, xmap_readers

DATA = SourceFile("flowers", "102flowers.tgz", "52808999861908f626f3c1f4e79d11fa")
LABELS = SourceFile("flowers", "imagelabels.mat", "e0620be6f572b9609742df49c70aed4d")
PARTS = SourceFile("flowers", "setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c")

TRAIN_FLAG, TEST_FLAG, VALID_FLAG = "tstid", "trnid", "valid"

Sample = tuple[Any, int]
Mapper = Callable[[tuple[bytes, int]], Any]


def default_mapper(is_train: bool, sample: tuple[bytes, int]) -> Sample:
    """Decode a file to 3 * 224 * 224 numbers around 0, from a random crop with `is_train`."""
    image = simple_transform(
        load_image_bytes(sample[0]), 256, 224, is_train, mean=[103.94, 116.78, 123.68]
    )
    return image.flatten(), sample[1]


train_mapper = partial(default_mapper, True)
test_mapper = partial(default_mapper, False)


def row_of(path: str, name: str) -> Any:
    """Read the first row of a matrix in a MATLAB file. Needs SciPy, a dependency of JAX."""
    import scipy.io

    return scipy.io.loadmat(path, variable_names=[name])[name][0]


def image_name(number: int) -> str:
    """Return the name of an image in the archive, by its number from 1."""
    return f"jpg/image_{number:05d}.jpg"


def train(
    mapper: Mapper = train_mapper,
    buffered_size: int = 1024,
    use_xmap: bool = True,
    cycle: bool = False,
) -> Reader:
    """Create a reader of the training set; `mapper` maps the bytes of a file and a label to a
    sample.

    With `use_xmap` threads run the mapper up to `buffered_size` samples ahead, and samples come in
    the order in which they are ready. With `cycle` the reader restarts at its end.
    """
    return _reader(TRAIN_FLAG, mapper, buffered_size, use_xmap, cycle)


def test(
    mapper: Mapper = test_mapper,
    buffered_size: int = 1024,
    use_xmap: bool = True,
    cycle: bool = False,
) -> Reader:
    """Create a reader of the test set, with the arguments of `train`."""
    return _reader(TEST_FLAG, mapper, buffered_size, use_xmap, cycle)


def valid(mapper: Mapper = test_mapper, buffered_size: int = 1024, use_xmap: bool = True) -> Reader:
    """Create a reader of the validation set, with the arguments of `train`."""
    return _reader(VALID_FLAG, mapper, buffered_size, use_xmap, cycle=False)


def _reader(part: str, mapper: Mapper, buffered_size: int, use_xmap: bool, cycle: bool) -> Reader:
    data, labels, parts = DATA.path(), LABELS.path(), PARTS.path()

    def samples() -> Iterator[tuple[bytes, int]]:
        label_of = row_of(labels, "labels")
        wanted = {image_name(number): label_of[number - 1] for number in row_of(parts, part)}
        while True:
            for name, file in members(data, wanted.__contains__):
                yield file.read(), int(wanted[name]) - 1
            if not cycle:
                return

    if use_xmap:
        return xmap_readers(mapper, samples, min(4, os.cpu_count() or 1), buffered_size)
    return map_readers(mapper, samples)


def fetch() -> None:
    """Raise FileNotFoundError unless all files exist."""
    for source in (DATA, LABELS, PARTS):
        source.path()
