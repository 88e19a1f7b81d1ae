"""Coverage by section and tier, and the page that lists every failure with its reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from graphopt.conformance.check import CaseOutcome

# the tier of a name that the index lacks
OTHER = "-"


def read_tiers(path: Path) -> dict[str, str]:
    """Read tiers by Paddle name from a tab-separated table with the columns `name` and `tier`."""
    header, *rows = path.read_text("utf-8").splitlines()
    columns = header.split("\t")
    name, tier = columns.index("name"), columns.index("tier")
    return {cells[name]: cells[tier] for cells in (row.split("\t") for row in rows)}


def read_reasons(path: Path) -> list[tuple[re.Pattern[str], str]]:
    """Read reasons of failing cases: per line a pattern of case names, a tab and a sentence."""
    lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    pairs = [line.split("\t", 1) for line in lines if not line.startswith("#")]
    return [(re.compile(pattern), reason) for pattern, reason in pairs]


def percent(passed: int, total: int) -> str:
    """Format a share as `98.7 %`, rounded down, so that 100 % is all of them."""
    return f"{passed * 1000 // total / 10 if total else 0.0:.1f} %"


def coverage(outcomes: Iterable[CaseOutcome], tiers: Mapping[str, str]) -> str:
    """Build a Markdown table of passed and all cases, by section and by tier."""
    outcomes = list(outcomes)
    shown = sorted({tiers.get(outcome.name, OTHER) for outcome in outcomes})
    passed: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        tier = tiers.get(outcome.name, OTHER)
        for row in (outcome.section, "all"):
            for column in (tier, "all"):
                total[row, column] += 1
                passed[row, column] += not outcome.complaints
    sections = sorted({outcome.section for outcome in outcomes})

    def cell(row: str, column: str) -> str:
        if not total[row, column]:
            return ""
        return f"{passed[row, column]} of {total[row, column]}"

    columns = [*shown, "all"]
    lines = ["| section | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for row in [*sections, "all"]:
        lines.append(f"| {row} | " + " | ".join(cell(row, column) for column in columns) + " |")
    shares = [percent(passed["all", c], total["all", c]) for c in columns]
    lines.append("| share | " + " | ".join(shares) + " |")
    return "\n".join(lines)


def by_operator(outcomes: Iterable[CaseOutcome]) -> str:
    """List each operator's type and how many cases with it pass, tab-separated lines."""
    passed = Counter(
        type for outcome in outcomes if not outcome.complaints for type in outcome.operators
    )
    return "".join(f"{type}\t{passed[type]}\n" for type in sorted(passed))


def share(outcomes: Sequence[CaseOutcome], tiers: Mapping[str, str], tier: str) -> float:
    """Compute the percentage of a tier's cases that pass; 100 when there are none."""
    of_tier = [outcome for outcome in outcomes if tiers.get(outcome.name, OTHER) == tier]
    passed = sum(not outcome.complaints for outcome in of_tier)
    return 100 * passed / len(of_tier) if of_tier else 100.0


def failures(
    outcomes: Iterable[CaseOutcome],
    tiers: Mapping[str, str],
    reasons: Sequence[tuple[re.Pattern[str], str]],
) -> str:
    """Build a Markdown table of the cases that fail: tier, complaints, reason."""
    lines = ["| case | tier | seen | reason |", "|---|---|---|---|"]
    for outcome in sorted(outcomes, key=lambda o: o.id):
        if outcome.complaints:
            seen = _cell("; ".join(outcome.complaints))
            tier = tiers.get(outcome.name, OTHER)
            lines.append(f"| {outcome.id} | {tier} | {seen} | {reason_for(outcome, reasons)} |")
    return "\n".join(lines) if len(lines) > 2 else "None."


def reason_for(outcome: CaseOutcome, reasons: Sequence[tuple[re.Pattern[str], str]]) -> str:
    """Return the first reason whose pattern matches the case's name, or ""."""
    return next((why for pattern, why in reasons if pattern.fullmatch(outcome.id)), "")


def _cell(text: str, length: int = 160) -> str:
    short = text if len(text) <= length else text[:length] + " …"
    return short.replace("|", "\\|")
