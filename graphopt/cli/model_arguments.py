"""The arguments that several commands have."""

from __future__ import annotations

import argparse


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declare the model argument and `--params`."""
    parser.add_argument("model", metavar="MODEL", help="a model file, its prefix, or its folder")
    parser.add_argument(
        "--params", metavar="P", help="the parameters, if not in the folder of the model"
    )


def add_strategy(
    parser: argparse.ArgumentParser,
    text: str = "run the passes of these flags (a bare flag means 1)",
) -> None:
    """Declare `--build-strategy`."""
    parser.add_argument("--build-strategy", metavar="FLAG=VALUE,...", help=text)


def add_dim(parser: argparse.ArgumentParser, text: str) -> None:
    """Declare `--dim`, which may be repeated."""
    parser.add_argument("--dim", action="append", default=[], metavar="N | NAME=AxBxC", help=text)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for a model, its parameters, inputs and build strategy."""
    add_model(parser)
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="X.npz",
        help="inputs by name, or one input as NAME=X.npy; may be repeated",
    )
    add_feed_arguments(parser)
    add_strategy(parser)


def add_feed_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--random`, `--seed` and `--dim`."""
    parser.add_argument(
        "--random", action="store_true", help="draw random inputs: normal numbers, integers 0 and 1"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of --random (default 0)")
    add_dim(parser, "a size for all unknown dimensions, or the shape of an input; may be repeated")


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--data`, `--dim` and `--seed`."""
    parser.add_argument("--data", metavar="X.npz", help="inputs by name; missing inputs are random")
    add_dim(
        parser, "for random inputs: a size for all unknown dimensions, or the shape of an input"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the random inputs (default 0)")


def add_tolerance(parser: argparse.ArgumentParser) -> None:
    """Declare `--rtol` and `--atol`."""
    parser.add_argument("--rtol", type=float, help="relative tolerance (default: by dtype)")
    parser.add_argument("--atol", type=float, help="absolute tolerance (default: by dtype)")
