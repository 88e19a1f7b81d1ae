"""Layers for the prediction of click rates (paddle.static, paddle.static.nn)."""

from __future__ import annotations

from typing import Any

from graphopt.errors import ProgramError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of
from graphopt.nn.functional.activation import sigmoid
from graphopt.tensor.creation import assign, create_global_var, full_like
from graphopt.tensor.manipulation import cast, reshape
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import abs, add, multiply, square, subtract, sum


def continuous_value_model(input: Variable, cvm: Variable, use_cvm: bool = True) -> Variable:
    """Take logarithms of the show and click counts in an embedding's first two columns.

    The columns of `input` [n, d] become log(shows + 1) and log(clicks + 1) - log(shows + 1), or
    are removed without `use_cvm`. Their gradient is the row of `cvm` [n, 2], the shows and clicks
    of the batch; each row of a sequence gets its sequence's. Raises ProgramError for other shapes.
    Paddle page: paddle.static.nn.continuous_value_model.
    """
    function = "continuous_value_model"
    levels = levels_of(arguments.variable(input, "input", function))
    counts = arguments.variable(cvm, "cvm", function)
    if levels:
        lengths = of_one_level(input, function, "input")
        counts = emit("sequence_expand_as", {"X": counts, "Y": input, SLOT: lengths})
    attrs = {"use_cvm": arguments.flag(use_cvm, "use_cvm", function)}
    made = emit("cvm", {"X": input, "CVM": counts}, attrs, out="Y")
    return note(made, levels) if levels else made


def ctr_metric_bundle(
    input: Variable, label: Variable, ins_tag_weight: Variable | None = None
) -> tuple[Variable, ...]:
    """Accumulate sums over all batches, from which metrics of predicted clicks are computed.

    `input` [n, 1] has probabilities, `label` of the same shape 0 and 1. The sums, each float32
    [1] and persistable, are of the squared errors, absolute errors, probabilities, their
    sigmoids and labels, and the number of rows. The first element of `ins_tag_weight` multiplies
    the sigmoids and the number: 0 for a batch without data. Raises ProgramError for other shapes.
    Paddle page: paddle.static.ctr_metric_bundle.
    """
    function = "ctr_metric_bundle"
    found: Any = arguments.variable(input, "input", function)
    wanted: Any = arguments.variable(label, "label", function)
    if found.shape != wanted.shape:
        raise ProgramError(
            f"{function}(): 'input' and 'label' should have one shape, found {list(found.shape)} "
            f"and {list(wanted.shape)}"
        )
    found, wanted = cast(found, "float32"), cast(wanted, "float32")
    absolute, squared, clicks, odds, right, rows = (
        create_global_var([1], 0.0, "float32", persistable=True) for _ in range(6)
    )
    error = subtract(found, wanted)
    weight: Any = full_like(rows, 1.0)
    if ins_tag_weight is not None:
        given = cast(arguments.variable(ins_tag_weight, "ins_tag_weight", function), "float32")
        weight = reshape(slice_(reshape(given, [-1]), [0], [0], [1]), [1])
    parts = (
        (squared, square(error), None),
        (absolute, abs(error), None),
        (clicks, found, None),
        (odds, sigmoid(found), weight),
        (right, wanted, None),
        (rows, full_like(wanted, 1.0), weight),
    )
    for total, values, factor in parts:
        batch = reshape(sum(values), [1])
        assign(add(total, batch if factor is None else multiply(batch, factor)), total)
    return tuple(total for total, _, _ in parts)
