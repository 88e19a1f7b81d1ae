"""Metrics over many batches, computed from fetched values (paddle.fluid.metrics)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from graphopt.fluid.layers.average_precision import detection_map, states_of
from graphopt.fluid.layers.tensor import cast, concat, fill_constant
from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.ir.program import Program, Variable, program_guard, unique_name
from graphopt.runtime.executor import Executor

Array = np.ndarray[Any, Any]


def is_number(value: Any) -> bool:
    """Return whether a value is an int, a float, or an array of shape [1]."""
    single = isinstance(value, np.ndarray) and value.shape == (1,)
    return single or isinstance(value, (int, float)) or type(value) is np.int64


def _check(good: bool, name: str, wanted: str) -> None:
    if not good:
        raise ValueError(f"The '{name}' must be {wanted}")


def check_number(value: Any, name: str) -> None:
    """Raise ValueError unless the value is a number."""
    _check(is_number(value), name, "a number(int, float).")


def check_number_or_array(value: Any, name: str) -> None:
    """Raise ValueError unless the value is a number or an array."""
    good = is_number(value) or isinstance(value, np.ndarray)
    _check(good, name, "a number(int, float) or a numpy ndarray.")


def _check_array(value: Any, name: str) -> None:
    _check(isinstance(value, (np.ndarray, np.generic)), name, "a numpy ndarray.")


class MetricBase:
    """Base of the metrics: its attributes without an underscore are the state."""

    def __init__(self, name: str | None) -> None:
        self._name = type(self).__name__ if name is None else str(name)

    def __str__(self) -> str:
        return self._name

    def _states(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def reset(self) -> None:
        """Set numbers and arrays of the state to zero, and other values to None."""
        for name, value in self._states().items():
            if isinstance(value, int):
                setattr(self, name, 0)
            elif isinstance(value, float):
                setattr(self, name, 0.0)
            elif isinstance(value, (np.ndarray, np.generic)):
                setattr(self, name, np.zeros_like(value))
            else:
                setattr(self, name, None)

    def get_config(self) -> dict[str, Any]:
        """Return the name and a copy of the state."""
        return {"name": self._name, "states": copy.deepcopy(self._states())}

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add a batch; derived classes implement it."""
        raise NotImplementedError("Should not use it directly, please extend it.")

    def eval(self) -> Any:
        """Compute the metric over all batches; derived classes implement it."""
        raise NotImplementedError("Should not use it directly, please extend it.")


class CompositeMetric(MetricBase):
    """Several metrics of the same batches (Paddle page: fluid.metrics.CompositeMetric)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._metrics: list[MetricBase] = []

    def add_metric(self, metric: MetricBase) -> None:
        """Add a metric; raise ValueError for an object that is none."""
        given: object = metric
        if not isinstance(given, MetricBase):
            raise ValueError("SubMetric should be inherit from MetricBase.")
        self._metrics.append(given)

    def update(self, preds: Any, labels: Any) -> None:
        """Add a batch to every metric."""
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list[Any]:
        """Compute every metric, in the order in which they were added."""
        return [metric.eval() for metric in self._metrics]


def _predictions(preds: Any, labels: Any) -> tuple[Array, Array]:
    """Return the rounded predictions, one for each label, and the labels."""
    _check_array(preds, "preds")
    _check_array(labels, "labels")
    count = len(labels)
    return np.rint(preds[:count]).astype("int32").reshape(count), labels.reshape(count)


class Precision(MetricBase):
    """The share of true ones among the rows predicted as 1 (fluid.metrics.Precision)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.tp = 0
        self.fp = 0

    def update(self, preds: Any, labels: Any) -> None:
        """Add a batch of probabilities of 1, and labels of 0 and 1."""
        found, wanted = _predictions(preds, labels)
        self.tp += int(((found == 1) & (wanted == 1)).sum())
        self.fp += int(((found == 1) & (wanted != 1)).sum())

    def eval(self) -> float:
        """Compute the precision so far; 0 when no row is predicted as 1."""
        count = self.tp + self.fp
        return self.tp / count if count else 0.0


