"""Ops with regions: branches and loops are subgraphs, groups of ops are written in place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
from xdsl.ir import Block, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import control as ops
from graphopt.models.export.onnx.nodes import Nodes, Value, dtype_of


class RegionWriter(ABC):
    """The part of the writer of a graph that the rules of regions need."""

    values: dict[SSAValue, Value]

    @abstractmethod
    def block(self, emit: Nodes, block: Block) -> list[Value]: ...

    @abstractmethod
    def subgraph(
        self,
        emit: Nodes,
        block: Block,
        first: Sequence[Value] = (),
        flags: Sequence[int] = (),
    ) -> ir.Graph: ...

    def read(self, values: Sequence[SSAValue]) -> list[Value]:
        """The values of the graph for these of the module."""
        return [self.values[value] for value in values]


def _flag(emit: Nodes, condition: Value) -> Value:
    """A condition as a tensor without dimensions."""
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
    body = write.subgraph(emit, op.body.block, (number, going), flags=(0,))
    dtypes = [dtype_of(value) for value in carried]
    if not carried:
        return ()
    return emit.all("Loop", None, condition, *carried, dtypes=dtypes, body=body)


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
        # an empty list of them has no type
        scan_output_directions=[way] * stacked or None,
    )
    # the last memories come first, and are no results here
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
