"""The pass manager: runs the rows of the pipeline on a module and remembers what happened."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import dce
from xdsl.utils.exceptions import VerifyException

from graphopt.errors import PassError
from graphopt.ir.dot import to_dot
from graphopt.ir.verify_ssa import verify_ssa
from graphopt.passes.fusion import Applied, Declined, FusionPass, Outcome, sweep
from graphopt.passes.pipeline import RUNTIME, WITHOUT_PASS, Phase, Row, Setup, select


@dataclass
class Report:
    """What the optimizer did to one module.

    `ran` lists (flag, pass, seconds) in order; fusions that share a sweep share its time.
    `outcomes` are the fusions that were applied or declined.
    """

    setup: Setup
    ran: list[tuple[str, str, float]] = field(default_factory=list[tuple[str, str, float]])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    ops_before: int = 0
    ops_after: int = 0

    def applied(self, pass_name: str) -> list[Applied]:
        """The fusions of one pass that happened."""
        return [o for o in self.outcomes if isinstance(o, Applied) and o.rule == pass_name]

    def declined(self, pass_name: str) -> list[Declined]:
        """The pictures that one pass found and left alone."""
        return [o for o in self.outcomes if isinstance(o, Declined) and o.rule == pass_name]

    def explain(self) -> str:
        """The report as text: per flag, what it did, where it declined and why."""
        lines = [f"{self.ops_before} ops before, {self.ops_after} after"]
        for flag, pass_name, seconds in self.ran:
            applied, declined = self.applied(pass_name), self.declined(pass_name)
            lines.append(
                f"{flag} ({pass_name}, {seconds * 1e3:.1f} ms): {_count(applied, declined)}"
            )
            lines += [f"  applied at {o.anchor} {_at(o.location)}" for o in applied]
            lines += [f"  declined at {o.anchor} {_at(o.location)}: {o.reason}" for o in declined]
        for flag in sorted(self.setup.asked):
            if flag in RUNTIME:
                lines.append(f"{flag}: {RUNTIME[flag]}")
            if flag in WITHOUT_PASS:
                lines.append(f"{flag}: no effect here ({WITHOUT_PASS[flag]})")
        if getattr(self.setup.flags.get("reduce_strategy"), "name", "") == "Reduce":
            lines.append("reduce_strategy=Reduce: updates are replicated (same numbers as sharded)")
        return "\n".join(lines)


def _count(applied: Sequence[Applied], declined: Sequence[Declined]) -> str:
    if not applied and not declined:
        return "done"
    return f"applied {len(applied)} times, declined {len(declined)} times"


def _at(location: str) -> str:
    return "" if location == "loc(unknown)" else location


def optimize(module: ModuleOp, setup: Setup) -> Report:
    """Run the passes that `setup` selects on the module, in place.

    Raises PassError, naming the pass, when one leaves the module invalid; OSError when
    `debug_graphviz_path` cannot be written.
    """
    report = Report(setup, ops_before=_op_count(module))
    path = str(setup.flags.get("debug_graphviz_path", ""))
    _dump(module, path, "_original_graph")
    chosen = select(setup)
    context = Context()
    for phase, rows in groupby(chosen, key=lambda item: item[0].phase):
        _run_phase(module, phase, list(rows), report, context)
        if phase is Phase.FUSE:
            _dump(module, path, "_fused_graph")
    dce(module)
    if not any(row.phase is Phase.FUSE for row, _ in chosen):
        _dump(module, path, "_fused_graph")
    if setup.data_parallel:
        _dump(module, path, "_multi_devices_graph")
    report.ops_after = _op_count(module)
    return report


def _run_phase(
    module: ModuleOp,
    phase: Phase,
    rows: Sequence[tuple[Row, ModulePass]],
    report: Report,
    context: Context,
) -> None:
    start = time.perf_counter()
    if phase is Phase.FUSE:
        fusions = [p for _, p in rows if isinstance(p, FusionPass)]
        report.outcomes += sweep(module, [(p.name, rule) for p in fusions for rule in p.RULES])
        _check(module, [p.name for p in fusions])
        seconds = time.perf_counter() - start
        report.ran += [(row.flag, row.pass_name, seconds) for row, _ in rows]
        return
    for row, made in rows:
        made.apply(context, module)
        _check(module, [made.name])
        report.ran.append((row.flag, row.pass_name, time.perf_counter() - start))
        start = time.perf_counter()


def _check(module: ModuleOp, passes: Iterable[str]) -> None:
    try:
        verify_ssa(module)
    except VerifyException as error:
        names = ", ".join(passes)
        raise PassError(
            f"the IR is not valid after {names}; this is a bug there: {error}"
        ) from error


def _op_count(module: ModuleOp) -> int:
    return sum(1 for op in module.walk() if op.name.startswith("pd."))


def _dump(module: ModuleOp, path: str, suffix: str) -> None:
    """Write the graph under Paddle's name for this stage, and the IR beside it."""
    if path:
        Path(path + suffix).write_text(to_dot(module))
        Path(path + suffix + ".mlir").write_text(str(module) + "\n")
