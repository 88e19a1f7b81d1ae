"""graphopt diff: compare two programs, or one program under two strategies.

Ops are aligned in program order; the exit code is 1 when the programs differ. Programs are compared
as read, or after the passes of `--before` and `--after`. With --values both programs run on the
same inputs, op by op, and the report names the first op whose values differ. Use this also to
compare a model with its export in another format.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from graphopt.cli.model_arguments import add_data_arguments, add_tolerance
from graphopt.cli.replay import add_import
from graphopt.cli.report_options import add_platform, platform_of

if TYPE_CHECKING:
    from graphopt.debug.program_source import Inputs, Subject
    from graphopt.report.graph import Graph

EXAMPLE = "graphopt diff yesterday.pdmodel today.pdmodel"
# the exit code for errors; 1 means that the programs differ
TROUBLE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt diff`."""
    programs = "MODEL | FILE.mlir | SCRIPT.py"
    parser.add_argument("first", metavar=programs, help="a program, or a script to run")
    parser.add_argument(
        "second", nargs="?", metavar=programs, help="the other program (default: the first one)"
    )
    for which, order in (("before", "first"), ("after", "second")):
        parser.add_argument(
            f"--{which}",
            metavar="FLAG=VALUE,...",
            help=f"compare the {order} program after the passes of these BuildStrategy flags",
        )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE.html",
        help="write a page of both programs, with their differences in color",
    )
    parser.add_argument(
        "--values",
        action="store_true",
        help="run both programs, compare their values instead of their ops, and report the first "
        "op that differs (implied by --data)",
    )
    add_data_arguments(parser)
    add_tolerance(parser)
    add_platform(parser)
    add_import(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print the difference; return 0 when there is none."""
    from graphopt.debug.program_source import load_imports
    from graphopt.display.table import for_stream
    from graphopt.report.difference import difference

    load_imports(arguments.imports)
    if arguments.values or arguments.data:
        return _compare_values(arguments)
    first, second = _subject(arguments.first), _subject(arguments.second or arguments.first)
    if arguments.dim:
        raise ValueError("--dim needs --values")
    platform = platform_of(arguments)
    before = _graph(first, arguments.before, platform)
    after = _graph(second, arguments.after, platform)
    found = difference(before, after)
    print(for_stream(found.page(), sys.stdout))
    if arguments.output:
        from graphopt.report.write import write_difference

        write_difference(arguments.output, found, Path(arguments.first).name)
    return int(not found.is_empty)


def _subject(path: str, inputs: Inputs | None = None) -> Subject:
    """Read a program; of the programs that a script runs, take the last one with feeds."""
    from graphopt.cli.report import fed_first
    from graphopt.ir.dialect.signature import FEED, inputs_of

    found = fed_first(path, [], inputs)
    fed = [each for each in found if any(p.kind == FEED for p in inputs_of(each.module))]
    return (fed or found)[-1]


def _graph(subject: Subject, flags: str | None, platform: str) -> Graph:
    """Build the graph of a program, before any pass or after the passes of `flags`."""
    from graphopt.report.graph import graph_of
    from graphopt.report.origins import Origins
    from graphopt.report.stages import optimization
    from graphopt.runtime.compile.compilation import pass_context_for
    from graphopt.runtime.settings.strategy_text import strategy_of

    if flags is None:
        return graph_of(subject.module, Origins(subject.module))
    context = pass_context_for(strategy_of(flags), platform)
    return optimization(subject.origin, subject.module.clone, context).stages[-1].graph


# Values ----------------------------------------------------------------------------------------


def _compare_values(arguments: argparse.Namespace) -> int:
    """Print whether the results are equal and, if not, the first op that differs."""
    from graphopt.cli.first_difference import DifferenceInWords
    from graphopt.debug.differences import Tolerance
    from graphopt.debug.first_difference import compare_programs, record_both
    from graphopt.debug.program_source import Inputs
    from graphopt.ir.dialect.numbers import ops_by_number
    from graphopt.models.feeds import sizes_of
    from graphopt.report.difference import difference
    from graphopt.runtime.settings.progress import announce

    if arguments.before or arguments.after or arguments.output:
        raise ValueError(
            "--values compares programs as read: leave out --before, --after and -o. "
            "To find a pass that changes results, use graphopt bisect"
        )
    inputs = Inputs(arguments.data, sizes_of(arguments.dim), arguments.seed)
    first = _subject(arguments.first, inputs)
    second = _subject(arguments.second or arguments.first, inputs)
    with announce(lambda: "running both programs op by op", files=False):
        ours, theirs = record_both(first, second, inputs)
    if ours.made_up:
        print(f"random inputs: {', '.join(ours.made_up)} (seed {arguments.seed})")
    ops = [ops_by_number(each.subject.module) for each in (ours, theirs)]
    graphs = _graph(ours.subject, None, ""), _graph(theirs.subject, None, "")
    aligned = [(ops[0][a.number], ops[1][b.number]) for a, b in difference(*graphs).aligned]
    tolerance = Tolerance(arguments.rtol, arguments.atol)
    found = compare_programs(ours, theirs, aligned, tolerance)
    print("\n".join(DifferenceInWords(ours, theirs, graphs).lines(found)))
    return int(found.wrong is not None)
