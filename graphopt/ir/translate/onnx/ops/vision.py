"""Resizing of images, and sampling at points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import floor
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops import vision as ops
from graphopt.ir.dialect.ops.elementary import Floor
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.math import Add, Multiply, Subtract, Where
from graphopt.ir.dialect.ops.shape import Concat, Slice
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.registry import reads

Vector = np.ndarray[Any, Any]
_PIXEL_MODES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners"),
    *("asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"),
)


@dataclass
class _Way:
    """The interpolation of a Resize: mode, coordinate transformation, rounding and borders."""

    mode: str
    positions: str
    nearest: str
    cubic: float
    exclude_outside: bool
    antialias: bool
    beyond: float


@reads("Upsample")
def upsample(
    emit: OnnxEmitter,
    x: SSAValue,
    given: SSAValue | None = None,
    *,
    mode: str = "nearest",
    scales: Sequence[float] | None = None,
) -> SSAValue:
    """Emit the Resize of version 9 and before: pixels are aligned at their first corners."""
    found = scales if given is None else emit.numbers(given, "scales")
    way = _Way(mode, "asymmetric", "floor", -0.75, False, False, 0.0)
    return _resize(emit, x, way, [float(s) for s in found or ()], None, None)


@reads("Resize")
def resize(
    emit: OnnxEmitter,
    x: SSAValue,
    roi: SSAValue | None = None,
    scales: SSAValue | None = None,
    sizes: SSAValue | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str | None = None,
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str | None = None,
) -> SSAValue:
    if emit.opset < 11:  # scales are the second operand, and coordinates are as in Upsample
        scales, roi = roi, None
        coordinate_transformation_mode, nearest_mode = "asymmetric", "floor"
    positions = coordinate_transformation_mode or "half_pixel"
    way = _Way(
        *(mode, emit.one_of(positions, _PIXEL_MODES), nearest_mode or "round_prefer_floor"),
        *(cubic_coeff_a, bool(exclude_outside), bool(antialias), extrapolation_value),
    )
    count = rank(x)
    at = [emit.axis(axis, count) for axis in axes] if axes is not None else list(range(count))
    crop = None
    if positions == "tf_crop_and_resize" and roi is not None:
        numbers = [float(n) for n in emit.numbers(roi, "region")]
        crop = [(0.0, 1.0)] * count
        for i, axis in enumerate(at):
            crop[axis] = numbers[i], numbers[i + len(at)]
    factors = [1.0] * count
    by_scale = emit.known_elements(scales) if scales is not None else ()
    if scales is not None and by_scale is None:
        raise_open = emit.numbers(scales, "scales")
        return _resize(emit, x, way, list(raise_open), None, crop)
    if by_scale:
        for axis, factor in zip(at, by_scale, strict=True):
            factors[axis] = float(factor)
        return _resize(emit, x, way, factors, None, crop)
    assert sizes is not None
    wanted = emit.known_elements(sizes)
    if wanted is None:
        return _to_open_sizes(emit, x, way, sizes, at)
    whole = list(shape(x))
    for axis, size in zip(at, wanted, strict=True):
        whole[axis] = int(size)
    if keep_aspect_ratio_policy != "stretch":
        whole, factors = _in_proportion(emit, x, whole, at, keep_aspect_ratio_policy)
        return _resize(emit, x, way, factors, whole, crop)
    return _resize(emit, x, way, None, whole, crop)


def _in_proportion(
    emit: OnnxEmitter, x: SSAValue, wanted: list[int], axes: Sequence[int], policy: str
) -> tuple[list[int], list[float]]:
    """Compute the sizes that keep the proportions: none larger than wanted, or none smaller."""
    sizes, whole, factors = emit.sizes(x, along=axes), list(wanted), [1.0] * len(wanted)
    ratios = [wanted[axis] / sizes[axis] for axis in axes]
    is_smaller = emit.one_of(policy, ("not_larger", "not_smaller")) == "not_larger"
    ratio = min(ratios) if is_smaller else max(ratios)
    for axis in axes:
        whole[axis], factors[axis] = floor(ratio * sizes[axis] + 0.5), ratio
    return whole, factors


def _paddles_form(way: _Way, x: SSAValue) -> dict[str, Any] | None:
    """Return the attributes of `pd.interpolate` with the same numbers for all sizes, or None."""
    if way.antialias or way.exclude_outside or not 3 <= rank(x) <= 5:
        return None
    if way.mode == "nearest":
        fits = way.positions == "asymmetric" and way.nearest == "floor"
        return {"mode": "nearest", "align_corners": False} if fits else None
    if not dtype(x).is_floating:
        return None
    if way.mode == "linear":
        modes = {"half_pixel": 0, "pytorch_half_pixel": 0, "asymmetric": 1}
        if way.positions == "align_corners":
            return {"mode": "linear", "align_corners": True}
        if way.positions in modes:
            align = modes[way.positions]
            return {"mode": "linear", "align_corners": False, "align_mode": align}
    if way.mode == "cubic" and way.cubic == -0.75 and rank(x) == 4:
        if way.positions in ("half_pixel", "pytorch_half_pixel"):
            return {"mode": "bicubic", "align_corners": False}
        if way.positions == "align_corners":
            return {"mode": "bicubic", "align_corners": True}
    return None


def _to_open_sizes(
    emit: OnnxEmitter, x: SSAValue, way: _Way, sizes: SSAValue, axes: Sequence[int]
) -> SSAValue:
    """Resize to sizes that only the run knows; batch and channels have to keep their sizes."""
    attrs = _paddles_form(way, x)
    spatial = list(range(2, rank(x)))
    if attrs is None or list(axes)[-len(spatial) :] != spatial:
        emit.numbers(sizes, "sizes")
        raise emit.refuse("the sizes are open")
    cut = {"axes": (0,), "starts": (len(axes) - len(spatial),), "ends": (len(axes),)}
    size = sizes if len(axes) == len(spatial) else emit(Slice, sizes, **cut)
    return emit.emit_with_tensor(ops.Interpolate, [x], "size", size, **attrs)


def _resize(
    emit: OnnxEmitter,
    x: SSAValue,
    way: _Way,
    factors: Sequence[float] | None,
    wanted: Sequence[int] | None,
    crop: Sequence[tuple[float, float]] | None,
) -> SSAValue:
    """Resize by known factors or to known sizes; with both, positions follow the factors."""
    spatial_only = (
        all(factor == 1 for factor in factors[:2])
        if factors is not None
        else wanted is not None and list(wanted[:2]) == list(shape(x)[:2])
    )
    attrs = _paddles_form(way, x) if spatial_only and crop is None else None
    if attrs is None and way.mode == "nearest" and spatial_only and _is_repetition(way, factors):
        attrs = {"mode": "nearest", "align_corners": False} if 3 <= rank(x) <= 5 else None
    if attrs is not None and _allows(x, attrs, factors, wanted, way):
        if wanted is not None and factors is None:
            return emit(ops.Interpolate, x, size=tuple(wanted[2:]), **attrs)
        if factors is not None and wanted is None:
            return emit(ops.Interpolate, x, scale=tuple(factors[2:]), **attrs)
    sizes = emit.sizes(x)
    new = wanted or [floor(s * f) for s, f in zip(sizes, factors or (), strict=True)]
    scales = factors or [n / s for n, s in zip(new, sizes, strict=True)]
    emit.check_bound("rows of the result", max(new, default=1))
    kept = dtype(x)
    is_whole = not kept.is_floating and way.mode != "nearest"
    out = emit.cast(x, "float32") if is_whole else x
    outside: SSAValue | None = None
    for axis, (old, size, scale) in enumerate(zip(sizes, new, scales, strict=True)):
        region = crop[axis] if crop is not None else (0.0, 1.0)
        if size == old and scale == 1 and region == (0.0, 1.0):
            continue
        at = _positions(way.positions, old, size, scale, region)
        out = _along_axis(emit, out, axis, at, old, scale, way)
        if way.positions == "tf_crop_and_resize":
            misses = emit.constant(((at < 0) | (at > old - 1)).tolist(), "bool")
            misses = emit.along(misses, rank(x), axis)
            outside = misses if outside is None else emit.either(outside, misses)
    if outside is not None:
        out = emit(Where, outside, emit.number(way.beyond, out), out)
    return emit.cast(out, kept)


def _is_repetition(way: _Way, factors: Sequence[float] | None) -> bool:
    """True if each pixel is repeated, so that both ways to round to the nearest agree."""
    whole = factors is not None and all(f >= 1 and f == int(f) for f in factors)
    by_middle = way.positions in ("half_pixel", "pytorch_half_pixel")
    rounds = way.nearest in ("round_prefer_floor", "round_prefer_ceil")
    return whole and by_middle and rounds


def _allows(
    x: SSAValue,
    attrs: dict[str, Any],
    factors: Sequence[float] | None,
    wanted: Sequence[int] | None,
    way: _Way,
) -> bool:
    """True if `pd.interpolate` gives the same numbers as ONNX.

    It differs for a single position, for a factor that does not change the size, and for aligned
    corners where the size is not exactly the factor times the old size.
    """
    old = shape(x)[2:]
    if factors is not None:
        new = [
            UNKNOWN if s == UNKNOWN else floor(s * f) for s, f in zip(old, factors[2:], strict=True)
        ]
        if attrs["align_corners"] and any(
            n != s * f for n, s, f in zip(new, old, factors[2:], strict=True) if s != UNKNOWN
        ):
            return False
        still = any(
            s == n != UNKNOWN and f != 1 for s, n, f in zip(old, new, factors[2:], strict=True)
        )
        if still:
            return False
    else:
        new = list(wanted or ())[2:]
    single = any(n == 1 != s for n, s in zip(new, old, strict=True))
    return not single or way.positions in ("pytorch_half_pixel", "asymmetric", "align_corners")


def _positions(kind: str, old: int, new: int, scale: float, region: tuple[float, float]) -> Vector:
    """Compute the coordinate in the image of each position of the result."""
    at = np.arange(new, dtype=np.float64)
    length = scale * old
    if kind == "asymmetric":
        return at / scale
    if kind == "align_corners":
        return np.zeros(new) if length == 1 else at * (old - 1) / (length - 1)
    if kind == "tf_crop_and_resize":
        start, end = region
        if new == 1:
            return np.full(1, 0.5 * (start + end) * (old - 1))
        return start * (old - 1) + at * (end - start) * (old - 1) / (length - 1)
    if kind == "tf_half_pixel_for_nn":
        return (at + 0.5) / scale
    if kind == "pytorch_half_pixel" and length <= 1:
        return np.zeros(new)
    middle = (at + 0.5) / scale - 0.5
    if kind == "half_pixel_symmetric":
        return old / 2 * (1 - new / length) + middle
    return middle


def _along_axis(
    emit: OnnxEmitter, x: SSAValue, axis: int, at: Vector, old: int, scale: float, way: _Way
) -> SSAValue:
    """Resample an image at positions along an axis: one element each, or a weighted sum."""
    if way.mode == "nearest":
        index = np.clip(_round_positions(emit, way.nearest, at), 0, old - 1).astype(np.int64)
        return emit(Gather, x, emit.constant(index, "int64"), axis=axis)
    first = np.ceil(at) - 1
    offsets, weights = _weights(emit, at - first, scale, way)
    index = first[:, None] + offsets
    if way.exclude_outside:
        weights = np.where((index < 0) | (index > old - 1), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    index = np.clip(index, 0, old - 1).astype(np.int64)
    total: SSAValue | None = None
    for tap in range(index.shape[1]):
        if not weights[:, tap].any():
            continue
        part = emit(Gather, x, emit.constant(index[:, tap], "int64"), axis=axis)
        weight = emit.along(emit.constant(weights[:, tap], dtype(x)), rank(x), axis)
        part = emit(Multiply, part, weight)
        total = part if total is None else emit(Add, total, part)
    assert total is not None
    return total


def _round_positions(emit: OnnxEmitter, kind: str, at: Vector) -> Vector:
    ways: dict[str, Callable[[Vector], Vector]] = {
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    return ways[emit.one_of(kind, tuple(ways))](at)


def _weights(emit: OnnxEmitter, ratio: Vector, scale: float, way: _Way) -> tuple[Vector, Vector]:
    """Compute the taps of each position: offsets from the element before it, and weights."""
    reach = 1 if emit.one_of(way.mode, ("linear", "cubic")) == "linear" else 2
    narrow = min(scale, 1.0) if way.antialias else 1.0
    emit.check_bound("elements that count", len(ratio), int(2 * reach / narrow) + 2, most=1 << 22)
    start = floor(-reach / narrow) + 1
    offsets = np.arange(start, start + 2 - 2 * start, dtype=np.float64)
    distance = np.abs(offsets[None] - ratio[:, None]) * narrow
    if reach == 1:
        weights = np.clip(1 - distance, 0, None)
    else:
        a = way.cubic
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    if way.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    return offsets, weights


@reads("GridSample")
def grid_sample(
    emit: OnnxEmitter,
    x: SSAValue,
    grid: SSAValue,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> SSAValue:
    names = {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest"}
    names |= {"bicubic": "cubic", "cubic": "cubic"}
    kind, grid = names[emit.one_of(mode, tuple(names))], emit.cast(grid, dtype(x))
    if kind == "cubic":
        return _sample_cubic(emit, x, grid, padding_mode, is_aligned=bool(align_corners))
    attrs = {"mode": kind, "padding_mode": padding_mode, "align_corners": bool(align_corners)}
    return emit(ops.GridSample, x, grid, **attrs)


def _sample_cubic(
    emit: OnnxEmitter, x: SSAValue, grid: SSAValue, padding_mode: str, *, is_aligned: bool
) -> SSAValue:
    """Emit the weighted sum of the four pixels around a point along each axis."""
    sizes = emit.sizes(x, along=range(2, rank(x)))[2:]
    # only reflection depends on the corners: all points are exact pixel positions
    counts_ends = is_aligned and padding_mode == "reflection"
    attrs = {"mode": "nearest", "padding_mode": padding_mode, "align_corners": counts_ends}
    taps: list[list[tuple[SSAValue, SSAValue]]] = []
    for i, size in enumerate(reversed(sizes)):  # a point begins with its column
        at = emit(Slice, grid, axes=(rank(x) - 1,), starts=(i,), ends=(i + 1,))
        place = emit.scale(at, (size - is_aligned) / 2, (size - 1) / 2)
        first = emit(Floor, place)
        over = emit(Subtract, place, first)
        length = max(size - counts_ends, 1)
        taps.append(
            [
                (
                    emit.scale(first, 2 / length, (2 * d + 1 - counts_ends) / length - 1),
                    _cubic_weight(emit, emit.scale(over, -1 if d > 0 else 1, abs(d)), d),
                )
                for d in (-1, 0, 1, 2)
            ]
        )
    total: SSAValue | None = None
    for chosen in product(*taps):
        points = emit(Concat, [point for point, _ in chosen], axis=rank(x) - 1)
        weight = reduce(lambda a, b: emit(Multiply, a, b), [weight for _, weight in chosen])
        weight = emit.unsqueeze(emit.squeeze(weight, rank(x) - 1), 1)
        part = emit(Multiply, emit(ops.GridSample, x, points, **attrs), weight)
        total = part if total is None else emit(Add, total, part)
    assert total is not None
    return total


def _cubic_weight(emit: OnnxEmitter, distance: SSAValue, place: int) -> SSAValue:
    """Emit the weight of a pixel by its distance: below 1 at places 0 and 1, else 1 to 2."""
    a = -0.75
    terms = (a + 2, -(a + 3), 0.0, 1.0) if place in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
    found = emit.scale(distance, *terms[:2])
    for term in terms[2:]:
        found = emit.plus(emit(Multiply, found, distance), term)
    return found


@reads("AffineGrid")
def affine_grid(
    emit: OnnxEmitter, theta: SSAValue, size: SSAValue, *, align_corners: int = 0
) -> SSAValue:
    wanted = tuple(map(int, emit.numbers(size, "sizes")))
    return emit(ops.AffineGrid, theta, output_shape=wanted, align_corners=bool(align_corners))
