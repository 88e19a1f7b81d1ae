"""The messages of programs, and the numbers in them (paddle.fluid.proto.framework_pb2)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from graphopt.fluid.proto.messages import Message, class_of
from graphopt.ir.formats.protobuf import schema
from graphopt.ir.formats.protobuf.message import BOOL, MessageField, MessageType
from graphopt.ir.formats.protobuf.message import STRING as TEXT
from graphopt.ir.program.kinds import AttrKind

ProgramDesc = class_of(schema.PROGRAM)
BlockDesc = class_of(schema.BLOCK)
VarDesc = class_of(schema.VARIABLE)
OpDesc = class_of(schema.OPERATOR)
VarType = class_of(schema.VARIABLE_TYPE)
Version = class_of(schema.VERSION)
OpVersion = class_of(schema.OP_VERSION)
OpVersionMap = class_of(schema.OP_VERSION_MAP)
Complex = class_of(schema.COMPLEX)
Scalar = class_of(schema.SCALAR)

_SLOT = MessageType(
    "Var",
    (
        MessageField(1, "name", TEXT, required=True),
        MessageField(2, "comment", TEXT, required=True),
        MessageField(3, "duplicable", BOOL),
        MessageField(4, "intermediate", BOOL),
        MessageField(5, "dispensable", BOOL),
        MessageField(6, "extra", BOOL),
        MessageField(7, "quant", BOOL),
    ),
)
_ATTRIBUTE = MessageType(
    "Attr",
    (
        MessageField(1, "name", TEXT, required=True),
        MessageField(2, "type", schema.ATTRIBUTE_KIND, required=True),
        MessageField(3, "comment", TEXT, required=True),
        MessageField(4, "generated", BOOL),
        MessageField(5, "extra", BOOL),
        MessageField(6, "quant", BOOL),
        MessageField(7, "support_tensor", BOOL),
    ),
)
_OPERATOR = MessageType(
    "OpProto",
    (
        MessageField(1, "type", TEXT, required=True),
        MessageField(2, "inputs", _SLOT, repeated=True),
        MessageField(3, "outputs", _SLOT, repeated=True),
        MessageField(4, "attrs", _ATTRIBUTE, repeated=True),
        MessageField(5, "comment", TEXT, required=True),
    ),
)
OpProto = class_of(_OPERATOR)

# the codes of an attribute's `type`
INT = AttrKind.INT
FLOAT = AttrKind.FLOAT
STRING = AttrKind.STRING
INTS = AttrKind.INTS
FLOATS = AttrKind.FLOATS
STRINGS = AttrKind.STRINGS
BOOLEAN = AttrKind.BOOLEAN
BOOLEANS = AttrKind.BOOLEANS
BLOCK = AttrKind.BLOCK
LONG = AttrKind.LONG
BLOCKS = AttrKind.BLOCKS
LONGS = AttrKind.LONGS
FLOAT64S = AttrKind.FLOAT64S
VAR = AttrKind.VAR
VARS = AttrKind.VARS
FLOAT64 = AttrKind.FLOAT64
SCALAR = AttrKind.SCALAR
SCALARS = AttrKind.SCALARS

# the codes of a tensor's `data_type`, and of a variable's `type`
_NAMES = (
    "BOOL INT16 INT32 INT64 FP16 FP32 FP64 LOD_TENSOR SELECTED_ROWS FEED_MINIBATCH FETCH_LIST "
    "STEP_SCOPES LOD_RANK_TABLE LOD_TENSOR_ARRAY PLACE_LIST READER - RAW TUPLE SIZE_T UINT8 INT8 "
    "BF16 COMPLEX64 COMPLEX128 STRING STRINGS VOCAB FEED_LIST PSTRING SPARSE_COO SPARSE_CSR"
)
_TYPES = {name: number for number, name in enumerate(_NAMES.split()) if name != "-"}
_SCALARS = {"BOOLEAN": 1, "LONG": 2, "FLOAT64": 3, "COMPLEX128": 4}


def _name_inside(owner: type[Message], names: Mapping[str, object]) -> None:
    """Give a class the classes and numbers that the schema declares inside its message."""
    for name, value in names.items():
        setattr(owner, name, value)


for _owner, _numbers in ((VarType, _TYPES), (Scalar, _SCALARS)):
    _name_inside(_owner, {**_numbers, "Type": IntEnum("Type", _numbers)})
_name_inside(OpDesc, {"Attr": class_of(schema.ATTRIBUTE), "Var": class_of(schema.SLOT)})
_name_inside(OpProto, {"Attr": class_of(_ATTRIBUTE), "Var": class_of(_SLOT)})
_name_inside(
    VarType,
    {
        "TensorDesc": class_of(schema.TENSOR),
        "LoDTensorDesc": class_of(schema.LOD_TENSOR),
        "LoDTensorArrayDesc": class_of(schema.LOD_TENSOR),
        "ReaderDesc": class_of(schema.READER),
        "Tuple": class_of(schema.TUPLE),
    },
)
_name_inside(VarDesc, {"Attr": class_of(schema.VARIABLE_ATTRIBUTE)})
