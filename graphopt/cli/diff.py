"""graphopt diff: compare two programs, or one program under two strategies.

Ops are aligned in program order; the exit code is 1 when the programs differ. Programs are compared
as they are read, or after the passes of `--before` and `--after`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from graphopt.cli.replay import add_import
from graphopt.cli.report_options import add_platform, platform_of

if TYPE_CHECKING:
    from graphopt.report.graph import Graph

EXAMPLE = "graphopt diff yesterday.pdmodel today.pdmodel"
# exit code for errors; 1 means that the programs differ
TROUBLE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `graphopt diff`."""
    programs = "MODEL | FILE.mlir | SCRIPT.py"
    parser.add_argument("first", metavar=programs, help="a program; a script is run")
    parser.add_argument(
        "second", nargs="?", metavar=programs, help="the other program (default: the same)"
    )
    for which, order in (("before", "first"), ("after", "second")):
        parser.add_argument(
            f"--{which}",
            metavar="FLAG=VALUE,...",
            help=f"compare the {order} program after the passes of these BuildStrategy flags",
        )
    parser.add_argument(
        "-o", "--output", metavar="FILE.html", help="write both as a page, the second with colours"
    )
    add_platform(parser)
    add_import(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print the difference; 0 when there is none."""
    from graphopt.debug.program_source import load_imports
    from graphopt.display.table import for_stream
    from graphopt.report.difference import difference

    load_imports(arguments.imports)
    platform = platform_of(arguments)
    before = _graph(arguments.first, arguments.before, platform)
    after = _graph(arguments.second or arguments.first, arguments.after, platform)
    found = difference(before, after)
    print(for_stream(found.page(), sys.stdout))
    if arguments.output:
        from graphopt.report.write import write_difference

        write_difference(arguments.output, found, Path(arguments.first).name)
    return int(not found.is_empty)


def _graph(path: str, flags: str | None, platform: str) -> Graph:
    """The graph of a program; of several that a script runs, that of the last one with feeds."""
    from graphopt.cli.report import fed_first
    from graphopt.ir.dialect.signature import FEED, inputs_of
    from graphopt.report.graph import graph_of
    from graphopt.report.origins import Origins
    from graphopt.report.stages import optimization
    from graphopt.runtime.compile.compilation import pass_context_for
    from graphopt.runtime.settings.strategy_text import strategy_of

    found = fed_first(path, [])
    fed = [each for each in found if any(p.kind == FEED for p in inputs_of(each.module))]
    subject = (fed or found)[-1]
    if flags is None:
        return graph_of(subject.module, Origins(subject.module))
    context = pass_context_for(strategy_of(flags), platform)
    return optimization(subject.origin, subject.module.clone, context).stages[-1].graph
