"""The ONNX graph of a module: ports become inputs, initializers and outputs, regions subgraphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import onnx_ir as ir
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.dialect.op import PdOp, bind_groups, class_of
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.control import Yield
from graphopt.ir.dialect.ops.dynamic import ArrayWrite, Dynamic, decode_properties, group_operands
from graphopt.ir.dialect.ops.sequence.beam_search import BeamSearch
from graphopt.ir.dialect.signature import FEED, STATE, Port, main_function, signature_of
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.models.export.onnx import rules as rules  # registers every rule
from graphopt.models.export.onnx.nodes import (
    Nodes,
    NotInOnnx,
    Parts,
    Shared,
    Value,
    finish_nodes,
    initializer,
    read_by,
    read_inside,
)
from graphopt.models.export.onnx.ops.complex import apart, join_parts
from graphopt.models.export.onnx.patterns import as_one
from graphopt.models.export.onnx.regions import REGIONS, RegionWriter
from graphopt.models.export.onnx.registry import write_op

Array = np.ndarray[Any, Any]


@dataclass
class Writer(RegionWriter):
    """Writes the ops of blocks; `refusals` lists unsupported ops with the reason."""

    shared: Shared
    refusals: dict[tuple[str, str], list[str]] = field(
        default_factory=dict[tuple[str, str], list[str]]
    )
    values: dict[SSAValue, Any] = field(default_factory=dict[SSAValue, Any])
    names: Mapping[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    collected: set[Operation] = field(default_factory=set[Operation])

    def block(self, emit: Nodes, block: Block) -> list[Value]:
        """Write the ops of a block; return the operands of its terminator."""
        ended: Sequence[SSAValue] = ()
        for op in block.ops:
            if isinstance(op, (Yield, ReturnOp)):
                ended = op.operands
            else:
                self._op(emit, op)
        return [self.values[value] for value in ended]

    def _op(self, emit: Nodes, op: Operation) -> None:
        assert isinstance(op, PdOp), op
        emit.base = _hint(op.results[0]) if op.results else op.name
        first = len(emit.nodes)
        try:
            results = self._results(emit, op)
        except NotInOnnx as error:
            found = self.refusals.setdefault((_op_name(op), str(error)), [])
            found.append(emit.base)
            results = tuple(self._stand_in(emit, value) for value in op.results)
            del emit.nodes[first:]
        for value, result in zip(op.results, results, strict=True):
            if result is not None:
                self.values[value] = self._set_type(value, result, emit.nodes[first:])

    def _results(self, emit: Nodes, op: PdOp) -> tuple[Value | Parts | None, ...]:
        for op_class in type(op).__mro__:
            if op_class in REGIONS:
                _check_real(op)
                return tuple(REGIONS[op_class](self, emit, op))
        if isinstance(op, ArrayWrite) and op in self.collected:
            return (self.values[op.x],)
        together = as_one(emit, op, self.values)
        if together is not None:
            return (together,)
        groups = [[self.values[v] for v in group] for group in op.operand_groups()]
        types = [value.type for value in op.results]
        used = [bool(value.uses) for value in op.results]
        op_class, attrs = type(op), op.attr_values()
        if isinstance(op, Dynamic):
            op_class = class_of(op.attr("op"))
            attrs = decode_properties(op_class, op.attr("attrs"))
            attrs |= dict(zip(op.attr("dynamic"), groups[1], strict=True))
            groups = group_operands(groups[0], op.attr("groups"))
        bound = bind_groups(op_class, groups)
        return write_op(emit, op_class, {**bound, **attrs}, types, used)  # pyright: ignore

    def _stand_in(self, emit: Nodes, value: SSAValue) -> Value | Parts:
        """Create a placeholder for an unsupported value, so that its users are checked, too."""
        dtype = dtype_of(value.type)
        type_ = ir.TensorType(ir.DataType.from_numpy(REAL.get(dtype, dtype.numpy)))
        made = ir.Value(name=self.shared.name(emit.base), type=type_)
        return Parts(made, made) if dtype.is_complex else made

    def _set_type(
        self, value: SSAValue, result: Value | Parts, new: Sequence[ir.Node]
    ) -> Value | Parts:
        """Set type and name of a result; a value from another node keeps its name."""
        if isinstance(result, Parts):
            for part in (result.real, result.imag):
                part.shape = onnx_shape(value.type) if part.shape is None else part.shape
            return result
        if result.producer() in new:
            result.name = self.shared.name(self.names.get(value) or _hint(value))
        if result.shape is None:
            result.shape = onnx_shape(value.type)
        return result

    def subgraph(
        self,
        emit: Nodes,
        block: Block,
        first: Sequence[Value] = (),
        flags: Sequence[int] = (),
        collected: Sequence[int] = (),
    ) -> ir.Graph:
        """Write a region as a graph; its inputs are `first`, then the arguments of the block.

        Results at the indices in `flags` are conditions, which have no dimensions. Arguments at the
        indices in `collected` are arrays: the graph has no such inputs, and their new elements are
        its last results.
        """
        own = Nodes(self.shared)
        kept = [at for at in range(len(block.args)) if at not in collected]
        arguments = [self.argument(block.args[at]) for at in kept]
        results = self.block(own, block)
        given: set[Value] = set()
        for at, value in enumerate(results):
            own.base = value.name or own.base
            if at in flags:
                results[at] = value = own.reshape(value, own.ints([]))
            # a graph returns values of its own nodes, each value once
            if value.producer() not in own.nodes or value in given:
                results[at] = copy_value(own, value)
            given.add(results[at])
        if collected:
            results = [results[0], *(results[1 + at] for at in (*kept, *collected))]
        return ir.Graph(
            [*first, *arguments], results, nodes=finish_nodes(own.nodes, results), name="region"
        )

    def argument(self, value: SSAValue) -> Value:
        """Create the graph input of a block argument."""
        made = ir.Value(
            name=self.shared.name(_hint(value)),
            type=ir.TensorType(ir.DataType.from_numpy(dtype_of(value.type).numpy)),
            shape=onnx_shape(value.type),
        )
        self.values[value] = made
        return made


def graph_of(
    module: ModuleOp,
    parameters: Mapping[str, Array],
    inputs: Sequence[Port],
    opset: int,
) -> ir.Model:
    """Write a module as a model from `inputs` to the module's fetches.

    Raises UnsupportedError with all ops that ONNX has no operators for.
    """
    writer, emit, graph_inputs, initial, results = _write_module(module, parameters, inputs, opset)
    if writer.refusals:
        raise UnsupportedError(refusal_error(writer.refusals))
    held = [*initial, *writer.shared.constants]
    nodes = finish_nodes(emit.nodes, results)
    read = set(read_by(nodes)) | set(results)
    graph = ir.Graph(
        graph_inputs,
        results,
        nodes=nodes,
        initializers=[value for value in held if value in read],
        opset_imports={"": opset},
        name="main",
    )
    return ir.Model(graph, ir_version=IR_VERSIONS[opset], producer_name="graphopt")


IR_VERSIONS = {20: 9, 21: 10, 22: 10, 23: 11}
"""The opsets that can be written, with the version of the file format for each."""


def refusals_of(module: ModuleOp, opset: int) -> Mapping[tuple[str, str], list[str]]:
    """Map ops that ONNX has no operators for, with the reason, to the names of their results."""
    ports = signature_of(module).arguments
    zeros = {p.name: np.broadcast_to(p.dtype.numpy.type(0), _close_sizes(p)) for p in ports}
    feeds = [port for port in ports if port.kind == FEED]
    return _write_module(module, zeros, feeds, opset)[0].refusals


def _distinct(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Append a number to a name that occurred before: one variable may be several outputs."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name}.{number}" for number in count(1))
        free = (each for each in numbered if each not in (*found, *names, *taken))
        found.append(next(free) if name in found else name)
    return found


def _close_sizes(port: Port) -> tuple[int, ...]:
    return tuple(max(dim, 0) for dim in port.shape)


def _write_module(
    module: ModuleOp, parameters: Mapping[str, Array], inputs: Sequence[Port], opset: int
) -> tuple[Writer, Nodes, list[Value], list[Value], list[Value]]:
    """Write a module; return the writer, the nodes, the inputs, the parameters and the outputs."""
    function, signature = main_function(module), signature_of(module)
    shared = Shared(opset)
    emit = Nodes(shared)
    names = [port.name for port in signature.results]
    fetched = _distinct(names, [port.name for port in signature.arguments])
    # the names of the ports are reserved first, because they are the interface
    made = {port.name: _input(port) for port in inputs}
    initial: list[Value] = []
    writer = Writer(shared)
    for port, argument in zip(signature.arguments, function.body.block.args, strict=True):
        if port.kind == STATE:
            initial.append(initializer(port.name, _to_stored(np.asarray(parameters[port.name]))))
            shared.hold(initial[-1])
        value = initial[-1] if port.kind == STATE else made[port.name]
        writer.values[argument] = apart(emit, value) if port.dtype.is_complex else value
    shared.taken |= {*made, *fetched, *(value.name or "" for value in initial)}
    found = writer.block(emit, function.body.block)
    outputs: list[Value] = []
    # OpenVINO's reader fails if a branch reads an output of the model
    inner = {value for node in emit.nodes for value in read_inside(node)}
    for name, result in zip(fetched, found, strict=True):
        value = join_parts(emit, result) if isinstance(result, Parts) else result
        if value.name != name or value in outputs:
            is_own = value.producer() in emit.nodes and value not in (*outputs, *inner)
            value = value if is_own else copy_value(emit, value)
            value.name = name
        outputs.append(value)
    return writer, emit, list(made.values()), initial, outputs


def refusal_error(refusals: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """Compose one message that lists every unsupported op."""
    lines = [
        f"  {name} ({', '.join(values[:3])}{', ...' if len(values) > 3 else ''}): {reason}"
        for (name, reason), values in refusals.items()
    ]
    sized = [name for name, _ in refusals if issubclass(BY_NAME.get(name, PdOp), DataSizedOp)]
    advice = (
        "write .jaxexport or .stablehlo, which support these operators, or compute them outside of "
        "the model"
    )
    if sized:
        advice = (
            f"compute the results of {sized[0]} outside of the model, or keep the model as "
            ".pdmodel: the sizes of the results depend on data"
        )
    if BeamSearch.name in sized:
        advice = (
            "search with paddle.nn.BeamSearchDecoder and paddle.nn.dynamic_decode, which have the "
            "same number of beams in each step, or keep the model as .pdmodel: the number of beams "
            f"of {BeamSearch.name} depends on data"
        )
    return "\n".join(["the program cannot be written as ONNX:", *lines, advice])


REAL = {"complex64": np.dtype("float32"), "complex128": np.dtype("float64")}
"""The dtype of the two parts, which are along the last axis of an input, as in DFT."""


def _to_stored(array: Array) -> Array:
    """Split complex numbers into both parts along a new last axis."""
    if not np.iscomplexobj(array):
        return array
    return np.stack([array.real, array.imag], -1)


def _input(port: Port) -> Value:
    """Create an input; its open sizes get symbolic names, so that they may vary."""
    dims = [
        f"{port.name}.{axis}" if size == UNKNOWN else size for axis, size in enumerate(port.shape)
    ]
    dims += [2] if port.dtype.is_complex else []
    type_ = ir.TensorType(ir.DataType.from_numpy(REAL.get(port.dtype, port.dtype.numpy)))
    return ir.Value(name=port.name, type=type_, shape=ir.Shape(dims))


def onnx_shape(type_: Any) -> ir.Shape:
    """Convert a tensor type to its shape; open sizes are unknown."""
    return ir.Shape([None if size == UNKNOWN else size for size in shape_of(type_)])


def copy_value(emit: Nodes, value: Value) -> Value:
    """Copy a value to get another name."""
    made = emit("Identity", value)
    made.shape = value.shape
    return made


def _hint(value: SSAValue) -> str:
    return value.name_hint or "value"


def _op_name(op: PdOp) -> str:
    """Return the name of an op; of a `Dynamic` op, the name of the op that it wraps."""
    return op.attr("op") if isinstance(op, Dynamic) else op.name


def _check_real(op: PdOp) -> None:
    if any(dtype_of(v.type).is_complex for v in (*op.operands, *op.results)):
        raise NotInOnnx("an operand or result is complex")
