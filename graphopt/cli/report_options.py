"""The options of graphopt-opt that watch passes: explain, strict, locks, checks, bisection."""

from __future__ import annotations

import argparse

# the value for --explain without a value
ON_ONE_SCREEN = ""
NO_PLATFORM = "none"


def add_platform(parser: argparse._ActionsContainer) -> None:
    """Declare `--platform`."""
    parser.add_argument(
        "--platform",
        choices=("cpu", "gpu", "tpu", NO_PLATFORM),
        help="run the passes of this platform (default: the platform of this machine); "
        f"{NO_PLATFORM}: a portable result, without passes for a platform",
    )


def check_platform_of(program: str, args: argparse.Namespace) -> None:
    """Raise ValueError for `--platform` with a script: its programs run on this machine."""
    if args.platform is not None and program.endswith(".py"):
        raise ValueError(
            f"--platform does not apply to a script: the programs of {program} are shown for the "
            "platform that they ran on"
        )


def platform_of(args: argparse.Namespace) -> str:
    """Get the platform of `--platform` for a PassContext; empty for a portable result."""
    from graphopt.runtime.devices.places import likely_place

    given = args.platform or likely_place().platform
    return "" if given == NO_PLATFORM else given


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Declare the options."""
    parser.add_argument(
        "--explain",
        metavar="FLAG",
        default=None,
        help="print on stderr what the passes rewrote, what they declined and why, on one screen "
        "(--explain=FLAG: op by op for a flag or pass; --explain=all: for all of them)",
    )
    parser.add_argument(
        "--explain-format", choices=("text", "json"), default="text", help="the format of --explain"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="fail when a flag of --build-strategy does nothing",
    )
    parser.add_argument(
        "--check-lock",
        metavar="FILE",
        help="fail when the counts of rewrites differ from this file",
    )
    parser.add_argument(
        "--write-lock", metavar="FILE", help="write the counts of rewrites, for --check-lock"
    )
    parser.add_argument(
        "--verify-each",
        action="store_true",
        help="verify the program after each pass, and name the rewrite that broke it",
    )
    parser.add_argument(
        "--validate",
        action="store_true",
        help="compare the results of each rewrite with those of the ops it replaces, in a NumPy "
        "interpreter; if they differ, undo the rewrite, and fail at the end",
    )
    parser.add_argument(
        "--numerics",
        action="store_true",
        help="print on stderr the error of the results after each pass, against the program before "
        "the pass and against float64; a table, or JSON with --explain-format json",
    )
    parser.add_argument(
        "--data",
        metavar="FILE.npz",
        help="feeds and state by name for --numerics; missing inputs are random",
    )
    parser.add_argument(
        "--numerics-budget",
        metavar="REL",
        type=float,
        default=None,
        help="skip passes that change a result by more than this fraction of its largest element",
    )
    parser.add_argument(
        "--opt-bisect-limit",
        metavar="N",
        type=int,
        default=None,
        help="apply only the first N rewrites, and report each (-1: all rewrites)",
    )
