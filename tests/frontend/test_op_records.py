"""Records of operators from the records of their types, and how single operators print."""

from __future__ import annotations

import pytest

from graphopt.fluid import op
from graphopt.fluid.proto import framework_pb2


def record(type: str) -> framework_pb2.Message:
    return next(each for each in op.get_all_op_protos() if each.type == type)


def test_slots_and_attributes() -> None:
    made = op.OpDescCreationMethod(record("scale"))(X="a", Out="b", scale=2.5)
    assert made.type == "scale"
    assert next((slot.parameter, list(slot.arguments)) for slot in made.inputs) == ("X", ["a"])
    assert [(slot.parameter, list(slot.arguments)) for slot in made.outputs] == [("Out", ["b"])]
    assert [(a.name, a.f) for a in made.attrs] == [("scale", 2.5)]


def test_refusals() -> None:
    with pytest.raises(TypeError, match="should be OpProto"):
        op.OpDescCreationMethod(framework_pb2.OpDesc())  # pyright: ignore
    method = op.OpDescCreationMethod(record("scale"))
    with pytest.raises(ValueError, match="keyword arguments"):
        method("a")
    with pytest.raises(ValueError, match="'X' takes one variable"):
        method(X=["a", "b"])


def test_an_operator_as_text() -> None:
    made = op.Operator("sum", X=["a", "b"], Out="z")
    assert str(made) == "Op(sum), inputs:{X[a, b]}, outputs:{Out[z]}."
