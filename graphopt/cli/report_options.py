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
        f"{NO_PLATFORM} is for a portable result",
    )


def check_platform_of(program: str, args: argparse.Namespace) -> None:
    """Raise ValueError for `--platform` with a script: its programs run on this machine."""
    if args.platform is not None and program.endswith(".py"):
        raise ValueError(
            f"--platform is for files: {program} runs here, and its programs are shown for the "
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
        "--check-lock", metavar="FILE", help="fail when rewrites happen more or less often"
    )
    parser.add_argument(
        "--write-lock", metavar="FILE", help="write how often rewrites happen, for --check-lock"
    )
    parser.add_argument(
        "--verify-each",
        action="store_true",
        help="verify the program after each pass, and name the rewrite that broke it",
    )
    parser.add_argument(
        "--validate",
        action="store_true",
        help="compare what each rewrite computes with what it replaces, in a NumPy interpreter; "
        "undo it, and fail at the end, if they differ",
    )
    parser.add_argument(
        "--numerics",
        action="store_true",
        help="print on stderr how far each pass moves the results, against the program before it "
        "and against float64; as a table or, with --explain-format json, as data",
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
        help="do the first N rewrites only and report each (-1: all of them)",
    )
