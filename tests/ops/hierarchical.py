"""Samples of the losses over a tree of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.hierarchical import HsigmoidLoss
from graphopt_tests.ops.base import Array, Sample, f32, f64, i64, sample


def ways(labels: Array, classes: int) -> tuple[list[list[int]], list[list[int]]]:
    """Nodes and decisions in the complete tree, from the leaf up."""
    nodes, codes = [], []
    for label in labels.reshape(-1):
        at, node, code = int(label) + classes, [], []
        while at > 1:
            node.append(at // 2 - 1)
            code.append(at % 2)
            at //= 2
        nodes.append(node)
        codes.append(code)
    return nodes, codes


def hsigmoid(classes: int) -> Any:
    def run(x: Array, w: Array, label: Array, path: Any, code: Any, bias: Any) -> Any:
        if path is None:
            length = (classes - 1).bit_length()
            nodes, codes = ways(label, classes)
        else:
            length = path.shape[1]
            nodes = [[node for node in row if node >= 0] for row in path]
            codes = [list(row[: len(n)]) for row, n in zip(code, nodes, strict=True)]
        pre = np.zeros((len(x), length))
        cost = np.zeros((len(x), 1))
        for row, (way, taken) in enumerate(zip(nodes, codes, strict=True)):
            score = np.zeros(length)
            score[: len(way)] = [x[row] @ w[n] + (0 if bias is None else bias[n, 0]) for n in way]
            pre[row] = np.log1p(np.exp(score))
            cost[row] = pre[row].sum() - (score[: len(way)] * taken).sum()
        return cost, pre

    return run


def tree(*operands: Any, num_classes: int) -> Sample:
    return (
        sample(*operands, num_classes=num_classes).gives(hsigmoid(num_classes)).gradient_through(0)
    )


SAMPLES = {
    HsigmoidLoss: [
        tree(f32(3, 2), f32(4, 2), i64([[0], [4], [2]]), None, None, f32(4, 1), num_classes=5),
        tree(f64(2, 3), f64(1, 3), i64([[0], [1]]), None, None, None, num_classes=2),
        tree(
            f64(2, 2),
            f64(3, 2),
            i64([[0], [1]]),
            i64([[0, 2, -1], [1, -1, -1]]),
            i64([[1, 0, -1], [1, -1, -1]]),
            f64(3, 1),
            num_classes=3,
        ),
    ],
}
