"""Convolutions on trees, node by node."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.trees import TreeConv
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array, apply


def _window(children: dict[int, list[int]], root: int, depth: int) -> list[tuple[int, Array]]:
    """Find the nodes in a root's window, and their shares of the three parts of the filter."""
    found = [(root, np.array([0.0, 0.0, 1.0]))]
    level = [root]
    for number in range(1, depth):
        low, after = number / depth, []
        for node in level:
            own = children.get(node, [])
            for place, child in enumerate(own):
                right = low * (0.5 if len(own) == 1 else place / (len(own) - 1))
                found.append((child, np.array([right, low * (1 - right), 1 - low])))
                after.append(child)
        level = after
    return found


def _shares(edges: Array, count: int, depth: int) -> Array:
    total = np.zeros((len(edges), count, count, 3))
    for row, pairs in enumerate(edges):
        children: dict[int, list[int]] = {}
        known = 1
        for parent, child in pairs:
            if not parent or not child:
                break
            children.setdefault(int(parent) - 1, []).append(int(child) - 1)
            known += 1
        for root in range(min(known, count)):
            for node, share in _window(children, root, depth):
                total[row, root, node] += share
    return total


@rule(TreeConv)
def tree_conv(nodes: Array, edges: Array, filter: Array, max_depth: int) -> Array:
    shares = _shares(np.asarray(edges), nodes.shape[1], max_depth)

    def forward(x: Array, w: Array) -> Array:
        return np.einsum("buvk,bvd,dkof->buof", shares, x, w)

    def of_nodes(g: Array, _: Array, x: Array, w: Array) -> Array:
        return np.einsum("buvk,buof,dkof->bvd", shares, g, w)

    def of_filter(g: Array, _: Array, x: Array, w: Array) -> Array:
        return np.einsum("buvk,bvd,buof->dkof", shares, x, g)

    return apply(forward, [of_nodes, of_filter], nodes, filter)
