"""From a Program to a module of the `pd` dialect: names become SSA values.

Importing this lets programs infer the types of operator outputs. The dialect is imported when the
first operator is appended: a program that is only read needs none.
"""

from graphopt.ir.program import Block, Operator


def _infer_outputs(op: Operator) -> None:
    """As `infer_outputs` of `infer`, which takes this one's place."""
    from graphopt.ir.translate.infer import infer_outputs

    Block.infer_outputs = staticmethod(infer_outputs)
    infer_outputs(op)


Block.infer_outputs = staticmethod(_infer_outputs)
