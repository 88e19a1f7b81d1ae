"""The effects of the options in `report_options.py` while graphopt-opt runs passes, and after."""

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

from graphopt.cli.report_options import ON_ONE_SCREEN, platform_of
from graphopt.display.table import for_stream
from graphopt.passes.engine.bisect import limit_rewrites
from graphopt.passes.engine.validation import Validation, validating
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.instrumentation import Instrumentation
from graphopt.passes.table.manager import PassRun
from graphopt.passes.table.report import Report
from graphopt.runtime.settings.progress import announce


def needs_near(args: argparse.Namespace) -> bool:
    """True when near misses will be reported; finding them takes time."""
    return args.explain is not None or args.strict or args.report is not None


@contextmanager
def bisection(args: argparse.Namespace) -> Generator[None]:
    """Count rewrites while passes run, with --opt-bisect-limit."""
    if args.opt_bisect_limit is None:
        yield
        return
    with limit_rewrites(args.opt_bisect_limit, lambda line: print(line, file=sys.stderr)):
        yield


@contextmanager
def validation(args: argparse.Namespace) -> Generator[Validation | None]:
    """Validate rewrites while passes run, with --validate."""
    if not args.validate:
        yield None
        return
    from graphopt.debug.explaining import standard_validator

    with (
        validating(standard_validator()) as found,
        announce(lambda: f"validating rewrites, {len(found.checked)} so far", files=False),
    ):
        yield found
    if args.explain is None:
        print("\n".join(found.lines()), file=sys.stderr)


def report_numerics(
    module: ModuleOp, passes: Sequence[ModulePass], args: argparse.Namespace, context: Context
) -> frozenset[str]:
    """Print the report of --numerics; returns the passes that exceed the budget."""
    if not args.numerics and args.numerics_budget is None:
        return frozenset()
    from graphopt.debug.numerics import inputs_for, lines, measure

    inputs, data = inputs_for(module, args.data)
    budget = args.numerics_budget
    numbers = measure(module, passes, inputs, data=data, budget=budget, context=context)
    as_json = args.explain_format == "json"
    print(json.dumps(numbers.to_json(), indent=2) if as_json else numbers.text(), file=sys.stderr)
    if not as_json:
        print("".join(f"{line}\n" for line in lines(numbers)), end="", file=sys.stderr)
    return numbers.switched_off


def print_report(report: Report, args: argparse.Namespace) -> None:
    """Print, check and write the outputs that the options request."""
    from graphopt.runtime.explain import Explanation

    explanation = Explanation(report)
    if args.explain is not None:
        if args.explain_format == "json":
            text = json.dumps(explanation.to_json(), indent=2)
        elif args.explain == ON_ONE_SCREEN:
            text = for_stream(explanation.page(), sys.stderr)
        else:
            text = explanation.text(args.explain)
        print(text, file=sys.stderr)
    if args.write_lock:
        explanation.write_lock(args.write_lock)
    if args.check_lock:
        explanation.check_lock(args.check_lock)
    if args.strict:
        explanation.check_strict()


def watch_passes(module: ModuleOp, args: argparse.Namespace, watch: Instrumentation) -> PassRun:
    """Start the PassRun that watches and reports the passes of -p."""
    before = module.clone()
    return PassRun(
        module,
        PassContext({}, platform=platform_of(args)),
        near=needs_near(args),
        verify_each=args.verify_each or None,
        again=lambda: before,
        watch=watch,
    )


@dataclass(frozen=True)
class Watched(ModulePass):
    """A pass of -p, run by the pass manager so that it is reported and verified."""

    name = "watched"
    inner: Any = field(default=None)
    run: Any = field(default=None)

    @staticmethod
    def of(inner: ModulePass, run: PassRun) -> Watched:
        """Wrap a pass under its own name."""
        made = Watched(inner, run)
        object.__setattr__(made, "name", inner.name)
        return made

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.run.one("-p", self.inner, ctx)
