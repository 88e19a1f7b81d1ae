"""Segments of ops whose results a derivative recomputes, and parameters that it gathers again.

Their inputs go through a barrier together with the gradients that have arrived so far: XLA then
neither reuses the forward results, nor starts before those gradients are computed. Parameters are
gathered one reader ahead, while the derivative of the reader after it is computed.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Sequence
from typing import Any, cast

import jax
from xdsl.ir import SSAValue

from graphopt.ir.dialect.differentiated import gathered_again, segment_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.comm import AllGather
from graphopt.ir.dialect.ops.control import Fence, RegionOp
from graphopt.ir.dialect.regions import values_read
from graphopt.lowering.call import Environment
from graphopt.lowering.evaluate import Context, evaluate_op


class Replay:
    """The values from which the derivative of each op on a path starts.

    `region` has the ops before the `pd.grad`, including those on the path.
    """

    def __init__(
        self, path: Sequence[PdOp], region: Sequence[PdOp], env: Environment, context: Context
    ) -> None:
        self.env = env
        self.context = context
        self.members: dict[int, list[PdOp]] = {}
        self.number = -1
        self.values: Environment = {}
        # op by op, nothing is freed before the last derivative
        for op in () if context.by_op else path:
            number = segment_of(op)
            if number is not None:
                self.members.setdefault(number, []).append(op)
        self.gathered = {} if context.by_op else gathered_again(region)
        self.ahead = [wanted for op in reversed(path) if (wanted := self._parameters_read(op))]
        self.again: Environment = {}

    def values_for(self, op: PdOp, cotangents: Environment) -> Environment:
        """Return the values of the forward computation, or of the op's recomputed segment.

        When the walk enters a segment, `cotangents` gets its values after the barrier, and the
        values of the previous segment are released.
        """
        number = segment_of(op)
        if number is None or number not in self.members:
            if not self.gathered:
                return self.env
            self._gather([op], cotangents)
            return cast(Environment, ChainMap[Any, Any](self.again, self.env))
        if number != self.number:
            self.number = number
            self._gather(self.members[number], cotangents)
            self.values = self._again(self.members[number], cotangents)
        return self.values

    def _again(self, ops: Sequence[PdOp], cotangents: Environment) -> Environment:
        made = dict.fromkeys(result for op in ops for result in op.results)
        read = dict.fromkeys(value for op in ops for value in values_read(op))
        inputs: list[SSAValue] = [value for value in read if value not in made]
        arrived: list[SSAValue] = [result for result in made if result in cotangents]
        held, gradients = jax.lax.optimization_barrier(
            (
                [self.again.get(value, self.env[value]) for value in inputs],
                [cotangents[value] for value in arrived],
            )
        )
        cotangents.update(zip(arrived, gradients, strict=True))
        fresh: Environment = dict(zip(inputs, held, strict=True))
        values = cast(Environment, ChainMap[Any, Any](fresh, self.env))
        for op in ops:
            held = None if isinstance(op, RegionOp) else self.env.get(op)
            evaluate_op(op, values, self.context, None if held is None else held[0])
        return values

    def _parameters_read(self, op: PdOp) -> list[SSAValue]:
        """Find the parameters that an op's derivative reads; region ops have kept theirs."""
        if isinstance(op, RegionOp):
            return []
        return [value for value in dict.fromkeys(values_read(op)) if value in self.gathered]

    def _gather(self, ops: Sequence[PdOp], cotangents: Environment) -> None:
        """Gather the parameters of these ops and of the next reader, unless they are present."""
        wanted = [value for op in ops for value in self._parameters_read(op)]
        if not wanted:
            return
        while self.ahead and set(self.ahead[0]) <= {*wanted, *self.again}:
            self.ahead.pop(0)
        wanted += self.ahead[0] if self.ahead else []
        missing = self._makers(wanted)
        if not missing:
            return
        parts = [op.operands[0] for op in missing if isinstance(op, AllGather)]
        arrived = [result for op in ops for result in op.results if result in cotangents]
        held, gradients = jax.lax.optimization_barrier(
            (
                [self.env[_before_fence(part)] for part in parts],
                [cotangents[value] for value in arrived],
            )
        )
        cotangents.update(zip(arrived, gradients, strict=True))
        fresh = dict(zip(parts, held, strict=True))
        values = cast(Environment, ChainMap[Any, Any](fresh, self.again, self.env))
        for op in missing:
            evaluate_op(op, values, self.context)
        self.again |= {result: fresh[result] for op in missing for result in op.results}

    def _makers(self, values: Iterable[SSAValue]) -> list[PdOp]:
        """Find the ops that gather these values, in order."""
        found: set[PdOp] = set()
        todo = list(values)
        while todo:
            value = todo.pop()
            if value in self.gathered and value not in self.again:
                op = self.gathered[value]
                found.add(op)
                todo += op.operands
        return [op for op in dict.fromkeys(self.gathered.values()) if op in found]


def _before_fence(part: SSAValue) -> SSAValue:
    """Return a part's value before the fence of its gather in the forward computation."""
    owner = part.owner
    return owner.values[owner.results.index(part)] if isinstance(owner, Fence) else part
