"""From a Program to a module of the `pd` dialect: names become SSA values.

Importing this lets programs infer the types of operator outputs. The dialect is imported when the
first operator is appended: a program that is only read needs none.
"""

from graphopt.ir.program import Block, Operator


def infer_outputs(op: Operator) -> None:
    """Set the types of an operator's outputs; see `infer.infer_outputs` for the errors."""
    from graphopt.ir.translate import infer

    infer.infer_outputs(op)


Block.on_append.infer = infer_outputs
