"""Gradients of some ops, without a `pd.grad` in the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from graphopt.reference.interpreter import Environment, Run
from graphopt.reference.tape import Array, Node, pull_back


def pull_back_ops(
    ops: Sequence[Operation],
    bindings: Mapping[SSAValue, Array],
    of: SSAValue,
    cotangent: Array,
    wrt: Sequence[SSAValue],
    *,
    seed: int = 7,
) -> list[Array]:
    """The gradients of a value that these ops compute, weighted, with respect to bound values.

    In float64; zeros where nothing depends on a value. Raises Unsupported for an op that has no
    rule, or no derivative.
    """
    run = Run("float64", seed)
    env: Environment = {value: run.entered(array) for value, array in bindings.items()}
    leaves = {value: Node(env[value]) for value in wrt}
    env.update(leaves)
    with np.errstate(all="ignore"):
        run.ops(ops, env, traced=True)
        target = env[of]
        found = pull_back([(target, cotangent)]) if isinstance(target, Node) else {}
    return [found.get(id(node), np.zeros(node.shape)) for node in leaves.values()]
