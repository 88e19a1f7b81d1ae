"""Operators that run on the variables of a scope, without a program (fluid.op)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.errors import ScopeError
from graphopt.fluid.proto import framework_pb2
from graphopt_tests.paddle_tests.single_operators import op_protos
from graphopt_tests.paddle_tests.single_operators.op import Operator

pb: Any = framework_pb2
PLACE = fluid.CPUPlace()
ROWS = np.arange(6, dtype="float32").reshape(3, 2)


def scope_of(**values: Any) -> fluid.Scope:
    scope = fluid.Scope()
    for name, value in values.items():
        scope.var(name).get_tensor().set(value, PLACE)
    return scope


def value_in(scope: fluid.Scope, name: str) -> Any:
    slot = scope.find_var(name)
    assert slot is not None
    return np.array(slot.get_tensor())


def test_an_operator_reads_and_writes_variables_of_a_scope() -> None:
    scope = scope_of(x=ROWS)
    op = Operator("scale", X="x", Out="made", scale=2.0)
    assert (op.type(), op.inputs(), op.outputs()) == ("scale", {"X": ["x"]}, {"Out": ["made"]})
    op.run(scope, PLACE)
    np.testing.assert_array_equal(value_in(scope, "made"), ROWS * 2)
    scope.var("x").get_tensor().set(ROWS[:1], PLACE)
    op.run(scope, PLACE)
    np.testing.assert_array_equal(value_in(scope, "made"), ROWS[:1] * 2)


def test_several_names_and_outputs_that_are_inputs() -> None:
    scope = scope_of(a=ROWS, b=ROWS, lr=np.array([0.5], "float32"))
    Operator(type="sum", X=["a", "b"], Out="total").run(scope, PLACE)
    np.testing.assert_array_equal(value_in(scope, "total"), ROWS * 2)
    names = {"Param": "a", "Grad": "total", "LearningRate": "lr", "ParamOut": "a"}
    Operator("sgd", **names).run(scope, PLACE)
    np.testing.assert_array_equal(value_in(scope, "a"), ROWS * 0)


def test_lengths_of_sequences() -> None:
    scope = scope_of(x=ROWS)
    scope.var("x").get_tensor().set_recursive_sequence_lengths([[1, 2]])
    Operator("sequence_reverse", X="x", Y="y").run(scope, PLACE)
    np.testing.assert_array_equal(value_in(scope, "y"), ROWS[[0, 2, 1]])
    assert scope.var("y").get_tensor().recursive_sequence_lengths() == [[1, 2]]


def test_errors() -> None:
    with pytest.raises(ValueError, match="not registered"):
        Operator("no_such_type", X="x")
    with pytest.raises(ValueError, match="positional"):
        Operator("scale", "x")
    with pytest.raises(ScopeError, match="'x', which has no value"):
        Operator("scale", X="x", Out="y").run(fluid.Scope(), PLACE)
    assert "scale" in Operator.types()


def test_operators_from_their_records() -> None:
    """Each type has a record of its slots and attributes, from which operators are made."""
    found = {
        proto.type: proto for proto in map(pb.OpProto.FromString, op_protos.get_all_op_protos())
    }
    concat = found["concat"]
    slots = [(s.name, s.duplicable, s.dispensable) for s in concat.inputs]
    assert slots == [("X", True, False), ("AxisTensor", False, True)]
    assert {a.name: a.type for a in concat.attrs} == {"axis": pb.INT}
    assert not op_protos.get_op_extra_attrs("concat")
    holder = op_protos.OpProtoHolder.instance()
    assert holder is op_protos.OpProtoHolder.instance()
    assert holder.get_op_proto("concat") == concat
    assert holder.has_op_proto("concat")
    assert not holder.has_op_proto("concatenate")
    with pytest.raises(ValueError, match='"concatenate" has not been registered'):
        holder.get_op_proto("concatenate")
    record = pb.OpDesc(type="concat")
    record.inputs.add(parameter="X", arguments=["a", "b"])
    record.outputs.add(parameter="Out", arguments=["out"])
    record.attrs.add(name="axis", type=pb.INT, i=1)
    scope = scope_of(a=ROWS, b=ROWS)
    op_protos.Operator.create(record.SerializeToString()).run(scope, PLACE)
    np.testing.assert_array_equal(value_in(scope, "out"), np.concatenate([ROWS, ROWS], 1))
