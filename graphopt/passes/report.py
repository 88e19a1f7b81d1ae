"""What the optimizer did: the record of a run, from which `explain` and the JSON form are made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from graphopt.passes.fusion import Applied, Declined, Outcome
from graphopt.passes.instance import Validation
from graphopt.passes.nearmiss import NearMiss
from graphopt.passes.numerics import Numerics
from graphopt.passes.setup import Setup


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


@dataclass
class Report:
    """What the optimizer did to one module: the passes in order, and what each rewrite did."""

    setup: Setup
    ran: list[Ran] = field(default_factory=list[Ran])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    near: list[NearMiss] = field(default_factory=list[NearMiss])
    before: Counter[str] = field(default_factory=Counter[str])
    after: Counter[str] = field(default_factory=Counter[str])
    data_sized: tuple[str, ...] = ()
    kept_gradients: tuple[str, ...] = ()
    """Why gradient operators of a saved program stayed operators, for each backward pass."""
    notes: tuple[str, ...] = ()
    """What else is worth knowing of this program."""
    validation: Validation | None = None
    """What `--validate` found; None when it was not asked for."""

    @property
    def ops_before(self) -> int:
        """How many ops the program had."""
        return self.before.total()

    @property
    def ops_after(self) -> int:
        """How many ops it has now."""
        return self.after.total()

    def applied(self, pass_name: str) -> list[Applied]:
        """The rewrites of one pass that happened."""
        return [o for o in self.outcomes if isinstance(o, Applied) and o.rule == pass_name]

    def declined(self, pass_name: str) -> list[Declined]:
        """The pictures that one pass found and left alone."""
        return [o for o in self.outcomes if isinstance(o, Declined) and o.rule == pass_name]

    def near_misses(self, pass_name: str) -> list[NearMiss]:
        """The pictures of one pass that lack one thing; only when the run was to be explained."""
        return [miss for miss in self.near if miss.rule == pass_name]

    def times(self, ran: Ran) -> int:
        """How often a pass changed something."""
        return len(self.applied(ran.pass_name)) or ran.changed

    def explain(self, flag: str = "") -> str:
        """The report as text; of one flag or pass when it is named."""
        from graphopt.passes.explain import as_text

        return as_text(self, flag)
