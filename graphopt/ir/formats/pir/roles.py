"""The roles of operators in a training program, which PIR files leave out.

Cloning a program for testing drops the operators with a backward or optimizer role.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.ir.formats.pir.rows import row_of
from graphopt.ir.formats.pir_json.records import PirOp
from graphopt.ir.program import Block, Operator, OpRole


class Roles:
    """Tracks gradients through the operators, in the order of their creation."""

    def __init__(self, gradient_of: Mapping[int, int]) -> None:
        self._gradient_of = gradient_of
        self._gradients: set[str] = set()
        self._backward = False

    def role(self, block: Block, made: Operator, source: PirOp | None) -> int:
        """Infer the role of a new operator: gradients and values computed from them are backward.

        An operator that writes state from these, or after them, belongs to the optimizer.
        """
        row = None if source is None else row_of(source.name.partition(".")[2])
        if row is not None and row.forward:
            self._backward = True
        elif source is not None and any(v.id in self._gradient_of for v in source.results):
            if not self._gradients.intersection(made.input_arg_names):
                self._gradients.update(made.output_arg_names)
                return OpRole.BACKWARD | OpRole.LOSS
        elif not self._backward:
            return OpRole.FORWARD
        if "LearningRate" in made.inputs or "learning_rate" in made.inputs:
            return OpRole.OPTIMIZE
        reads = self._gradients.intersection(made.input_arg_names)
        if not reads and not (row is not None and row.forward):
            return OpRole.OPTIMIZE if self._writes_state(block, made) else OpRole.FORWARD
        self._gradients.update(made.output_arg_names)
        return OpRole.BACKWARD

    def _writes_state(self, block: Block, made: Operator) -> bool:
        found = (block.find_var(name) for name in made.output_arg_names)
        return any(variable is not None and variable.persistable for variable in found)
