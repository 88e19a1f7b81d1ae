"""YOLO's output as boxes, and its loss, in JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.detection.yolo import YoloBox, YoloLoss
from graphopt.lowering.ops.activation import sigmoid
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


@lowers(YoloBox)
def yolo_box(
    x: Array,
    img_size: Array,
    anchors: tuple[int, ...],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool,
    scale_x_y: float,
    iou_aware: bool,
    iou_aware_factor: float,
) -> tuple[Array, Array]:
    n, _, rows, columns = x.shape
    sizes = np.asarray(anchors).reshape(-1, 2)
    count = len(sizes)
    full = wide(x)
    apart = full[:, count if iou_aware else 0 :].reshape(n, count, 5 + class_num, rows, columns)
    image = img_size.astype(full.dtype)[:, :, None, None, None]
    grid = np.mgrid[:rows, :columns].astype(full.dtype)
    shift = -0.5 * (scale_x_y - 1.0)
    halves, middles = list[Array](), list[Array]()
    for at, cells in ((0, columns), (1, rows)):
        side = image[:, 1 - at]
        place = sigmoid(apart[:, :, at]) * scale_x_y + shift + grid[1 - at]
        middles.append(place * side / cells)
        share = (sizes[:, at] / (downsample_ratio * cells)).astype(full.dtype)
        halves.append(jnp.exp(apart[:, :, at + 2]) * share[:, None, None] * side / 2)
    corners = [m - h for m, h in zip(middles, halves, strict=True)]
    corners += [m + h for m, h in zip(middles, halves, strict=True)]
    if clip_bbox:
        corners[:2] = [jnp.maximum(c, 0) for c in corners[:2]]
        corners[2:] = [jnp.minimum(c, image[:, 1 - i] - 1) for i, c in enumerate(corners[2:])]
    sure = sigmoid(apart[:, :, 4])
    if iou_aware:
        overlap = sigmoid(full[:, :count])
        sure = sure ** (1 - iou_aware_factor) * overlap**iou_aware_factor
    kept = (sure >= conf_thresh)[..., None]
    boxes = jnp.where(kept, jnp.stack(corners, -1), 0)
    scores = sigmoid(jnp.moveaxis(apart[:, :, 5:], 2, -1)) * sure[..., None]
    number = count * rows * columns
    return (
        boxes.reshape(n, number, 4).astype(x.dtype),
        jnp.where(kept, scores, 0).reshape(n, number, class_num).astype(x.dtype),
    )


# The smallest width and height of a box, relative to the image.
LEAST_SIDE = 1e-6
# The most that label smoothing subtracts from the true class.
MOST_SMOOTHED = 1 / 40


@lowers(YoloLoss)
def yolo_loss(
    x: Array,
    gt_box: Array,
    gt_label: Array,
    gt_score: Array | None,
    anchors: tuple[int, ...],
    anchor_mask: tuple[int, ...],
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    use_label_smooth: bool,
    scale_x_y: float,
) -> tuple[Array, ...]:
    n, _, rows, columns = x.shape
    out = wide(x).reshape(n, len(anchor_mask), 5 + class_num, rows, columns)
    boxes = wide(gt_box)
    there = jnp.all(boxes[..., 2:] >= LEAST_SIDE, -1)
    score = jnp.ones_like(boxes[..., 0]) if gt_score is None else wide(gt_score)
    score = jnp.where(there, score, 0)
    # as in Paddle, a cell is 1 / rows of the image in both directions
    sizes = np.asarray(anchors, out.dtype).reshape(-1, 2) / (downsample_ratio * rows)

    suits = _best_anchor(boxes, sizes)
    place = np.full(len(sizes), -1, np.int32)
    for at, number in reversed(list(enumerate(anchor_mask))):
        place[number] = at
    match = jnp.where(there, jnp.asarray(place)[suits], -1)
    counts = match >= 0
    column, row = (
        jnp.clip((boxes[..., i] * cells).astype(jnp.int32), 0, cells - 1)
        for i, cells in enumerate((columns, rows))
    )
    cell = jnp.arange(n)[:, None], jnp.maximum(match, 0), row, column

    # the predictions in each box's cell: [n, b, 5 + classes]
    own = jnp.moveaxis(out, 2, -1)[cell]
    target = boxes[..., :2] * rows - jnp.stack([column, row], -1)
    stretch = jnp.log(jnp.where(counts[..., None], boxes[..., 2:], 1) / jnp.asarray(sizes)[suits])
    place_loss = jnp.sum(_cross_entropy(own[..., :2], target), -1)
    place_loss += jnp.sum(jnp.abs(stretch - own[..., 2:4]), -1)
    place_loss *= 2 - boxes[..., 2] * boxes[..., 3]
    smooth = min(1 / class_num, MOST_SMOOTHED) if use_label_smooth else 0.0
    right = jax.nn.one_hot(gt_label, class_num, dtype=jnp.bool_)
    class_loss = jnp.sum(_cross_entropy(own[..., 5:], jnp.where(right, 1 - smooth, smooth)), -1)
    of_box = jnp.where(counts, (place_loss + class_loss) * score, 0)

    # If boxes share a cell, the last one sets its target; as in Paddle, only that box has a
    # gradient.
    number = jnp.where(counts, jnp.arange(1, boxes.shape[1] + 1, dtype=jnp.int32), 0)
    last = jnp.zeros((n, len(anchor_mask), rows, columns), jnp.int32).at[cell].max(number)
    box_loss = jnp.sum(jnp.where(last[cell] == number, of_box, lax.stop_gradient(of_box)), 1)
    overlap = _best_overlap(out, boxes, there, sizes[list(anchor_mask)], scale_x_y)
    ignored = jnp.where(overlap > ignore_thresh, -1.0, 0.0).astype(out.dtype)
    cells = len(anchor_mask) * rows * columns
    chosen = jnp.take_along_axis(score, jnp.maximum(last - 1, 0).reshape(n, cells), 1)
    sure = jnp.where(last > 0, chosen.reshape(last.shape), ignored)
    is_there = jnp.where(sure > 1e-5, _cross_entropy(out[:, :, 4], 1.0) * sure, 0)
    is_not = jnp.where((sure <= 1e-5) & (sure > -0.5), _cross_entropy(out[:, :, 4], 0.0), 0)
    loss = box_loss + jnp.sum(is_there + is_not, (1, 2, 3))
    return loss.astype(x.dtype), sure.astype(x.dtype), match.astype("int32")


def _cross_entropy(x: Array, label: Any) -> Array:
    """Compute the cross entropy of the sigmoid of x."""
    return jnp.logaddexp(x, 0) - x * label


def _common(centre: Array, side: Array, other_centre: Any, other_side: Any) -> Array:
    """Compute intersection over union of boxes by centers and sides, [..., 2] each."""
    low = jnp.maximum(centre - side / 2, other_centre - other_side / 2)
    high = jnp.minimum(centre + side / 2, other_centre + other_side / 2)
    common = jnp.prod(jnp.maximum(high - low, 0), -1)
    union = jnp.prod(side, -1) + jnp.prod(other_side, -1) - common
    return common / jnp.where(union > 0, union, 1)


def _best_anchor(boxes: Array, sizes: np.ndarray[Any, Any]) -> Array:
    """Find the anchor most like each box when both have the same center; indices [n, b]."""
    zero = jnp.zeros_like(boxes[..., None, :2])
    return jnp.argmax(_common(zero, boxes[..., None, 2:], zero, jnp.asarray(sizes)), -1)


def _best_overlap(
    out: Array, boxes: Array, there: Array, sizes: np.ndarray[Any, Any], scale_x_y: float
) -> Array:
    """Compute the overlap of each cell's box with the box that matches best."""
    _, _, _, rows, columns = out.shape
    grid = np.mgrid[:rows, :columns][::-1].reshape(1, 1, 2, rows, columns).astype(out.dtype)
    shift = -0.5 * (scale_x_y - 1)
    centre = (grid + sigmoid(out[:, :, :2]) * scale_x_y + shift) / rows
    side = jnp.exp(out[:, :, 2:4]) * sizes[None, :, :, None, None]
    centre, side = (jnp.moveaxis(value, 2, -1)[..., None, :] for value in (centre, side))
    others = boxes[:, None, None, None]
    common = _common(centre, side, others[..., :2], others[..., 2:])
    return jnp.max(jnp.where(there[:, None, None, None], common, 0), -1, initial=0)
