"""Losses from probabilities: binary cross entropy, likelihoods, divergences."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.sizes import size_of
from graphopt.ir.dialect.shapes import agree
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import sigmoid
from graphopt.nn.functional.input import one_hot
from graphopt.nn.functional.loss import reduce_loss, smooth_label
from graphopt.tensor.creation import full_like
from graphopt.tensor.logic import greater_than
from graphopt.tensor.manipulation import cast, squeeze, unsqueeze
from graphopt.tensor.math import add, clip, divide, exp, log, multiply, pow, scale, subtract, sum
from graphopt.tensor.math import square as square_
from graphopt.tensor.search import where
from graphopt.tensor.stat import mean

_REDUCTIONS = ("mean", "sum", "none")


def _pair(input: Any, label: Any, function: str, what: str = "input") -> dict[str, Variable]:
    return {
        "X": arguments.variable(input, what, function),
        "Label": arguments.variable(label, "label", function),
    }


def binary_cross_entropy(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Compute the cross entropy of probabilities with labels from 0 to 1, times `weight`.

    Paddle page: paddle.nn.functional.binary_cross_entropy.
    """
    function = "binary_cross_entropy"
    arguments.choice(reduction, "reduction", function, _REDUCTIONS)
    loss = emit("bce_loss", _pair(input, label, function), name=name)
    loss = loss if weight is None else multiply(loss, weight)
    return reduce_loss(loss, reduction, function)


