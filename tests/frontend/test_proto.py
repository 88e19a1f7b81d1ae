"""The messages of saved programs as classes (fluid.proto.framework_pb2)."""

from __future__ import annotations

from typing import Any

import pytest

from graphopt import static
from graphopt.errors import FormatError
from graphopt.fluid.proto import framework_pb2
from graphopt_tests.frontend.programs import fresh

pb: Any = framework_pb2


def test_a_program_is_read_and_written() -> None:
    """Unchanged bytes are written again; changes are included."""
    with fresh() as (main, _):
        static.nn.fc(static.data("x", [None, 3], "float32"), 2)
    data = main.desc.serialize_to_string()
    program = pb.ProgramDesc.FromString(data)
    assert [op.type for op in program.blocks[0].ops] == ["mul", "elementwise_add"]
    assert program.SerializeToString() == data and program.ByteSize() == len(data)
    (x,) = [v for v in program.blocks[0].vars if v.name == "x"]
    assert x.type.lod_tensor.tensor.data_type == pb.VarType.FP32 == pb.VarType.Type.FP32
    assert list(x.type.lod_tensor.tensor.dims) == [-1, 3]
    x.type.lod_tensor.tensor.dims.append(7)
    again = pb.ProgramDesc.FromString(program.SerializeToString())
    assert again == program != pb.ProgramDesc.FromString(data)


def test_messages_are_made_field_by_field() -> None:
    """Required fields must be set; reading a field does not set it."""
    op = pb.OpProto(comment="cosine")
    slot = op.inputs.add(name="X")
    assert not slot.duplicable and not op.IsInitialized()
    with pytest.raises(FormatError, match="required"):
        op.SerializeToString()
    slot.comment, op.type = "the input", "cos"
    op.attrs.add(name="scale", comment="", type=pb.FLOAT)
    assert op.IsInitialized() and len(op.attrs) == 1
    scalar = pb.Scalar(type=pb.Scalar.Type.COMPLEX128)
    assert not scalar.HasField("c") and scalar.c.r == 0.0 and not scalar.HasField("c")
    scalar.c.CopyFrom(pb.Complex(r=1.0, i=2.0))
    assert scalar.HasField("c") and scalar.c.i == 2.0
    scalar.ClearField("c")
    assert scalar == pb.Scalar(type=4)


def test_wrong_fields_are_refused() -> None:
    """Unknown names, values of another kind, and assigned lists are refused."""
    op = pb.OpDesc()
    for name, value, error in (("nothing", 1, AttributeError), ("inputs", [], AttributeError)):
        with pytest.raises(error):
            setattr(op, name, value)
    with pytest.raises(ValueError, match="must be a string"):
        op.type = 3
    with pytest.raises(FormatError):
        op.ParseFromString(b"\xff")
