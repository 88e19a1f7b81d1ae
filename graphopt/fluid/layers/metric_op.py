"""Metrics as operators (paddle.fluid.layers.metric_op)."""

from __future__ import annotations

from graphopt.fluid.common import vector
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.one_layer import one_layer
from graphopt.ir.program import Variable, unique_name
from graphopt.metric import accuracy as _accuracy
from graphopt.metric import auc_areas, auc_statistics


def auc(
    input: Variable,
    label: Variable,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
) -> tuple[Variable, Variable, list[Variable]]:
    """Compute the area under the curve of all batches so far and of the last ones.

    Also returns their statistics. Works as `paddle.static.auc`, with areas of shape [1]. Paddle
    page: fluid.layers.auc.
    """
    stats = auc_statistics(num_thresholds, slide_steps)

    @one_layer("auc", 0, 1)
    def areas() -> list[Variable]:
        found = auc_areas(input, label, stats, curve, num_thresholds, slide_steps)
        return [vector(area) for area in found]

    whole, last = areas()
    return whole, last, stats


@one_layer("accuracy")
def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
) -> Variable:
    """Compute the share of rows with the label among the k largest scores, float32 [1] (accuracy).

    `correct` and `total` receive the counts, of shape [1].
    """
    unique_name.generate("top_k")  # in 1.8, a separate layer selects the scores
    helper = LayerHelper("accuracy")
    wanted = [count for count in (correct, total) if count is not None]
    scalars = {count.name: helper.temporary(stop_gradient=True) for count in wanted}
    share = _accuracy(
        input,
        label,
        k,
        None if correct is None else scalars[correct.name],
        None if total is None else scalars[total.name],
    )
    for count in wanted:
        helper.append_op("reshape2", {"X": scalars[count.name]}, {"Out": count}, {"shape": [1]})
    return vector(share)


def mean_iou(
    input: Variable, label: Variable, num_classes: int
) -> tuple[Variable, Variable, Variable]:
    """Compute the mean intersection over union over classes.

    `input` and `label` hold classes, integers of one shape. Returns the mean, float32 [1], over the
    classes present, and the numbers of wrong and right elements of each class, int32 [classes].
    Paddle page: fluid.layers.mean_iou.
    """
    function = "mean_iou"
    inputs = {
        "Predictions": arguments.variable(input, "input", function),
        "Labels": arguments.variable(label, "label", function),
    }
    attrs = {"num_classes": arguments.integer(num_classes, "num_classes", function)}
    outs = ("OutMeanIou", "OutWrong", "OutCorrect")
    mean, wrong, right = LayerHelper(function).emit_all(function, inputs, attrs, outs)
    return mean, wrong, right
