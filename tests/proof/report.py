"""The findings of a run of the properties, as tables of Markdown."""

from __future__ import annotations

from collections import Counter

from graphopt.passes.table.registry import own_passes
from graphopt_tests.proof.properties import Tally, Worst


def tables(tally: Tally) -> str:
    """Format the tables of one run."""
    lines = [
        f"- programs generated: {tally.programs:,}, each optimized in several ways "
        f"({tally.runs:,} runs in all)",
        f"- optimized programs that came out otherwise and were compared in the reference "
        f"interpreter: {tally.compared:,}; bit by bit: {tally.bits:,}; by XLA: "
        f"{tally.compared_by_xla:,}",
        f"- programs that the interpreter does not know: {tally.unknown.total():,}",
        f"- failures: {len(tally.failures)}",
        "",
        "| pass | fired | refused | class | float64: absolute | relative "
        "| float32: absolute | relative | XLA: absolute | relative |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    refused = Counter[str]()
    for (rule, _), count in tally.refused.items():
        refused[rule] += count
    for name, load in own_passes().items():
        key = f"pass {name}"
        if not tally.fired[name] and key not in tally.real:
            continue
        numerics = getattr(load(), "numerics", None)
        worst = [_pair(found.get(key)) for found in (tally.real, tally.declared, tally.by_xla)]
        lines.append(
            f"| `{name}` | {tally.fired[name]:,} | {refused[name]:,} | "
            f"{numerics.value if numerics else ''} | {' | '.join(worst)} |"
        )
    lines += ["", "| pass | refused because | times |", "|---|---|---:|"]
    lines += [
        f"| `{rule}` | {reason} | {count:,} |"
        for (rule, reason), count in sorted(tally.refused.items())
    ]
    lines += ["", "| change of a program | programs |", "|---|---:|"]
    lines += [f"| {note} | {count:,} |" for note, count in sorted(tally.notes.items())]
    return "\n".join(lines)


def _pair(worst: Worst | None) -> str:
    return f"{worst.absolute:.1e} | {worst.relative:.1e}" if worst else " | "
