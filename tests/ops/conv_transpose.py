"""Samples of transposed convolutions, against loops that spread each input element."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.conv_transpose import Conv2dTranspose, Conv3dTranspose
from graphopt_tests.ops.base import Array, f32, f64, sample


def spread(
    stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1, extra: int = 0
) -> Callable[[Array, Array], Array]:
    """The transpose of a convolution with channels first, alike in every dimension."""

    def compute(x: Array, w: Array) -> Array:
        x, w = x.astype(float), w.astype(float)
        kernel, sizes = w.shape[2:], x.shape[2:]
        full = [
            (n - 1) * stride + dilation * (k - 1) + 1 + extra
            for n, k in zip(sizes, kernel, strict=True)
        ]
        out: Any = np.zeros((len(x), w.shape[1] * groups, *full))
        each = len(w) // groups
        for c, at, tap in product(range(len(w)), np.ndindex(*sizes), np.ndindex(*kernel)):
            first = c // each * w.shape[1]
            place = tuple(i * stride + j * dilation for i, j in zip(at, tap, strict=True))
            out[(slice(None), slice(first, first + w.shape[1]), *place)] += (
                x[(slice(None), c, *at)][:, None] * w[(c, slice(None), *tap)]
            )
        return out[(slice(None), slice(None), *(slice(pad, n - pad) for n in full))]

    return compute


SAMPLES = {
    Conv2dTranspose: [
        sample(f32(1, 2, 3, 2), f32(2, 3, 2, 3)).gives(spread()),
        sample(f32(1, 2, 3, 3), f32(2, 1, 3, 3), strides=(2, 2), paddings=(1, 1)).gives(
            spread(2, 1)
        ),
        sample(
            *(f64(1, 4, 2, 2), f64(4, 1, 2, 2)),
            strides=(2, 2),
            dilations=(2, 2),
            groups=2,
            output_padding=(1, 1),
        ).gives(spread(2, 0, 2, 2, 1)),
        sample(f32(1, 1, 2, 2), f32(1, 2, 3, 3), strides=(2, 2), output_size=(6, 6)).gives(
            spread(2, extra=1)
        ),
        sample(f32(1, 2, 2, 2), f32(2, 1, 2, 2), data_format="NHWC").gives(
            lambda x, w: spread()(x.transpose(0, 3, 1, 2), w).transpose(0, 2, 3, 1)
        ),
    ],
    Conv3dTranspose: [
        sample(f32(1, 1, 2, 2, 1), f32(1, 2, 2, 1, 2), strides=(2, 2, 2)).gives(spread(2)),
    ],
}
