"""The variable names of the values of a PIR program.

Values that the file names keep their names; others are named after their operator and id, and
gradients after the value that they belong to.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.ir.formats.pir.inplace import operators
from graphopt.ir.formats.pir.links import Links
from graphopt.ir.formats.pir.rows import base_name
from graphopt.ir.formats.pir_json.records import PirBlock, PirOp
from graphopt.ir.program import GRAD_SUFFIX

# The attribute that names an operator's result 0, or its operand 0.
_NAMES_RESULT = {"builtin.parameter": "parameter_name", "pd_op.data": "name"}
_NAMES_OPERAND = {
    "builtin.set_parameter": "parameter_name",
    "builtin.shadow_output": "output_name",
    "pd_op.fetch": "name",
}


class Names:
    """Gives each value a name of its own."""

    def __init__(self, block: PirBlock, links: Links) -> None:
        self.given: dict[int, str] = {}
        self.taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._links = links
        for op in operators(block):
            attribute = _NAMES_RESULT.get(op.name)
            if attribute and op.results:
                self._give(op.results[0].id, op.attribute(attribute))
        for op in operators(block):
            attribute = _NAMES_OPERAND.get(op.name)
            if attribute and op.operands and op.operands[0] not in self.given:
                self._give(op.operands[0], op.attribute(attribute))

    def _give(self, value: int, name: object) -> None:
        if isinstance(name, str) and name and name not in self.taken and value:
            self.given[value] = name
            self.taken.add(name)

    def name(self, op: PirOp, value: int, named: Mapping[int, str]) -> str:
        """Name a result of an operator; `named` has the names of earlier values."""
        if value in self.given:
            return self.given[value]
        of = self._links.gradient_of.get(value)
        if of is None or of not in named:
            return self.free(f"{base_name(op.name.partition('.')[2])}_{value}")
        whole = self._links.parts[of] < 2 or op.name.endswith(".add_n")
        name = named[of] + GRAD_SUFFIX
        return self.free(name if whole else f"{name}@RENAME@{value}")

    def free(self, name: str) -> str:
        """Reserve a name: this one, or one with a number if it is taken."""
        found, number = name, self._numbers.get(name, 0)
        while found in self.taken:
            number += 1
            found = f"{name}_{number}"
        self._numbers[name] = number
        self.taken.add(found)
        return found
