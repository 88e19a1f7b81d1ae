"""graphopt report: write a page that shows the effect of each pass on a program.

The page is one HTML file without any links: the graph before the passes and after each pass that
changed it, the changes of the IR, the report of the passes, sizes and times. A script runs, and the
page shows its programs. With --run the page has the measured time and memory of each op. If the
name of the output ends in .json, the file has the data for Google's Model Explorer instead.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from graphopt.cli.model_arguments import add_dim, add_strategy
from graphopt.cli.replay import add_import
from graphopt.cli.report_options import add_platform, check_platform_of, platform_of

if TYPE_CHECKING:
    from graphopt.debug.program_source import Inputs, Subject
    from graphopt.models.feeds import Sizes
    from graphopt.passes.table.report import Report
    from graphopt.report.measured import MeasuredStep
    from graphopt.report.stages import Optimization
    from graphopt.runtime.settings.strategies import BuildStrategy

EXAMPLE = "graphopt report resnet18/model.pdmodel -o resnet18.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt report`."""
    parser.add_argument(
        "program", metavar="MODEL | FILE.mlir | SCRIPT.py", help="the program, or a script to run"
    )
    parser.add_argument(
        "arguments",
        nargs="*",
        default=[],
        metavar="ARGS",
        help="the arguments of the script, after --",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the page to write, or .json data (default: report.html)",
    )
    parser.add_argument(
        "--against",
        metavar="OTHER",
        help="also compare with this program, as graphopt diff does",
    )
    add_strategy(
        parser,
        "run the passes of these flags (a bare flag means 1), which replace the flags of a script",
    )
    parser.add_argument(
        "--run",
        action="store_true",
        help="measure some steps, of a saved model on random inputs, to show the time and memory "
        "of each op; for a model, also show the compile time of JAX and XLA",
    )
    add_dim(parser, "for --run: a size for all unknown dimensions, or the shape of an input")
    add_platform(parser)
    add_import(parser)


def main(arguments: argparse.Namespace) -> int:
    """Write the page."""
    from graphopt.debug.program_source import Inputs, load_imports
    from graphopt.display.units import several
    from graphopt.models.feeds import sizes_of
    from graphopt.report.stages import Other, optimization
    from graphopt.report.write import write_report
    from graphopt.runtime.compile.compilation import pass_context_for
    from graphopt.runtime.settings.progress import announce
    from graphopt.runtime.settings.strategy_text import strategy_of

    check_platform_of(arguments.program, arguments)
    load_imports(arguments.imports)
    text = arguments.build_strategy
    strategy = None if text is None else strategy_of(text)
    context, by_flags = pass_context_for(strategy, platform_of(arguments)), strategy is not None
    run = _run(arguments, strategy)
    inputs = Inputs(sizes=sizes_of(arguments.dim)) if arguments.run else None
    found = fed_first(arguments.program, arguments.arguments, inputs)
    if arguments.run:
        found = [for_sizes(each, sizes_of(arguments.dim)) for each in found]
    others = fed_first(arguments.against, []) if arguments.against else []
    programs: list[Optimization] = []
    with announce(lambda: f"explaining {several(len(found), 'program')}", files=False):
        for each, other in zip_longest(found, others[: len(found)]):
            made = optimization(
                each.origin,
                each.module.clone,
                each.context_or(context, by_flags=by_flags),
                compiled=run or (None if by_flags else each.report),
                parts=each.parts,
                other=other
                and Other(
                    other.origin,
                    other.module.clone,
                    other.context_or(context, by_flags=by_flags),
                ),
                measured=_measure_step(each, arguments, strategy),
            )
            programs.append(made)
    output = arguments.output or "report.html"
    write_report(output, programs, Path(arguments.program).name)
    print(f"written: {output}")
    return 0


def _run(arguments: argparse.Namespace, strategy: BuildStrategy | None) -> Report | None:
    """Run a model for `--run` and report the run; None for a script, or without `--run`.

    Raises ValueError for text of the IR, another platform, or options that contradict each other.
    """
    if not arguments.run:
        if arguments.dim:
            raise ValueError("--dim needs --run")
        return None
    if arguments.program == "-" or arguments.program.endswith(".mlir"):
        raise ValueError("--run takes a saved model or a script, not text of the IR")
    if arguments.platform is not None:
        raise ValueError("--run measures on this machine: leave out --platform")
    if arguments.program.endswith(".py"):
        if strategy is not None:
            raise ValueError(
                "--run measures the programs of a script with the strategies of the script: "
                "leave out --build-strategy or --run"
            )
        return None  # each of its programs has a report of its own
    from graphopt.debug.made_up_run import report_of_run
    from graphopt.models.feeds import sizes_of
    from graphopt.runtime.settings.progress import announce

    with announce(lambda: f"running {arguments.program}", files=False):
        return report_of_run(arguments.program, strategy, sizes_of(arguments.dim))


def for_sizes(subject: Subject, sizes: Sizes) -> Subject:
    """Parse a program for the feed sizes with which it is compiled and measured."""
    from graphopt.debug.profiles import is_fed
    from graphopt.debug.program_source import Inputs, complete, parse_for_feeds

    compilation = subject.compilation
    if compilation is None or not is_fed(subject):
        return subject
    arrays, _ = complete(subject, Inputs(sizes=sizes))
    feeds = {name: arrays[name] for name in compilation.feeds}
    compilation, module = parse_for_feeds(compilation, feeds)
    return replace(subject, compilation=compilation, module=module)


def _measure_step(
    subject: Subject, arguments: argparse.Namespace, strategy: BuildStrategy | None
) -> MeasuredStep | None:
    """Measure a step of a program with feeds, for --run.

    Returns None without --run or feeds. Where times by op are unsupported, it prints a line on
    stderr and returns None.
    """
    from graphopt.debug.profiles import is_fed, profile_of
    from graphopt.debug.program_source import Inputs
    from graphopt.errors import UnsupportedError
    from graphopt.models.feeds import sizes_of
    from graphopt.runtime.measured import measured_step

    if not arguments.run or not is_fed(subject):
        return None
    try:
        profile, _ = profile_of(subject, strategy, Inputs(sizes=sizes_of(arguments.dim)))
    except UnsupportedError as error:
        print(f"{subject.origin} was not measured: {error}", file=sys.stderr)
        return None
    return measured_step(profile)


def fed_first(path: str, arguments: list[str], inputs: Inputs | None = None) -> list[Subject]:
    """Read the programs of a file or script; programs with feeds come before startup programs.

    A script gets its own default programs and scope. Its generated names begin at 0, even after
    another script ran.
    """
    from graphopt.debug.program_source import subjects
    from graphopt.ir.dialect.signature import FEED, inputs_of
    from graphopt.ir.program import Program, program_guard
    from graphopt.runtime.state.scope import Scope, scope_guard
    from graphopt.utils import unique_name

    with program_guard(Program(), Program()), scope_guard(Scope()), unique_name.guard():
        found = subjects(path, arguments, plain=True, inputs=inputs)
    return sorted(found, key=lambda each: all(p.kind != FEED for p in inputs_of(each.module)))
