"""`graphopt.explain`: the effect of a BuildStrategy on a program, without running it.

Nothing here compiles: the program is parsed and optimized, and the report is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from graphopt.display.table import Page, Shown
from graphopt.display.units import several
from graphopt.errors import LockError, StrictError
from graphopt.ir.formats.commit import write_files
from graphopt.ir.formats.graph_check import column_names
from graphopt.ir.program import Program
from graphopt.ir.translate.interface import data_names, output_names
from graphopt.passes.engine.validation import Validator
from graphopt.passes.padding.dims import CannotPad
from graphopt.passes.table.added import GivenPass, as_passes, of_block
from graphopt.passes.table.explain import (
    FlagResult,
    applied_counts,
    as_json,
    as_page,
    as_text,
    flag_results,
    silent_flags,
)
from graphopt.passes.table.report import (
    BlockRow,
    PassRow,
    RefusalRow,
    Report,
    block_rows,
    pass_rows,
    refusal_rows,
)
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.devices.places import likely_place
from graphopt.runtime.feeds.fetch import fetch_names
from graphopt.runtime.settings.strategies import BuildStrategy

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from graphopt.report.stages import Other


class Snapshot(Protocol):
    """A program with its strategy, such as a CompiledProgram."""

    _program: Program
    _strategy: BuildStrategy
    _added: tuple[ModulePass, ...]

    def _compilation(self, feeds: tuple[str, ...], fetches: tuple[str, ...]) -> Compilation:
        """Build the compilation of a run with these feeds and fetches."""
        ...


class Explanation(Shown):
    """The report of the optimizer on one program, which prints itself on one screen.

    `text` gives more of it, `table` the rows of its passes, `to_json` all of it as data.
    """

    def __init__(self, report: Report) -> None:
        self.report = report

    def page(self) -> Page:
        """Build the report on one screen."""
        return as_page(self.report)

    def text(self, flag: str = "") -> str:
        """Format the report on one screen; op by op for a flag or pass, or for "all" of them.

        Raise ValueError for a name that is neither.
        """
        return as_text(self.report, flag)

    def table(self) -> list[PassRow]:
        """List the passes that ran, a row for each: candidates, rewrites, and the gain."""
        return pass_rows(self.report)

    def refusals(self) -> list[RefusalRow]:
        """List the kinds of reasons for which a pass declined, a row for each."""
        return refusal_rows(self.report)

    def blocks(self) -> list[BlockRow]:
        """List layers and repeated blocks; blocks with the same ops and fusions share a row."""
        return block_rows(self.report)

    @property
    def flags(self) -> dict[str, FlagResult]:
        """The outcome of each flag that ran a pass or was set."""
        return {result.flag: result for result in flag_results(self.report)}

    def applied(self, pass_name: str) -> int:
        """Count the rewrites of a pass."""
        return applied_counts(self.report).get(pass_name, 0)

    def to_json(self) -> dict[str, Any]:
        """Convert the report to plain data; docs/reference/explain-json.md has the schema."""
        return as_json(self.report)

    def check_strict(self) -> None:
        """Raise StrictError when a flag that the strategy enables did nothing."""
        silent = silent_flags(self.report)
        if silent:
            lines = [f"  {result.flag}: {result.status} ({result.text})" for result in silent]
            raise StrictError("strict: these flags had no effect\n" + "\n".join(lines))

    def write_lock(self, path: str | Path) -> None:
        """Write the number of rewrites of each pass, for `check_lock` to compare.

        Raise OSError when the file cannot be written; it is unchanged then.
        """
        text = json.dumps({"schema": 1, "applied": applied_counts(self.report)}, indent=2)
        write_files({Path(path): [f"{text}\n".encode()]})

    def check_lock(self, path: str | Path) -> None:
        """Raise LockError, naming the passes, if the numbers of rewrites differ from the file.

        Raise ValueError for a file that is no lock file, FileNotFoundError for none: `write_lock`
        makes it.
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
    """Read the counts of a lock file; ValueError for another file."""
    try:
        data = json.loads(path.read_text("utf-8"))
        applied = data["applied"] if data["schema"] == 1 else None
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a lock file of graphopt.explain: {error!r}") from error
    if not isinstance(applied, dict) or not all(type(n) is int for n in applied.values()):
        raise ValueError(f"{path} is not a lock file of graphopt.explain, schema 1")
    return applied


