"""Records of operators, made from the records of their types (paddle.fluid.op of Paddle 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphopt.errors import OperandError
from graphopt.fluid.proto.framework_pb2 import OpDesc, OpProto
from graphopt.fluid.proto.messages import Message
from graphopt.ir.program.kinds import AttrKind

from .op_protos import get_all_op_protos as _in_bytes

_FIELDS: Mapping[int, str] = {
    AttrKind.INT: "i",
    AttrKind.FLOAT: "f",
    AttrKind.STRING: "s",
    AttrKind.BOOLEAN: "b",
    AttrKind.LONG: "l",
    AttrKind.BLOCK: "block_idx",
    AttrKind.FLOAT64: "float64",
}
_LISTS: Mapping[int, str] = {
    AttrKind.INTS: "ints",
    AttrKind.FLOATS: "floats",
    AttrKind.STRINGS: "strings",
    AttrKind.BOOLEANS: "bools",
    AttrKind.LONGS: "longs",
    AttrKind.BLOCKS: "blocks_idx",
    AttrKind.FLOAT64S: "float64s",
}


def get_all_op_protos() -> list[Message]:
    """Return the record of each operator type."""
    return [OpProto.FromString(record) for record in _in_bytes()]


class OpDescCreationMethod:
    """Makes records of operators of a type, from the names of variables and from attributes.

    Raises OperandError (TypeError) for an argument that is no `OpProto`.
    """

    def __init__(self, op_proto: Message) -> None:
        if not isinstance(op_proto, OpProto):
            raise OperandError("Type of op_proto should be OpProto in PaddlePaddle.")
        self._proto = op_proto

    def __call__(self, *args: Any, **kwargs: Any) -> Message:
        """Make the record; ValueError for positional arguments and for values of a wrong kind."""
        if args:
            raise ValueError("Only keyword arguments can be used by Paddle.")
        made = OpDesc(type=self._proto.type)
        for slots, given in (
            (self._proto.inputs, made.inputs),
            (self._proto.outputs, made.outputs),
        ):
            for slot in slots:
                names = kwargs.get(slot.name, [])
                names = list(names) if isinstance(names, (list, tuple)) else [names]
                if len(names) > 1 and not slot.duplicable:
                    raise ValueError(f"'{slot.name}' takes one variable, found {names}")
                given.add(parameter=slot.name).arguments.extend(names)
        for attribute in self._proto.attrs:
            value = kwargs.get(attribute.name)
            if value is not None:
                _set(made.attrs.add(name=attribute.name, type=attribute.type), value)
        return made


def _set(attribute: Message, value: Any) -> None:
    kind = int(attribute.type)
    if kind in _LISTS:
        getattr(attribute, _LISTS[kind]).extend(value)
    elif kind in _FIELDS:
        setattr(attribute, _FIELDS[kind], value)
    else:
        raise ValueError(f"attributes of the kind {kind}, as '{attribute.name}', cannot be given")
