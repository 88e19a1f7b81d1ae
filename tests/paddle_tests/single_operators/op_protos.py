"""The translated operators of Paddle 2.6, as messages (paddle.fluid.core).

Their slots, attributes and kinds come from the rows of `graphopt.ir.operators`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from graphopt.fluid.proto.framework_pb2 import OpDesc, OpProto
from graphopt.fluid.proto.messages import Message
from graphopt.ir.formats.protobuf.attributes import read_attribute
from graphopt.ir.formats.protobuf.wire import Limits, WireReader
from graphopt.ir.operators import OperatorRow, operators
from graphopt.ir.program import AttrKind

from .op import Operator as OPERATORS
from .op import Single


def get_all_op_protos() -> list[bytes]:
    """Serialize an `OpProto` for each operator type; comments are empty."""
    types = OPERATORS.types()
    return [_proto(row) for row in operators().values() if row.type in types and not row.only]


def _proto(row: OperatorRow) -> bytes:
    made = OpProto(type=row.type, comment="")
    for slots, given in zip((made.inputs, made.outputs), row.marked_slots, strict=True):
        for slot in given:
            added = slots.add(name=slot.rstrip("*?"), comment="")
            added.duplicable, added.dispensable = "*" in slot, "?" in slot
    for name, attribute in row.attributes.items():
        if attribute.kind:
            kind = getattr(AttrKind, attribute.kind.upper())
            made.attrs.add(name=name, comment="", type=kind)
    return made.SerializeToString()


def get_op_extra_attrs(op_type: str) -> Mapping[str, object]:
    """Return no attributes: those that only choose a kernel have no effect, and no record."""
    return {}


class OpProtoHolder:
    """The `OpProto` of each translated operator type (framework.OpProtoHolder)."""

    def __init__(self) -> None:
        records = [OpProto.FromString(record) for record in get_all_op_protos()]
        self.op_proto_map: dict[str, Message] = {record.type: record for record in records}

    @staticmethod
    @cache
    def instance() -> OpProtoHolder:
        """Return the shared instance."""
        return OpProtoHolder()

    def has_op_proto(self, type: str) -> bool:
        """True for the type of a translated operator."""
        return type in self.op_proto_map

    def get_op_proto(self, type: str) -> Message:
        """Return the record of an operator type; ValueError for one without a translation."""
        if type not in self.op_proto_map:
            raise ValueError(f'Operator "{type}" has not been registered.')
        return self.op_proto_map[type]

    def update_op_proto(self) -> list[str]:
        """Return the types added since the records were read: none."""
        return []

    @staticmethod
    def generated_op_attr_names() -> set[str]:
        """Return the attributes that every operator has."""
        return {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device"}


class Operator:
    """Makes single operators from their records (core.Operator)."""

    @staticmethod
    def create(record: bytes) -> Single:
        """Make the operator of a serialized `OpDesc`, which runs on the variables of a scope.

        Raises FormatError (ValueError) for other bytes.
        """
        found = OpDesc.FromString(record)
        inputs, outputs = (
            {slot.parameter: list(slot.arguments) for slot in slots if slot.arguments}
            for slots in (found.inputs, found.outputs)
        )
        return Single(found.type, inputs, outputs, dict(_attributes(found.attrs)))


def _attributes(messages: Iterable[Message]) -> Iterator[tuple[str, object]]:
    for message in messages:
        data = message.SerializeToString()
        found = read_attribute(WireReader(data, "an attribute", Limits()), 0, len(data))
        yield found.name, found.value
