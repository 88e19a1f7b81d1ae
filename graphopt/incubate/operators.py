"""Functions of paddle.incubate: masked softmax, messages along edges, a loss of its own."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.missing import explain
from graphopt.geometric import send_u_recv
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign
from graphopt.tensor.math import sum
from graphopt.tensor.stat import mean

_REDUCTIONS = ("sum", "mean", "none")


def softmax_mask_fuse(x: Variable, mask: Variable, name: str | None = None) -> Variable:
    """Compute softmax(x + mask) along the last axis (paddle.incubate.softmax_mask_fuse)."""
    given = {
        "X": arguments.variable(x, "x", "softmax_mask_fuse"),
        "Mask": arguments.variable(mask, "mask", "softmax_mask_fuse"),
    }
    return emit("fused_softmax_mask", given, name=name)


def softmax_mask_fuse_upper_triangle(x: Variable) -> Variable:
    """Compute a causal softmax: each row up to the diagonal.

    Paddle page: paddle.incubate.softmax_mask_fuse_upper_triangle.
    """
    given = {"X": arguments.variable(x, "x", "softmax_mask_fuse_upper_triangle")}
    return emit("fused_softmax_mask_upper_triangle", given)


def graph_send_recv(
    x: Variable,
    src_index: Variable,
    dst_index: Variable,
    pool_type: str = "sum",
    out_size: Any = None,
    name: str | None = None,
) -> Variable:
    """Call paddle.geometric.send_u_recv, its later name (paddle.incubate.graph_send_recv)."""
    return send_u_recv(x, src_index, dst_index, pool_type, out_size, name)


def identity_loss(x: Variable, reduction: Any = "none") -> Variable:
    """Reduce x to a loss: its sum (0), its mean (1) or its elements (2).

    Raises ValueError for another reduction. Paddle page: paddle.incubate.identity_loss.
    """
    arguments.variable(x, "x", "identity_loss")
    kind = _REDUCTIONS[reduction] if reduction in (0, 1, 2) else reduction
    arguments.choice(kind, "reduction", "identity_loss", _REDUCTIONS)
    return assign(x) if kind == "none" else sum(x) if kind == "sum" else mean(x)


explain(globals())
