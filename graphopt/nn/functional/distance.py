"""Losses from distances and similarities."""

from __future__ import annotations

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import relu
from graphopt.nn.functional.loss import reduce_loss, softmax_with_cross_entropy
from graphopt.tensor.creation import full_like
from graphopt.tensor.linalg import matmul
from graphopt.tensor.logic import equal
from graphopt.tensor.manipulation import cast, reshape
from graphopt.tensor.math import add, clip, divide, multiply, scale, sqrt, square, sum
from graphopt.tensor.stat import mean


def smooth_l1_loss(
    input: Variable,
    label: Variable,
    reduction: str = "mean",
    delta: float = 1.0,
    is_huber: bool = True,
    name: str | None = None,
) -> Variable:
    """Compute half the squared error, linear beyond an error of delta (smooth_l1_loss).

    It is divided by delta unless `is_huber`. Paddle page: paddle.nn.functional.smooth_l1_loss.
    """
    inputs = {
        "X": arguments.variable(input, "input", "smooth_l1_loss"),
        "Y": arguments.variable(label, "label", "smooth_l1_loss"),
    }
    attrs = {"delta": arguments.number(delta, "delta", "smooth_l1_loss")}
    helper = LayerHelper("smooth_l1_loss", name)
    loss = helper.emit_all("huber_loss", inputs, attrs, ("Out", "Residual"))[0]
    if not arguments.flag(is_huber, "is_huber", "smooth_l1_loss"):
        loss = scale(loss, 1.0 / attrs["delta"])
    return reduce_loss(loss, reduction, "smooth_l1_loss")


def npair_loss(
    anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002
) -> Variable:
    """Compute the cross entropy of anchor-positive products by equal labels (npair_loss).

    The squared lengths are added, times `l2_reg` / 4. Paddle page: paddle.nn.functional.npair_loss.
    """
    arguments.variable(anchor, "anchor", "npair_loss")
    arguments.variable(labels, "labels", "npair_loss")
    alike = cast(equal(reshape(labels, [-1, 1]), reshape(labels, [1, -1])), "float32")
    target = divide(alike, sum(alike, 1, keepdim=True))
    lengths = add(mean(sum(square(anchor), 1)), mean(sum(square(positive), 1)))
    products = matmul(anchor, positive, transpose_y=True)
    entropy = softmax_with_cross_entropy(products, target, soft_label=True)
    assert isinstance(entropy, Variable)
    return add(scale(lengths, 0.25 * l2_reg), mean(sum(multiply(target, entropy), 0)))


def _where(label: Variable, value: float, x: Variable) -> Variable:
    """Return x where the label is this value, else 0."""
    return multiply(cast(equal(label, full_like(label, value)), x.dtype), x)


def cosine_embedding_loss(
    input1: Variable,
    input2: Variable,
    label: Variable,
    margin: float = 0,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Compute 1 - cosine for the label 1, and the cosine above a margin for -1.

    Paddle page: paddle.nn.functional.cosine_embedding_loss.
    """
    arguments.variable(input1, "input1", "cosine_embedding_loss")
    arguments.one_shape("cosine_embedding_loss", input1=input1, input2=input2)
    first, second = (scale(sum(multiply(x, x), -1), 1.0, 1e-12) for x in (input1, input2))
    cosine = divide(sum(multiply(input1, input2), -1), sqrt(multiply(first, second)))
    near, far = scale(cosine, -1.0, 1.0), clip(scale(cosine, 1.0, -margin), min=0.0)
    loss = add(_where(label, 1, near), _where(label, -1, far))
    return reduce_loss(loss, reduction, "cosine_embedding_loss", name)


def hinge_embedding_loss(
    input: Variable,
    label: Variable,
    margin: float = 1.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """Return the input for the label 1, and its distance below a margin for -1.

    Paddle page: paddle.nn.functional.hinge_embedding_loss.
    """
    arguments.variable(input, "input", "hinge_embedding_loss")
    far = relu(scale(input, -1.0, margin))
    loss = add(_where(label, 1, input), _where(label, -1, far))
    return reduce_loss(loss, reduction, "hinge_embedding_loss", name)


lazy.join_package(globals())
