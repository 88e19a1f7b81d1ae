"""Losses with one column per row, and of shape [1] after a reduction (paddle.fluid.layers.loss)."""

from __future__ import annotations

from typing import Any

from graphopt.fluid.common import vector
from graphopt.fluid.layers.reduction import mean, reduce_mean, reduce_sum
from graphopt.fluid.layers.sequence_lod import sequence_pad
from graphopt.fluid.layers.shaping import one_hot
from graphopt.fluid.layers.tensor import fill_constant
from graphopt.frontend import arguments
from graphopt.frontend.initializers.fill import Constant
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.parameters import as_weight_attr
from graphopt.frontend.sequence_notes import note
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import log_sigmoid, relu, softplus
from graphopt.nn.functional.alignment import warpctc as _warpctc
from graphopt.nn.functional.distance import npair_loss as _npair_loss
from graphopt.nn.functional.likelihood import label_smooth as _label_smooth
from graphopt.nn.functional.loss import square_error_cost
from graphopt.tensor.creation import full_like
from graphopt.tensor.linalg import transpose
from graphopt.tensor.logic import less_than
from graphopt.tensor.manipulation import cast, reshape
from graphopt.tensor.math import add, clip, divide, multiply, scale, sqrt, square, subtract
from graphopt.tensor.search import where


def cross_entropy(
    input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100
) -> Variable:
    """Compute the cross entropy of probabilities [..., c] (no softmax) with labels (cross_entropy).

    Labels are integers [..., 1] or [...], and the result has their shape. With `soft_label` they
    are distributions, and the result is [..., 1].
    """
    inputs = {
        "X": arguments.variable(input, "input", "cross_entropy"),
        "Label": arguments.variable(label, "label", "cross_entropy"),
    }
    ignored = arguments.integer(ignore_index, "ignore_index", "cross_entropy")
    if arguments.flag(soft_label, "soft_label", "cross_entropy"):
        attrs = {"soft_label": True, "ignore_index": ignored}
        return emit("cross_entropy", inputs, attrs, out="Y")
    bare = len(label.shape) == len(input.shape) - 1
    if not bare and (len(label.shape) != len(input.shape) or label.shape[-1] not in (1, -1)):
        raise ValueError(
            f"cross_entropy(): 'label' should have the shape of 'input' {list(input.shape)} with a "
            f"last dimension of 1, found {list(label.shape)}"
        )
    attrs = {"ignore_index": ignored}
    return emit("cross_entropy2", inputs, attrs, out="Y")


def sigmoid_cross_entropy_with_logits(
    x: Variable,
    label: Variable,
    ignore_index: int = -100,
    name: str | None = None,
    normalize: bool = False,
) -> Variable:
    """Compute the cross entropy of sigmoid(x) with labels from 0 to 1, and 0 where ignored.

    `normalize` divides by the number of labels that count.
    Paddle page: fluid.layers.sigmoid_cross_entropy_with_logits.
    """
    function = "sigmoid_cross_entropy_with_logits"
    inputs = {
        "X": arguments.variable(x, "x", function),
        "Label": arguments.variable(label, "label", function),
    }
    attrs = {
        "ignore_index": arguments.integer(ignore_index, "ignore_index", function),
        "normalize": arguments.flag(normalize, "normalize", function),
    }
    return emit(function, inputs, attrs, name=name)


def huber_loss(input: Variable, label: Variable, delta: float) -> Variable:
    """Compute half the squared error, linear beyond an error of delta (layers.huber_loss)."""
    inputs = {
        "X": arguments.variable(input, "input", "huber_loss"),
        "Y": arguments.variable(label, "label", "huber_loss"),
    }
    attrs = {"delta": arguments.number(delta, "delta", "huber_loss")}
    helper = LayerHelper("huber_loss")
    return helper.emit_all("huber_loss", inputs, attrs, ("Residual", "Out"))[1]


@one_layer("smooth_l1_loss", 1)
def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = None,
    outside_weight: Variable | None = None,
    sigma: float | None = None,
) -> Variable:
    """Sum over each row |d| - 0.5 / sigma², or d² * sigma² / 2 where |d| < 1 / sigma².

    d is (x - y) * inside_weight; outside_weight multiplies each term. The result is [n, 1].
    Paddle page: fluid.layers.smooth_l1.
    """
    arguments.variable(x, "x", "smooth_l1")
    arguments.variable(y, "y", "smooth_l1")
    steep = (1.0 if sigma is None else arguments.number(sigma, "sigma", "smooth_l1")) ** 2
    error = subtract(x, y)
    error = error if inside_weight is None else multiply(error, inside_weight)
    terms = scale(huber_loss(error, full_like(error, 0.0), 1.0 / steep), steep)
    terms = terms if outside_weight is None else multiply(terms, outside_weight)
    made = reduce_sum(emit("flatten2", {"X": terms}, {"axis": 1}), 1, keep_dim=True)
    return note(made, ())