def binary_cross_entropy_with_logits(
    logit: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: str = "mean",
    pos_weight: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Compute the cross entropy of sigmoid(logit) with labels from 0 to 1, times `weight`.

    `pos_weight` multiplies the part of the loss for labels of 1. Paddle page:
    paddle.nn.functional.binary_cross_entropy_with_logits.
    """
    function = "binary_cross_entropy_with_logits"
    arguments.choice(reduction, "reduction", function, _REDUCTIONS)
    loss = _from_logits(logit, label, function)
    if pos_weight is not None:
        arguments.variable(pos_weight, "pos_weight", function)
        share = scale(multiply(label, scale(pos_weight, 1.0, -1.0)), 1.0, 1.0)
        yes = _from_logits(logit, full_like(logit, 1.0), function)
        loss = add(multiply(scale(label, -1.0, 1.0), logit), multiply(share, yes))
    loss = loss if weight is None else multiply(loss, weight)
    return reduce_loss(loss, reduction, function, name)


def _from_logits(logit: Variable, label: Variable, function: str) -> Variable:
    return emit("sigmoid_cross_entropy_with_logits", _pair(logit, label, function, "logit"))


def sigmoid_focal_loss(
    logit: Variable,
    label: Variable,
    normalizer: Variable | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Variable:
    """Compute the cross entropy of sigmoid(logit), with less weight on easy elements.

    Paddle page: paddle.nn.functional.sigmoid_focal_loss.
    """
    function = "sigmoid_focal_loss"
    arguments.choice(reduction, "reduction", function, _REDUCTIONS)
    loss = _from_logits(logit, label, function)
    p, other = sigmoid(logit), scale(label, -1.0, 1.0)
    right = add(multiply(p, label), multiply(scale(p, -1.0, 1.0), other))
    balance = add(scale(label, alpha), scale(other, 1 - alpha))
    loss = multiply(multiply(balance, loss), pow(scale(right, -1.0, 1.0), gamma))
    loss = loss if normalizer is None else divide(loss, normalizer)
    return reduce_loss(loss, reduction, function, name)


@one_layer("log_loss")
def log_loss(
    input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None
) -> Variable:
    """Compute minus the logarithm of probabilities plus epsilon (nn.functional.log_loss)."""
    _pair(input, label, "log_loss")
    inputs, attrs = {"Predicted": input, "Labels": label}, {"epsilon": float(epsilon)}
    return emit("log_loss", inputs, attrs, name=name, out="Loss")


def nll_loss(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Compute minus each label's log-probability, times its class's weight (functional.nll_loss).

    input is [n, c, ...], label [n, ...]. The mean divides by the weights that count.
    """
    attrs = {
        "reduction": arguments.choice(reduction, "reduction", "nll_loss", _REDUCTIONS),
        "ignore_index": arguments.integer(ignore_index, "ignore_index", "nll_loss"),
    }
    inputs = {**_pair(input, label, "nll_loss"), "Weight": weight}
    helper = LayerHelper("nll_loss", name)
    return helper.emit_all("nll_loss", inputs, attrs, ("Out", "Total_weight"))[0]


def kl_div(
    input: Variable,
    label: Variable,
    reduction: str = "mean",
    log_target: bool = False,
    name: str | None = None,
) -> Variable:
    """Compute label * (log(label) - input), for log-probabilities `input` (functional.kl_div).

    `batchmean` divides the sum by the first dimension. With `log_target` the label is the logarithm
    of the probabilities.
    """
    arguments.choice(reduction, "reduction", "kl_div", (*_REDUCTIONS, "batchmean"))
    pair = _pair(input, label, "kl_div")
    inputs = {"X": pair["X"], "Target": pair["Label"]}
    logs = arguments.flag(log_target, "log_target", "kl_div")
    attrs = {"reduction": reduction, "log_target": logs}
    return emit("kldiv_loss", inputs, attrs, name=name, out="Loss")


@one_layer("label_smooth")
def label_smooth(
    label: Variable,
    prior_dist: Variable | None = None,
    epsilon: float = 0.1,
    name: str | None = None,
) -> Variable:
    """Mix labels with a share `epsilon` of a distribution (paddle.nn.functional.label_smooth).

    Without `prior_dist` it is uniform over the last axis.
    """
    arguments.variable(label, "label", "label_smooth")
    share = arguments.number(epsilon, "epsilon", "label_smooth")
    if not 0 <= share <= 1:
        raise ValueError(f"label_smooth(): 'epsilon' must be between 0 and 1, found {share}")
    if prior_dist is None:
        return smooth_label(label, share, size_of(label, -1))
    return add(scale(label, 1.0 - share), scale(prior_dist, share), name)


def gaussian_nll_loss(
    input: Variable,
    label: Variable,
    variance: Variable,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Compute the negated log-density of labels (paddle.nn.functional.gaussian_nll_loss).

    As in Paddle, no gradient flows into the variance.
    """
    _pair(input, label, "gaussian_nll_loss")
    if len(variance.shape) == len(input.shape) - 1:
        variance = unsqueeze(variance, -1)
    if len(variance.shape) != len(input.shape):
        raise ValueError(
            f"gaussian_nll_loss(): 'variance' should have the shape {list(input.shape)}, without "
            f"the last axis or with 1 there, found {list(variance.shape)}"
        )
    spread = clip(variance, min=epsilon)
    spread.stop_gradient = True
    loss = scale(add(log(spread), divide(square_(subtract(input, label)), spread)), 0.5)
    loss = scale(loss, 1.0, 0.5 * math.log(2 * math.pi)) if full else loss
    return reduce_loss(loss, reduction, "gaussian_nll_loss", name)


def poisson_nll_loss(
    input: Variable,
    label: Variable,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Compute the negated log-probability of counts, without a constant (poisson_nll_loss).

    With `full` the constant is included, by Stirling's formula for counts above 1. Paddle page:
    paddle.nn.functional.poisson_nll_loss.
    """
    _pair(input, label, "poisson_nll_loss")
    arguments.one_shape("poisson_nll_loss", input=input, label=label)
    label = cast(label, input.dtype)
    rate = exp(input) if log_input else input
    logarithm = input if log_input else log(scale(input, 1.0, epsilon))
    loss = subtract(rate, multiply(label, logarithm))
    if arguments.flag(full, "full", "poisson_nll_loss"):
        entropy = subtract(multiply(label, log(label)), label)
        stirling = add(entropy, scale(log(scale(label, 2 * math.pi)), 0.5))
        many = greater_than(label, full_like(label, 1.0))
        loss = add(loss, where(many, stirling, full_like(label, 0.0)))
    return reduce_loss(loss, reduction, "poisson_nll_loss", name)


def soft_margin_loss(
    input: Variable, label: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """Compute log(1 + exp(-label * input)) (paddle.nn.functional.soft_margin_loss)."""
    _pair(input, label, "soft_margin_loss")
    arguments.one_shape("soft_margin_loss", input=input, label=label)
    wrong = scale(multiply(cast(label, input.dtype), input), -1.0)
    return reduce_loss(log(scale(exp(wrong), 1.0, 1.0)), reduction, "soft_margin_loss", name)


def dice_loss(
    input: Variable, label: Variable, epsilon: float = 1e-5, name: str | None = None
) -> Variable:
    """Compute 1 - 2 * overlap / size of [n, ..., c] and classes [n, ..., 1] (dice_loss).

    Paddle page: paddle.nn.functional.dice_loss.
    """
    classes = size_of(arguments.variable(input, "input", "dice_loss"), -1)
    if not agree(input.shape[:-1], label.shape[:-1]):
        raise ValueError(
            f"dice_loss(): 'label' should have the shape {[*input.shape[:-1], 1]}, found "
            f"{list(label.shape)}"
        )
    hot = cast(one_hot(squeeze(label, [-1]), classes), input.dtype)
    axes = list(range(1, len(input.shape)))
    overlap = scale(sum(multiply(input, hot), axes), 2.0)
    size = scale(add(sum(input, axes), sum(hot, axes)), 1.0, epsilon)
    return mean(scale(divide(overlap, size), -1.0, 1.0), name=name)