def explain(
    program: Program | Snapshot,
    build_strategy: BuildStrategy | None = None,
    fetch_list: Any = None,
    *,
    passes: Sequence[GivenPass] = (),
    strict: bool = False,
    validator: Validator | None = None,
) -> Explanation:
    """Explain a program as `graphopt.explain` does; a `validator` compares each rewrite."""
    source = _source_of(program)
    feeds, names = names_of_step(source)
    if fetch_list is not None:
        names = fetch_names(fetch_list)
    strategy = explained_strategy(program, build_strategy, passes)
    if isinstance(program, Program):
        places = (likely_place(),)
        compilation = Compilation(program, feeds, names, strategy, places, in_one=True)
    else:
        compilation = replace(program._compilation(feeds, names), strategy=strategy)
    report = compilation.optimize(near=True, validate=validator).report
    report.notes += tuple(cache_notes(compilation))
    explanation = Explanation(report)
    if strict:
        explanation.check_strict()
    return explanation


def other_for(against: Program | Snapshot, like: Compilation, title: str = "the other") -> Other:
    """Build a program as it would be compiled in place of `like`, for comparison.

    Its fetches are the fetches of `like` that it has too, or else its own; a CompiledProgram keeps
    its own strategy. Raise TypeError unless it is a Program or CompiledProgram.
    """
    from graphopt.report.stages import Other

    source = _source_of(against)
    feeds, fetches = names_of_step(source)
    shared = tuple(name for name in like.fetches if source.global_block().has_var(name))
    if isinstance(against, Program):
        made = replace(like, program=source, feeds=feeds, fetches=shared or fetches)
    else:
        made = against._compilation(feeds, shared or fetches)
    return Other(title, made.parse, made.pass_context())


def _source_of(program: object) -> Program:
    """Return the Program itself, or a CompiledProgram's; TypeError for others."""
    source = program if isinstance(program, Program) else getattr(program, "_program", None)
    if not isinstance(source, Program):
        raise TypeError(f"expected a Program or CompiledProgram, got {type(program).__name__}")
    return source


def names_of_step(program: Program) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List the feeds and fetches of a program: its columns, or its data variables and outputs."""
    feeds = column_names(program, "feed") or data_names(program)
    return tuple(feeds), tuple(column_names(program, "fetch") or output_names(program))


def cache_notes(compilation: Compilation) -> list[str]:
    """Describe the caches that steps keep in buffers, or the reason why they do not.

    Appended tensors are assumed to have one row, and so is every other open size.
    """
    from graphopt.passes.padding.growing import NoCache
    from graphopt.passes.padding.positions import growing_axes

    block = compilation.program.global_block()
    if compilation.data_parallel or all(op.type != "concat" for op in block.ops):
        return []
    growing = growing_axes(compilation.parse())
    types = [
        (name, block.var(name).shape, f"{block.var(name).dtype}")
        for name in compilation.feeds
        if block.has_var(name)
    ]
    one = tuple(
        (
            name,
            tuple(
                1 if size == -1 and growing.get(name) != axis else size
                for axis, size in enumerate(shape)
            ),
            dtype,
        )
        for name, shape, dtype in types
    )
    if not growing:
        return []
    try:
        _, masked = replace(compilation, types=one, grows=True).mask()
    except NoCache:
        return []
    except CannotPad as error:
        return [f"keep-caches: declined, {error.reason.name}: {error.reason.text}"]
    assert masked is not None
    caches = masked.caches
    names = ", ".join(cache.feed for cache in caches)
    return [
        f"keep-caches: buffers for {names} are kept between steps; a step writes "
        f"{several(caches[0].by, 'row')}, and each size of buffers is compiled once"
    ]


def explained_strategy(
    program: Program | Snapshot, build_strategy: BuildStrategy | None, passes: Sequence[GivenPass]
) -> BuildStrategy:
    """Choose the strategy to explain, with passes added by the program or enclosing blocks.

    Raise the errors of `as_passes`.
    """
    if isinstance(program, Program):
        return (build_strategy or BuildStrategy()).with_passes(of_block() + as_passes(passes))
    added = program._added + as_passes(passes)
    if build_strategy is None:
        return program._strategy.with_passes(added)
    return build_strategy.with_passes(program._strategy.added_passes + added)
