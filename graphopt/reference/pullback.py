"""Gradients of some ops, without a `pd.grad` in the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from graphopt.reference.interpreter import Environment, Run
from graphopt.reference.tape import Array, TapeNode, pull_back


class TracedOps:
    """Ops evaluated once in float64, so that gradients of several of their values can be taken.

    `wrt` are the bound values to differentiate with respect to. Raises Unsupported for an op
    without a rule.
    """

    def __init__(
        self,
        ops: Sequence[Operation],
        bindings: Mapping[SSAValue, Array],
        wrt: Sequence[SSAValue],
        *,
        seed: int = 7,
    ) -> None:
        run = Run("float64", seed)
        self.env: Environment = {value: run.enter(array) for value, array in bindings.items()}
        self.leaves = {value: TapeNode(self.env[value]) for value in wrt}
        self.env.update(self.leaves)
        with np.errstate(all="ignore"):
            run.ops(ops, self.env, traced=True)

    def gradients(self, of: SSAValue, cotangent: Array, wrt: Sequence[SSAValue]) -> list[Array]:
        """Compute the gradients of a value, weighted, with respect to some of the bound values.

        They are zeros where the value does not depend on one. Raises Unsupported for an op that has
        no derivative.
        """
        target = self.env[of]
        with np.errstate(all="ignore"):
            found = pull_back([(target, cotangent)]) if isinstance(target, TapeNode) else {}
        nodes = [self.leaves[value] for value in wrt]
        return [found.get(id(node), np.zeros(node.shape)) for node in nodes]
