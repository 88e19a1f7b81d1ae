"""The pass manager: runs the rows of the pipeline on a module and remembers what happened."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import dce
from xdsl.utils.exceptions import VerifyException

from graphopt.errors import PassError
from graphopt.ir.dot import to_dot
from graphopt.ir.ops.base import DataSizedOp
from graphopt.ir.verify_ssa import verify_ssa
from graphopt.passes.fusion import Applied, Declined, FusionPass, Outcome, sweep
from graphopt.passes.pipeline import RUNTIME, WITHOUT_PASS, Phase, Row, Setup, select


@dataclass(frozen=True)
class Ran:
    """A pass that ran for a flag; `effect` says how it changed the list of ops.

    Fusions that share a sweep share its time.
    """

    flag: str
    pass_name: str
    seconds: float
    effect: str = ""


@dataclass
class Report:
    """What the optimizer did to one module: the passes in order, and what each fusion did."""

    setup: Setup
    ran: list[Ran] = field(default_factory=list[Ran])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    ops_before: int = 0
    ops_after: int = 0
    data_sized: tuple[str, ...] = ()

    def applied(self, pass_name: str) -> list[Applied]:
        """The fusions of one pass that happened."""
        return [o for o in self.outcomes if isinstance(o, Applied) and o.rule == pass_name]

    def declined(self, pass_name: str) -> list[Declined]:
        """The pictures that one pass found and left alone."""
        return [o for o in self.outcomes if isinstance(o, Declined) and o.rule == pass_name]

    def explain(self) -> str:
        """The report as text: per flag, what it did, where it declined and why."""
        lines = [f"{self.ops_before} ops before, {self.ops_after} after"]
        for ran in self.ran:
            applied, declined = self.applied(ran.pass_name), self.declined(ran.pass_name)
            effect = ran.effect or f"applied {len(applied)} times, declined {len(declined)} times"
            lines.append(f"{ran.flag} ({ran.pass_name}, {ran.seconds * 1e3:.1f} ms): {effect}")
            lines += [f"  applied at {_where(o)}" for o in applied]
            lines += [f"  declined at {_where(o)}: {o.reason}" for o in declined]
        for flag in sorted(self.setup.asked):
            if flag in RUNTIME:
                lines.append(f"{flag}: {RUNTIME[flag]}")
            if flag in WITHOUT_PASS:
                lines.append(f"{flag}: no effect here ({WITHOUT_PASS[flag]})")
        if getattr(self.setup.flags.get("reduce_strategy"), "name", "") == "Reduce":
            lines.append("reduce_strategy=Reduce: updates are replicated (same numbers as sharded)")
        if self.data_sized:
            names = ", ".join(self.data_sized)
            lines.append(f"runs op by op on one device: the data say how large {names} are")
        return "\n".join(lines)


def _where(outcome: Outcome) -> str:
    """The last op of a picture, and the user's line that made it."""
    return f"{outcome.anchor} ({outcome.location})" if outcome.location else outcome.anchor


def _difference(before: Counter[str], after: Counter[str]) -> str:
    """How many ops of each kind came and went."""
    changes = [f"+{n} {name}" for name, n in sorted((after - before).items())]
    changes += [f"-{n} {name}" for name, n in sorted((before - after).items())]
    return ", ".join(changes) or "no op added or removed"


def optimize(module: ModuleOp, setup: Setup) -> Report:
    """Run the passes that `setup` selects on the module, in place.

    Raises PassError, naming the pass, when one leaves the module invalid; OSError when
    `debug_graphviz_path` cannot be written.
    """
    report = Report(setup, ops_before=_ops(module).total())
    path = str(setup.flags.get("debug_graphviz_path", ""))
    _dump(module, path, "_original_graph")
    chosen = select(setup)
    for phase in Phase:
        rows = [(row, made) for row, made in chosen if row.phase is phase]
        if phase is Phase.FUSE:
            _fuse(module, rows, report)
            dce(module)
            _dump(module, path, "_fused_graph")
        else:
            _run_each(module, rows, report)
    if setup.data_parallel:
        _dump(module, path, "_multi_devices_graph")
    report.ops_after = _ops(module).total()
    report.data_sized = tuple(
        sorted({op.name for op in module.walk() if isinstance(op, DataSizedOp)})
    )
    return report


def _fuse(module: ModuleOp, rows: Sequence[tuple[Row, ModulePass]], report: Report) -> None:
    """All fusions in one sweep."""
    start = time.perf_counter()
    fusions = [made for _, made in rows if isinstance(made, FusionPass)]
    report.outcomes += sweep(module, [(made.name, rule) for made in fusions for rule in made.RULES])
    _check(module, [made.name for made in fusions])
    seconds = time.perf_counter() - start
    report.ran += [Ran(row.flag, made.name, seconds) for row, made in rows]


def _run_each(module: ModuleOp, rows: Sequence[tuple[Row, ModulePass]], report: Report) -> None:
    """One pass after the other."""
    for row, made in rows:
        before, start = _ops(module), time.perf_counter()
        made.apply(Context(), module)
        _check(module, [made.name])
        seconds = time.perf_counter() - start
        effect = _difference(before, _ops(module))
        report.ran.append(Ran(row.flag, made.name, seconds, effect))


def _check(module: ModuleOp, passes: Iterable[str]) -> None:
    try:
        verify_ssa(module)
    except VerifyException as error:
        names = ", ".join(passes)
        raise PassError(
            f"the IR is not valid after {names}; this is a bug there: {error}"
        ) from error


def _ops(module: ModuleOp) -> Counter[str]:
    return Counter(op.name for op in module.walk() if op.name.startswith("pd."))


def _dump(module: ModuleOp, path: str, suffix: str) -> None:
    """Write the graph under Paddle's name for this stage, and the IR beside it."""
    if path:
        Path(path + suffix).write_text(to_dot(module))
        Path(path + suffix + ".mlir").write_text(str(module) + "\n")
