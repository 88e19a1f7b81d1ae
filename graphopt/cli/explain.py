"""graphopt explain: report each pass's rewrites, its near misses, and the edits that would help.

A script (.py) runs with the arguments after it. Its programs are explained as they ran, each with
its own strategy, or with the flags of --build-strategy instead. The program of a file is not
compiled.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from graphopt.cli.model_arguments import add_dim, add_strategy
from graphopt.cli.replay import add_import
from graphopt.cli.report_options import add_platform, check_platform_of, platform_of

if TYPE_CHECKING:
    from graphopt.debug.program_source import Subject
    from graphopt.passes.table.report import Report

EXAMPLE = "graphopt explain resnet18/model --build-strategy fuse_bn_act_ops"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt explain`."""
    parser.add_argument(
        "program", metavar="MODEL | FILE.mlir | SCRIPT.py", help="a program, or a script to run"
    )
    parser.add_argument("arguments", nargs="*", default=[], help="the arguments of the script")
    add_strategy(
        parser,
        "run the passes of these flags (a bare flag means 1), which replace the flags of a script",
    )
    parser.add_argument(
        "-p",
        "--passes",
        default="",
        metavar="a,b{x=1}",
        help="also run these passes, after the fusions",
    )
    parser.add_argument(
        "--of",
        default="",
        metavar="FLAG",
        help="report op by op for one flag or pass, or for `all`",
    )
    add_dim(
        parser,
        "the sizes that passes see: a size for all unknown dimensions, or the shape of an input",
    )
    parser.add_argument(
        "--validate",
        action="store_true",
        help="compare the results of each rewrite with those of the ops it replaces; exit code 1 "
        "if they differ",
    )
    parser.add_argument("--strict", action="store_true", help="fail when a flag does nothing")
    parser.add_argument(
        "--json", action="store_true", help="print one line of JSON for each program"
    )
    add_platform(parser)
    add_import(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print a report for each program; return 1 when the validator rejects a rewrite."""
    from graphopt.cli.report import fed_first, for_sizes
    from graphopt.debug.program_source import load_imports
    from graphopt.display.table import for_stream
    from graphopt.models.feeds import sizes_of
    from graphopt.runtime.explain import Explanation

    check_platform_of(arguments.program, arguments)
    load_imports(arguments.imports)
    found = fed_first(arguments.program, arguments.arguments)
    if arguments.dim:
        found = [for_sizes(each, sizes_of(arguments.dim)) for each in found]
    failed = 0
    for subject in found:
        report = _report(subject, arguments)
        explanation = Explanation(report)
        failed += report.validation is not None and bool(report.validation.failed)
        if arguments.json:
            print(json.dumps({"program": subject.origin, **explanation.to_json()}))
        elif arguments.of:
            print(f"{subject.origin}:\n{explanation.text(arguments.of)}\n")
        else:
            print(f"{subject.origin}:\n{for_stream(explanation.page(), sys.stdout)}\n")
        if arguments.strict:
            explanation.check_strict()
    asked = arguments.build_strategy is not None or arguments.passes
    if not asked and not arguments.json and not arguments.program.endswith(".py"):
        print("no fusion was requested; try --build-strategy fuse_gemm_epilogue,fuse_bn_act_ops")
    return int(failed > 0)


def _report(subject: Subject, arguments: argparse.Namespace) -> Report:
    """Run the passes on a program and report them, near misses included."""
    from graphopt.debug.explaining import standard_validator
    from graphopt.passes.table.manager import optimize
    from graphopt.passes.table.pipeline import passes_of
    from graphopt.runtime.compile.compilation import pass_context_for
    from graphopt.runtime.settings.progress import announce
    from graphopt.runtime.settings.strategy_text import strategy_of

    text = arguments.build_strategy
    strategy = None if text is None else strategy_of(text)
    given = pass_context_for(strategy, platform_of(arguments))
    context = subject.context_or(given, by_flags=strategy is not None)
    context = replace(context, added=(*context.added, *passes_of(arguments.passes))).quiet()
    validator = standard_validator() if arguments.validate else None
    with announce(lambda: f"explaining {subject.origin}", files=False):
        report = optimize(subject.module.clone(), context, near=True, validate=validator)
    report.parts += subject.parts
    return report