class Recall(MetricBase):
    """The share of rows labeled 1 that are predicted as 1 (fluid.metrics.Recall)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.tp = 0
        self.fn = 0

    def update(self, preds: Any, labels: Any) -> None:
        """Add a batch of probabilities of 1, and labels of 0 and 1."""
        found, wanted = _predictions(preds, labels)
        self.tp += int(((wanted == 1) & (found == 1)).sum())
        self.fn += int(((wanted == 1) & (found != 1)).sum())

    def eval(self) -> float:
        """Compute the recall so far; 0 when no row is labeled 1."""
        count = self.tp + self.fn
        return self.tp / count if count else 0.0


class Accuracy(MetricBase):
    """The weighted mean of the results of `layers.accuracy` (fluid.metrics.Accuracy)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.value: Any = 0.0
        self.weight: Any = 0.0

    def update(self, value: Any, weight: Any) -> None:
        """Add the value of a batch; `weight` is usually its size."""
        check_number_or_array(value, "value")
        check_number(weight, "weight")
        if weight < 0:
            raise ValueError("The 'weight' can not be negative")
        self.value += value * weight
        self.weight += weight

    def eval(self) -> Any:
        """Compute the mean so far; raise ValueError without data."""
        if self.weight == 0:
            raise ValueError(
                "There is no data in Accuracy Metrics. Please check layers.accuracy output has "
                "added to Accuracy."
            )
        return self.value / self.weight


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 of the counts of `layers.chunk_eval` (metrics.ChunkEvaluator)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.num_infer_chunks: Any = 0
        self.num_label_chunks: Any = 0
        self.num_correct_chunks: Any = 0

    def update(self, num_infer_chunks: Any, num_label_chunks: Any, num_correct_chunks: Any) -> None:
        """Add the counts of a batch."""
        check_number_or_array(num_infer_chunks, "num_infer_chunks")
        check_number_or_array(num_label_chunks, "num_label_chunks")
        check_number_or_array(num_correct_chunks, "num_correct_chunks")
        self.num_infer_chunks += num_infer_chunks
        self.num_label_chunks += num_label_chunks
        self.num_correct_chunks += num_correct_chunks

    def eval(self) -> tuple[Any, Any, Any]:
        """Compute precision, recall and F1 so far; 0 where there are no chunks."""
        return chunk_scores(self.num_infer_chunks, self.num_label_chunks, self.num_correct_chunks)


def chunk_scores(inferred: Any, labelled: Any, correct: Any) -> tuple[Any, Any, Any]:
    """Compute precision, recall and F1 from numbers of chunks."""
    right = np.asarray(correct, "float64").item()
    precision = right / inferred if inferred else 0
    recall = right / labelled if labelled else 0
    return precision, recall, 2 * precision * recall / (precision + recall) if right else 0


class EditDistance(MetricBase):
    """The mean of the results of `layers.edit_distance` (fluid.metrics.EditDistance)."""

    def __init__(self, name: str | None) -> None:
        super().__init__(name)
        self.total_distance: Any = 0.0
        self.seq_num: Any = 0
        self.instance_error: Any = 0

    def update(self, distances: Any, seq_num: Any) -> None:
        """Add the distances of a batch of `seq_num` sequences."""
        _check_array(distances, "distances")
        check_number(seq_num, "seq_num")
        self.seq_num += seq_num
        self.instance_error += seq_num - int(np.sum(distances == 0))
        self.total_distance += float(np.sum(distances))

    def eval(self) -> tuple[Any, Any]:
        """Compute the mean distance and the share of nonzero ones; ValueError without data."""
        if self.seq_num == 0:
            raise ValueError(
                "There is no data in EditDistance Metric. Please check layers.edit_distance output "
                "has been added to EditDistance."
            )
        return self.total_distance / self.seq_num, self.instance_error / self.seq_num


