"""Mean average precision, computed on the host: the number of matches depends on the data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from jax import numpy as jnp

from graphopt.ir.dialect.ops.detection import average_precision as ops
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.detection.proposals import overlaps
from graphopt.lowering.registry import lowers

Numbers = np.ndarray[Any, Any]
Marks = defaultdict[int, list[tuple[float, float]]]
"""The (score, 1 or 0) pairs of each class's detections."""


@lowers(ops.DetectionMap)
def detection_map(
    detections: Array,
    detection_lengths: Array,
    labels: Array,
    label_lengths: Array,
    state: tuple[Array, ...],
    class_num: int,
    background_label: int,
    overlap_threshold: float,
    evaluate_difficult: bool,
    ap_type: str,
) -> tuple[Array, ...]:
    rows, marked = (concrete(x, "the number of boxes") for x in (detections, labels))
    lengths = detection_lengths, label_lengths
    sizes = [concrete(x, "the number of boxes").reshape(-1) for x in lengths]
    counts, right, wrong = _earlier([concrete(x, "the number of boxes") for x in state], class_num)
    hard = marked[:, 1] != 0 if marked.shape[1] == 6 else np.zeros(len(marked), bool)
    counted = np.ones(len(marked), bool) if evaluate_difficult else ~hard
    np.add.at(counts, marked[counted, 0].astype(int), 1)
    for own, at in zip(_images(sizes[0]), _images(sizes[1]), strict=True):
        boxes = marked[at]
        for label in np.unique(rows[own, 0]):
            here = boxes[:, 0] == label
            found = rows[own][rows[own, 0] == label]
            found = found[np.argsort(-found[:, 1], kind="stable")]
            targets, left_out = boxes[here, -4:], ~counted[at][here]
            for score, hit in _matches(found, targets, left_out, overlap_threshold):
                right[int(label)].append((score, float(hit)))
                wrong[int(label)].append((score, float(not hit)))
    mean = _mean(counts, right, wrong, background_label, ap_type)
    made = [jnp.asarray([mean], np.float32), jnp.asarray(counts[:, None], np.int32)]
    for marks in (right, wrong):
        pairs = [pair for label in range(class_num) for pair in marks[label]]
        made.append(jnp.asarray(np.array(pairs, np.float32).reshape(-1, 2)))
        made.append(jnp.asarray([len(marks[label]) for label in range(class_num)], np.int64))
    return tuple(made)


def _images(lengths: Numbers) -> Iterator[slice]:
    """Iterate over the slices of rows of each image."""
    ends = np.cumsum(lengths)
    return (slice(int(end - size), int(end)) for end, size in zip(ends, lengths, strict=True))


def _earlier(state: list[Numbers], class_num: int) -> tuple[Numbers, Marks, Marks]:
    """Read the counts and marks of earlier batches; none without a state."""
    counts, right, wrong = np.zeros(class_num, np.int64), Marks(list), Marks(list)
    if not state or not state[0].any():
        return counts, right, wrong
    counts += state[1].reshape(-1)
    for marks, pairs, lengths in ((right, *state[2:4]), (wrong, *state[4:6])):
        for label, own in enumerate(_images(lengths.reshape(-1))):
            marks[label] += [(float(score), float(mark)) for score, mark in pairs[own]]
    return counts, right, wrong


def _matches(
    found: Numbers, targets: Numbers, left_out: Numbers, threshold: float
) -> Iterator[tuple[float, bool]]:
    """Match detections, best first; yield each score, and True for the first match of a box.

    Detections of a box that is left out do not count.
    """
    taken = np.zeros(len(targets), bool)
    for row in found:
        shares = overlaps(np.clip(row[2:6], 0, 1), targets, 0.0)
        best = int(np.argmax(shares)) if len(shares) else -1
        if best < 0 or shares[best] <= threshold:
            yield float(row[1]), False
        elif not left_out[best]:
            yield float(row[1]), not taken[best]
            taken[best] = True


def _mean(counts: Numbers, right: Marks, wrong: Marks, background: int, kind: str) -> float:
    """Average over the classes with labels; a class without detections counts as 0.

    As in Paddle, so does a class whose number of labels, not its own number, is `background`.
    """
    found: list[float] = []
    for label, count in enumerate(counts.tolist()):
        if count == 0:
            continue
        if count == background:
            found.append(0.0)
            continue
        hits, misses = (
            np.cumsum([mark for _, mark in sorted(marks[label], key=lambda pair: -pair[0])])
            for marks in (right, wrong)
        )
        found.append(_average(hits / count, hits / (hits + misses), kind) if len(hits) else 0.0)
    return float(np.mean(found)) if found else 0.0


def _average(recall: Numbers, precision: Numbers, kind: str) -> float:
    """Integrate precision over recall, or average the best precision at or above 11 recalls."""
    if kind == "11point":
        return sum(precision[recall >= at / 10].max(initial=0.0) for at in range(11)) / 11
    steps = np.diff(recall, prepend=0.0)
    return float(np.sum(precision * np.where(np.abs(steps) > 1e-6, np.abs(steps), 0.0)))