@one_layer("kldiv_loss")
def kldiv_loss(
    x: Variable, target: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """Compute target * (log(target) - x) (fluid.layers.kldiv_loss).

    It is reduced to [1], unless `reduction` is none.
    """
    options = ("none", "batchmean", "mean", "sum")
    inputs = {
        "X": arguments.variable(x, "x", "kldiv_loss"),
        "Target": arguments.variable(target, "target", "kldiv_loss"),
    }
    attrs = {"reduction": arguments.choice(reduction, "reduction", "kldiv_loss", options)}
    return vector(emit("kldiv_loss", inputs, attrs, name=name, out="Loss"))


def mse_loss(input: Variable, label: Variable) -> Variable:
    """Compute the mean squared error, of shape [1] (fluid.layers.mse_loss)."""
    return reduce_mean(square_error_cost(input, label))


@one_layer("bpr_loss")
def bpr_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """Compute the Bayesian personalized ranking loss of the label's score against other scores.

    The loss is the mean over the other classes of -log(sigmoid(x[label] - x[other])); input is
    [n, c], label [n, 1], the result [n, 1]. Paddle page: fluid.layers.bpr_loss.
    """
    classes = arguments.variable(input, "input", "bpr_loss").shape[-1]
    chosen = cast(one_hot(label, classes), input.dtype)
    own = reduce_sum(multiply(input, chosen), -1, keep_dim=True)
    terms = multiply(log_sigmoid(subtract(own, input)), scale(chosen, -1.0, 1.0))
    return scale(reduce_sum(terms, -1, keep_dim=True), -1.0 / max(classes - 1, 1), name=name)


@one_layer("rank_loss")
def rank_loss(
    label: Variable, left: Variable, right: Variable, name: str | None = None
) -> Variable:
    """Compute the cross entropy of sigmoid(left - right) with the label, elementwise.

    The three have as many elements, [n] or [n, 1]; so has the result, in the shape of the label.
    Paddle page: fluid.layers.rank_loss.
    """
    inputs = {
        "Label": arguments.variable(label, "label", "rank_loss"),
        "Left": arguments.variable(left, "left", "rank_loss"),
        "Right": arguments.variable(right, "right", "rank_loss"),
    }
    return emit("rank_loss", inputs, {}, name=name)


@one_layer("margin_rank_loss")
def margin_rank_loss(
    label: Variable, left: Variable, right: Variable, margin: float = 0.1, name: str | None = None
) -> Variable:
    """Compute max(0, margin - label * (left - right)) (fluid.layers.margin_rank_loss)."""
    for what, value in (("label", label), ("left", left), ("right", right)):
        if not isinstance(value, Variable):
            raise ValueError(f"margin_rank_loss(): '{what}' should be a Variable")
    wrong = multiply(label, subtract(right, left))
    return relu(scale(wrong, 1.0, arguments.number(margin, "margin", "margin_rank_loss")), name)


def teacher_student_sigmoid_loss(
    input: Variable,
    label: Variable,
    soft_max_up_bound: float = 15.0,
    soft_max_lower_bound: float = -15.0,
) -> Variable:
    """Compute the cross entropy with a click and, if there is one, with a teacher's score.

    A label is -2 (no click) or -1 (click) without a teacher, else the teacher's score, plus 1 for a
    click. No gradient flows where the input is outside the bounds.
    Paddle page: fluid.layers.teacher_student_sigmoid_loss.
    """
    function = "teacher_student_sigmoid_loss"
    arguments.variable(label, "label", function)
    low = arguments.number(soft_max_lower_bound, "soft_max_lower_bound", function)
    high = arguments.number(soft_max_up_bound, "soft_max_up_bound", function)
    inside = clip(arguments.variable(input, "input", function), low, high)
    bounded = _teacher_student(inside, label)
    rest = subtract(_teacher_student(input, label), bounded)
    rest.stop_gradient = True
    return add(bounded, rest)


def _teacher_student(x: Variable, label: Variable) -> Variable:
    def below(limit: float) -> Variable:
        return less_than(label, full_like(label, limit))

    no_click = softplus(x)
    click = subtract(no_click, x)
    scored = add(no_click, subtract(no_click, multiply(x, label)))
    both = add(click, subtract(no_click, multiply(x, scale(label, 1.0, -1.0))))
    with_score = where(below(1.0), scored, both)
    return where(below(-1.0), no_click, where(below(0.0), click, with_score))


def npair_loss(
    anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002
) -> Variable:
    """Compute the cross entropy of anchor-positive products, of shape [1] (layers.npair_loss)."""
    return vector(_npair_loss(anchor, positive, labels, l2_reg))


@one_layer("reduce_mean")
def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-5) -> Variable:
    """Compute 1 - 2 * overlap / size of [n, ..., c] and classes [n, ..., 1], [1] (dice_loss)."""
    hot = cast(
        one_hot(label, arguments.variable(input, "input", "dice_loss").shape[-1]), input.dtype
    )
    axes = list(range(1, len(input.shape)))
    overlap = scale(reduce_sum(multiply(input, hot), axes), 2.0)
    size = scale(add(reduce_sum(input, axes), reduce_sum(hot, axes)), 1.0, epsilon)
    return mean(scale(divide(overlap, size), -1.0, 1.0))


