"""Convert the records of an ONNX file to a `Program`: one operator per node, under its ONNX name.

The rules of `ir/translate/onnx` translate the operators to `pd` ops when the program is compiled.
The import resolves names, inlines functions, converts branches and loops to blocks (`control.py`),
and decides which tensors are parameters and which are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphopt.errors import FormatError, LimitError, UnsupportedError
from graphopt.ir.dtypes import DType
from graphopt.ir.formats.onnx.reader import (
    GraphSpan,
    OnnxFunction,
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    OnnxValue,
    Reference,
    Value,
)
from graphopt.ir.formats.onnx.tensors import Array, StoredTensor
from graphopt.ir.formats.quote import quote
from graphopt.ir.program import (
    EMPTY,
    AttrKind,
    Block,
    Operator,
    Parameter,
    Program,
    Variable,
    VarKind,
)
from graphopt.ir.program.location import Location
from graphopt.ir.translate.inference import columns
from graphopt.ir.translate.onnx.naming import OPSET, operator_type

# The most numbers of a tensor in the program: shapes, axes, bounds, slopes. Others are parameters.
_MOST_NUMBERS = 64
# By operator, the operands whose floats are settings of the operator, not weights.
_SETTINGS: Mapping[str, Sequence[int]] = {
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "OneHot": (1, 2),
    "Pad": (1, 2),
    "NonMaxSuppression": (2, 3, 4),
}
# The operators that return lists of tensors, and all that use such lists.
_MAKE_SEQUENCES = frozenset(
    ("SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SplitToSequence")
)
_TAKE_SEQUENCES = _MAKE_SEQUENCES | {"SequenceAt", "SequenceLength", "ConcatFromSequence"}
# By operator, the operands that are statistics, which training does not learn by a gradient.
_STATISTICS: Mapping[str, Sequence[int]] = {"BatchNormalization": (3, 4)}

Scope = dict[str, str]
"""The program's variable for each name that is visible in a graph."""
Controls = Mapping[str, Callable[["OnnxImporter", OnnxNode], None]]


def import_onnx(
    model: OnnxModel, controls: Controls, title: str
) -> tuple[Program, dict[str, Array]]:
    """Convert a model to a program and its parameter values; locations have `title` as the file."""
    importer = OnnxImporter(model, controls, title)
    importer.run()
    return importer.program, importer.parameters


