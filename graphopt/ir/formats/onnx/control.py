"""Branches, loops and scans of ONNX as Paddle's operators with blocks.

The graphs of an ONNX node return values to it. Paddle's blocks write variables of the enclosing
block: a branch copies its results there, and the body of a loop overwrites its carried variables.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphopt.errors import FormatError, LimitError, UnsupportedError
from graphopt.ir.formats.onnx.importer import Controls, OnnxImporter
from graphopt.ir.formats.onnx.reader import GraphSpan, OnnxGraph, OnnxNode
from graphopt.ir.formats.quote import quote
from graphopt.ir.program import AttrKind, Block, Variable, VarKind
from graphopt.ir.program.sub_blocks import names_in
from graphopt.ir.translate.onnx.naming import OPSET, operator_type

_END = 2**31 - 1


class _Body:
    """A graph of a node as a block: entered, filled with its nodes, and left."""

    def __init__(self, importer: OnnxImporter, node: OnnxNode, attribute: str) -> None:
        self.importer, self.node = importer, node
        span = node.attributes.get(attribute)
        if not isinstance(span, GraphSpan):
            raise FormatError(
                f"{importer.source}: node {quote(node.name)}: expected {node.type} to have the "
                f"graph {quote(attribute)}, found none"
            )
        limit = importer.model.reader.wire.limits
        if importer.depth >= limit.block_depth:
            raise LimitError(
                f"{importer.source}: expected graphs at most {limit.block_depth} deep, found one "
                "deeper"
            )
        if len(importer.program.blocks) >= limit.blocks:
            raise LimitError(f"{importer.source}: expected at most {limit.blocks} graphs")
        self.graph: OnnxGraph = importer.model.reader.graph(span)
        self.block = Block(importer.program, len(importer.program.blocks), importer.block.idx)
        importer.program.blocks.append(self.block)

    def enter(self) -> None:
        """Emit operators to this block from now on."""
        importer = self.importer
        self.outer, importer.block = importer.block, self.block
        importer.depth += 1
        importer.scopes.append({})
        importer.tensors(self.graph)

    def argument(self, position: int, variable: str) -> None:
        """Bind an input of the graph to a variable."""
        name = self.graph.inputs[position].name
        self.importer.scopes[-1][name] = variable

    def results(self) -> list[str]:
        """Import the nodes; return the variables of the results."""
        self.importer.nodes(self.graph)
        where = f"node {quote(self.node.name)}"
        return [self.importer.read(value.name, where) for value in self.graph.outputs]

    def leave(self) -> None:
        """Emit operators to the enclosing block again."""
        importer = self.importer
        importer.block = self.outer
        importer.depth -= 1
        importer.scopes.pop()

    def check_counts(self, inputs: int, outputs: int) -> None:
        """Raise FormatError unless the graph has this many inputs and outputs."""
        found = len(self.graph.inputs), len(self.graph.outputs)
        if found != (inputs, outputs):
            raise FormatError(
                f"{self.importer.source}: node {quote(self.node.name)}: expected a graph with "
                f"{inputs} inputs and {outputs} outputs, found {found[0]} and {found[1]}"
            )


def _branches(importer: OnnxImporter, node: OnnxNode) -> None:
    """Emit two `conditional_block`s with opposite conditions, and a `select_input` per result."""
    condition = importer.read(node.inputs[0], f"node {quote(node.name)}")
    # values that both branches read become variables of the enclosing block
    opposite, mask = importer.new(f"{node.name}.not"), importer.new(f"{node.name}.mask")
    count = len(node.outputs)
    sides: list[list[str]] = []
    for attribute, flag in (("then_branch", condition), ("else_branch", opposite)):
        if flag == opposite:
            importer.emit("logical_not", {"X": [condition]}, {"Out": [opposite]}, {}, node)
        body = _Body(importer, node, attribute)
        body.check_counts(0, count)
        names = [importer.new(f"{node.name}.{attribute[:4]}{i}") for i in range(count)]
        body.enter()
        for source, target in zip(body.results(), names, strict=True):
            if importer.is_sequence(source):
                raise importer.no_sequence(node, "a list of tensors as the output of a branch")
            importer.emit("assign", {"X": [source]}, {"Out": [target]}, {}, node)
        body.leave()
        importer.emit(
            "conditional_block",
            {"Cond": [flag], "Input": names_in(body.block, written=False)},
            {"Out": names_in(body.block, written=True), "Scope": [_scope(importer, node)]},
            {"sub_block": body.block.idx, "is_scalar_condition": True},
            node,
            {"sub_block": AttrKind.BLOCK},
        )
        sides.append(names)
    codes = {"in_dtype": 0, "out_dtype": 2}
    importer.emit("cast", {"X": [condition]}, {"Out": [mask]}, codes, node)
    for when_true, when_false, output in zip(*sides, node.outputs, strict=True):
        target = [importer.declare(output) if output else importer.new("unused")]
        inputs = {"X": [when_false, when_true], "Mask": [mask]}
        importer.emit("select_input", inputs, {"Out": target}, {}, node)


def _loop(importer: OnnxImporter, node: OnnxNode) -> None:
    """Emit a `while` over a counter, a flag and carried variables; step results go to arrays."""
    where = f"node {quote(node.name)}"
    names = [importer.read(n, where) if n else "" for n in (*node.inputs, "", "")]
    limit, flag, starts = names[0], names[1], [n for n in names[2:] if n]
    body = _Body(importer, node, "body")
    count = len(starts)
    steps = len(node.outputs) - count
    body.check_counts(count + 2, 1 + count + steps)
    at = importer.new(f"{node.name}.iteration")
    _constant(importer, node, at, 0, "int64")
    holds = importer.new(f"{node.name}.holds")
    if flag:
        importer.emit("assign", {"X": [flag]}, {"Out": [holds]}, {}, node)
    else:
        _constant(importer, node, holds, 1, "bool")
    going = importer.new(f"{node.name}.going")
    _going(importer, node, at, limit, holds, going)
    carried = [importer.new(f"{node.name}.carried{i}") for i in range(count)]
    for source, target in zip(starts, carried, strict=True):
        importer.keep_kind(source, target)
        importer.emit("assign", {"X": [source]}, {"Out": [target]}, {}, node)
    arrays = [_array(importer, f"{node.name}.array{i}") for i in range(steps)]
    body.enter()
    for position, variable in enumerate((at, holds, *carried)):
        body.argument(position, variable)
    after = body.results()
    for value, array in zip(after[1 + count :], arrays, strict=True):
        importer.emit("write_to_array", {"X": [value], "I": [at]}, {"Out": [array]}, {}, node)
    _assign_all(importer, node, after[: 1 + count], [holds, *carried])
    one = importer.new(f"{node.name}.one")
    _constant(importer, node, one, 1, "int64")
    following = importer.new(f"{node.name}.next")
    _emit(importer, node, "Add", [at, one], following)
    importer.emit("assign", {"X": [following]}, {"Out": [at]}, {}, node)
    _going(importer, node, at, limit, holds, going)
    body.leave()
    importer.emit(
        "while",
        {"Condition": [going], "X": names_in(body.block, written=False)},
        {"Out": names_in(body.block, written=True), "StepScopes": [_scope(importer, node)]},
        {"sub_block": body.block.idx, "is_test": False},
        node,
        {"sub_block": AttrKind.BLOCK},
    )
    for source, output in zip(carried, node.outputs, strict=False):
        if output:
            target = importer.keep_kind(source, importer.declare(output))
            importer.emit("assign", {"X": [source]}, {"Out": [target]}, {}, node)
    for array, output in zip(arrays, node.outputs[count:], strict=True):
        if output:
            outputs = {"Out": [importer.declare(output)], "OutIndex": [importer.new("sizes")]}
            attrs = {"axis": 0, "use_stack": True}
            importer.emit("tensor_array_to_tensor", {"X": [array]}, outputs, attrs, node)


def _going(
    importer: OnnxImporter, node: OnnxNode, at: str, limit: str, holds: str, going: str
) -> None:
    """Set the condition of the next step: the flag holds, and the counter is below the limit."""
    if not limit:
        importer.emit("assign", {"X": [holds]}, {"Out": [going]}, {}, node)
        return
    below = importer.new(f"{node.name}.below")
    _emit(importer, node, "Less", [at, limit], below)
    _emit(importer, node, "And", [below, holds], going)


def _scan(importer: OnnxImporter, node: OnnxNode) -> None:
    """Emit a `recurrent`, with states passed between steps and slices of the sequences."""
    if node.version < 9:
        raise UnsupportedError(
            f"{importer.source}: node {quote(node.name)}: Scan of version 8, which has a batch "
            "axis, is not supported; convert the model with onnx.version_converter"
        )
    where = f"node {quote(node.name)}"
    names = [importer.read(n, where) for n in node.inputs]
    sequences = _whole(node, "num_scan_inputs", len(names))
    count = len(names) - sequences
    steps = len(node.outputs) - count
    body = _Body(importer, node, "body")
    body.check_counts(len(names), count + steps)
    turned = [
        _steps_first(importer, node, name, axis, is_reversed)
        for name, axis, is_reversed in zip(
            names[count:],
            _list(node, "scan_input_axes", sequences),
            _list(node, "scan_input_directions", sequences),
            strict=True,
        )
    ]
    body.enter()
    before = [importer.new(f"{node.name}.state{i}") for i in range(count)]
    for position, variable in enumerate((*before, *turned)):
        body.argument(position, variable)
    found = body.results()
    # a result that is an unchanged state or slice gets its own name
    results: list[str] = []
    for i, value in enumerate([*found, *found[:count]]):
        own = importer.new(f"{node.name}.result{i}")
        importer.emit("assign", {"X": [value]}, {"Out": [own]}, {}, node)
        results.append(own)
    body.leave()
    after, given = results[:count], results[count:]
    for name in given:  # in the enclosing block, each variable holds all steps
        importer.block.vars[name] = Variable(importer.block, name)
    importer.emit(
        "recurrent",
        {
            "inputs": turned,
            "initial_states": names[:count],
            "parameters": names_in(body.block, written=False),
        },
        {"outputs": given, "step_scopes": [_scope(importer, node)]},
        {
            "sub_block": body.block.idx,
            "ex_states": before,
            "states": after,
            "reverse": False,
            "has_states": True,
        },
        node,
        {"sub_block": AttrKind.BLOCK},
    )
    for source, output in zip(given[steps:], node.outputs, strict=False):
        if output:
            attrs = {"axes": [0], "starts": [-1], "ends": [_END], "decrease_axis": [0]}
            target = [importer.declare(output)]
            importer.emit("slice", {"Input": [source]}, {"Out": target}, attrs, node)
    axes = _list(node, "scan_output_axes", steps)
    directions = _list(node, "scan_output_directions", steps)
    for source, output, axis, is_reversed in zip(
        given[:steps], node.outputs[count:], axes, directions, strict=True
    ):
        if output:
            attrs = {OPSET: node.version, "axis": axis, "reverse": is_reversed, "back": 1}
            target = [importer.declare(output)]
            type_ = operator_type("", "ScanAxis")
            importer.emit(type_, {"X": [source]}, {"Out": target}, attrs, node)


def _steps_first(
    importer: OnnxImporter, node: OnnxNode, name: str, axis: int, is_reversed: int
) -> str:
    """Emit a sequence with its steps moved to the first axis, and reversed if `is_reversed`."""
    own = importer.new(f"{node.name}.steps")
    attrs = {OPSET: node.version, "axis": axis, "reverse": is_reversed, "back": 0}
    type_ = operator_type("", "ScanAxis")
    importer.emit(type_, {"X": [name]}, {"Out": [own]}, attrs, node)
    return own


def _whole(node: OnnxNode, name: str, most: int) -> int:
    value = node.attributes.get(name)
    if not isinstance(value, int) or not 0 < value <= most:
        raise FormatError(f"node {quote(node.name)}: expected {name} in 1..{most}")
    return value


def _list(node: OnnxNode, name: str, count: int) -> list[int]:
    value = node.attributes.get(name)
    given: Sequence[object] = value if isinstance(value, list) else ()
    found = [each for each in given if isinstance(each, int)] or [0] * count
    if len(found) != count or len(found) < len(given):
        raise FormatError(f"node {quote(node.name)}: expected {count} numbers in {name}")
    return found


def _assign_all(
    importer: OnnxImporter, node: OnnxNode, sources: list[str], targets: Sequence[str]
) -> None:
    """Copy all at once: no copy overwrites a value that a later copy reads."""
    kept: list[str] = []
    for source, target in zip(sources, targets, strict=True):
        if source in targets and source != target:
            copy = importer.keep_kind(source, importer.new(f"{source}.kept"))
            importer.emit("assign", {"X": [source]}, {"Out": [copy]}, {}, node)
            source = copy
        kept.append(source)
    for source, target in zip(kept, targets, strict=True):
        if source != target:
            importer.emit("assign", {"X": [source]}, {"Out": [target]}, {}, node)


def _emit(
    importer: OnnxImporter, node: OnnxNode, type: str, inputs: Sequence[str], output: str
) -> None:
    attrs = {OPSET: node.version}
    importer.emit(operator_type("", type), {"X": inputs}, {"Out": [output]}, attrs, node)


def _constant(importer: OnnxImporter, node: OnnxNode, name: str, value: int, dtype: str) -> None:
    attrs = {OPSET: node.version, "value": [value], "value_dtype": dtype, "value_shape": []}
    importer.emit(operator_type("", "Constant"), {}, {"Out": [name]}, attrs, node)


def _array(importer: OnnxImporter, name: str) -> str:
    own = importer.new(name)
    importer.block.vars[own].kind = VarKind.TENSOR_ARRAY
    return own


def _scope(importer: OnnxImporter, node: OnnxNode) -> str:
    own = importer.new(f"{node.name}.scope")
    importer.block.vars[own].kind = VarKind.STEP_SCOPES
    return own


CONTROLS: Controls = {"If": _branches, "Loop": _loop, "Scan": _scan}
