"""Versions of the names in a block: each write of a name starts another version of it.

Operators overwrite names, so a name identifies a value only together with its version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graphopt.ir.program import EMPTY, Operator, Program
from graphopt.ir.program.sub_blocks import names_in, sub_blocks


class VersionedName(NamedTuple):
    """A name and the number of writes to it so far; 0 is its value before the first operator."""

    name: str
    version: int


class OpPosition(NamedTuple):
    """A position at which an operator mentions a value."""

    slot: str
    position: int


Mentions = dict[OpPosition, VersionedName]
_AGAIN = re.compile(r"\.subprog_\d+$")
# The slot for reads and writes without a slot: inside an operator's block, or of the earlier value
# that a branch keeps when it is not taken.
HIDDEN = "@hidden"
_BRANCHES = ("conditional_block", "conditional_block_infer")


class Versions:
    """The versioned names that each operator of a list reads and writes, by operator index."""

    def __init__(self, ops: Sequence[Operator]) -> None:
        self.ops = ops
        self.reads: list[Mentions] = []
        self.writes: list[Mentions] = []
        self.producer: dict[VersionedName, int] = {}
        self._count: dict[str, int] = {}
        self._again: dict[VersionedName, VersionedName] = {}
        for index, op in enumerate(ops):
            self.reads.append(self._read(op))
            self.writes.append(self._write(op, index))
            self._again.update(self._computed_before(index))
        self.readers: dict[VersionedName, list[int]] = {}
        for index, mentions in enumerate(self.reads):
            for value in set(mentions.values()):
                self.readers.setdefault(value, []).append(index)

    def last(self, name: str) -> VersionedName:
        """Return the version of the name after the operators processed so far."""
        found = VersionedName(name, self._count.get(name, 0))
        return self._again.get(found, found)

    def _computed_before(self, index: int) -> dict[VersionedName, VersionedName]:
        """Map the values that an operator recomputes to the original values.

        To save memory Paddle repeats operators before their gradients, and marks the names.
        """
        writes = self.writes[index]
        plain = {place: _AGAIN.sub("", value.name) for place, value in writes.items()}
        if not writes or any(plain[place] == value.name for place, value in writes.items()):
            return {}
        earlier = self.producer.get(VersionedName(next(iter(plain.values())), 1), index)
        first = self.writes[earlier]
        same = {place: value.name for place, value in first.items()} == plain
        if not same or self.reads[earlier] != self.reads[index]:
            return {}
        return {writes[place]: value for place, value in first.items()}

    def _read(self, op: Operator) -> Mentions:
        found = {place: self.last(name) for place, name in _places(op.inputs)}
        hidden = _inside(op, written=False, known=op.input_arg_names)
        if op.type in _BRANCHES:
            hidden += [name for name in op.output_arg_names if name in self._count]
        for index, name in enumerate(hidden):
            found[OpPosition(HIDDEN, index)] = self.last(name)
        return found

    def _write(self, op: Operator, index: int) -> Mentions:
        found: Mentions = {}
        places = list(_places(op.outputs))
        inside = _inside(op, written=True, known=op.output_arg_names)
        places += [(OpPosition(HIDDEN, at), name) for at, name in enumerate(inside)]
        for place, name in places:
            self._count[name] = self._count.get(name, 0) + 1
            found[place] = VersionedName(name, self._count[name])
            self.producer[found[place]] = index
        return found


def _inside(op: Operator, *, written: bool, known: Sequence[str]) -> list[str]:
    """List the names that only the blocks of an operator mention.

    Gradient operators list these names in their slots; for them the list is empty.
    """
    if op.type.endswith("_grad"):
        return []
    names = dict.fromkeys(n for inner in sub_blocks(op) for n in names_in(inner, written=written))
    return [name for name in names if name not in known]


def _places(slots: dict[str, list[str]]) -> Iterator[tuple[OpPosition, str]]:
    for slot, names in slots.items():
        for index, name in enumerate(names):
            if name != EMPTY:
                yield OpPosition(slot, index), name


def free_names(program: Program) -> list[str]:
    """List the non-persistable variables that operators read before any of them writes it."""
    block = program.global_block()
    versions = Versions(block.ops)
    found: dict[str, None] = {}
    for reads in versions.reads:
        for value in reads.values():
            variable = block.find_var(value.name)
            is_state = variable is not None and variable.persistable
            if value.version == 0 and not is_state and variable is not None:
                found[value.name] = None
    return list(found)
