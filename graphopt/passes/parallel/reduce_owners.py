"""The replica to which Paddle's strategy Reduce assigns each parameter.

Here every replica updates a part of every parameter. The owner is a property of
`pd.reduce_scatter`; a fetched gradient is summed only on its owner, as in Paddle.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.regions import ancestor_in
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.dialect.types import element_count, shape_of


def parameters_of(grad: Grad) -> list[tuple[SSAValue, SSAValue]]:
    """List the parameters of a derivative with their gradients, last used first.

    That is the order in which a backward pass finishes their gradients.
    """
    block = grad.parent
    assert block is not None
    place = {op: number for number, op in enumerate(block.ops)}

    def first_use(value: SSAValue) -> int:
        users = (ancestor_in(block, use.operation) for use in value.uses)
        return min((place[op] for op in users if op is not None), default=0)

    last_first: list[int] = [*reversed(grad.attr("parameters"))]
    last_first.sort(key=lambda at: -first_use(grad.wrt[at]))
    return [(grad.wrt[at], grad.results[at]) for at in last_first]


def owners(module: ModuleOp, count: int) -> Mapping[SSAValue, int]:
    """Assign each parameter, by its local gradient, to the replica with the fewest elements."""
    load = [0] * count
    found: dict[SSAValue, int] = {}
    for op in derivatives(module):
        for parameter, gradient in parameters_of(op):
            owner = load.index(min(load))
            found[gradient] = owner
            load[owner] += element_count(shape_of(parameter.type))
    return found


def derivatives(module: ModuleOp) -> list[Grad]:
    """List the derivatives with respect to parameters, in order."""
    ops: list[Operation] = list(main_function(module).body.block.ops)
    return [op for op in ops if isinstance(op, Grad) and op.attr("parameters")]
