"""Outlines of objects as pixels, with NumPy where the data are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.detection.masks import GenerateMaskLabels
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.detection.assignment import box_overlaps, join_rows, parts_of
from graphopt.lowering.registry import lowers

Numbers = np.ndarray[Any, Any]
_WHAT = "the number of boxes"
# points on outlines are 1/5 of a pixel apart, as in the COCO tools
_FINE = 5


@lowers(GenerateMaskLabels)
def generate_mask_labels(
    im_info: Array,
    gt_classes: Array,
    is_crowd: Array,
    gt_segms: Array,
    rois: Array,
    labels: Array,
    lengths: Array,
    polygon_lengths: Array,
    point_lengths: Array,
    roi_lengths: Array,
    num_classes: int,
    resolution: int,
) -> tuple[Array, ...]:
    sizes, own = concrete(lengths, _WHAT), concrete(roi_lengths, _WHAT)
    polygons = parts_of(concrete(gt_segms, _WHAT), concrete(point_lengths, _WHAT))
    objects = _group(_group(polygons, concrete(polygon_lengths, _WHAT)), sizes)
    classes = parts_of(concrete(gt_classes, _WHAT).reshape(-1), sizes)
    crowds = parts_of(concrete(is_crowd, _WHAT).reshape(-1), sizes)
    chosen: list[Numbers] = []
    places: list[Numbers] = []
    masks: list[Numbers] = []
    for image, outlines, kinds, crowd, boxes, marks in zip(
        concrete(im_info, _WHAT),
        *(objects, classes, crowds),
        parts_of(concrete(rois, _WHAT), own),
        parts_of(concrete(labels, _WHAT).reshape(-1), own),
        strict=True,
    ):
        if (marks >= num_classes).any():
            raise ProgramError(
                f"generate_mask_labels: a label is {marks.max()}, but 'num_classes' is "
                f"{num_classes}; labels should be below it"
            )
        found = np.flatnonzero(marks > 0)
        known = [o for o, k, c in zip(outlines, kinds, crowd, strict=True) if k > 0 and not c]
        if not len(found):
            found = np.flatnonzero(marks == 0)[:1]
        inner = boxes[found] / image[2]
        pixels = np.full((len(found), num_classes, resolution**2), -1)
        for row, (box, mark) in enumerate(zip(inner, marks[found], strict=True)):
            if mark > 0 and known:
                pixels[row, mark] = _mask(_nearest(box, known), box, resolution).reshape(-1)
        chosen.append(inner * image[2])
        places.append(found)
        masks.append(pixels.reshape(len(found), num_classes * resolution**2))
    return (
        jnp.asarray(join_rows(chosen, 4), rois.dtype),
        jnp.asarray(join_rows(places)[:, None], "int32"),
        jnp.asarray(join_rows(masks, num_classes * resolution**2), "int32"),
        jnp.asarray([len(found) for found in places], "int64"),
    )


def _group(items: Sequence[Any], lengths: Numbers) -> list[Sequence[Any]]:
    """Split items into groups of these lengths."""
    ends = np.cumsum(lengths)
    return [items[end - size : end] for end, size in zip(ends, lengths, strict=True)]


def _nearest(box: Numbers, objects: Sequence[Sequence[Numbers]]) -> Sequence[Numbers]:
    """Find the outlines of the object whose bounds overlap most with a box."""
    points = [np.concatenate(list(outlines)) for outlines in objects]
    bounds = np.array([[*p.min(0), *np.maximum(p.max(0), 0)] for p in points], box.dtype)
    return objects[int(box_overlaps(box[None], bounds)[0].argmax())]


def _mask(outlines: Sequence[Numbers], box: Numbers, size: int) -> Numbers:
    """Mark the pixels [size, size] of a box that one of the outlines encloses."""
    sides = np.maximum(box[2:] - box[:2], 1)
    inside = [_fill_polygon((points - box[:2]) * size / sides, size) for points in outlines]
    return np.logical_or.reduce(inside)


def _fill_polygon(points: Numbers, size: int) -> Numbers:
    """True for the pixels [size, size] that a polygon with these corners encloses.

    Column by column the pixels below a crossing of the outline change between out and in.
    """
    corners = np.trunc(_FINE * points.astype(np.float64) + 0.5).astype(int)
    x, y = np.concatenate(
        [_line(a, b) for a, b in zip(corners, np.roll(corners, -1, 0), strict=True)], 1
    )
    changes = np.flatnonzero(np.diff(x))
    first, second = changes, changes + 1
    column = (np.where(x[second] < x[first], x[second], x[second] - 1) + 0.5) / _FINE - 0.5
    row = np.ceil(np.clip((np.minimum(y[first], y[second]) + 0.5) / _FINE - 0.5, 0, size))
    whole = (np.floor(column) == column) & (column >= 0) & (column <= size - 1)
    at = (column[whole] * size + row[whole]).astype(int)
    crossings = np.bincount(at, minlength=size * size + 1)[: size * size].cumsum()
    return (crossings % 2 == 1).reshape(size, size).T


def _line(start: Numbers, end: Numbers) -> Numbers:
    """Trace the points [2, n] between two corners, one for each step along the longer side."""
    along = int(np.abs(end - start).argmax())
    count = abs(int(end[along] - start[along]))
    low, high = (start, end) if start[along] <= end[along] else (end, start)
    steps = np.arange(count + 1)
    slope = (high[1 - along] - low[1 - along]) / count if count else 0.0
    found = np.empty((2, count + 1), int)
    found[along] = low[along] + steps
    found[1 - along] = np.trunc(low[1 - along] + slope * steps + 0.5)
    return found if low is start else found[:, ::-1]
