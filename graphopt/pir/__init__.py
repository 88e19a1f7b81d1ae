"""The program classes under their names in Paddle 3 (paddle.pir).

graphopt has one program representation, so a Value is a Variable, and a Program of PIR an ordinary
one.
"""

from graphopt.frontend import lazy as _lazy
from graphopt.ir.program import Block as Block
from graphopt.ir.program import Operator, Variable
from graphopt.ir.program import Program as Program
from graphopt.pir import core as core

Value = Variable
Operation = Operator

_XDSL = "graphopt's passes rewrite xDSL"
_lazy.attach(
    globals(),
    refused={
        "PassManager": (_XDSL, "static.BuildStrategy, or `graphopt-opt -p`"),
        "create_shaped_type": (_XDSL, "static.data"),
        "translate_to_pir": (_XDSL, "`graphopt opt`, which prints the xDSL of a program"),
    },
)
