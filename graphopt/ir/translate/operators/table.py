"""The operators that are one op of the dialect, each with its op.

Their slots and attributes are in the table of operators (`graphopt.ir.operators`), which is read in
both directions. An operator that a row cannot describe has a registered translation
(`registry.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.operators import operators


@dataclass(frozen=True)
class DialectRow:
    """One operator type and the op that it means."""

    type: str
    op: type[PdOp]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Property of the `pd` op -> legacy attribute."""


class _Rows(Mapping[str, DialectRow]):
    """The rows by type, each made when it is first looked up."""

    def __init__(self) -> None:
        self._names = {type: row.op_name for type, row in operators().items() if row.op_name}
        self._made: dict[str, DialectRow] = {}

    def types_of(self, *ops: type[PdOp]) -> tuple[str, ...]:
        """List the types of the operators that are ops of these classes."""
        each = self._names.items()
        return tuple(type for type, name in each if issubclass(BY_NAME[f"pd.{name}"], ops))

    def __getitem__(self, type: str) -> DialectRow:
        made = self._made.get(type)
        return made or self._made.setdefault(type, self._make(type))

    def _make(self, type: str) -> DialectRow:
        found = operators()[type].pd
        if found is None:
            raise KeyError(type)
        return DialectRow(
            type, BY_NAME[f"pd.{found.name}"], found.inputs, found.outputs, found.renamed
        )

    def __contains__(self, type: object) -> bool:
        return type in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


BY_TYPE = _Rows()
