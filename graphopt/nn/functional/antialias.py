"""Downscaling of images without aliasing: a new pixel averages all old pixels below it.

The average along an axis is a product with a constant matrix, whose rows are windows of a
triangle, or of a cubic, as wide as a new pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign
from graphopt.tensor.linalg import matmul, transpose
from graphopt.tensor.manipulation import cast

# the kernel function of a mode
_Curve = Callable[[np.ndarray], np.ndarray]


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x: np.ndarray) -> np.ndarray:
    x = np.abs(x)
    near, far = (1.5 * x - 2.5) * x * x + 1, -0.5 * (((x - 5) * x + 8) * x - 4)
    return np.where(x < 1, near, np.where(x < 2, far, 0))


_CURVES: dict[str, tuple[_Curve, int]] = {"bilinear": (_triangle, 1), "bicubic": (_cubic, 2)}


def resize(
    x: Variable,
    sizes: Sequence[int],
    scales: Sequence[float],
    mode: str,
    *,
    align_corners: bool,
    channels_last: bool,
) -> Variable:
    """Resize images to these sizes (nn.functional.interpolate with `antialias`).

    `scales` are the script's scale factors; it is empty if the script set sizes. Raises ValueError
    for another mode than bilinear and bicubic, and for sizes known only in a run.
    """
    if mode not in _CURVES:
        raise ValueError(f"interpolate(): antialias goes with bilinear and bicubic, not '{mode}'")
    image = transpose(x, [0, 3, 1, 2]) if channels_last else x
    rows, columns = image.shape[2:]
    if rows < 0 or columns < 0 or not sizes:
        raise ValueError(
            "interpolate(): with antialias the sizes of the images must be known when the program "
            f"is built, found {list(x.shape)}; declare them in static.data"
        )
    steps = list(scales) or [0.0, 0.0]
    down, across = (
        assign(_weights(before, after, step, mode, align_corners).astype("float32"))
        for before, after, step in zip((rows, columns), sizes, steps, strict=True)
    )
    if x.dtype != "float32":
        down, across = cast(down, x.dtype), cast(across, x.dtype)
    made = matmul(matmul(down, image), across, transpose_y=True)
    return transpose(made, [0, 2, 3, 1]) if channels_last else made


def _weights(before: int, after: int, step: float, mode: str, align_corners: bool) -> np.ndarray:
    """Compute the weight of each old pixel in each new one, [after, before]."""
    curve, reach = _CURVES[mode]
    if align_corners:
        scale = (before - 1) / (after - 1) if after > 1 else 0.0
    else:
        scale = 1 / step if step else before / after
    width = max(scale, 1.0)
    made = np.zeros((after, before))
    for row, weights in enumerate(made):
        centre = scale * (row + 0.5)
        first = max(int(centre - reach * width + 0.5), 0)
        last = min(int(centre + reach * width + 0.5), before)
        window = curve((np.arange(first, last) - centre + 0.5) / width)
        weights[first:last] = window / (window.sum() or 1.0)
    return made
