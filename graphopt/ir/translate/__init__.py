"""From a Program to a module of the `pd` dialect: names become SSA values.

Importing this lets programs infer the types of operator outputs.
"""

from graphopt.ir.program import Block
from graphopt.ir.translate.infer import infer_outputs

Block.infer_outputs = staticmethod(infer_outputs)
