"""`python -m graphopt.conformance CASES_DIR`: run recorded cases and print the coverage.

The exit status is 1 when a share that `--require` names is not reached, and without it when any
case fails. `programs.py` in the folder is imported and run: point this at folders that you trust.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from graphopt.display.progress import progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = _parser().parse_args(arguments)
    # imported late, so that the help appears at once
    from graphopt.conformance.cases import Corpus
    from graphopt.conformance.check import CaseOutcome
    from graphopt.conformance.run import run
    from graphopt.conformance.table import (
        by_operator,
        coverage,
        failures,
        read_reasons,
        read_tiers,
        share,
    )

    folder: Path = options.folder
    try:
        corpus = Corpus(folder)
        tiers = read_tiers(options.tiers) if options.tiers else {}
        reasons = read_reasons(options.reasons) if options.reasons else []
    except (OSError, ValueError) as error:
        print(f"graphopt.conformance: {error}", file=sys.stderr)
        return 2
    chosen = [i for i, case in enumerate(corpus.cases) if re.search(options.only, case["id"])]
    if not chosen:
        print(f"graphopt.conformance: no case of {folder} matches --only", file=sys.stderr)
        return 2
    outcomes: list[CaseOutcome] = []
    so_far = progress(lambda: f"{len(outcomes)} of {len(chosen)} cases")
    with nullcontext() if options.verbose else so_far:
        for outcome in run(
            folder, chosen, options.jobs, device=options.device, seconds=options.seconds
        ):
            outcomes.append(outcome)
            if options.verbose and outcome.complaints:
                print(f"{outcome.id}: {'; '.join(outcome.complaints)}", flush=True)
    table, failed = coverage(outcomes, tiers), failures(outcomes, tiers, reasons)
    print(table)
    if options.report:
        options.report.write_text(_PAGE.format(table=table, failures=failed), "utf-8")
    else:
        print(f"\n{failed}")
    if options.operators:
        options.operators.write_text(by_operator(outcomes), "utf-8")
    short = [
        f"tier {tier}: {share(outcomes, tiers, tier):.1f} % pass, {wanted} % are required"
        for tier, wanted in options.require
        if share(outcomes, tiers, tier) < wanted
    ]
    print("\n".join(short), end="\n" if short else "")
    return bool(short or (not options.require and any(o.complaints for o in outcomes)))


def _requirement(text: str) -> tuple[str, float]:
    tier, _, share_text = text.partition("=")
    return tier, float(share_text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m graphopt.conformance", description=__doc__)
    parser.add_argument("folder", type=Path, help="holds cases.jsonl and the arrays")
    parser.add_argument("--only", default="", help="a pattern that the names of cases contain")
    parser.add_argument("--tiers", type=Path, help="a table with the columns name and tier")
    parser.add_argument("--reasons", type=Path, help="why cases fail: pattern, tab, sentence")
    parser.add_argument("--report", type=Path, help="write coverage and failures to this page")
    parser.add_argument("--operators", type=Path, help="write passed cases by operator here")
    parser.add_argument(
        "--require",
        type=_requirement,
        action="append",
        default=[],
        metavar="TIER=PERCENT",
        help="the share of a tier that must pass",
    )
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--device", default="cpu", help="where the cases run, such as gpu:0")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no further cases after so long"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print failures as they come")
    return parser


_PAGE = """# Conformance

`make conformance` compares results, gradients and updated state of graphopt with numbers recorded
from released Paddle wheels (`tests/conformance/cases`), and writes this page. The tier of a name
says which real programs need it: A all of them, B many, C some, D programs of special fields. Names
in column `-` are not in the index of Paddle's reference pages.

## Passed cases by section and tier

{table}

## Failures

{failures}
"""

if __name__ == "__main__":
    raise SystemExit(main())
