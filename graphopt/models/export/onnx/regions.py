"""Ops with regions: branches and loops become subgraphs, groups of ops are inlined."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.known import known_numbers
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import control as ops
from graphopt.ir.dialect.ops.dynamic import ArrayWrite
from graphopt.ir.dialect.ops.math import Add, Cast, Scale
from graphopt.ir.dialect.ops.shape import Assign, Reshape
from graphopt.ir.dialect.types import shape_of
from graphopt.models.export.onnx.nodes import Nodes, Value, dtype_of


class RegionWriter(ABC):
    """The interface of a graph writer that the rules of regions need."""

    values: dict[SSAValue, Value]
    collected: set[Operation]
    """The ops that write an array whose elements Loop collects."""

    @abstractmethod
    def block(self, emit: Nodes, block: Block) -> list[Value]: ...

    @abstractmethod
    def subgraph(
        self,
        emit: Nodes,
        block: Block,
        first: Sequence[Value] = (),
        flags: Sequence[int] = (),
        collected: Sequence[int] = (),
    ) -> ir.Graph: ...

    def read(self, values: Sequence[SSAValue]) -> list[Value]:
        """Look up the graph values of the module's values."""
        return [self.values[value] for value in values]


def _flag(emit: Nodes, condition: Value) -> Value:
    """Reshape a condition to a scalar."""
    return emit.reshape(condition, emit.ints([]))


def _if(write: RegionWriter, emit: Nodes, op: Any) -> Sequence[Value]:
    if not op.results:
        return ()
    condition = _flag(emit, write.values[op.condition])
    branches = [write.subgraph(emit, region.block) for region in op.regions]
    dtypes = [dtype_of(value) for value in branches[0].outputs]
    then_branch, else_branch = branches
    return emit.all(
        "If", condition, dtypes=dtypes, then_branch=then_branch, else_branch=else_branch
    )


def _while(write: RegionWriter, emit: Nodes, op: Any) -> Sequence[Value]:
    carried = write.read(op.carried)
    condition = _flag(emit, write.values[op.condition])
    number = _scalar(emit, "iteration", ir.DataType.INT64)
    going = _scalar(emit, "condition", ir.DataType.BOOL)
    grown = _grown_arrays(op)
    write.collected |= set(grown.values())
    body = write.subgraph(emit, op.body.block, (number, going), flags=(0,), collected=[*grown])
    if not carried:
        return ()
    kept = [at for at in range(len(carried)) if at not in grown]
    dtypes = [dtype_of(value) for value in body.outputs[1:]]
    start = [carried[at] for at in kept]
    found = emit.all("Loop", None, condition, *start, dtypes=dtypes, body=body)
    results = dict(zip([*kept, *grown], found, strict=True))
    for at in grown:
        if shape_of(op.carried[at].type)[0]:
            results[at] = emit("Concat", carried[at], results[at], axis=0)
    return [results[at] for at in range(len(carried))]


def _grown_arrays(op: Any) -> dict[int, Operation]:
    """Find the arrays that a loop only appends to in each step, with the append op.

    Loop collects such elements itself; copying an array in each step takes quadratic time.
    """
    block = op.body.block
    after = block.last_op.operands[1:]
    found: dict[int, Operation] = {}
    for at, (start, array, grown) in enumerate(zip(op.carried, block.args, after, strict=True)):
        write, count = grown.owner, shape_of(start.type)[:1]
        if not isinstance(write, ArrayWrite) or write.array is not array:
            continue
        place, offset = _counted_from(write.position)
        if place not in block.args or not (array.has_one_use() and grown.has_one_use()):
            continue
        first = known_numbers(op.carried[place.index]) or ()
        begins = count == tuple(number + offset for number in first)
        if begins and _counted_from(after[place.index]) == (place, 1):
            found[at] = write
    return found


def _counted_from(value: SSAValue) -> tuple[Any, float]:
    """Strip additions of constants from a value; return the base value and their sum."""
    total = 0.0
    while isinstance(op := value.owner, Assign | Cast | Reshape | Scale | Add):
        at, number = 0, 0.0
        if isinstance(op, Scale):
            if op.attr("scale") != 1:
                break
            number = op.attr("bias")
        elif isinstance(op, Add):
            known = [list(known_numbers(each) or ()) for each in op.operands]
            at = next((i for i in (0, 1) if len(known[1 - i]) == 1), -1)
            if at < 0:
                break
            number = known[1 - at][0]
        value, total = op.operands[at], total + number
    return value, total


def _scalar(emit: Nodes, name: str, type_: ir.DataType) -> Value:
    return ir.Value(name=emit.shared.name(name), type=ir.TensorType(type_), shape=ir.Shape([]))


def _scan(write: RegionWriter, emit: Nodes, op: Any) -> Sequence[Value]:
    memories, sequences = write.read(op.memories), write.read(op.sequences)
    body = write.subgraph(emit, op.body.block)
    stacked, way = len(op.results), int(op.attr("reverse"))
    found = emit.all(
        "Scan",
        *memories,
        *sequences,
        dtypes=[dtype_of(value) for value in body.outputs],
        body=body,
        num_scan_inputs=len(sequences),
        scan_input_directions=[way] * len(sequences),
        # an empty list has no type
        scan_output_directions=[way] * stacked or None,
    )
    # the final memories come first, and are no results of the op
    return found[len(memories) :]


def _layers(write: RegionWriter, emit: Nodes, op: Any) -> Sequence[Value]:
    carried, stacks = write.read(op.carried), write.read(op.stacks)
    body = write.subgraph(emit, op.body.block)
    dtypes = [dtype_of(value) for value in carried]
    return emit.all(
        "Scan", *carried, *stacks, dtypes=dtypes, body=body, num_scan_inputs=len(stacks)
    )


def _in_place(write: RegionWriter, emit: Nodes, op: Any) -> Sequence[Value]:
    base = emit.base
    found = write.block(emit, op.regions[0].block)
    emit.base = base
    return found


def _fence(write: RegionWriter, emit: Nodes, op: Any) -> Sequence[Value]:
    return write.read(op.values)


REGIONS: Mapping[type[PdOp], Callable[[RegionWriter, Nodes, Any], Sequence[Value]]] = {
    ops.If: _if,
    ops.While: _while,
    ops.Scan: _scan,
    ops.Layers: _layers,
    ops.PyLayer: _in_place,
    ops.FusionGroup: _in_place,
    ops.RowKernel: _in_place,
    ops.Fence: _fence,
}
