"""graphopt info: the contents of a model file, and whether graphopt can run it.

Works without JAX, and for models with unknown operators.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

EXAMPLE = "graphopt info resnet18/model.pdmodel"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `graphopt info`."""
    parser.add_argument("model", metavar="MODEL", help="a model file, its prefix, or its folder")
    parser.add_argument(
        "--params", metavar="P", help="the parameters, when not in the folder of the model"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--fits",
        metavar="8GB",
        help="the memory of a step, compiled and not run, and whether it fits into so much",
    )
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="N | NAME=AxBxC",
        help="for --fits: a size for all unknown dimensions, or the shape of an input",
    )


def main(arguments: argparse.Namespace) -> int:
    """Print the contents of a model, or whether a step of it fits; 1 when it does not."""
    if arguments.fits is not None:
        from graphopt.cli.fits import print_fits

        return print_fits(arguments.model, arguments.fits, arguments.dim)
    from graphopt.cli.model_facts import info_of, text_of

    info = info_of(arguments.model, arguments.params)
    print(json.dumps(asdict(info), indent=1) if arguments.json else text_of(info))
    return 0
