"""Hierarchical sigmoid: the decisions on the path to each class in a binary tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphopt.fluid.layers.reduction import reduce_sum
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import softplus
from graphopt.tensor.creation import assign, full_like
from graphopt.tensor.linalg import matmul
from graphopt.tensor.logic import greater_equal
from graphopt.tensor.manipulation import cast, gather, reshape, unsqueeze
from graphopt.tensor.math import add, clip, maximum, multiply, subtract


@dataclass(frozen=True)
class Paths:
    """For each row: the nodes of its path, the decisions there, and a mask of the path's steps.

    All are [n, l]; `nodes` are int64, the others numbers 0 and 1.
    """

    nodes: Variable
    codes: Variable
    valid: Variable

    @staticmethod
    def from_table(table: Variable, code: Variable, dtype: Any) -> Paths:
        """Build the paths of a tree that the caller describes; numbers below 0 end a path."""
        zero = full_like(table, 0)
        valid = cast(greater_equal(table, zero), dtype)
        return Paths(maximum(table, zero), multiply(cast(code, dtype), valid), valid)

    @staticmethod
    def complete(label: Variable, classes: int, dtype: Any) -> Paths:
        """Build the paths of the complete tree with this number of leaves."""
        numbers = np.arange(classes, dtype=np.int64)[:, None] + classes
        bits = np.arange(int(2 * classes - 1).bit_length() - 1)
        length = np.floor(np.log2(numbers)).astype(np.int64)
        valid = bits[None] < length
        nodes = np.where(valid, (numbers >> (bits + 1)) - 1, 0)
        codes = np.where(valid, (numbers >> bits) & 1, 0)
        row = reshape(label, [-1])
        tables = (nodes, codes.astype(dtype.numpy), valid.astype(dtype.numpy))
        return Paths(*(gather(assign(table), row) for table in tables))


def loss(x: Variable, weight: Variable, bias: Variable | None, paths: Paths) -> Variable:
    """Sum the cross entropies of the decisions, [n, 1].

    As in Paddle, a decision that a short path lacks counts as one with a score of 0.
    """
    n, steps = paths.nodes.shape
    flat = reshape(paths.nodes, [-1])
    rows = reshape(gather(weight, flat), [-1 if n < 0 else n, steps, x.shape[1]])
    scores = reshape(matmul(rows, unsqueeze(x, [2])), [-1 if n < 0 else n, steps])
    if bias is not None:
        scores = add(scores, reshape(gather(bias, flat), [-1 if n < 0 else n, steps]))
    scores = multiply(clip(scores, -40.0, 40.0), paths.valid)
    terms = subtract(softplus(scores, threshold=40.0), multiply(scores, paths.codes))
    return reduce_sum(terms, 1, keep_dim=True)
