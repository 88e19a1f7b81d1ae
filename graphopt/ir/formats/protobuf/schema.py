"""The messages of Paddle's ProgramDesc, one row per field, for reading and writing.

Paddle 2.6 and 3.x share this schema (3.x only adds element types); 1.8 wrote a subset of it plus
`op_compatible_map`.
"""

from __future__ import annotations

from graphopt.ir.formats.protobuf.message import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    STRING,
    Enumeration,
    MessageField,
    MessageType,
    WireKind,
)
from graphopt.ir.program import AttrKind

ELEMENT_TYPE = Enumeration(
    "an element type",
    {
        0: "bool",
        1: "int16",
        2: "int32",
        3: "int64",
        4: "float16",
        5: "float32",
        6: "float64",
        19: "size_t",
        20: "uint8",
        21: "int8",
        22: "bfloat16",
        23: "complex64",
        24: "complex128",
        32: "float8_e4m3fn",
        33: "float8_e5m2",
        36: "uint16",
        37: "uint32",
        38: "uint64",
    },
)
VARIABLE_KIND = Enumeration(
    "a kind of variable",
    {
        7: "dense tensor",
        8: "selected rows",
        9: "feed list",
        10: "fetch list",
        11: "step scopes",
        12: "rank table",
        13: "tensor array",
        14: "place list",
        15: "reader",
        17: "raw",
        18: "tuple",
        25: "string",
        26: "strings",
        27: "vocabulary",
        28: "feed list",
        29: "pstring",
        30: "sparse COO",
        31: "sparse CSR",
    },
)
ATTRIBUTE_KIND = Enumeration(
    "an attribute kind",
    {number: name for name, number in vars(AttrKind).items() if name.isupper()},
)
SCALAR_KIND = Enumeration("a scalar kind", {1: "bool", 2: "int64", 3: "double", 4: "complex"})
COMPATIBILITY = Enumeration("a compatibility", {number: f"level {number}" for number in range(5)})


def _one(number: int, name: str, kind: WireKind) -> MessageField:
    return MessageField(number, name, kind, required=True)


def _many(number: int, name: str, kind: WireKind) -> MessageField:
    return MessageField(number, name, kind, repeated=True)


VERSION = MessageType("Version", (MessageField(1, "version", INT64),))
OP_VERSION = MessageType("OpVersion", (_one(1, "version", INT32),))
OP_VERSION_PAIR = MessageType(
    "OpVersionPair",
    (_one(1, "op_name", STRING), _one(2, "op_version", OP_VERSION)),
)
OP_VERSION_MAP = MessageType("OpVersionMap", (_many(1, "pair", OP_VERSION_PAIR),))

COMPATIBLE_INFO = MessageType(
    "CompatibleInfo",
    (_one(1, "version", STRING), _one(2, "type", COMPATIBILITY)),
)
COMPATIBLE_PAIR = MessageType(
    "CompatiblePair",
    (_one(1, "op_name", STRING), _one(2, "compatible_info", COMPATIBLE_INFO)),
)
COMPATIBLE_MAP = MessageType(
    "CompatibleMap",
    (
        _many(1, "pair", COMPATIBLE_PAIR),
        MessageField(2, "default_required_version", STRING),
    ),
)

COMPLEX = MessageType("Complex", (_one(1, "r", DOUBLE), _one(2, "i", DOUBLE)))
SCALAR = MessageType(
    "Scalar",
    (
        _one(1, "type", SCALAR_KIND),
        MessageField(2, "b", BOOL),
        MessageField(3, "i", INT64),
        MessageField(4, "r", DOUBLE),
        MessageField(5, "c", COMPLEX),
    ),
)
ATTRIBUTE = MessageType(
    "Attr",
    (
        _one(1, "name", STRING),
        _one(2, "type", ATTRIBUTE_KIND),
        MessageField(3, "i", INT32),
        MessageField(4, "f", FLOAT),
        MessageField(5, "s", STRING),
        _many(6, "ints", INT32),
        _many(7, "floats", FLOAT),
        _many(8, "strings", STRING),
        MessageField(10, "b", BOOL),
        _many(11, "bools", BOOL),
        MessageField(12, "block_idx", INT32),
        MessageField(13, "l", INT64),
        _many(14, "blocks_idx", INT32),
        _many(15, "longs", INT64),
        _many(16, "float64s", DOUBLE),
        MessageField(17, "var_name", STRING),
        _many(18, "vars_name", STRING),
        MessageField(19, "float64", DOUBLE),
        MessageField(20, "scalar", SCALAR),
        _many(21, "scalars", SCALAR),
    ),
)
SLOT = MessageType("Slot", (_one(1, "parameter", STRING), _many(2, "arguments", STRING)))
OPERATOR = MessageType(
    "OpDesc",
    (
        _many(1, "inputs", SLOT),
        _many(2, "outputs", SLOT),
        _one(3, "type", STRING),
        _many(4, "attrs", ATTRIBUTE),
        MessageField(5, "is_target", BOOL),
    ),
)

TENSOR = MessageType("TensorDesc", (_one(1, "data_type", ELEMENT_TYPE), _many(2, "dims", INT64)))
LOD_TENSOR = MessageType(
    "LoDTensorDesc", (_one(1, "tensor", TENSOR), MessageField(2, "lod_level", INT32))
)
READER = MessageType("ReaderDesc", (_many(1, "lod_tensor", LOD_TENSOR),))
TUPLE = MessageType("TupleDesc", (_many(1, "element_type", VARIABLE_KIND),))
VARIABLE_TYPE = MessageType(
    "VarType",
    (
        _one(1, "type", VARIABLE_KIND),
        MessageField(2, "selected_rows", TENSOR),
        MessageField(3, "lod_tensor", LOD_TENSOR),
        MessageField(4, "tensor_array", LOD_TENSOR),
        MessageField(5, "reader", READER),
        MessageField(7, "tuple", TUPLE),
        MessageField(8, "string", TENSOR),
        MessageField(9, "strings", TENSOR),
        MessageField(10, "vocab", TENSOR),
        MessageField(11, "sparse_coo", TENSOR),
        MessageField(12, "sparse_csr", TENSOR),
    ),
)
VARIABLE_ATTRIBUTE = MessageType(
    "VarAttr",
    (
        _one(1, "name", STRING),
        _one(2, "type", ATTRIBUTE_KIND),
        MessageField(3, "i", INT32),
        MessageField(4, "s", STRING),
        _many(5, "ints", INT32),
    ),
)
VARIABLE = MessageType(
    "VarDesc",
    (
        _one(1, "name", STRING),
        _one(2, "type", VARIABLE_TYPE),
        MessageField(3, "persistable", BOOL),
        MessageField(4, "need_check_feed", BOOL),
        MessageField(5, "is_parameter", BOOL),
        MessageField(6, "stop_gradient", BOOL),
        _many(7, "attrs", VARIABLE_ATTRIBUTE),
    ),
)

BLOCK = MessageType(
    "BlockDesc",
    (
        _one(1, "idx", INT32),
        _one(2, "parent_idx", INT32),
        _many(3, "vars", VARIABLE),
        _many(4, "ops", OPERATOR),
        MessageField(5, "forward_block_idx", INT32),
    ),
)
PROGRAM = MessageType(
    "ProgramDesc",
    (
        _many(1, "blocks", BLOCK),
        MessageField(3, "op_compatible_map", COMPATIBLE_MAP),
        MessageField(4, "version", VERSION),
        MessageField(5, "op_version_map", OP_VERSION_MAP),
    ),
)
