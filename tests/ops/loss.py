"""Samples of the losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import loss as ops
from graphopt_tests.ops.activation import softmax
from graphopt_tests.ops.base import Array, Sample, bf16, f32, f64, i32, i64, sample


def losses(*operands: Any, **attrs: Any) -> Sample:
    return sample(*operands, **attrs).gradient_through(1)


def hard(p: Array, label: Array) -> tuple[Array, Array]:
    """Return softmax and loss for probabilities [N, C] and labels [N]."""
    return p, -np.log(p[np.arange(len(label)), label])[:, None]


def binary(p: Array, label: Array) -> Array:
    """Compute the cross entropy of probabilities."""
    return -label * np.log(p) - (1 - label) * np.log(1 - p)


def logistic(x: Array, label: Array) -> Array:
    """Compute the cross entropy of sigmoid(x)."""
    return binary(1 / (1 + np.exp(-x.astype(float))), label)


def huber(x: Array, y: Array, delta: float = 1.0) -> tuple[Array, Array]:
    size = abs(y - x)
    loss = np.where(size <= delta, 0.5 * size**2, delta * (size - 0.5 * delta))
    return loss, y - x


SHARES = [[0.2, 0.7], [0.9, 0.4]]
LABELS = [[0.0, 1.0], [0.25, 1.0]]


def ways(labels: Array, classes: int) -> tuple[list[list[int]], list[list[int]]]:
    """List nodes and decisions in the complete tree, from the leaf up."""
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
    ops.CrossEntropyWithSoftmax: [
        losses(f32(2, 3), i64([[2], [0]])).gives(lambda x, y: hard(softmax(x), y[:, 0])),
        losses(f32(2, 3), i32([1, 1])).gives(lambda x, y: hard(softmax(x), y)),
        losses(f64(2, 3, 2), i64([[1, 0], [2, 1]]), axis=1).gives(
            lambda x, y: (p := softmax(x, 1), -np.log(np.take_along_axis(p, y[:, None], 1)))
        ),
        losses(f32(2, 3), i64([[255], [0]]), ignore_index=255).gives(
            lambda x, y: (p := softmax(x), [[0], -np.log(p[1, :1])])
        ),
        losses(f32(2, 3), i64([[-100], [0]])).gives(
            lambda x, y: (p := softmax(x), [[0], -np.log(p[1, :1])])
        ),
        losses(f32(2, 3), f32([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]]), soft_label=True).gives(
            lambda x, y: (p := softmax(x), -(y * np.log(p)).sum(1, keepdims=True))
        ),
        losses(f32([[0.2, 0.8], [0.5, 0.5]]), i64([[1], [0]]), use_softmax=False).gives(
            lambda p, y: hard(p, y[:, 0])
        ),
        losses(f32([[0, 1.0]]), f32([[0, 1.0]]), soft_label=True, use_softmax=False)
        .gives(lambda p, y: (p, [[0]]))
        .kinked(),
        losses(f32([[1e4, 0.0]]), i64([[1]]))
        .gives(lambda x, y: ([[1, np.exp(-64)]], [[64]]))
        .kinked(),
        losses(f32(2, 2), i64([[7], [-1]]))
        .gives(lambda x, y: (softmax(x), [[np.nan], [np.nan]]))
        .kinked(),
        losses(bf16(0, 3), i64(0, 1)),
    ],
    ops.BinaryCrossEntropy: [
        sample(f32(SHARES), f32(LABELS)).gives(binary),
        sample(f64([0.0, 1.0]), f64([1.0, 1.0])).gives(lambda p, y: [100, 0]).kinked(),
    ],
    ops.SigmoidCrossEntropy: [
        sample(f32(2, 2), f32(LABELS)).gives(logistic),
        sample(f64(2, 2), f64([[0.0, 5.0], [1.0, 5.0]]), ignore_index=5, normalize=True)
        .gives(lambda x, y: np.where(y == 5, 0, logistic(x, y) / 2))
        .kinked(),
        sample(f32([1e4, -1e4]), f32([0.0, 0.0])).gives(lambda x, y: [1e4, 0]).kinked(),
    ],
    ops.HuberLoss: [
        sample(f32(2, 3), f32(2, 3)).gives(huber).gradient_through(0),
        sample(f64(2), f64(2), delta=0.5).gives(lambda x, y: huber(x, y, 0.5)).gradient_through(0),
    ],
    ops.KldivLoss: [
        sample(f32(2, 2), f32(SHARES), reduction="none").gives(lambda x, y: y * (np.log(y) - x)),
        sample(f64(2, 2), f64(SHARES)).gives(lambda x, y: (y * (np.log(y) - x)).mean()),
        sample(f64(2, 2), f64([[0.0, 0.5], [1.0, 0.0]]), reduction="batchmean")
        .gives(lambda x, y: (0.5 * (np.log(0.5) - x[0, 1]) - x[1, 0]) / 2)
        .kinked(),
        sample(f64(2, 2), f64(2, 2), log_target=True).gives(
            lambda x, y: (np.exp(y) * (y - x)).mean()
        ),
        sample(f32(2), f32([0.5, 0.5]), reduction="sum").gives(
            lambda x, y: (y * (np.log(y) - x)).sum()
        ),
    ],
    ops.NllLoss: [
        losses(f32(2, 3), i64([2, 0]))
        .gives(lambda x, y: (-(x[0, 2] + x[1, 0]) / 2, 2))
        .gradient_through(0),
        losses(f64(3, 2), i64([1, 0, -100]), f64([0.5, 2.0]), reduction="none")
        .gives(lambda x, y, w: ([-2 * x[0, 1], -0.5 * x[1, 0], 0], 2.5))
        .gradient_through(0),
        losses(f32(1, 2, 2), i64([[1, 0]]), reduction="sum")
        .gives(lambda x, y: (-(x[0, 1, 0] + x[0, 0, 1]), 2))
        .gradient_through(0),
    ],
    ops.HsigmoidLoss: [
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
