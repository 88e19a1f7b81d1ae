"""graphopt bisect: find the rewrite that makes results wrong, and reduce the program.

The program runs without and with the passes. If the results differ, or the passes or the optimized
program fail, the command searches for the rewrite, reduces the program, and writes a file that
`graphopt replay` runs. The exit code is 0 when the results are equal, 1 when a rewrite was found, 2
on any other error.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from graphopt.cli.model_arguments import add_data_arguments, add_strategy, add_tolerance
from graphopt.cli.replay import add_import
from graphopt.cli.report_options import add_platform, platform_of
from graphopt.debug.oracles import FLOAT64, UNOPTIMIZED

EXAMPLE = "graphopt bisect lenet/model.pdmodel --build-strategy fuse_gemm_epilogue"
# the exit code for errors; 1 means that a rewrite was found
TROUBLE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt bisect`."""
    parser.add_argument(
        "program",
        metavar="PROGRAM",
        help="a model file (with its parameters in the same folder), .mlir text, a replay file, "
        "- for stdin, or a script (arguments follow --): each program that it runs is checked",
    )
    parser.set_defaults(arguments=[])
    add_strategy(
        parser,
        "run the passes that these flags select (a bare flag means 1; default: the default "
        "strategy)",
    )
    parser.add_argument(
        "-p", "--passes", metavar="PASSES", default="", help="also run these passes, by name"
    )
    add_platform(parser)
    add_data_arguments(parser)
    add_tolerance(parser)
    parser.add_argument(
        "--against",
        choices=(UNOPTIMIZED, FLOAT64),
        default=UNOPTIMIZED,
        help="the reference: the program without passes, or NumPy in float64, which shares no "
        "code with the lowering",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT.mlir",
        default="repro.mlir",
        help="the file to write (default repro.mlir)",
    )
    add_import(parser)


def main(arguments: argparse.Namespace) -> int:
    """Check each program until one is wrong."""
    from graphopt.debug.bisect import look
    from graphopt.debug.program_source import Inputs, load_imports, steps_for, subjects
    from graphopt.models.feeds import sizes_of
    from graphopt.passes.engine import replay_file

    load_imports(arguments.imports)
    output = Path(arguments.output)
    if output.exists() and not replay_file.is_replay_file(output.read_text("utf-8", "replace")):
        raise FileExistsError(
            f"{output} exists and is not a replay file; choose another name with -o"
        )
    given = arguments.build_strategy is not None or bool(arguments.passes)
    platform = platform_of(arguments)
    asked = steps_for(arguments.build_strategy, arguments.passes, platform)
    inputs = Inputs(arguments.data, sizes_of(arguments.dim), arguments.seed)
    found = subjects(arguments.program, arguments.arguments, plain=given, inputs=inputs)
    for subject in found:
        steps = asked if given else subject.steps
        steps = steps_for("", "", platform) if steps is None else steps
        if look(replace(subject, steps=steps), inputs, arguments, output):
            return 1
    return 0
