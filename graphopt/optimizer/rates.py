"""The learning rates of an optimizer as a mapping from programs, which scripts write."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from graphopt.ir.program import Program, Variable


class LearningRateMap(MutableMapping[Program, Variable]):
    """A view by program of `rates`, whose keys are the serial numbers of programs.

    Scripts put the Variable of a schedule of their own here before `minimize`. Programs are not
    kept, so only their number can be iterated over.
    """

    def __init__(self, rates: dict[int, Variable]) -> None:
        self._rates = rates

    def __getitem__(self, program: Program) -> Variable:
        return self._rates[program.serial]

    def __setitem__(self, program: Program, rate: Variable) -> None:
        self._rates[program.serial] = rate

    def __delitem__(self, program: Program) -> None:
        del self._rates[program.serial]

    def __iter__(self) -> Iterator[Program]:
        raise TypeError("the programs of a learning rate map are not kept; ask by program")

    def __len__(self) -> int:
        return len(self._rates)
