"""A report as rows: passes with their gains, kinds of refusals, layers and blocks.

`overview.py` renders them as text and HTML, `explain.py` as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from graphopt.passes.engine.blocks import CodeBlock, Fused
from graphopt.passes.engine.costs import Cost
from graphopt.passes.engine.fusion import Declined
from graphopt.passes.engine.near_misses import TAKEN, NearMiss
from graphopt.passes.table.conditions import ANY_OF_LAYERS, ANY_PROGRAM, ANY_STRATEGY
from graphopt.passes.table.flags import BUILD_FLAGS
from graphopt.passes.table.report import Ran, Report

AUTOMATIC = (ANY_PROGRAM, ANY_STRATEGY, ANY_OF_LAYERS)
"""In place of a flag: passes that run without one."""
# reasons to decline that say that the ops are fused all the same
_HAD = ("left-to-larger", TAKEN)


@dataclass(frozen=True)
class PassRow:
    """A pass that ran: its candidates, those that it took, and what that gained.

    `saved` is the cost that went away, negative where it grew. Passes that shared a sweep have its
    time in the row of the first one; in those of the others `seconds` is None.
    """

    flag: str
    pass_name: str
    fired: int
    candidates: int
    ops_before: int
    ops_after: int
    saved: Cost
    seconds: float | None
    asked: bool
    """The user set its flag, or named the pass."""
    gained_ms: float | None = None
    """The milliseconds of a step that the flag saves, where that was measured."""

    @property
    def name(self) -> str:
        """The flag, with the pass where its name is another one; the pass where no flag asks."""
        if self.flag not in BUILD_FLAGS:
            return self.pass_name
        dashed = self.flag.replace("_", "-")
        return self.flag if dashed.startswith(self.pass_name) else f"{self.flag} ({self.pass_name})"


@dataclass(frozen=True)
class RefusalRow:
    """The refusals of a pass for one kind of reason; `near` where one part was missing.

    `text` is the first one's sentence; `lines` are the user's lines, each once.
    """

    flag: str
    pass_name: str
    kind: str
    count: int
    text: str
    fix: str
    lines: tuple[str, ...]
    near: bool
    asked: bool

    @property
    def is_had(self) -> bool:
        """True where the ops are fused all the same, by another pass."""
        return self.kind in _HAD


@dataclass(frozen=True)
class BlockRow:
    """Layers or blocks of the same ops, and of the same fusions in each.

    `numbers` are their places among those of their kind, `fused` the fusions of one of them, each
    with its number, and `fused_ops` the ops in them. `refused` has the sentences about one block.
    """

    kind: str
    ops: str
    count: int
    numbers: tuple[int, ...]
    ops_in_each: int
    fused: tuple[tuple[Fused, int], ...]
    fused_ops: int
    refused: tuple[str, ...]
    line: str


def pass_rows(report: Report) -> list[PassRow]:
    """A row for each pass that ran, in order."""
    rows: list[PassRow] = []
    sweeps: set[int] = set()
    count = report.ops_before
    for ran in report.ran:
        fired, first = report.times(ran), ran.sweep not in sweeps or not ran.sweep
        sweeps.add(ran.sweep)
        count = ran.ops_before if first else count
        declined = len(report.declined(ran.pass_name))
        near = sum(miss.reason.name not in _HAD for miss in report.near_misses(ran.pass_name))
        rows.append(
            PassRow(
                ran.flag,
                ran.pass_name,
                fired,
                fired + declined + near,
                count,
                count - ran.removed,
                ran.saved or Cost(),
                ran.seconds if first else None,
                _is_asked(report, ran),
                report.measured.gained_ms.get(ran.flag) if report.measured is not None else None,
            )
        )
        count -= ran.removed
    return rows


def _is_asked(report: Report, ran: Ran) -> bool:
    if ran.flag in BUILD_FLAGS:
        return ran.flag in report.context.asked
    return ran.flag not in AUTOMATIC


def refusal_rows(report: Report) -> list[RefusalRow]:
    """A row for each pass and kind of reason: those of flags come first."""
    found: list[RefusalRow] = []
    for ran in {ran.pass_name: ran for ran in report.ran}.values():
        asked = _is_asked(report, ran)
        for near, items in (
            (False, report.declined(ran.pass_name)),
            (True, report.near_misses(ran.pass_name)),
        ):
            groups: dict[tuple[str, str], list[Declined | NearMiss]] = {}
            for item in items:
                groups.setdefault(_kind_of(item), []).append(item)
            for (kind, _), group in groups.items():
                reason, lines = group[0].reason, _lines(group)
                row = RefusalRow(
                    ran.flag, ran.pass_name, kind, len(group), reason.text, reason.fix, lines,
                    near, asked,
                )  # fmt: skip
                found.append(row)
    return sorted(found, key=lambda row: (row.flag in AUTOMATIC, row.near, not row.fix, -row.count))


# the parts of a sentence about a single case: values, numbers
_OWN = re.compile(r"%\S+|'[^']*'|\d+")


def _kind_of(item: Declined | NearMiss) -> tuple[str, str]:
    """The kind of a reason: its name, and the edit that would help, without names and numbers.

    Where no edit is known, refusals of one name are one kind.
    """
    reason = item.reason
    return reason.name, _OWN.sub("", reason.text) if reason.fix else ""


def _lines(items: Iterable[Declined | NearMiss]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.location for item in items if item.location))


def block_rows(report: Report) -> list[BlockRow]:
    """A row for the layers and blocks of the same ops with the same fusions, in order.

    Refusals are those of passes that a flag or the user requests.
    """
    rules = {ran.pass_name for ran in report.ran if ran.flag not in AUTOMATIC}
    groups: dict[object, list[CodeBlock]] = {}
    for block in report.blocks:
        refused = tuple(_OWN.sub("", text) for text in _refusals(block, rules))
        key = (block.kind, block.words, frozenset(block.fused.items()), block.taken, refused)
        groups.setdefault(key, []).append(block)
    return [_block_row(group, rules) for group in groups.values()]


def _refusals(block: CodeBlock, rules: Collection[str]) -> tuple[str, ...]:
    """The sentences of refusals, without those of fusions whose ops a larger one took."""
    texts = [
        f"not {each.rule}: {each.reason.text}"
        for each in block.refused
        if each.rule in rules and each.reason.name not in _HAD
    ]
    return tuple(dict.fromkeys(texts))


def _block_row(group: Sequence[CodeBlock], rules: Collection[str]) -> BlockRow:
    first = group[0]
    return BlockRow(
        first.kind,
        first.words,
        len(group),
        tuple(block.number for block in group),
        len(first.ops),
        tuple(first.fused.items()),
        first.taken,
        _refusals(first, rules),
        first.location,
    )
