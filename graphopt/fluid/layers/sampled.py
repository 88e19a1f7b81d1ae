"""Sampled softmax and similarity focus (paddle.fluid.layers)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
from graphopt.nn.functional.input import one_hot
from graphopt.nn.functional.loss import softmax_with_cross_entropy
from graphopt.tensor.creation import full_like
from graphopt.tensor.manipulation import cast, reshape, unsqueeze
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import add, max, maximum
from graphopt.tensor.search import argmax, where


def sampled_softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    num_samples: int,
    num_true: int = 1,
    remove_accidental_hits: bool = True,
    use_customized_samples: bool = False,
    customized_samples: Variable | None = None,
    customized_probabilities: Variable | None = None,
    seed: int = 0,
) -> Variable:
    """Compute the cross entropy over the label's class and sampled classes: [n, 1].

    The logits are [n, c]. The samples are distinct classes drawn log-uniformly, the same for every
    row, or come from `customized_samples` [n, 1 + num_samples], whose first column has the labels,
    with their probabilities. Logarithms of the probabilities are subtracted from the logits;
    without `remove_accidental_hits` the label's class may be among the samples. Raises ValueError
    unless num_true is 1. Paddle page: fluid.layers.sampled_softmax_with_cross_entropy.
    """
    function = "sampled_softmax_with_cross_entropy"
    arguments.variable(logits, "logits", function)
    count = arguments.integer(num_samples, "num_samples", function)
    arguments.variable(label, "label", function)
    if num_true != 1:
        raise ValueError(f"{function}(): 'num_true' should be 1, found {num_true}")
    inputs = {"Logits": logits, "Labels": label}
    custom = arguments.flag(use_customized_samples, "use_customized_samples", function)
    if custom:
        inputs["CustomizedSamples"] = arguments.variable(
            customized_samples, "customized_samples", function
        )
        inputs["CustomizedProbabilities"] = arguments.variable(
            customized_probabilities, "customized_probabilities", function
        )
    attrs = {
        "num_samples": count,
        "use_customized_samples": custom,
        "remove_accidental_hits": arguments.flag(
            remove_accidental_hits, "remove_accidental_hits", function
        ),
        "seed": arguments.integer(seed, "seed", function),
    }
    outs = ("SampledLogits", "SampledLabels", "Samples", "Probabilities")
    chosen, target, *fixed = LayerHelper(function).emit_all("sample_logits", inputs, attrs, outs)
    for made in (target, *fixed):
        made.stop_gradient = True
    loss = softmax_with_cross_entropy(chosen, target)
    assert isinstance(loss, Variable)
    return loss


def similarity_focus(
    input: Variable, axis: int, indexes: Sequence[int], name: str | None = None
) -> Variable:
    """Mark the largest elements of slices of [n, a, b, c] with ones, all others with zeros.

    For each of `indexes` along `axis` (1 to 3), the slice's largest element is marked, then the
    largest of the other rows and columns, and so on; marks hold along the whole axis. Paddle page:
    fluid.layers.similarity_focus.
    """
    shape = arguments.variable(input, "input", "similarity_focus").shape
    if axis not in (1, 2, 3):
        raise ValueError(f"similarity_focus(): 'axis' must be 1, 2 or 3, found {axis}")
    if not indexes or len(shape) != 4 or min(shape[1:]) < 1:
        raise ValueError(
            f"similarity_focus(): 'input' should be [n, a, b, c] of known size, found "
            f"{list(shape)}, and 'indexes' not empty"
        )
    mask: Variable | None = None
    for index in indexes:
        if not 0 <= index < shape[axis]:
            raise ValueError(f"similarity_focus(): index {index} is outside of axis {axis}")
        part = slice_(input, [axis], [index], [index + 1])
        sizes = [d for i, d in enumerate(shape) if i not in (0, axis)]
        marks = _distinct_largest(reshape(part, [-1, *sizes]), sizes)
        mask = marks if mask is None else maximum(mask, marks)
    assert mask is not None
    wide = add(full_like(input, 0.0), unsqueeze(mask, [axis]))
    wide.stop_gradient = True
    return wide


def _distinct_largest(x: Variable, sizes: list[int]) -> Variable:
    """Mark with ones the largest elements of [n, b, c] that share no row or column."""
    b, c = sizes
    lowest = full_like(x, -np.inf)
    marks = full_like(x, 0.0)
    for _ in range(min(b, c)):
        best = argmax(reshape(x, [-1, b * c]), 1)
        here = cast(reshape(one_hot(best, b * c), [-1, b, c]), x.dtype)
        marks = add(marks, here)
        taken = add(max(here, 2, keepdim=True), max(here, 1, keepdim=True))
        x = where(cast(taken, "bool"), lowest, x)
    return marks
