"""The record of a run of passes, and its rows: passes, refusals, layers and blocks, times.

`explain.py` shows them as text, HTML and JSON. Nothing here measures: a part of a compilation is
noted by the code that does it, and passes have their time in their rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphopt.display.units import milliseconds
from graphopt.passes.engine.blocks import CodeBlock, Fused
from graphopt.passes.engine.communication import Communication
from graphopt.passes.engine.costs import Cost
from graphopt.passes.engine.fusion import Applied, Declined, Outcome
from graphopt.passes.engine.near_misses import TAKEN, NearMiss
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.validation import Validation
from graphopt.passes.table.conditions import ANY_OF_LAYERS, ANY_PROGRAM, ANY_STRATEGY
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.flags import BUILD_FLAGS
from graphopt.passes.table.order import REQUIRED
from graphopt.passes.table.parts import EXPLAIN, LOAD, LOWER, PARSE, TRACE, XLA, CompilationPart


@dataclass(frozen=True)
class Ran:
    """A pass that ran for a flag.

    Fusions that share a sweep share its op counts. For a pass that does not report each
    change, `effect` says how it changed the list of ops and `changed` how many ops.
    """

    flag: str
    pass_name: str
    seconds: float
    effect: str = ""
    changed: int = 0
    ops_before: int = 0
    ops_after: int = 0
    numerics: Numerics | None = None
    sweep: int = 0
    """The number of the sweep; passes with one number share the sweep and its op counts."""
    removed: int = 0
    """The ops that the pass itself removed, minus the ops that it added."""
    saved: Cost | None = None
    """The cost that the pass removed; None unless the run collects details."""

    @property
    def is_required(self) -> bool:
        """True for a pass that inserts ops which several devices require."""
        return self.pass_name in REQUIRED


@dataclass(frozen=True)
class Traffic:
    """The collectives of the program after some passes, which changed them."""

    after: str
    collectives: tuple[Communication, ...]


@dataclass(frozen=True)
class Measured:
    """The milliseconds of a step, and the milliseconds of it that each flag saves.

    A negative number is a flag that costs time.
    """

    step_ms: float
    gained_ms: Mapping[str, float]


@dataclass(frozen=True)
class ByOp:
    """An op for which a program runs op by op, and the property that a value's elements decide.

    `variable` and `location` are that value's name and the user's line, empty where there is none.
    """

    op: str
    what: str
    variable: str
    location: str
    fix: str


@dataclass
class Report:
    """The record of one module: the passes in order, and the outcome of each rewrite."""

    context: PassContext
    ran: list[Ran] = field(default_factory=list[Ran])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    near: list[NearMiss] = field(default_factory=list[NearMiss])
    detailed: bool = False
    """True when near misses, costs and blocks were collected."""
    blocks: list[CodeBlock] = field(default_factory=list[CodeBlock])
    """The layers and blocks before the first fusions, with the fusions in each."""
    cost_before: Cost = field(default_factory=Cost)
    cost_after: Cost = field(default_factory=Cost)
    before: Counter[str] = field(default_factory=Counter[str])
    after: Counter[str] = field(default_factory=Counter[str])
    prepared: int = 0
    """The ops, not counted in `after`, that prepare parameters once and not in each step."""
    in_groups: int = 0
    """The ops inside groups; `after` counts each group as one op."""
    deciding: tuple[str, ...] = ()
    """The feeds of a few numbers that alone decide sizes."""
    by_op: tuple[ByOp, ...] = ()
    """The ops that make the program run op by op; empty if it is compiled as a whole."""
    kept_gradients: tuple[str, ...] = ()
    """The reasons why gradient operators stayed operators, one per backward pass."""
    notes: tuple[str, ...] = ()
    """Other facts about this program."""
    traffic: list[Traffic] = field(default_factory=list[Traffic])
    """The collectives between replicas after each step that changed them; empty without details."""
    parts: list[CompilationPart] = field(default_factory=list[CompilationPart])
    """The parts of the compilation except the passes, in the order in which they ended."""
    measured: Measured | None = None
    """The times of steps, if they were measured."""
    validation: Validation | None = None
    """The findings of `--validate`; None without it."""

    @property
    def ops_before(self) -> int:
        """The number of ops before."""
        return self.before.total()

    @property
    def ops_after(self) -> int:
        """The number of ops after, those that several devices require among them."""
        return self.after.total()

    @property
    def required(self) -> int:
        """The number of ops that were inserted because several devices require them."""
        return -sum(ran.removed for ran in self.ran if ran.is_required)

    def applied(self, pass_name: str) -> list[Applied]:
        """List the rewrites that one pass applied."""
        return [o for o in self.outcomes if isinstance(o, Applied) and o.rule == pass_name]

    def declined(self, pass_name: str) -> list[Declined]:
        """List the matches that one pass declined."""
        return [o for o in self.outcomes if isinstance(o, Declined) and o.rule == pass_name]

    def near_misses(self, pass_name: str) -> list[NearMiss]:
        """List the near misses of one pass; empty unless the run collects them."""
        return [miss for miss in self.near if miss.rule == pass_name]

    def times(self, ran: Ran) -> int:
        """Count the changes that a pass made."""
        return len(self.applied(ran.pass_name)) or ran.changed


# -- passes, refusals, layers and blocks -----------------------------------------------------------

AUTOMATIC = (ANY_PROGRAM, ANY_STRATEGY, ANY_OF_LAYERS)
"""The texts that stand in place of a flag for passes that run without one."""
# reasons to decline under which another rule or pass fuses the ops
_HAD = ("left-to-larger", TAKEN)


@dataclass(frozen=True)
class PassRow:
    """A pass that ran: its candidates, how many of them fired, and the gain.

    `saved` is the removed cost, negative where the cost grew. A candidate is a place that has the
    ops which define a pattern, and that no other pass took.
    """

    flag: str
    pass_name: str
    fired: int
    candidates: int
    ops_before: int
    ops_after: int
    saved: Cost
    seconds: float
    asked: bool
    """True if the user set the flag, or named the pass."""
    required: bool = False
    """True if several devices require its ops; then it is no optimization."""
    gained_ms: float | None = None
    """The milliseconds of a step that the flag saves, if measured."""

    @property
    def name(self) -> str:
        """The flag, with the pass if its name differs; only the pass if no flag requests it."""
        if self.flag not in BUILD_FLAGS:
            return self.pass_name
        dashed = self.flag.replace("_", "-")
        return self.flag if dashed.startswith(self.pass_name) else f"{self.flag} ({self.pass_name})"


@dataclass(frozen=True)
class RefusalRow:
    """The refusals of a pass for one kind of reason; `near` marks near misses.

    `text` is the sentence of the first refusal; `lines` are the user's lines, each once.
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
    had: bool = False
    """True if another pass fuses the ops."""