class OnnxImporter:
    """State of one import: the names of the open graphs, and the block that grows."""

    def __init__(self, model: OnnxModel, controls: Controls, title: str) -> None:
        self.model = model
        self.controls = controls
        self.title = title
        self.source = model.reader.wire.source
        self.program = Program()
        self.block: Block = self.program.global_block()
        self.parameters: dict[str, Array] = {}
        self.scopes: list[Scope] = [{}]
        self.stored: dict[str, StoredTensor] = {}
        """The tensors of the file that no node has read yet, by their name in the program."""
        self.taken: set[str] = {EMPTY, ""}
        self.depth = 0
        self.calls: list[tuple[str, str, str]] = []
        """The functions that are being inlined, outermost first."""
        self.callers: list[tuple[OnnxNode, dict[str, Value]]] = []
        """The nodes that call these functions, with the attributes of each call."""
        self.count = 0

    def run(self) -> None:
        """Import the graph of the file."""
        graph = self.model.graph
        # feeds and fetches keep their names even if other values share them
        self.tensors(graph)
        fed = [self.feed(value) for value in graph.inputs if value.name not in graph.tensors]
        self.nodes(graph)
        fetched = [self.read(value.name, "the output") for value in graph.outputs]
        for name in filter(self.is_sequence, fetched):
            raise UnsupportedError(
                f"{self.source}: the output {quote(name)} is a list of tensors, which is not "
                "supported; return the result of ConcatFromSequence instead"
            )
        self._columns(fed, fetched)
        self.program.touch()

    # Graphs -----------------------------------------------------------------------------------

    def tensors(self, graph: OnnxGraph) -> None:
        """Make the tensors of a graph visible; they become variables when a node reads them."""
        for name, tensor in graph.tensors.items():
            own = self.define(name)
            self.stored[own] = tensor

    def feed(self, value: OnnxValue) -> str:
        """Declare an input of the model."""
        if not isinstance(value.dtype, DType):
            kind = value.dtype or "untyped"
            raise UnsupportedError(
                f"{self.source}: the input {quote(value.name)} is {kind}, which graphopt has no "
                "type for"
            )
        if value.shape is None:
            raise UnsupportedError(
                f"{self.source}: the input {quote(value.name)} has no shape; set the number of "
                "dimensions, e.g. with onnx.tools.update_model_dims"
            )
        name = self.define(value.name)
        self.block.vars[name] = Variable(
            *(self.block, name, value.shape, value.dtype),
            stop_gradient=True,
            is_data=True,
            need_check_feed=True,
        )
        return name

    def nodes(self, graph: OnnxGraph) -> None:
        """Import the nodes of a graph in their order."""
        for node in graph.nodes:
            self.node(node)

    def node(self, node: OnnxNode) -> None:
        """Import one node."""
        node = self._resolve(node)
        self.count += 1
        if self.count > self.model.reader.wire.limits.operators:
            raise LimitError(
                f"{self.source}: expected at most {self.model.reader.wire.limits.operators} nodes "
                "after functions are inlined, found more"
            )
        function = self.model.functions.get(node.key)
        if function is not None:
            self._call(node, function)
        elif node.domain == "" and node.type in self.controls:
            self.controls[node.type](self, node)
        elif node.domain == "" and node.type == "Constant" and self._constant(node):
            return
        else:
            self.operator(node)

    def _resolve(self, node: OnnxNode) -> OnnxNode:
        """Give a function's node the call's attributes, and the call's name as a prefix."""
        if not self.callers:
            return node
        caller, given = self.callers[-1]
        attributes: dict[str, Value] = {}
        for name, value in node.attributes.items():
            found = given.get(value.name) if isinstance(value, Reference) else value
            if found is not None:
                attributes[name] = found
        return replace(node, name=f"{caller.name}/{node.name}", attributes=attributes)

    def operator(self, node: OnnxNode) -> Operator:
        """Append the operator of a node."""
        settings = () if node.domain else _SETTINGS.get(node.type, ())
        statistics = () if node.domain else _STATISTICS.get(node.type, ())
        inputs = [
            EMPTY
            if not name
            else self.read(
                name,
                f"node {quote(node.name)}",
                is_setting=position in settings,
                is_trained=position not in statistics,
            )
            for position, name in enumerate(node.inputs)
        ]
        while inputs and inputs[-1] == EMPTY:
            inputs.pop()
        is_of_list = not node.domain and node.type in _TAKE_SEQUENCES
        if not is_of_list and any(map(self.is_sequence, inputs)):
            if node.type != "Identity" or node.domain:
                raise self.no_sequence(node, f"{node.type} of a list of tensors")
            target = self.keep_kind(inputs[0], self.declare(node.outputs[0]))
            return self.emit("assign", {"X": inputs}, {"Out": [target]}, {}, node)
        outputs = [self.declare(name) if name else EMPTY for name in node.outputs]
        if is_of_list and node.type in _MAKE_SEQUENCES:
            self.block.vars[outputs[0]].kind = VarKind.TENSOR_ARRAY
        attrs = {OPSET: node.version, **self._attributes(node)}
        type_ = operator_type(node.domain, node.type)
        return self.emit(type_, {"X": inputs}, {"Out": outputs}, attrs, node)

    def is_sequence(self, name: str) -> bool:
        """True for a variable that is a list of tensors."""
        variable = self.block.find_var(name)
        return variable is not None and variable.kind == VarKind.TENSOR_ARRAY

    def keep_kind(self, source: str, target: str) -> str:
        """Make `target` a list of tensors if `source` is one; return `target`."""
        if self.is_sequence(source):
            self.block.vars[target].kind = VarKind.TENSOR_ARRAY
        return target

    def no_sequence(self, node: OnnxNode, what: str) -> UnsupportedError:
        """Return the exception, for the caller to raise, for a use of a list of tensors."""
        return UnsupportedError(
            f"{self.source}: node {quote(node.name)}: {what} is not supported; use the tensors of "
            "the list"
        )

    def emit(
        self,
        type: str,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        attrs: Mapping[str, Any],
        node: OnnxNode,
        kinds: Mapping[str, int] | None = None,
    ) -> Operator:
        """Append an operator that a node becomes, alone or with others."""
        location = Location(f"{self.title}:{node.name}", self.count)
        made = Operator(self.block, type, inputs, outputs, attrs, location)
        made.attr_kinds = dict(kinds or {})
        made.is_loaded = True
        self.block.ops.append(made)
        return made

    def _attributes(self, node: OnnxNode) -> dict[str, Any]:
        """Convert attributes to numbers, texts and lists of them; split tensors in parts."""
        found: dict[str, Any] = {}
        for name, value in node.attributes.items():
            if isinstance(value, StoredTensor):
                found |= self._tensor_attribute(node, name, value)
            elif isinstance(value, GraphSpan):
                raise UnsupportedError(
                    f"{self.source}: node {quote(node.name)}: {node.type} has a graph in "
                    f"{quote(name)}; only If, Loop and Scan may have graphs"
                )
            elif not isinstance(value, Reference):
                found[name] = value
        return found

    def _tensor_attribute(self, node: OnnxNode, name: str, tensor: StoredTensor) -> dict[str, Any]:
        if tensor.size > _MOST_NUMBERS:
            raise UnsupportedError(
                f"{self.source}: node {quote(node.name)}: {node.type} has a tensor of "
                f"{tensor.size} numbers in {quote(name)}; only Constant may have a large one"
            )
        return _list_parts(name, tensor)

    def _constant(self, node: OnnxNode) -> bool:
        """Store the tensor of a Constant until a node reads it; False if it has no tensor."""
        value = node.attributes.get("value")
        if not isinstance(value, StoredTensor) or len(node.outputs) != 1:
            return False
        self.stored[self.define(node.outputs[0])] = value
        return True

    # Functions --------------------------------------------------------------------------------

    def _call(self, node: OnnxNode, function: OnnxFunction) -> None:
        """Inline a function's nodes in place of the node that calls it."""
        if node.key in self.calls:
            raise FormatError(
                f"{self.source}: expected no function to call itself, found {quote(node.type)}, "
                "which does"
            )
        limit = self.model.reader.wire.limits.block_depth
        if len(self.calls) >= limit:
            raise LimitError(
                f"{self.source}: expected function calls nested at most {limit} deep, found deeper "
                "calls"
            )
        given = [self.visible(name) for name in node.inputs]
        inner: Scope = dict(zip(function.inputs, given, strict=False))
        inner.update(dict.fromkeys(function.inputs[len(given) :], EMPTY))
        outputs = dict(zip(function.outputs, node.outputs, strict=False))
        outer, self.scopes = self.scopes, [inner]
        self.calls.append(node.key)
        self.callers.append((node, {**function.attributes, **node.attributes}))
        for each in function.nodes:
            self.node(each)
        self.callers.pop()
        self.calls.pop()
        self.scopes = outer
        for name, target in outputs.items():
            if target:
                self._rename(node, inner.get(name), target)

    def _rename(self, node: OnnxNode, source: str | None, target: str) -> None:
        """Copy a result of a function to the caller's variable."""
        if source is None:
            raise FormatError(
                f"{self.source}: node {quote(node.name)}: expected the function to compute all "
                "outputs of the node, found one without a value"
            )
        read = self.materialise(source)
        self.emit("assign", {"X": [read]}, {"Out": [self.declare(target)]}, {}, node)

    # Names ------------------------------------------------------------------------------------

    def fresh(self, name: str) -> str:
        """Reserve a variable name that is not taken, and return it."""
        base, found, serial = name or "value", name, 0
        while found in self.taken:
            serial += 1
            found = f"{base}.{serial}"
        self.taken.add(found)
        return found

    def define(self, name: str) -> str:
        """Bind a name of this graph to a new variable; FormatError when it is bound already."""
        scope = self.scopes[-1]
        if not name or name in scope:
            raise FormatError(
                f"{self.source}: expected each value to be defined once, found {quote(name)} again"
            )
        prefix = "" if not self.calls else f"{self.calls[-1][1]}/"
        scope[name] = self.fresh(f"{prefix}{name}")
        return scope[name]

    def declare(self, name: str) -> str:
        """Define a name, and declare its variable in this block without a type."""
        own = self.define(name)
        self.block.vars[own] = Variable(self.block, own)
        return own

    def new(self, name: str) -> str:
        """Declare a variable of this block that stands for no value of the file."""
        own = self.fresh(name)
        self.block.vars[own] = Variable(self.block, own)
        return own

    def visible(self, name: str) -> str:
        """Return the variable of a name without reading it; EMPTY for no name."""
        if not name:
            return EMPTY
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise FormatError(f"{self.source}: the value {quote(name)} is used before it is defined")

    def read(
        self, name: str, reader: str, *, is_setting: bool = False, is_trained: bool = True
    ) -> str:
        """Return the variable of a name; if the file stores its value, declare it first."""
        for scope in reversed(self.scopes):
            if name in scope:
                own = scope[name]
                return self.materialise(own, is_setting=is_setting, is_trained=is_trained)
        raise FormatError(
            f"{self.source}: {reader} reads {quote(name)}, which no input, tensor or earlier node "
            "defines"
        )

    def materialise(self, name: str, *, is_setting: bool = False, is_trained: bool = True) -> str:
        """Declare a stored tensor as a constant or a parameter; return the name."""
        tensor = self.stored.pop(name, None)
        if tensor is None:
            return name
        if not isinstance(tensor.dtype, DType):
            raise tensor.error(f"the elements are {tensor.dtype}, which graphopt has no type for")
        if _is_number(tensor, is_setting=is_setting):
            self._number(name, tensor)
        else:
            self._parameter(name, tensor, tensor.dtype, is_trained=is_trained)
        return name

    def _number(self, name: str, tensor: StoredTensor) -> None:
        """Append a Constant to the global block with the elements of a small tensor."""
        block = self.program.global_block()
        block.vars[name] = Variable(*(block, name, tensor.shape, tensor.dtype), stop_gradient=True)
        attrs = {OPSET: self.model.opset or 13, **_list_parts("value", tensor)}
        made = Operator(block, operator_type("", "Constant"), {}, {"Out": [name]}, attrs)
        made.is_loaded = True
        block.ops.append(made)

    def _parameter(
        self, name: str, tensor: StoredTensor, dtype: DType, *, is_trained: bool
    ) -> None:
        block = self.program.global_block()
        if dtype.is_floating and all(tensor.shape):
            block.vars[name] = Parameter(*(block, name, tensor.shape, dtype), trainable=is_trained)
        else:
            block.vars[name] = Variable(
                *(block, name, tensor.shape, dtype), persistable=True, stop_gradient=True
            )
        self.parameters[name] = tensor.array()

    def _columns(self, feeds: Sequence[str], fetches: Sequence[str]) -> None:
        """Add the feed and fetch operators, which fix the order of inputs and outputs."""
        block = self.program.global_block()
        held = {kind: self.fresh(kind) for kind in ("feed", "fetch")}
        for kind, name in held.items():
            number = VarKind.FEED_MINIBATCH if kind == "feed" else VarKind.FETCH_LIST
            block.vars[name] = Variable(block, name, persistable=True, kind=number)
        before, after = columns(block, feeds, enumerate(fetches), list(held.values()))
        for op in (*before, *after):
            op.attr_kinds = {"col": AttrKind.INT}
        block.ops = [*before, *block.ops, *after]


def _list_parts(name: str, tensor: StoredTensor) -> dict[str, Any]:
    """Split a tensor into the operator attributes that encode it."""
    return {
        name: tensor.numbers(),
        f"{name}_dtype": f"{tensor.dtype}",
        f"{name}_shape": list(tensor.shape),
    }


def _is_number(tensor: StoredTensor, *, is_setting: bool) -> bool:
    """True for a small tensor of integers, one float, or a few floats that are settings."""
    dtype = tensor.dtype
    if not isinstance(dtype, DType) or tensor.size > _MOST_NUMBERS:
        return False
    if not dtype.is_differentiable:
        return True
    return dtype in ("float32", "float16", "bfloat16") and (is_setting or not tensor.shape)
