"""graphopt info: show the contents of a model file, and whether graphopt can run it.

Works without JAX, and for models with unknown operators.
"""

from __future__ import annotations

import argparse
import json
import shlex
from dataclasses import asdict
from pathlib import Path

from graphopt.cli.model_arguments import add_dim, add_model

EXAMPLE = "graphopt info resnet18/model.pdmodel"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt info`."""
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--can",
        choices=("onnx",),
        help="check that all ops can be written as ONNX, and list the others (exit code 1)",
    )
    parser.add_argument(
        "--fits",
        metavar="8GB",
        help="compile a step without running it; report its memory and whether this much is enough",
    )
    add_dim(parser, "for --fits: a size for all unknown dimensions, or the shape of an input")


def main(arguments: argparse.Namespace) -> int:
    """Print the contents of a model, or whether a step of it fits; return 1 when it does not."""
    if arguments.fits is not None:
        from graphopt.cli.fits import print_fits

        return print_fits(arguments.model, arguments.fits, arguments.dim)
    if arguments.can is not None:
        return _print_refusals(arguments.model)
    from graphopt.cli.model_facts import info_of, text_of

    info = info_of(arguments.model, arguments.params)
    print(json.dumps(asdict(info), indent=1) if arguments.json else text_of(info))
    return 0


def _print_refusals(path: str) -> int:
    """Print the ops that cannot be written as ONNX, and why; return 1 when there are any."""
    from graphopt.display.table import table
    from graphopt.models.export.onnx import refusals
    from graphopt.models.model import read_program_only
    from graphopt.runtime.compile.compilation import Compilation
    from graphopt.runtime.settings.strategies import BuildStrategy

    read = read_program_only(path)
    names = tuple(read.fed_names), tuple(read.fetch_names)
    module = Compilation(read.program, *names, BuildStrategy(), (), in_one=True).optimize().module
    found = refusals(module)
    if not found:
        command = ["graphopt", "convert", path, "-o", str(Path(path).with_suffix(".onnx").name)]
        print(f"every op can be written as ONNX: {shlex.join(command)}")
        return 0
    rows = ((op, len(values), values[0], why) for (op, why), values in found.items())
    print(table(("op", "count", "first", "reason"), rows))
    return 1