def label_smooth(
    label: Variable,
    prior_dist: Variable | None = None,
    epsilon: float = 0.1,
    dtype: Any = "float32",
    name: str | None = None,
) -> Variable:
    """Mix 1 - epsilon of the label with epsilon of a distribution (fluid.layers.label_smooth).

    Without `prior_dist` the distribution is uniform over the last axis. No gradient flows to the
    label.
    """
    arguments.variable(label, "label", "label_smooth").stop_gradient = True
    return _label_smooth(label, prior_dist, epsilon, name)


@one_layer("cos_sim")
def cos_sim(X: Variable, Y: Variable) -> Variable:
    """Compute the cosine of the angle between rows, [n, 1]; Y may have one row (cos_sim)."""
    arguments.variable(X, "X", "cos_sim")
    arguments.variable(Y, "Y", "cos_sim")
    own, other = (sqrt(reduce_sum(square(v), 1, keep_dim=True)) for v in (X, Y))
    products = reduce_sum(multiply(X, Y), 1, keep_dim=True)
    return divide(products, multiply(own, other))


def center_loss(
    input: Variable,
    label: Variable,
    num_classes: int,
    alpha: float | Variable,
    param_attr: Any,
    update_center: bool = True,
) -> Variable:
    """Compute half the squared distance of each row from the center of its class, [n, 1].

    The centers [num_classes, d] are a parameter that no gradient reaches; with `update_center` each
    run moves them toward the rows by alpha * (sum of differences) / (1 + their number).
    Paddle page: fluid.layers.center_loss.
    """
    helper = LayerHelper("center_loss")
    count = arguments.integer(num_classes, "num_classes", "center_loss")
    rows = arguments.variable(input, "input", "center_loss")
    attr = as_weight_attr(param_attr, "center_loss")
    centers = helper.parameter(attr, [count, rows.shape[1]], rows.dtype, stop_gradient=True)
    if not isinstance(alpha, Variable):
        alpha = _rate(helper, arguments.number(alpha, "alpha", "center_loss"))
    inputs = {
        "X": rows,
        "Label": arguments.variable(label, "label", "center_loss"),
        "Centers": centers,
        "CenterUpdateRate": alpha,
    }
    difference, loss = helper.temporary(), helper.temporary()
    outputs = {"SampleCenterDiff": difference, "Loss": loss, "CentersOut": centers}
    update = arguments.flag(update_center, "update_center", "center_loss")
    helper.append_op("center_loss", inputs, outputs, {"cluster_num": count, "need_update": update})
    return loss


def _rate(helper: LayerHelper, alpha: float) -> Variable:
    """Create the variable of Paddle's name, if missing, and let each run set it to `alpha`."""
    block = helper.main_program.current_block()
    kept = block.find_var("centerloss_alpha")
    if kept is None:
        kept = block.create_var("centerloss_alpha", [1], "float32", persistable=True)
        kept.stop_gradient = True
    Constant(alpha)(kept, block)
    return kept


@one_layer("warpctc")
def warpctc(
    input: Variable,
    label: Variable,
    blank: int = 0,
    norm_by_times: bool = False,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> Variable:
    """Compute the CTC loss [sequences, 1] of logits, after a softmax (fluid.layers.warpctc).

    Logits [rows, classes] and labels [tokens, 1] are sequences (lod_level 1); or both lengths are
    set, and they are [time, batch, classes] and [batch, length]. `norm_by_times` divides the
    gradient by the input lengths. Raises UnsupportedError for rows without lengths.
    """
    if input_length is not None or label_length is not None:
        return _warpctc(input, label, blank, norm_by_times, input_length, label_length)
    scores, steps = _pad_sequences(input, "input")
    tokens, counts = _pad_sequences(label, "label")
    scores = transpose(scores, [1, 0, 2])
    return _warpctc(scores, reshape(tokens, [0, -1]), blank, norm_by_times, steps, counts)


def _pad_sequences(x: Variable, argument: str) -> tuple[Variable, Variable]:
    """Pad sequences to equal lengths; also return their own lengths."""
    arguments.variable(x, argument, "warpctc")
    return sequence_pad(x, fill_constant([1], x.dtype, 0))
