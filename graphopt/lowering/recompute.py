"""Segments of ops whose results a derivative recomputes instead of keeping them.

Their inputs go through a barrier together with the gradients that have arrived so far: XLA then
neither reuses the forward results, nor starts before those gradients are computed.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from typing import Any, cast

import jax
from xdsl.ir import SSAValue

from graphopt.ir.dialect.differentiated import segment_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.regions import values_read
from graphopt.lowering.call import Environment
from graphopt.lowering.evaluate import Context, evaluate_op


class Replay:
    """The values that the derivative of each op of a path starts from."""

    def __init__(self, path: Sequence[PdOp], env: Environment, context: Context) -> None:
        self.env = env
        self.context = context
        self.members: dict[int, list[PdOp]] = {}
        self.number = -1
        self.values: Environment = {}
        # op by op nothing is freed before the end
        for op in () if context.by_op else path:
            number = segment_of(op)
            if number is not None:
                self.members.setdefault(number, []).append(op)

    def values_for(self, op: PdOp, cotangents: Environment) -> Environment:
        """Those of the forward computation, or of the op's segment when it is in one.

        On entering a segment, `cotangents` gets its values after the barrier, and the values of the
        segment before are released.
        """
        number = segment_of(op)
        if number is None or number not in self.members:
            return self.env
        if number != self.number:
            self.number = number
            self.values = self._again(self.members[number], cotangents)
        return self.values

    def _again(self, ops: Sequence[PdOp], cotangents: Environment) -> Environment:
        made = dict.fromkeys(result for op in ops for result in op.results)
        read = dict.fromkeys(value for op in ops for value in values_read(op))
        inputs: list[SSAValue] = [value for value in read if value not in made]
        arrived: list[SSAValue] = [result for result in made if result in cotangents]
        held, gradients = jax.lax.optimization_barrier(
            ([self.env[value] for value in inputs], [cotangents[value] for value in arrived])
        )
        cotangents.update(zip(arrived, gradients, strict=True))
        fresh: Environment = dict(zip(inputs, held, strict=True))
        values = cast(Environment, ChainMap[Any, Any](fresh, self.env))
        for op in ops:
            held = None if isinstance(op, RegionOp) else self.env.get(op)
            evaluate_op(op, values, self.context, None if held is None else held[0])
        return values
