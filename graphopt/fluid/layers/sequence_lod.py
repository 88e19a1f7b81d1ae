"""Rows that are sequences: what only says where they start (paddle.fluid.layers.sequence_lod).

No operator reads lengths. These functions note on their result which lengths a fetch of it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt import arguments
from graphopt.errors import UnsupportedError
from graphopt.fluid.lod_tensor import lengths_between, note_lengths
from graphopt.ir.program import Variable
from graphopt.nn.functional.vision import unfold
from graphopt.tensor.creation import clone
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import reshape


def lod_reset(
    x: Variable, y: Variable | None = None, target_lod: Sequence[int] | None = None
) -> Variable:
    """x with the lengths that y is fed with, or with sequences that start at `target_lod`.

    `target_lod` has the first row of each sequence and the end of the last. Raises UnsupportedError
    when y holds such numbers as data. Paddle page: fluid.layers.lod_reset.
    """
    made = clone(x)
    if y is not None:
        arguments.variable(y, "y", "lod_reset")
        if not y.is_data or not y.lod_level:
            raise UnsupportedError(
                "lod_reset(): 'y' must be a variable that is fed with lengths (lod_level 1 or "
                "more); lengths that operators compute are not read"
            )
        return note_lengths(made, y.name)
    if target_lod is None:
        raise ValueError("lod_reset(): give one of 'y' and 'target_lod'")
    offsets = arguments.integers(target_lod, "target_lod", "lod_reset")
    return note_lengths(made, [lengths_between(offsets)])


def im2sequence(
    input: Variable,
    filter_size: Any = 1,
    stride: Any = 1,
    padding: Any = 0,
    input_image_size: Variable | None = None,
    out_stride: Any = 1,
    name: str | None = None,
) -> Variable:
    """The windows of images [n, c, h, w] as rows, a sequence for each image: [n * windows, c * k].

    `padding` is one number, two (height, width) or four (top, left, bottom, right). Raises
    UnsupportedError for `input_image_size`. Paddle page: fluid.layers.im2sequence.
    """
    if input_image_size is not None:
        raise UnsupportedError("im2sequence(): images of different sizes are not supported")
    kernel = arguments.pair(filter_size, "filter_size", "im2sequence")
    steps = arguments.pair(stride, "stride", "im2sequence")
    pads = arguments.integers(padding, "padding", "im2sequence")
    pads = pads * 2 if len(pads) == 2 else pads
    columns = unfold(arguments.variable(input, "input", "im2sequence"), kernel, steps, pads)
    _, width, count = columns.shape
    if count < 1:
        raise ValueError(f"im2sequence(): the image {list(input.shape)} must have a known size")
    rows = reshape(transpose(columns, [0, 2, 1]), [-1, width], name)
    return note_lengths(rows, count)
