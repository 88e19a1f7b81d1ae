"""Operators in the form of Paddle's C++ records: `op.desc.type()`, `op.desc.input("X")`."""

from __future__ import annotations

from typing import Any

from graphopt.ir.program import Operator


class OperatorDesc:
    """The record of an operator, whose facts are methods (Paddle's OpDesc)."""

    def __init__(self, op: Operator) -> None:
        self._op = op

    def type(self) -> str:
        """The type of the operator."""
        return self._op.type

    def input(self, name: str) -> list[str]:
        """The variables in an input slot."""
        return self._op.input(name)

    def output(self, name: str) -> list[str]:
        """The variables in an output slot."""
        return self._op.output(name)

    def input_names(self) -> list[str]:
        """The input slots."""
        return self._op.input_names

    def output_names(self) -> list[str]:
        """The output slots."""
        return self._op.output_names

    def input_arg_names(self) -> list[str]:
        """The variables that the operator reads."""
        return self._op.input_arg_names

    def output_arg_names(self) -> list[str]:
        """The variables that it writes."""
        return self._op.output_arg_names

    def attr_names(self) -> list[str]:
        """The names of its attributes."""
        return list(self._op.attr_names)

    def has_attr(self, name: str) -> bool:
        """True if there is an attribute of this name."""
        return self._op.has_attr(name)

    def attr(self, name: str) -> Any:
        """The value of an attribute; ValueError when there is none."""
        return self._op.attr(name)

    def _rename_input(self, old: str, new: str) -> None:
        self._op._rename_input(old, new)

    def _rename_output(self, old: str, new: str) -> None:
        self._op._rename_output(old, new)

    def _set_attr(self, name: str, value: Any) -> None:
        self._op._set_attr(name, value)

    def remove_attr(self, name: str) -> None:
        """Take an attribute away."""
        self._op._remove_attr(name)
