"""graphopt report: write a page that shows what each pass does to a program.

One HTML file without any links, to be opened in a browser: the graph before the passes and after
each that changed it, the changes of the IR, the report of the passes, sizes and times. A script is
run, and its programs are shown. An output that ends in .json gets the data that Google's Model
Explorer opens.
"""

from __future__ import annotations

import argparse
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from graphopt.cli.replay import add_import
from graphopt.cli.report_options import add_platform, platform_of

if TYPE_CHECKING:
    from graphopt.debug.program_source import Subject

EXAMPLE = "graphopt report resnet18/model.pdmodel -o resnet18.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `graphopt report`."""
    parser.add_argument(
        "program", metavar="MODEL | FILE.mlir | SCRIPT.py", help="the program, or a script to run"
    )
    parser.add_argument(
        "arguments", nargs="*", metavar="ARGS", help="the arguments of the script, after --"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the page, or .json (default: report.html)"
    )
    parser.add_argument(
        "--against",
        metavar="OTHER",
        help="compare with this program, as graphopt diff does, on the page as well",
    )
    parser.add_argument(
        "--build-strategy",
        metavar="FLAG=VALUE,...",
        help="the passes of these flags (a bare flag means 1); a script has its own",
    )
    add_platform(parser)
    add_import(parser)


def main(arguments: argparse.Namespace) -> int:
    """Write the page."""
    from graphopt.debug.program_source import load_imports
    from graphopt.report.stages import Other, optimization
    from graphopt.report.write import write_report
    from graphopt.runtime.compilation import pass_context_for
    from graphopt.runtime.strategy_text import strategy_of

    load_imports(arguments.imports)
    text = arguments.build_strategy
    strategy = None if text is None else strategy_of(text)
    context = pass_context_for(strategy, platform_of(arguments))
    found = fed_first(arguments.program, arguments.arguments)
    others = fed_first(arguments.against, []) if arguments.against else []
    programs = [
        optimization(
            each.origin,
            each.module.clone,
            each.context_or(context),
            compiled=each.report,
            parts=each.parts,
            other=other and Other(other.origin, other.module.clone, other.context_or(context)),
        )
        for each, other in zip_longest(found, others[: len(found)])
    ]
    output = arguments.output or "report.html"
    write_report(output, programs, Path(arguments.program).name)
    print(f"written: {output}")
    return 0


def fed_first(path: str, arguments: list[str]) -> list[Subject]:
    """The programs of a file or script; those with feeds come before startup programs.

    Names that a script makes begin at 0, also where another script ran before.
    """
    from graphopt.debug.program_source import subjects
    from graphopt.ir.dialect.signature import FEED, inputs_of
    from graphopt.utils import unique_name

    with unique_name.guard():
        found = subjects(path, arguments, plain=True)
    return sorted(found, key=lambda each: all(p.kind != FEED for p in inputs_of(each.module)))
