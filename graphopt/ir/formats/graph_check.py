"""Check that a decoded program is consistent: blocks, visible names, feed and fetch columns.

The checks do not depend on operator semantics. They take time linear in the program and do not
recurse, whatever the file holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from graphopt.errors import FormatError, LimitError
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.quote import quote
from graphopt.ir.program import EMPTY, AttrKind, Block, Operator, Program

# The slot of `feed` and `fetch` operators that names the variable of the program.
_COLUMN_SLOTS = {"feed": ("outputs", "Out"), "fetch": ("inputs", "X")}


def check_program(program: Program, source: str, limits: Limits) -> None:
    """Raise FormatError, or LimitError, naming `source`, block and operator, unless

    * the blocks' parents form a tree that is rooted at block 0 and not too deep;
    * attributes name existing blocks, and no block runs itself through others;
    * every operator's arguments are declared where it can see them;
    * the columns of `feed` and of `fetch` operators are 0, 1, 2 ...
    """
    _Check(program, source, limits).run()


def column_operators(program: Program, op_type: str) -> list[Operator]:
    """List the `feed` or `fetch` operators of a checked program by column."""
    found = [op for op in program.blocks[0].ops if op.type == op_type]
    return sorted(found, key=lambda op: op.attrs["col"])


def column_names(program: Program, op_type: str) -> list[str]:
    """List the fed or fetched variables by column."""
    side, slot = _COLUMN_SLOTS[op_type]
    return [getattr(op, side)[slot][0] for op in column_operators(program, op_type)]


class _Check:
    """One run of the checks over one program."""

    def __init__(self, program: Program, source: str, limits: Limits) -> None:
        self.blocks = program.blocks
        self.source = source
        self.limits = limits

    def run(self) -> None:
        self._tree()
        self._runs()
        for block in self.blocks:
            self._arguments(block)
        for op_type in _COLUMN_SLOTS:
            self._columns(op_type)

    def _error(self, where: str, problem: str) -> FormatError:
        return FormatError(f"{self.source}: {where}: {problem}")

    def _tree(self) -> None:
        """Check that parents and forward blocks exist, and that all blocks descend from block 0."""
        count = len(self.blocks)
        for block in self.blocks:
            where, first = f"block {block.idx}", 0 if block.idx else -1
            parent, forward = block.parent_idx, block.forward_block_idx
            if not first <= parent < (count if block.idx else 0):
                expected = f"a parent in 0..{count - 1}" if block.idx else "no parent (-1)"
                raise self._error(where, f"expected {expected}, found {parent}")
            if not -1 <= forward < (count if block.idx else 0):
                raise self._error(
                    where, f"expected a forward block in -1..{count - 1}, found {forward}"
                )
        depths = {0: 0}
        for block in self.blocks:
            self._measure_depth(block.idx, depths)

    def _measure_depth(self, index: int, depths: dict[int, int]) -> None:
        """Add the depths of a block and its ancestors to `depths`, unless known."""
        trail: dict[int, None] = {}
        while index not in depths:
            if index in trail:
                raise self._error(
                    f"block {index}",
                    "expected a tree of blocks, found a block that contains itself",
                )
            trail[index] = None
            index = self.blocks[index].parent_idx
        for depth, descendant in enumerate(reversed(trail), depths[index] + 1):
            depths[descendant] = depth
            self._limit_depth(descendant, depth)

    def _limit_depth(self, index: int, depth: int) -> None:
        if depth > self.limits.block_depth:
            raise LimitError(
                f"{self.source}: block {index}: expected blocks at most "
                f"{self.limits.block_depth} deep, found one deeper"
            )

    def _runs(self) -> None:
        """Check that operators run existing blocks, and that no blocks run each other in a cycle.

        Importers follow these links, so their depth and the number of paths through them are
        limited too: 60 blocks that each run the next one twice would unfold into 2^60.
        """
        runs = {block.idx: list(self._run_by(block)) for block in self.blocks}
        callers: dict[int, set[int]] = {index: set() for index in runs}
        for index, targets in runs.items():
            for target in targets:
                callers[target].add(index)
        try:
            order = list(TopologicalSorter(callers).static_order())
        except CycleError as error:
            circle: list[int] = error.args[1][::-1]
            raise self._error(
                f"block {circle[0]}", f"expected no block to run itself, found {quote(circle)}"
            ) from None
        depths, ways = dict.fromkeys(runs, 0), dict.fromkeys(runs, 1)
        for index in order:
            for target in runs[index]:
                depths[target] = max(depths[target], depths[index] + 1)
                ways[target] += ways[index]
                self._limit_depth(target, depths[target])
        if sum(ways.values()) > self.limits.block_runs:
            raise LimitError(
                f"{self.source}: expected operators that run at most {self.limits.block_runs} "
                "blocks when unfolded, found more"
            )

    def _run_by(self, block: Block) -> Iterator[int]:
        """Yield the blocks that operators of `block` run, once per attribute that names them."""
        for position, op in enumerate(block.ops):
            for name, value in _values_of(op, AttrKind.BLOCK, AttrKind.BLOCKS):
                if not 0 < value < len(self.blocks):
                    raise self._error(
                        _place(block, position, op),
                        f"expected attribute {quote(name)} to be one of the "
                        f"{len(self.blocks) - 1} blocks after block 0, found {value}",
                    )
                yield value

    def _arguments(self, block: Block) -> None:
        """Check that the block, an ancestor, or a mirrored block declares each argument."""
        visible = self._visible_blocks(block)
        known = {EMPTY}
        for position, op in enumerate(block.ops):
            for role, name in _arguments_of(op):
                if name in known:
                    continue
                if not any(name in other.vars for other in visible):
                    raise self._error(
                        _place(block, position, op),
                        f"expected {role} to name a variable that is visible in the block, "
                        f"found {quote(name)}",
                    )
                known.add(name)

    def _visible_blocks(self, block: Block) -> list[Block]:
        """List the block and its ancestors, then the blocks they mirror, with ancestors."""
        found = {ancestor.idx: ancestor for ancestor in _lineage(block)}
        for ancestor in list(found.values()):
            if ancestor.forward_block_idx >= 0:
                for other in _lineage(self.blocks[ancestor.forward_block_idx]):
                    found.setdefault(other.idx, other)
        return list(found.values())

    def _columns(self, op_type: str) -> None:
        """Check that `feed` (`fetch`) operators write (read) one variable each, in n columns."""
        side, slot = _COLUMN_SLOTS[op_type]
        root, columns = self.blocks[0], list[int]()
        for position, op in enumerate(root.ops):
            if op.type != op_type:
                continue
            where = _place(root, position, op)
            names: Sequence[str] = getattr(op, side).get(slot, ())
            if len(names) != 1 or names[0] not in root.vars:
                raise self._error(
                    where, f"expected one variable of block 0 in '{slot}', found {quote(names)}"
                )
            if op.attr_kinds.get("col") != AttrKind.INT:
                raise self._error(where, "expected an INT attribute 'col', found none")
            columns.append(op.attrs["col"])
        if sorted(columns) != list(range(len(columns))):
            raise self._error(
                "block 0",
                f"expected the columns of '{op_type}' operators to be 0..{len(columns) - 1}, "
                f"found {quote(sorted(columns))}",
            )


def _place(block: Block, position: int, op: Operator) -> str:
    return f"block {block.idx}, operator {position} ({quote(op.type)})"


def _lineage(block: Block) -> Iterator[Block]:
    """Yield the block, its parent, and so on to block 0."""
    at: Block | None = block
    while at is not None:
        yield at
        at = at.parent


def _values_of(op: Operator, one: int, many: int) -> Iterator[tuple[str, Any]]:
    """Yield an attribute's name and each of its values, for kind `one` or list kind `many`."""
    for name, kind in op.attr_kinds.items():
        if kind == one:
            yield name, op.attrs[name]
        elif kind == many:
            for value in op.attrs[name]:
                yield name, value


def _arguments_of(op: Operator) -> Iterator[tuple[str, str]]:
    """Yield each argument's description for errors, and its variable name."""
    for slot, names in (*op.inputs.items(), *op.outputs.items()):
        for name in names:
            yield f"slot {quote(slot)}", name
    for attribute, name in _values_of(op, AttrKind.VAR, AttrKind.VARS):
        yield f"attribute {quote(attribute)}", name