class Auc(MetricBase):
    """The area under the ROC curve (Paddle page: fluid.metrics.Auc).

    `reset` keeps its counts, as in 1.8.5.
    """

    def __init__(self, name: str | None, curve: str = "ROC", num_thresholds: int = 4095) -> None:
        super().__init__(name)
        self._curve = curve
        self._num_thresholds = num_thresholds
        self._stat_pos = np.zeros(num_thresholds + 1)
        self._stat_neg = np.zeros(num_thresholds + 1)

    def update(self, preds: Any, labels: Any) -> None:
        """Add a batch of probabilities [n, 2] of 0 and 1, and labels of 0 and 1."""
        _check_array(labels, "labels")
        _check_array(preds, "predictions")
        wanted = labels.reshape(len(labels)) != 0
        places = (preds[: len(labels), 1].astype("float64") * self._num_thresholds).astype("int64")
        if (places > self._num_thresholds).any():
            raise AssertionError("The 'predictions' must be probabilities")
        np.add.at(self._stat_pos, places[wanted], 1.0)
        np.add.at(self._stat_neg, places[~wanted], 1.0)

    def eval(self) -> float:
        """Compute the area so far; 0 while there is only one class."""
        positive = np.cumsum(self._stat_pos[::-1])
        negative = np.cumsum(self._stat_neg[::-1])
        heights = positive + np.append(0.0, positive[:-1])
        area = np.sum(np.diff(negative, prepend=0.0) * heights / 2)
        both = positive[-1] > 0 and negative[-1] > 0
        return float(area / positive[-1] / negative[-1]) if both else 0.0


class DetectionMAP:
    """Mean average precision of detected boxes, by batch and over batches.

    It appends its operators to the default main program, whose persistable variables hold the
    counts of earlier batches. The boxes are matched on the host. The arguments are the same as for
    `fluid.layers.detection_map`, with each column of the labels as a separate sequence. Paddle
    page: fluid.metrics.DetectionMAP.
    """

    def __init__(
        self,
        input: Variable,
        gt_label: Variable,
        gt_box: Variable,
        gt_difficult: Variable | None = None,
        class_num: int | None = None,
        background_label: int = 0,
        overlap_threshold: float = 0.5,
        evaluate_difficult: bool = True,
        ap_version: str = "integral",
    ) -> None:
        arguments.variable(gt_box, "gt_box", "DetectionMAP")
        classes = arguments.integer(class_num, "class_num", "DetectionMAP")
        columns = [gt_label] if gt_difficult is None else [gt_label, gt_difficult]
        cast_columns = [
            cast(arguments.variable(x, "gt_label", "DetectionMAP"), gt_box.dtype) for x in columns
        ]
        given = input, concat([*cast_columns, gt_box], axis=1), classes, background_label
        options: dict[str, Any] = {
            "overlap_threshold": overlap_threshold,
            "evaluate_difficult": evaluate_difficult,
            "ap_version": ap_version,
        }
        self.cur_map = detection_map(*given, **options)
        switch, states = states_of(unique_name.generate("map_eval"), classes)
        self.has_state = switch
        self.accum_map = detection_map(
            *given, has_state=switch, input_states=states, out_states=states, **options
        )
        fill_constant([1], switch.dtype, 1, out=switch)

    def get_map_var(self) -> tuple[Variable, Variable]:
        """Return the mean average precision of a batch, and of all batches since the last reset."""
        return self.cur_map, self.accum_map

    def reset(self, executor: Executor, reset_program: Program | None = None) -> None:
        """Forget earlier batches: run a program that sets the switch to 0.

        The operator is appended to `reset_program`, if set.
        """
        program = Program() if reset_program is None else reset_program
        with program_guard(program):
            block, own = program.current_block(), self.has_state
            twin = block.create_var(own.name, own.shape, own.dtype, persistable=True)
            fill_constant([1], own.dtype, 0, out=twin)
        executor.run(program)


publish(globals(), __name__)
