"""Metrics: of programs, as operators, and of fetched arrays, as classes (paddle.metric)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
from graphopt.tensor.creation import create_global_var


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Compute the fraction of rows whose label is among the k largest scores (metric.accuracy).

    The result is a float32 scalar. `input` is [n, classes], `label` integer [n, 1]. `correct` and
    `total` receive the counts.
    """
    arguments.variable(input, "input", "accuracy")
    arguments.variable(label, "label", "accuracy")
    helper = LayerHelper("accuracy", name)
    attrs = {"k": arguments.integer(k, "k", "accuracy"), "sorted": False}
    top, indices = helper.emit_all(
        "top_k_v2", {"X": input}, attrs, ("Out", "Indices"), stop_gradient=True
    )
    out = helper.temporary(stop_gradient=True)
    counts = {"Correct": correct, "Total": total}
    outputs = {
        s: helper.temporary(stop_gradient=True) if v is None else v for s, v in counts.items()
    }
    inputs = {"Out": top, "Indices": indices, "Label": label}
    helper.append_op("accuracy", inputs, {"Accuracy": out, **outputs})
    return out


def auc(
    input: Variable,
    label: Variable,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
    ins_tag_weight: Variable | None = None,
) -> tuple[Variable, Variable, list[Variable]]:
    """Compute the area under the curve of all batches, and of the last ones (paddle.static.auc).

    `input` is [n, 2] with the probability of a positive label in its last column, `label` integer
    [n, 1]. Returns (the area so far, the area of the last `slide_steps` batches, the statistics of
    both). The areas are float64 scalars; nan when a probability is outside [0, 1]. `topk` and
    `ins_tag_weight` have no effect, as in Paddle.

    Raises ProgramError for another curve or other shapes.
    """
    stats = auc_statistics(num_thresholds, slide_steps)
    whole, last = auc_areas(input, label, stats, curve, num_thresholds, slide_steps)
    return whole, last, stats


def auc_statistics(num_thresholds: int, slide_steps: int) -> list[Variable]:
    """Create the state of `auc`: positive and negative counts of the last batches, and of all.

    Scripts find and reset them by Paddle's names, `_generated_var_0`, …
    """
    buckets, steps = num_thresholds + 1, arguments.integer(slide_steps, "slide_steps", "auc")
    shapes = [[(1 + steps) * buckets + 1] if steps else [1, buckets]] * 2 + [[1, buckets]] * 2
    return [create_global_var(shape, 0, "int64", persistable=True) for shape in shapes]


def auc_areas(
    input: Variable,
    label: Variable,
    stats: Sequence[Variable],
    curve: str,
    num_thresholds: int,
    slide_steps: int,
) -> tuple[Variable, Variable]:
    """Compute the areas of all batches and of the last ones, float64 scalars."""
    arguments.variable(input, "input", "auc")
    arguments.variable(label, "label", "auc")
    helper = LayerHelper("auc")
    whole, last = helper.temporary(stop_gradient=True), helper.temporary(stop_gradient=True)
    for area, (pos, neg), slide in ((last, stats[:2], slide_steps), (whole, stats[2:], 0)):
        inputs = {"Predict": input, "Label": label, "StatPos": pos, "StatNeg": neg}
        outputs = {"AUC": area, "StatPosOut": pos, "StatNegOut": neg}
        attrs = {"curve": curve, "num_thresholds": num_thresholds, "slide_steps": slide}
        helper.append_op("auc", inputs, outputs, attrs)
    return whole, last


