"""From a Program to a module of the `pd` dialect: names become SSA values.

Importing this lets programs know the types of what their operators give.
"""

from graphopt.ir.program import Block
from graphopt.ir.translate.infer import infer_outputs

Block.infer_outputs = staticmethod(infer_outputs)
