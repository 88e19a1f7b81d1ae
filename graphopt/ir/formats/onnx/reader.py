"""Decode an ONNX file to records: graphs of nodes, tensors, functions.

Everything is bounded by `Limits`; the reader knows nothing about what nodes mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from graphopt.errors import FormatError, LimitError, UnsupportedError
from graphopt.ir.dtypes import DType
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.onnx.schema import GRAPH, MODEL
from graphopt.ir.formats.onnx.tensors import StoredTensor, stored_tensor
from graphopt.ir.formats.protobuf.message import Message, decode
from graphopt.ir.formats.protobuf.wire import WireReader
from graphopt.ir.formats.quote import quote
from graphopt.ir.translate.onnx.naming import element_type

OPSETS = range(1, 29)
"""The supported versions of ONNX's operator set."""

_DEFAULT_DOMAINS = ("", "ai.onnx")
_KINDS = {
    1: "f",
    2: "i",
    3: "s",
    4: "t",
    5: "g",
    6: "floats",
    7: "ints",
    8: "strings",
}
_ABSENT: Mapping[str, Any] = {"f": 0.0, "i": 0, "s": "", "floats": (), "ints": (), "strings": ()}


@dataclass(frozen=True)
class Reference:
    """An attribute in a function that refers to the call's attribute of this name."""

    name: str


@dataclass(frozen=True)
class GraphSpan:
    """The graph of an attribute, decoded when its node is imported."""

    start: int
    stop: int
    opsets: Mapping[str, int] = field(repr=False, compare=False)


Value: TypeAlias = float | int | str | Sequence[Any] | StoredTensor | GraphSpan | Reference


@dataclass(frozen=True)
class OnnxNode:
    """A node: its operator with the version of its domain, and the names it reads and writes."""

    type: str
    domain: str
    overload: str
    version: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Value]

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of the function that the node calls, if it calls one."""
        return self.domain, self.type, self.overload


@dataclass(frozen=True)
class OnnxValue:
    """A declared value: its name, and its type if it is a tensor; sizes of -1 are open."""

    name: str
    dtype: DType | str | None
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class OnnxGraph:
    """Nodes in order, with the graph's inputs and outputs."""

    nodes: list[OnnxNode]
    inputs: list[OnnxValue]
    outputs: list[OnnxValue]
    tensors: dict[str, StoredTensor]


@dataclass(frozen=True)
class OnnxFunction:
    """The nodes that a call stands for, and the defaults of its attributes."""

    nodes: list[OnnxNode]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Value]


@dataclass(frozen=True)
class OnnxModel:
    """A file: its graph, and the functions that nodes may call."""

    reader: OnnxReader
    graph: OnnxGraph
    functions: dict[tuple[str, str, str], OnnxFunction]
    producer: str
    opset: int


def read_onnx(data: bytes, source: str, limits: Limits, folder: Path | None) -> OnnxModel:
    """Decode a model; its tensors may be in other files of the folder.

    Raises FormatError for damaged files, LimitError for files that exceed `limits`, and
    UnsupportedError for versions that are not supported.
    """
    reader = OnnxReader(WireReader(data, source, limits), folder)
    message = decode(reader.wire, MODEL, 0, len(data))
    if "graph" not in message:
        raise FormatError(f"{source}: expected a graph, found none")
    versions = reader.versions(message.get("opset_import", ()))
    functions: dict[tuple[str, str, str], OnnxFunction] = {}
    for each in message.get("functions", ()):
        key = _domain(each.get("domain", "")), each.get("name", ""), each.get("overload", "")
        functions[key] = reader.function(each, versions)
    reader.opsets = versions
    opset = versions.get("", 0)
    if opset and opset not in OPSETS:
        raise UnsupportedError(
            f"{source}: opset {opset} is not supported, only {OPSETS[0]} to {OPSETS[-1]}; convert "
            "the model with onnx.version_converter"
        )
    producer = f"{message.get('producer_name', '')} {message.get('producer_version', '')}".strip()
    return OnnxModel(reader, reader.graph_of(message["graph"]), functions, producer, opset)