@dataclass(frozen=True)
class BlockRow:
    """Layers or blocks of the same ops, and of the same fusions in each.

    `numbers` are their indices among the blocks of their kind. `fused` has the fusions of one of
    them, each with its count, and `fused_ops` is the number of ops in them. `refused` has the
    sentences about one block.
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
    """Build a row for each pass that ran, in order."""
    rows: list[PassRow] = []
    sweeps: set[int] = set()
    count = report.ops_before
    for ran in report.ran:
        fired, first = report.times(ran), ran.sweep not in sweeps or not ran.sweep
        sweeps.add(ran.sweep)
        count = ran.ops_before if first else count
        declined = sum(each.reason.name not in _HAD for each in report.declined(ran.pass_name))
        near = sum(not _is_had(miss) for miss in report.near_misses(ran.pass_name))
        rows.append(
            PassRow(
                ran.flag,
                ran.pass_name,
                fired,
                fired + declined + near,
                count,
                count - ran.removed,
                ran.saved or Cost(),
                ran.seconds,
                _is_asked(report, ran),
                ran.is_required,
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
    """Build a row for each pass and kind of reason; passes that a flag selects come first."""
    found: list[RefusalRow] = []
    for ran in {ran.pass_name: ran for ran in report.ran}.values():
        asked = _is_asked(report, ran)
        for near, items in (
            (False, report.declined(ran.pass_name)),
            (True, report.near_misses(ran.pass_name)),
        ):
            groups: dict[tuple[str, str, bool], list[Declined | NearMiss]] = {}
            for item in items:
                groups.setdefault((*_kind_of(item), _is_had(item)), []).append(item)
            for (kind, _, had), group in groups.items():
                reason, lines = group[0].reason, _lines(group)
                row = RefusalRow(
                    ran.flag, ran.pass_name, kind, len(group), reason.text, reason.fix, lines,
                    near, asked, had,
                )  # fmt: skip
                found.append(row)
    return sorted(found, key=lambda row: (row.flag in AUTOMATIC, row.near, not row.fix, -row.count))


def _is_had(item: Declined | NearMiss) -> bool:
    """True where another pass fused the ops."""
    return item.reason.name in _HAD or (isinstance(item, NearMiss) and item.had)


# the parts of a sentence that belong to a single case: values, quoted names, numbers
_OWN = re.compile(r"%\S+|'[^']*'|\d+")


def _kind_of(item: Declined | NearMiss) -> tuple[str, str]:
    """Return the kind of a reason: its name, and its text without names of values and numbers.

    Where no edit is known, refusals of one name are one kind.
    """
    reason = item.reason
    return reason.name, _OWN.sub("", reason.text) if reason.fix else ""


def _lines(items: Iterable[Declined | NearMiss]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.location for item in items if item.location))


def block_rows(report: Report) -> list[BlockRow]:
    """Build a row for the layers and blocks of the same ops with the same fusions, in order.

    Only the refusals of passes that a flag or the user requests are shown.
    """
    rules = {ran.pass_name for ran in report.ran if ran.flag not in AUTOMATIC}
    groups: dict[object, list[CodeBlock]] = {}
    for block in report.blocks:
        refused = tuple(_OWN.sub("", text) for text in _refusals(block, rules))
        key = (block.kind, block.words, frozenset(block.fused.items()), block.taken, refused)
        groups.setdefault(key, []).append(block)
    return [_block_row(group, rules) for group in groups.values()]


def _refusals(block: CodeBlock, rules: Collection[str]) -> tuple[str, ...]:
    """List the texts of refusals, except for fusions whose ops a larger fusion took."""
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


# -- times -----------------------------------------------------------------------------------------

PASSES = "passes"
_BEFORE, _AFTER = (PARSE,), (TRACE, LOWER, XLA, LOAD)


@dataclass(frozen=True)
class TimeRow:
    """A part of a compilation: its kind, the passes or the sizes that it is about, its seconds.

    Kinds are parse, passes, trace, lower, XLA, load for an executable from disk, and explain for
    the time of a report, which is not part of the compilation.
    """

    kind: str
    of: str
    seconds: float


def time_rows(report: Report) -> list[TimeRow]:
    """List the parts in order, each pass as one of them; the time of the report is the last."""
    noted = [TimeRow(part.name, part.of, part.seconds) for part in report.parts]
    return [
        *(row for row in noted if row.kind in _BEFORE),
        *(TimeRow(PASSES, ran.pass_name, ran.seconds) for ran in report.ran),
        *(row for row in noted if row.kind in _AFTER),
        *(row for row in noted if row.kind == EXPLAIN),
    ]


def by_kind(rows: Sequence[TimeRow]) -> dict[str, float]:
    """Sum the seconds of each kind of part, in order."""
    found: dict[str, float] = {}
    for row in rows:
        found[row.kind] = found.get(row.kind, 0.0) + row.seconds
    return found


def time_line(report: Report) -> str:
    """Format the sum and the kinds of parts in one line; "" if nothing was timed."""
    kinds = by_kind(time_rows(report))
    kinds.pop(EXPLAIN, None)
    if not kinds:
        return ""
    head = "compile time" if kinds.keys() & {XLA, LOAD} else "compile time, XLA not yet run"
    parts = ", ".join(f"{kind} {milliseconds(seconds)}" for kind, seconds in kinds.items())
    return f"{head}: {milliseconds(sum(kinds.values()))} ms ({parts})"


def report_line(report: Report) -> str:
    """Format the time that only the report needs; "" if nothing was collected for one."""
    took: dict[str, float] = {}
    for row in time_rows(report):
        if row.kind == EXPLAIN:  # a page runs the passes again, for each stage
            took[row.of] = took.get(row.of, 0.0) + row.seconds
    told = (f"this report: {milliseconds(took[of])} ms more, for {of}" for of in took)
    return "\n".join(told)


def timed_as(report: Report, compiled: Report) -> Report:
    """Copy a report with the times of the run of the same passes that made the executed program.

    A run that collects near misses and costs takes longer than that run.
    """
    parts = [*compiled.parts, *(part for part in report.parts if part.name == EXPLAIN)]
    names = [(ran.flag, ran.pass_name) for ran in report.ran]
    if names != [(ran.flag, ran.pass_name) for ran in compiled.ran]:
        return replace(report, parts=parts)
    pairs = zip(report.ran, compiled.ran, strict=True)
    ran = [replace(each, seconds=other.seconds) for each, other in pairs]
    return replace(report, ran=ran, parts=parts)
