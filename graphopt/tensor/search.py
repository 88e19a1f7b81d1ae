"""Where things are: largest elements, choices by a condition (paddle.*)."""

from __future__ import annotations

from typing import Any

from graphopt import arguments
from graphopt.errors import UnsupportedError
from graphopt.ir.program import Variable
from graphopt.layer_helper import LayerHelper, emit


def argmax(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    dtype: Any = "int64",
    name: str | None = None,
) -> Variable:
    """The index of the first largest element along `axis`, or in the flattened tensor.

    The result is int64 or int32. Paddle page: paddle.argmax.
    """
    arguments.variable(x, "x", "argmax")
    attrs = {
        "axis": 0 if axis is None else arguments.integer(axis, "axis", "argmax"),
        "keepdims": arguments.flag(keepdim, "keepdim", "argmax"),
        "flatten": axis is None,
        "dtype": arguments.dtype(dtype, "dtype", "argmax").code,
    }
    return emit("arg_max", {"X": x}, attrs, layer="argmax", name=name, stop_gradient=True)


def topk(
    x: Variable,
    k: int,
    axis: int | None = None,
    largest: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """The k largest (or smallest) elements along `axis` (-1) and their int64 indices (paddle.topk).

    Raises ProgramError unless k is from 1 to the size of the axis.
    """
    arguments.variable(x, "x", "topk")
    attrs = {
        "k": arguments.integer(k, "k", "topk"),
        "axis": -1 if axis is None else arguments.integer(axis, "axis", "topk"),
        "largest": arguments.flag(largest, "largest", "topk"),
        "sorted": arguments.flag(sorted, "sorted", "topk"),
    }
    helper = LayerHelper("top_k_v2", name)
    values, indices = helper.emit_all("top_k_v2", {"X": x}, attrs, ("Out", "Indices"))
    indices.stop_gradient = True
    return values, indices


def where(condition: Variable, x: Any = None, y: Any = None, name: str | None = None) -> Variable:
    """x where the condition holds, else y, with broadcasting; numbers are allowed (paddle.where).

    Raises UnsupportedError without x and y: the number of true elements is not known before a run.
    """
    from graphopt.tensor.creation import full

    arguments.variable(condition, "condition", "where")
    if x is None and y is None:
        raise UnsupportedError(
            "where(condition) without x and y gives indices whose number depends on the data"
        )
    if x is None or y is None:
        raise ValueError("where(): either both or neither of 'x' and 'y' should be given")
    like = next((value.dtype for value in (x, y) if isinstance(value, Variable)), None)
    x, y = (value if isinstance(value, Variable) else full([], value, like) for value in (x, y))
    return emit("where", {"Condition": condition, "X": x, "Y": y}, name=name)
