"""The messages of onnx.proto that a model is read from, one row per field.

A field that may nest without bound (the graph of an attribute) or be large (the elements of a
tensor) is a `Span`: the position of its bytes. Its reader decodes it later, and knows its depth.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphopt.ir.formats.protobuf.message import (
    FLOAT,
    INT32,
    INT64,
    STRING,
    MessageField,
    MessageType,
    WireKind,
)
from graphopt.ir.formats.protobuf.wire import LENGTH, WireReader


@dataclass(frozen=True)
class SpanKind:
    """The positions of a field's bytes: start and end."""

    name: str = "span"
    wire_type = LENGTH

    def read(
        self, wire: WireReader, label: str, offset: int, value: int, stop: int
    ) -> tuple[int, int]:
        return value, stop

    def write(self, label: str, value: object) -> bytes:
        raise NotImplementedError(f"{label} is only read")


SPAN = SpanKind()


_one = MessageField


def _many(number: int, name: str, kind: WireKind) -> MessageField:
    return MessageField(number, name, kind, repeated=True)


ENTRY = MessageType("StringStringEntryProto", (_one(1, "key", STRING), _one(2, "value", STRING)))
TENSOR = MessageType(
    "TensorProto",
    (
        _many(1, "dims", INT64),
        _one(2, "data_type", INT32),
        _one(3, "segment", SPAN),
        _many(4, "float_data", SPAN),
        _many(5, "int32_data", SPAN),
        _many(6, "string_data", SPAN),
        _many(7, "int64_data", SPAN),
        _one(8, "name", STRING),
        _one(9, "raw_data", SPAN),
        _many(10, "double_data", SPAN),
        _many(11, "uint64_data", SPAN),
        _many(13, "external_data", ENTRY),
        _one(14, "data_location", INT32),
    ),
)
DIMENSION = MessageType("Dimension", (_one(1, "dim_value", INT64), _one(2, "dim_param", STRING)))
SHAPE = MessageType("TensorShapeProto", (_many(1, "dim", DIMENSION),))
TENSOR_TYPE = MessageType(
    "TypeProto.Tensor", (_one(1, "elem_type", INT32), _one(2, "shape", SHAPE))
)
TYPE = MessageType(
    "TypeProto",
    (
        _one(1, "tensor_type", TENSOR_TYPE),
        _one(4, "sequence_type", SPAN),
        _one(5, "map_type", SPAN),
        _one(8, "sparse_tensor_type", SPAN),
        _one(9, "optional_type", SPAN),
    ),
)
VALUE_INFO = MessageType("ValueInfoProto", (_one(1, "name", STRING), _one(2, "type", TYPE)))
ATTRIBUTE = MessageType(
    "AttributeProto",
    (
        _one(1, "name", STRING),
        _one(2, "f", FLOAT),
        _one(3, "i", INT64),
        _one(4, "s", STRING),
        _one(5, "t", TENSOR),
        _one(6, "g", SPAN),
        _many(7, "floats", FLOAT),
        _many(8, "ints", INT64),
        _many(9, "strings", STRING),
        _one(20, "type", INT32),
        _one(21, "ref_attr_name", STRING),
    ),
)
NODE = MessageType(
    "NodeProto",
    (
        _many(1, "input", STRING),
        _many(2, "output", STRING),
        _one(3, "name", STRING),
        _one(4, "op_type", STRING),
        _many(5, "attribute", ATTRIBUTE),
        _one(7, "domain", STRING),
        _one(8, "overload", STRING),
    ),
)
GRAPH = MessageType(
    "GraphProto",
    (
        _many(1, "node", NODE),
        _one(2, "name", STRING),
        _many(5, "initializer", TENSOR),
        _many(11, "input", VALUE_INFO),
        _many(12, "output", VALUE_INFO),
        _many(13, "value_info", VALUE_INFO),
        _many(15, "sparse_initializer", SPAN),
    ),
)
OPSET = MessageType("OperatorSetIdProto", (_one(1, "domain", STRING), _one(2, "version", INT64)))
FUNCTION = MessageType(
    "FunctionProto",
    (
        _one(1, "name", STRING),
        _many(4, "input", STRING),
        _many(5, "output", STRING),
        _many(6, "attribute", STRING),
        _many(7, "node", NODE),
        _many(9, "opset_import", OPSET),
        _one(10, "domain", STRING),
        _many(11, "attribute_proto", ATTRIBUTE),
        _one(13, "overload", STRING),
    ),
)
MODEL = MessageType(
    "ModelProto",
    (
        _one(1, "ir_version", INT64),
        _one(2, "producer_name", STRING),
        _one(3, "producer_version", STRING),
        _one(5, "model_version", INT64),
        _one(7, "graph", GRAPH),
        _many(8, "opset_import", OPSET),
        _many(25, "functions", FUNCTION),
    ),
)
