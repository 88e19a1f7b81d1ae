"""The options of graphopt-opt that watch passes: explain, strict, locks, checks, bisection."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from graphopt.passes import instance
from graphopt.passes.bisect import limited
from graphopt.passes.manager import Run
from graphopt.passes.report import Report
from graphopt.passes.setup import Setup

# what a bare --explain becomes: with an optional value it would swallow the name of the file
EVERYTHING = "all"


def as_argument(given: str) -> str:
    """An argument as argparse is to see it."""
    return f"--explain={EVERYTHING}" if given == "--explain" else given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--explain",
        metavar="FLAG",
        default=None,
        help="print on stderr what the passes did, what they left alone and why (--explain=FLAG: "
        "for one flag or pass)",
    )
    parser.add_argument(
        "--explain-format", choices=("text", "json"), default="text", help="the form of --explain"
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
        "undo it, and fail in the end, where they differ",
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
        help="feeds and state by name for --numerics; what is missing is random",
    )
    parser.add_argument(
        "--numerics-budget",
        metavar="REL",
        type=float,
        default=None,
        help="leave out passes that move a result by more than this part of its largest element",
    )
    parser.add_argument(
        "--opt-bisect-limit",
        metavar="N",
        type=int,
        default=None,
        help="do the first N rewrites only and tell about each (-1: all of them)",
    )


def wants_near(args: argparse.Namespace) -> bool:
    """True when near misses will be told, which take time to find."""
    return args.explain is not None or args.strict


@contextmanager
def bisection(args: argparse.Namespace) -> Generator[None]:
    """Count rewrites while passes run, if --opt-bisect-limit asks for it."""
    if args.opt_bisect_limit is None:
        yield
        return
    with limited(args.opt_bisect_limit, lambda line: print(line, file=sys.stderr)):
        yield


@contextmanager
def validation(args: argparse.Namespace) -> Generator[instance.Validation | None]:
    """Validate rewrites while passes run, if --validate asks for it."""
    if not args.validate:
        yield None
        return
    from graphopt.explaining import standard_validator

    with instance.validating(standard_validator()) as found:
        yield found
    if args.explain is None:
        print("\n".join(found.lines()), file=sys.stderr)


def measured(
    module: ModuleOp, passes: Sequence[ModulePass], args: argparse.Namespace, context: Context
) -> frozenset[str]:
    """Print what --numerics asks for; the passes that exceed the budget."""
    if not args.numerics and args.numerics_budget is None:
        return frozenset()
    from graphopt.tools.numerics import inputs_for, lines, measure

    inputs, data = inputs_for(module, args.data)
    budget = args.numerics_budget
    numbers = measure(module, passes, inputs, data=data, budget=budget, context=context)
    as_json = args.explain_format == "json"
    print(json.dumps(numbers.to_json(), indent=2) if as_json else numbers.text(), file=sys.stderr)
    if not as_json:
        print("".join(f"{line}\n" for line in lines(numbers)), end="", file=sys.stderr)
    return numbers.switched_off


def tell(report: Report, args: argparse.Namespace) -> None:
    """Print, check and write what the options ask for."""
    from graphopt.runtime.explain import Explanation

    explanation = Explanation(report)
    if args.explain is not None:
        if args.explain_format == "json":
            text = json.dumps(explanation.to_json(), indent=2)
        else:
            text = explanation.text("" if args.explain == EVERYTHING else args.explain)
        print(text, file=sys.stderr)
    if args.write_lock:
        explanation.write_lock(args.write_lock)
    if args.check_lock:
        explanation.check_lock(args.check_lock)
    if args.strict:
        explanation.check_strict()


def watched(module: ModuleOp, args: argparse.Namespace) -> Run:
    """The run that the passes of -p belong to."""
    before = module.clone()
    return Run(
        module,
        Setup({}),
        near=wants_near(args),
        verify_each=args.verify_each or None,
        again=lambda: before,
    )


@dataclass(frozen=True)
class Watched(ModulePass):
    """A pass of -p, run by the pass manager so that it is reported and verified."""

    name = "watched"
    inner: Any = field(default=None)
    run: Any = field(default=None)

    @staticmethod
    def of(inner: ModulePass, run: Run) -> Watched:
        """The pass under its own name."""
        made = Watched(inner, run)
        object.__setattr__(made, "name", inner.name)
        return made

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.run.one("-p", self.inner, ctx)
