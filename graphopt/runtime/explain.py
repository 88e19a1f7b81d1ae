"""`graphopt.explain`: what a BuildStrategy does to a program, without running it.

Nothing here compiles: the program is parsed and optimised, and the report is kept.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphopt.errors import LockError, StrictError
from graphopt.ir.interface import data_names, output_names
from graphopt.ir.parse.program import parse_program
from graphopt.ir.program import Program
from graphopt.ir.reader.graph_check import column_names
from graphopt.passes.explain import (
    FlagResult,
    applied_counts,
    as_json,
    as_text,
    flag_results,
    silent_flags,
)
from graphopt.passes.instance import Validator
from graphopt.passes.manager import optimize
from graphopt.passes.report import Report
from graphopt.runtime.fetch import fetch_names
from graphopt.runtime.places import about, default_place
from graphopt.runtime.strategies import BuildStrategy

if TYPE_CHECKING:
    from graphopt.runtime.compiled_program import CompiledProgram


class Explanation:
    """What the optimizer did to one program; `str` gives the text, `to_json` the data."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def __str__(self) -> str:
        return self.text()

    def text(self, flag: str = "") -> str:
        """The report for people; about one flag or pass when it is named."""
        return as_text(self.report, flag)

    @property
    def flags(self) -> dict[str, FlagResult]:
        """What came of each flag that ran a pass or was set."""
        return {result.flag: result for result in flag_results(self.report)}

    def applied(self, pass_name: str) -> int:
        """How often a pass changed something."""
        return applied_counts(self.report).get(pass_name, 0)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, of the schema in docs/reference/explain-json.md."""
        return as_json(self.report)

    def check_strict(self) -> None:
        """StrictError when a flag that the strategy switches on did nothing."""
        silent = silent_flags(self.report)
        if silent:
            lines = [f"  {result.flag}: {result.status} ({result.text})" for result in silent]
            raise StrictError("strict: these flags did nothing\n" + "\n".join(lines))

    def write_lock(self, path: str | Path) -> None:
        """Write how often each pass changes something, for `check_lock` to compare with."""
        text = json.dumps({"schema": 1, "applied": applied_counts(self.report)}, indent=2)
        Path(path).write_text(text + "\n", "utf-8")

    def check_lock(self, path: str | Path) -> None:
        """LockError, naming the passes, when one changes more or less than the file says.

        ValueError for a file that is no lock file, FileNotFoundError for none: `write_lock` makes
        it.
        """
        locked, found = read_lock(Path(path)), applied_counts(self.report)
        lines = [
            f"  {name}: {locked.get(name, 0)} in the file, {found.get(name, 0)} now"
            for name in sorted({*locked, *found})
            if locked.get(name, 0) != found.get(name, 0)
        ]
        if lines:
            raise LockError(f"rewrites differ from {path}\n" + "\n".join(lines))


def read_lock(path: Path) -> Mapping[str, int]:
    """The counts of a lock file; ValueError when it is none."""
    try:
        data = json.loads(path.read_text("utf-8"))
        applied = data["applied"] if data["schema"] == 1 else None
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no lock file of graphopt.explain: {error!r}") from error
    if not isinstance(applied, dict) or not all(type(n) is int for n in applied.values()):
        raise ValueError(f"{path} is no lock file of graphopt.explain, schema 1")
    return applied


def explain(
    program: Program | CompiledProgram,
    build_strategy: BuildStrategy | None = None,
    fetch_list: Any = None,
    *,
    strict: bool = False,
    validator: Validator | None = None,
) -> Explanation:
    """As `graphopt.explain`, with the validator of rewrites if there is to be one."""
    if not isinstance(program, Program):
        source = getattr(program, "_program", None)
        if not isinstance(source, Program):
            raise TypeError(f"expected a Program or CompiledProgram, got {type(program).__name__}")
        build_strategy = build_strategy or program._strategy
        program = source
    if fetch_list is None:
        names = column_names(program, "fetch") or output_names(program)
    else:
        names = fetch_names(fetch_list)
    feeds = column_names(program, "feed") or data_names(program)
    again = functools.partial(parse_program, program, feeds, names)
    strategy = build_strategy or BuildStrategy()
    setup = strategy.setup(**about(default_place())).quiet()
    report = optimize(again(), setup, near=True, again=again, validate=validator)
    explanation = Explanation(report)
    if strict:
        explanation.check_strict()
    return explanation
