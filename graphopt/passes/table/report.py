"""The record of a run of passes, from which `explain` and the JSON form are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from graphopt.passes.engine.blocks import CodeBlock
from graphopt.passes.engine.communication import Communication
from graphopt.passes.engine.costs import Cost
from graphopt.passes.engine.fusion import Applied, Declined, Outcome
from graphopt.passes.engine.near_misses import NearMiss
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.validation import Validation
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.parts import Part


@dataclass(frozen=True)
class Ran:
    """A pass that ran for a flag.

    Fusions that share a sweep share its time and op counts. For a pass that does not report each
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
    """The number of the sweep; passes of one number share it, with its time and op counts."""
    removed: int = 0
    """The ops that the pass itself took away, less those that it added."""
    saved: Cost | None = None
    """The cost that it took away; None unless the run collects details."""


@dataclass(frozen=True)
class Traffic:
    """The collectives of the program after some passes, which changed them."""

    after: str
    collectives: tuple[Communication, ...]


@dataclass(frozen=True)
class Measured:
    """The milliseconds of a step, and those that each flag saves: without it a step takes longer.

    A negative number is a flag that costs time.
    """

    step_ms: float
    gained_ms: Mapping[str, float]


@dataclass(frozen=True)
class ByOp:
    """An op for which a program runs op by op: its name, what of it the elements of a value decide.

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
    """The layers and blocks before the first fusions, and what these made of them."""
    cost_before: Cost = field(default_factory=Cost)
    cost_after: Cost = field(default_factory=Cost)
    before: Counter[str] = field(default_factory=Counter[str])
    after: Counter[str] = field(default_factory=Counter[str])
    prepared: int = 0
    """Of the ops after, those that are computed from parameters once, and not in each step."""
    by_op: tuple[ByOp, ...] = ()
    """The ops for which the program runs op by op; empty for one that is compiled as a whole."""
    kept_gradients: tuple[str, ...] = ()
    """The reasons why gradient operators stayed operators, one per backward pass."""
    notes: tuple[str, ...] = ()
    """Other facts about this program."""
    traffic: list[Traffic] = field(default_factory=list[Traffic])
    """The collectives between replicas, with details: after each step that changed them."""
    parts: list[Part] = field(default_factory=list[Part])
    """The parts of the compilation but the passes, noted when they are done."""
    measured: Measured | None = None
    """The times of steps, where they were requested."""
    validation: Validation | None = None
    """The findings of `--validate`; None without it."""

    @property
    def ops_before(self) -> int:
        """The number of ops before."""
        return self.before.total()

    @property
    def ops_after(self) -> int:
        """The number of ops after."""
        return self.after.total()

    def applied(self, pass_name: str) -> list[Applied]:
        """The rewrites of one pass that happened."""
        return [o for o in self.outcomes if isinstance(o, Applied) and o.rule == pass_name]

    def declined(self, pass_name: str) -> list[Declined]:
        """The matches that one pass declined."""
        return [o for o in self.outcomes if isinstance(o, Declined) and o.rule == pass_name]

    def near_misses(self, pass_name: str) -> list[NearMiss]:
        """The near misses of one pass; only if the run collects them."""
        return [miss for miss in self.near if miss.rule == pass_name]

    def times(self, ran: Ran) -> int:
        """The number of times a pass changed something."""
        return len(self.applied(ran.pass_name)) or ran.changed
