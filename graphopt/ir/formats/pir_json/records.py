"""The contents of a PIR file as plain records: the program of Paddle 3 before its translation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class PirType:
    """The type of a value.

    `kind` is the name in the file without its dialect ("dtensor", "vec", "dense_tensor_array", …),
    "NULL" for a value without a type. `dtype` is a name of graphopt's dtypes, None for a dtype that
    graphopt lacks. `dims` has -1 for unknown; `elements` are the types inside a vec.
    """

    kind: str
    dtype: str | None = None
    dims: tuple[int, ...] = ()
    elements: tuple[PirType, ...] = ()


class PirValue(NamedTuple):
    """A result of an operator, or an argument of a block; absent without an id or a type."""

    id: int
    type: PirType

    @property
    def is_there(self) -> bool:
        """False for a result that the operator does not compute, such as an unused gradient."""
        return self.id != 0 and self.type.kind != "NULL"


class PirAttribute(NamedTuple):
    """A value with the kind that the file gives it, such as "a_f32"; arrays hold attributes."""

    kind: str
    value: Any

    def plain(self) -> Any:
        """Return the value, with plain values inside arrays."""
        if self.kind == "a_array":
            return [item.plain() for item in self.value]
        return self.value


@dataclass(frozen=True)
class PirBlock:
    """Operators in order; `args` are the values that the operator around the block gives it."""

    args: tuple[PirValue, ...]
    ops: tuple[PirOp, ...]


@dataclass(frozen=True)
class PirOp:
    """One operator with its name ("pd_op.relu"), and value ids as operands, by position."""

    name: str
    operands: tuple[int, ...]
    results: tuple[PirValue, ...]
    attributes: Mapping[str, PirAttribute]
    regions: tuple[tuple[PirBlock, ...], ...] = ()
    flags: Mapping[str, tuple[bool, ...]] = field(default_factory=dict[str, tuple[bool, ...]])
    """For each result, whether it stops gradients and whether it is persistable, where given."""

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the plain value of an attribute, or `default`."""
        found = self.attributes.get(name)
        return default if found is None else found.plain()

    def flag(self, name: str, result: int = 0, default: bool = False) -> bool:
        """Return a flag of a result, or `default`."""
        values = self.flags.get(name, ())
        return values[result] if result < len(values) else default


@dataclass(frozen=True)
class PirProgram:
    """A whole file; `version` is the version of the format (1 for Paddle 3.0 … 4 for 3.3)."""

    version: int
    block: PirBlock
    source: str
