"""The parameters of a model as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterable

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign
from graphopt.tensor.manipulation import concat, reshape, split


def parameters_to_vector(parameters: Iterable[Variable], name: str | None = None) -> Variable:
    """Concatenate all parameters to a vector [n] (paddle.nn.utils.parameters_to_vector)."""
    return concat([reshape(p, [-1]) for p in parameters], 0, name)


def vector_to_parameters(
    vec: Variable, parameters: Iterable[Variable], name: str | None = None
) -> None:
    """Write a vector [n] into parameters, one after the other, when the program runs.

    Raises ValueError unless it has as many elements as they have. Paddle page:
    paddle.nn.utils.vector_to_parameters.
    """
    targets = list(parameters)
    sizes = [math.prod(p.shape) for p in targets]
    shape = arguments.variable(vec, "vec", "vector_to_parameters").shape
    if list(shape) != [sum(sizes)]:
        raise ValueError(
            f"vector_to_parameters(): 'vec' should be [{sum(sizes)}], found {list(shape)}"
        )
    for target, part in zip(targets, split(vec, sizes), strict=True):
        assign(reshape(part, list(target.shape)), output=target)
