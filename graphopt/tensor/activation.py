"""Activation functions that are also methods of tensors."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.manipulation import cast
from graphopt.tensor.math import as_float, unary


def sigmoid(x: Variable, name: str | None = None) -> Variable:
    """Compute 1 / (1 + exp(-x)) (paddle.nn.functional.sigmoid)."""
    return unary("sigmoid", as_float(x, "sigmoid"), name)


def softmax(x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """Compute the softmax along `axis`, after a cast to `dtype` (nn.functional.softmax)."""
    x = x if dtype is None else cast(x, dtype)
    return unary("softmax", x, name, axis=arguments.integer(axis, "axis", "softmax"))
