"""The weight of a layer: a parameter, or a length times a direction (WeightNormParamAttr)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from graphopt.frontend.initializers.base import Initializer
from graphopt.frontend.initializers.fill import Constant
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import ParamAttr, WeightNormParamAttr
from graphopt.ir.program import Variable, program_guard, unique_name
from graphopt.tensor.creation import assign
from graphopt.tensor.math import divide, multiply, sqrt, square, sum


def weight(
    helper: LayerHelper,
    attr: ParamAttr,
    shape: Sequence[int],
    dtype: Any = None,
    *,
    default_initializer: Initializer | None = None,
) -> Variable:
    """Create a parameter, or a weight computed from two for a WeightNormParamAttr."""
    if isinstance(attr, WeightNormParamAttr):
        return _create_normalised(helper, attr, shape, dtype, default_initializer)
    return helper.parameter(attr, shape, dtype, default_initializer=default_initializer)


def _create_normalised(
    helper: LayerHelper,
    attr: WeightNormParamAttr,
    shape: Sequence[int],
    dtype: Any,
    default_initializer: Initializer | None,
) -> Variable:
    """Compute g * v / norm(v), with new parameters g and v that the startup program sets."""
    name = attr.name or unique_name.generate(f"{helper.name}.w")
    length, direction = copy.copy(attr), copy.copy(attr)
    length.name, direction.name = f"{name}_g", f"{name}_v"
    length.initializer = Constant(1.0)
    v = helper.parameter(direction, shape, dtype, default_initializer=default_initializer)
    sizes = [1] * len(shape)
    if attr.dim is not None:
        sizes[attr.dim] = shape[attr.dim]
    g = helper.parameter(length, sizes, dtype)
    startup = helper.startup_program
    with program_guard(startup, startup):
        block = startup.global_block()
        assign(_norm(block.var(v.name), attr.dim), output=block.var(g.name))
    return multiply(v, divide(g, _norm(v, attr.dim)))


def _norm(v: Variable, dim: int | None) -> Variable:
    """Compute the Euclidean norm over all axes but `dim`, or over all; reduced axes keep size 1."""
    rank = len(v.shape)
    kept = None if dim is None else dim % rank
    return sqrt(sum(square(v), [axis for axis in range(rank) if axis != kept], keepdim=True))
