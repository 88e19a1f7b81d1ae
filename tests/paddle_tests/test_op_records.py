"""Records of operators from the records of their types, and the text of single operators."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphopt.fluid.proto import framework_pb2
from graphopt_tests.paddle_tests.single_operators import op, op_records


def record(type: str) -> framework_pb2.Message:
    return next(each for each in op_records.get_all_op_protos() if each.type == type)


def test_slots_and_attributes() -> None:
    made = op_records.OpDescCreationMethod(record("scale"))(X="a", Out="b", scale=2.5)
    assert made.type == "scale"
    assert next((slot.parameter, list(slot.arguments)) for slot in made.inputs) == ("X", ["a"])
    assert [(slot.parameter, list(slot.arguments)) for slot in made.outputs] == [("Out", ["b"])]
    assert [(a.name, a.f) for a in made.attrs] == [("scale", 2.5)]


def test_refusals() -> None:
    with pytest.raises(TypeError, match="should be OpProto"):
        op_records.OpDescCreationMethod(framework_pb2.OpDesc())  # pyright: ignore
    method = op_records.OpDescCreationMethod(record("scale"))
    with pytest.raises(ValueError, match="keyword arguments"):
        method("a")
    with pytest.raises(ValueError, match="'X' takes one variable"):
        method(X=["a", "b"])


def test_an_operator_as_text() -> None:
    made = op.Operator("sum", X=["a", "b"], Out="z")
    assert str(made) == "Op(sum), inputs:{X[a, b]}, outputs:{Out[z]}."


@pytest.mark.exhaustive
def test_scripts_are_offered_them() -> None:
    """Paddle's tests find single operators where Paddle 1.8 has them; other scripts find none."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from graphopt.fluid import core, framework\n"
        "try:\n    import graphopt.fluid.op\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
        "import single_operators; single_operators.offer()\n"
        "from graphopt.fluid.op import Operator, get_all_op_protos\n"
        "assert core.Operator.create and core.get_all_op_protos()\n"
        "assert framework.OpProtoHolder.instance().has_op_proto('scale')\n"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Instead: a static.Program with the operator" in done.stdout
