"""graphopt profile: measure the time of a step by op, line of the script, or kind of op.

A script runs. Then each of its programs with feeds runs again on one device, with the feed of its
first step. A model runs on random inputs, or on the inputs in a file. The program trains copies of
its parameters, so the profile changes no state.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from graphopt.cli.model_arguments import add_data_arguments, add_strategy

EXAMPLE = "graphopt profile train.py --by line"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt profile`."""
    parser.add_argument(
        "program", metavar="MODEL | SCRIPT.py", help="a saved model, or a script to run"
    )
    parser.add_argument(
        "arguments",
        nargs="*",
        default=[],
        metavar="ARGS",
        help="the arguments of the script, after --",
    )
    parser.add_argument(
        "--steps", type=int, default=5, help="the number of steps to measure (default 5)"
    )
    parser.add_argument(
        "--by",
        choices=("op", "line", "kind"),
        default="op",
        help="a row for each op, source line, or kind of op (default op)",
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=30,
        metavar="N",
        help="the maximum number of rows, or 0 for all (default 30)",
    )
    add_strategy(parser, "for a model: run the passes of these flags (a bare flag means 1)")
    add_data_arguments(parser)
    parser.add_argument("--speedscope", metavar="FILE", help="write a profile for speedscope")
    parser.add_argument(
        "--perfetto", metavar="FILE", help="write all events, for Perfetto and Chrome's tracing"
    )
    parser.add_argument("--json", metavar="FILE", help="write the profile as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print a table for each program, and write files for the program with the slowest steps."""
    from graphopt.debug.profiles import is_fed, profile_of
    from graphopt.debug.program_source import Inputs, subjects
    from graphopt.display.table import for_stream
    from graphopt.models.feeds import sizes_of
    from graphopt.runtime.settings.progress import announce
    from graphopt.runtime.settings.strategy_text import strategy_of

    if arguments.program.endswith(".mlir") or arguments.program == "-":
        raise ValueError("graphopt profile takes a saved model or a script, not text of the IR")
    inputs = Inputs(arguments.data, sizes_of(arguments.dim), arguments.seed)
    found = subjects(arguments.program, arguments.arguments, plain=True, inputs=inputs)
    fed = [each for each in found if is_fed(each)]
    if not fed:
        raise ValueError(
            f"{arguments.program} ran no program with feeds, so there is nothing to measure"
        )
    text = arguments.build_strategy
    strategy = None if text is None else strategy_of(text)
    profiles = []
    for subject in fed:
        with announce(lambda origin=subject.origin: f"profiling {origin}", files=False):
            made, made_up = profile_of(subject, strategy, inputs, arguments.steps)
        profiles.append(made)
        print(subject.origin + (f", with random inputs {', '.join(made_up)}" if made_up else ""))
        print(for_stream(made.page_by(arguments.by, arguments.rows), sys.stdout), end="\n\n")
    slowest = max(profiles, key=lambda made: made.seconds)
    if arguments.speedscope:
        slowest.speedscope(arguments.speedscope)
    if arguments.perfetto:
        slowest.perfetto(arguments.perfetto)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(slowest.to_json(), indent=1), "utf-8")
    return 0
