"""Single operators without a program, as Paddle's own tests use them (paddle.fluid.op).

`offer` adds them to the modules in which these tests look for them.
"""

from __future__ import annotations

import sys

from graphopt import fluid
from graphopt.fluid import core, framework

from . import op, op_protos, op_records


def offer() -> None:
    """Add single operators, and the records of their types, to `paddle.fluid`."""
    names = {"OpDescCreationMethod", "get_all_op_protos"}
    vars(op).update({name: vars(op_records)[name] for name in names})
    vars(fluid)["op"] = sys.modules["graphopt.fluid.op"] = op
    for name in ("Operator", "get_all_op_protos", "get_op_extra_attrs"):
        vars(core)[name] = vars(op_protos)[name]
    vars(framework)["OpProtoHolder"] = op_protos.OpProtoHolder
