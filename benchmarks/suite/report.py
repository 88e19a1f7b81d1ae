"""Markdown tables and a plot from the JSON of a run: `python -m suite.report out/bench`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from suite import goals
from suite.engines import BASELINE, ENGINES, OURS

Row = Mapping[str, Any]
ABSENT = "-"


def write(folder: Path) -> None:
    """Write `README.md` and `ratios.svg` beside the `bench.json` of a folder."""
    from suite.plot import plot

    found = json.loads((folder / "bench.json").read_text())
    if found["workloads"]:
        plot(found["workloads"], folder / "ratios.svg")
    (folder / "README.md").write_text("\n".join(page(found)) + "\n")


def page(found: Row) -> Iterator[str]:
    """Yield the lines of the page."""
    yield from head(found)
    workloads = found["workloads"]
    if workloads:
        yield from ("", "## Ratios to plain JAX", "", *RATIOS, "")
        yield from ratio_table(workloads)
        yield from ("", "![Ratios to plain JAX](ratios.svg)", "", *TIMES, "")
        yield from time_table(workloads)
        yield from ("", "## Goals", "", "graphopt against an opponent; lower is better.", "")
        yield from goal_table(goals.checks(workloads))
    if found.get("overhead"):
        yield from ("", "## What graphopt itself costs", "")
        yield from overhead_table(found["overhead"])
    if found.get("ablations"):
        yield from ("", "## What each rewrite is worth", "", *ABLATIONS)
        if found.get("ablated", found["date"][:10]) != found["date"][:10]:
            yield f"These rows were measured on {found['ablated']}, on {found['ablated_on']}."
        yield ""
        yield from ablation_table(found["ablations"])


RATIOS = (
    "Each cell is the time of a step as a multiple of plain JAX's time; below 1 is faster. For",
    'workloads with "time to compile" in their title it is that time. The engines took turns; a',
    "cell is the median of the ratios within each round.",
)
TIMES = ("## Milliseconds of a step, seconds to the first one, peak memory",)
ABLATIONS = (
    "Ratios of runs with the rewrite to runs without it, in turns; below 1 the rewrite pays.",
)


def head(found: Row) -> Iterator[str]:
    """Yield machine, versions and date."""
    machine = found["machine"]
    yield "# Benchmarks"
    yield ""
    yield (
        f"Measured on {found['date'][:10]}: {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gb']} GB, {machine['system']}; load at the start "
        f"{', '.join(f'{load:g}' for load in machine['load_at_start'])}."
    )
    yield ""
    for name, packages in found["versions"].items():
        listed = ", ".join(f"{package} {version}" for package, version in packages.items())
        yield f"- {name}: {listed or 'absent'}"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a Markdown table."""
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    for cells in rows:
        yield f"| {' | '.join(cells)} |"


def engines_in(workloads: Mapping[str, Row]) -> list[str]:
    """List the engines that ran at least once, in the order of the suite."""
    ran = {n for w in workloads.values() for n, row in w["engines"].items() if "step_s" in row}
    return [name for name in ENGINES if name in ran]


def ratio_table(workloads: Mapping[str, Row]) -> Iterator[str]:
    """Tabulate each engine against plain JAX."""
    engines = [name for name in engines_in(workloads) if name != BASELINE]
    rows: list[list[str]] = []
    for workload, found in workloads.items():
        measured = [goals.to_baseline(found, name) for name in engines]
        rows.append([workload, found["title"], *map(number, measured)])
    return table(["workload", "what", *(ENGINES[name].title for name in engines)], rows)


def time_table(workloads: Mapping[str, Row]) -> Iterator[str]:
    """Tabulate every number of every engine."""
    rows = [
        [name if first else "", ENGINES[engine].title, *cells(row)]
        for name, found in workloads.items()
        for first, (engine, row) in flagged(found["engines"].items())
    ]
    return table(["workload", "engine", "step", "build", "compile", "peak MB", "difference"], rows)


def flagged(items: Iterable[Any]) -> Iterator[tuple[bool, Any]]:
    """Pair each item with whether it is the first."""
    for index, item in enumerate(items):
        yield index == 0, item


def cells(row: Row) -> list[str]:
    """Format the numbers of one engine, or the reason for missing ones."""
    if "step_s" not in row:
        return [row["skipped"], *[ABSENT] * 4]
    difference = row["difference"]
    return [
        f"{1e3 * row['step_s']:.3g} ms",
        f"{row['build_s']:.2f} s",
        f"{row['compile_s']:.2f} s",
        f"{row['peak_bytes'] / 2**20:.0f}",
        "other shape" if difference is None else f"{difference:.0e}",
    ]


def goal_table(found: Iterable[goals.Check]) -> Iterator[str]:
    """Tabulate goals and measurements."""
    rows = [
        [
            check.workload,
            goals.title(check.opponent),
            f"{check.wanted:.2f}",
            number(check.measured),
            "met" if check.met else "**missed**",
            check.reason,
        ]
        for check in found
    ]
    return table(["workload", "against", "goal", "measured", "", "why"], rows)


def overhead_table(found: Iterable[Row]) -> Iterator[str]:
    """Tabulate the overhead of our own code."""
    rows = [
        [
            row["what"],
            f"{row['goal']:g} {row['unit']}",
            f"{row['measured']:.3g} {row['unit']}",
            "met" if row["measured"] <= row["goal"] else "**missed**",
        ]
        for row in found
    ]
    return table(["what", "goal", "measured", ""], rows)


def ablation_table(found: Iterable[Row]) -> Iterator[str]:
    """Tabulate ratios with a rewrite to without it, by pass and workload."""
    rows = [
        [
            row["pass"],
            row.get("workload", ABSENT),
            number(row.get("step")),
            number(row.get("compile")),
            number(row.get("memory")),
            row.get("note", ""),
        ]
        for row in found
    ]
    return table(["pass or setting", "workload", "step", "compile", "peak memory", ""], rows)


def number(value: float | None) -> str:
    """Format a ratio with two decimals, three when it is small."""
    if value is None:
        return ABSENT
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def line(found: Row) -> str:
    """Format a line of progress about a workload."""
    rows = found["engines"]
    parts = [f"  {ENGINES[name].title}: {cells(row)[0]}" for name, row in rows.items()]
    ours = goals.to_baseline(found, OURS)
    return "\n".join([*parts, f"  graphopt / plain JAX: {number(ours)}"])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