class OnnxReader:
    """Converts messages to records."""

    def __init__(self, wire: WireReader, folder: Path | None) -> None:
        self.wire = wire
        self.folder = folder
        self.opsets: dict[str, int] = {}

    def versions(self, entries: Sequence[Message]) -> dict[str, int]:
        """Map each domain to the version of its operators."""
        return {_domain(e.get("domain", "")): e.get("version", 1) for e in entries}

    def function(self, message: Message, versions: Mapping[str, int]) -> OnnxFunction:
        """Convert a function, with the operator versions that it declares itself."""
        self.opsets = {**versions, **self.versions(message.get("opset_import", ()))}
        defaults: dict[str, Value] = dict(map(self._attribute, message.get("attribute_proto", ())))
        return OnnxFunction(
            [self._node(node) for node in message.get("node", ())],
            tuple(message.get("input", ())),
            tuple(message.get("output", ())),
            defaults,
        )

    def graph(self, span: GraphSpan) -> OnnxGraph:
        """Decode the graph of an attribute."""
        self.opsets = dict(span.opsets)
        return self.graph_of(decode(self.wire, GRAPH, span.start, span.stop))

    def graph_of(self, message: Message) -> OnnxGraph:
        """Convert a graph; raise FormatError for a tensor that has two values."""
        limits, source = self.wire.limits, self.wire.source
        if message.get("sparse_initializer"):
            raise UnsupportedError(
                f"{source}: the graph has sparse tensors, which are not supported"
            )
        if len(message.get("node", ())) > limits.operators:
            raise LimitError(f"{source}: expected at most {limits.operators} nodes, found more")
        tensors: dict[str, StoredTensor] = {}
        for each in message.get("initializer", ()):
            tensor = stored_tensor(self.wire, each, self.folder)
            if tensor.name in tensors:
                raise tensor.error("expected one tensor of this name, found another")
            tensors[tensor.name] = tensor
        return OnnxGraph(
            [self._node(node) for node in message.get("node", ())],
            [self._value(value) for value in message.get("input", ())],
            [self._value(value) for value in message.get("output", ())],
            tensors,
        )

    def _node(self, message: Message) -> OnnxNode:
        domain = _domain(message.get("domain", ""))
        outputs = tuple(message.get("output", ()))
        type_ = message.get("op_type", "")
        return OnnxNode(
            type_,
            domain,
            message.get("overload", ""),
            self.opsets.get(domain, 1),
            message.get("name", "") or f"{type_} -> {outputs[0] if outputs else 'nothing'}",
            tuple(message.get("input", ())),
            outputs,
            dict(map(self._attribute, message.get("attribute", ()))),
        )

    def _attribute(self, message: Message) -> tuple[str, Value]:
        name = message.get("name", "")
        if message.get("ref_attr_name"):
            return name, Reference(message["ref_attr_name"])
        kind = _KINDS.get(message.get("type", 0))
        if kind is None:  # files of the first versions omit the kind
            kind = next((k for k in _KINDS.values() if k in message), None)
        value = _ABSENT.get(str(kind)) if kind not in message else message[str(kind)]
        if kind == "t" and value is not None:
            return name, stored_tensor(self.wire, value, self.folder)
        if kind == "g" and value is not None:
            start, stop = value
            return name, GraphSpan(start, stop, self.opsets)
        if value is None:
            raise UnsupportedError(
                f"{self.wire.source}: the kind of attribute {quote(name)} is not supported"
            )
        is_list = kind in ("floats", "ints", "strings")
        return name, [*value] if is_list else value

    def _value(self, message: Message) -> OnnxValue:
        name, type_ = message.get("name", ""), message.get("type", {})
        tensor = type_.get("tensor_type")
        if tensor is None:
            other = next((kind for kind in type_ if kind.endswith("_type")), None)
            return OnnxValue(name, None if other is None else other.removesuffix("_type"), None)
        dims = tensor["shape"].get("dim", ()) if "shape" in tensor else None
        shape = None if dims is None else tuple(_size(dim) for dim in dims)
        limits = self.wire.limits
        if shape and (len(shape) > limits.rank or max(shape) > limits.dimension):
            raise LimitError(
                f"{self.wire.source}: expected {quote(name)} to have at most {limits.rank} "
                f"dimensions of at most {limits.dimension}, found {quote(list(shape)[:20])}"
            )
        return OnnxValue(name, element_type(tensor.get("elem_type", 0)), shape)


def _size(dimension: Message) -> int:
    """Return a size; -1 where it is open or has a name."""
    size = dimension.get("dim_value", -1)
    return size if size >= 0 else -1


def _domain(name: str) -> str:
    return "" if name in _DEFAULT_DOMAINS else name