class Metric(ABC):
    """Base of the metrics that add up fetched arrays (Paddle page: paddle.metric.Metric)."""

    @abstractmethod
    def reset(self) -> None:
        """Forget all added batches."""

    @abstractmethod
    def update(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch."""

    @abstractmethod
    def accumulate(self) -> Any:
        """Compute the metric of all added batches."""

    @abstractmethod
    def name(self) -> Any:
        """Return the metric's name."""

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the arguments of `update` from outputs and labels; it may append operators."""
        return args


class Accuracy(Metric):
    """Share of rows with the label among the k best scores, for all of `topk` (metric.Accuracy)."""

    def __init__(self, topk: Sequence[int] = (1,), name: str | None = None) -> None:
        self.topk = topk
        self.maxk = max(topk)
        prefix = name or "acc"
        self._name = [prefix] if self.maxk == 1 else [f"{prefix}_top{k}" for k in topk]
        self.reset()

    def compute(self, pred: Variable, label: Variable, *args: Any) -> Variable:
        """Append operators that mark which of the best scores are right, float32 [n, max(topk)].

        `label` is integer [n] or [n, 1], or one-hot [n, classes].
        """
        from graphopt.tensor.logic import equal
        from graphopt.tensor.manipulation import cast, reshape, slice
        from graphopt.tensor.search import argmax, argsort

        best = argsort(pred, descending=True)
        best = slice(best, [len(best.shape) - 1], [0], [self.maxk])
        if len(label.shape) == 1 or (len(label.shape) == 2 and label.shape[-1] == 1):
            label = reshape(label, [-1, 1])
        elif label.shape[-1] != 1:
            label = argmax(label, axis=-1, keepdim=True)
        return cast(equal(best, cast(label, best.dtype)), "float32")

    def update(self, correct: Any, *args: Any) -> Any:
        """Add the results of `compute`; return this batch's accuracy, a list for several k."""
        right = np.asarray(correct)
        count = int(np.prod(right.shape[:-1]))
        found: list[float] = []
        for at, k in enumerate(self.topk):
            hits = right[..., :k].sum()
            found.append(float(hits) / count)
            self.total[at] += hits
            self.count[at] += count
        return found[0] if len(self.topk) == 1 else found

    def reset(self) -> None:
        self.total: list[Any] = [0.0] * len(self.topk)
        self.count = [0] * len(self.topk)

    def accumulate(self) -> Any:
        pairs = zip(self.total, self.count, strict=True)
        found = [float(t) / c if c > 0 else 0.0 for t, c in pairs]
        return found[0] if len(self.topk) == 1 else found

    def name(self) -> list[str]:
        return self._name


def _array(value: Any, name: str) -> np.ndarray[Any, Any]:
    if not isinstance(value, (np.ndarray, np.generic)) and not hasattr(value, "__array__"):
        raise ValueError(f"The '{name}' must be a numpy ndarray or Tensor.")
    return np.asarray(value)


class _Binary(Metric):
    """Counts of right answers and of one kind of wrong ones."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.reset()

    def reset(self) -> None:
        self.tp = 0
        self._wrong = 0

    def _add(self, rows: Any, right: Any) -> None:
        self.tp += int(np.sum(rows & right))
        self._wrong += int(np.sum(rows & ~right))

    def accumulate(self) -> float:
        total = self.tp + self._wrong
        return float(self.tp) / total if total else 0.0

    def name(self) -> str:
        return self._name


class Precision(_Binary):
    """The share of positive answers that are right, for two classes (metric.Precision)."""

    def __init__(self, name: str = "precision") -> None:
        super().__init__(name)

    @property
    def fp(self) -> int:
        """The number of wrong positive answers."""
        return self._wrong

    def update(self, preds: Any, labels: Any) -> None:
        """Add probabilities and labels, [n] or [n, 1]; 0.5 counts as positive."""
        rounded = np.floor(_array(preds, "preds") + 0.5).astype("int32").reshape(-1)
        given = _array(labels, "labels").reshape(-1)
        rounded = rounded[: len(given)]
        self._add(rounded == 1, rounded == given)


class Recall(_Binary):
    """The share of positive labels that were found, for two classes (metric.Recall)."""

    def __init__(self, name: str = "recall") -> None:
        super().__init__(name)

    @property
    def fn(self) -> int:
        """The number of missed positive labels."""
        return self._wrong

    def update(self, preds: Any, labels: Any) -> None:
        """Add probabilities and labels, [n] or [n, 1]; 0.5 counts as negative."""
        rounded = np.rint(_array(preds, "preds")).astype("int32").reshape(-1)
        given = _array(labels, "labels").reshape(-1)
        self._add(given == 1, rounded[: len(given)] == given)


class Auc(Metric):
    """The area under the ROC curve, by `num_thresholds` thresholds (paddle.metric.Auc)."""

    def __init__(self, curve: str = "ROC", num_thresholds: int = 4095, name: str = "auc") -> None:
        self._curve = curve
        self._num_thresholds = num_thresholds
        self._name = name
        self.reset()

    def reset(self) -> None:
        self._stat_pos = np.zeros(self._num_thresholds + 1)
        self._stat_neg = np.zeros(self._num_thresholds + 1)

    def update(self, preds: Any, labels: Any) -> None:
        """Add probabilities [n, 2], of which the second column counts, and labels [n, 1].

        Raises ValueError for a probability outside [0, 1].
        """
        given = _array(labels, "labels").reshape(-1)
        scores = _array(preds, "preds")[: len(given), 1]
        if np.any((scores < 0) | (scores > 1)):
            raise ValueError("Auc.update(): a probability is outside [0, 1]")
        bins = (scores * self._num_thresholds).astype(int)
        np.add.at(self._stat_pos, bins[given != 0], 1.0)
        np.add.at(self._stat_neg, bins[given == 0], 1.0)

    def accumulate(self) -> float:
        positive, negative = self._stat_pos[::-1], self._stat_neg[::-1]
        above = np.cumsum(positive)
        area = float(np.sum(negative * (2 * above - positive)) / 2)
        total = float(above[-1] * negative.sum())
        return area / total if total > 0 else 0.0

    def name(self) -> str:
        return self._name


publish(globals(), __name__)
