"""The plot of a run: each engine's ratio to plain JAX, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from suite import goals
from suite.engines import BASELINE, ENGINES, OURS

MARKS = "os^vD<>p*"


def plot(workloads: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write the plot; the same numbers give the same file."""
    mpl.rcParams["svg.hashsalt"] = "graphopt"
    figure = Figure(figsize=(9, 1.5 + 0.36 * len(workloads)), layout="constrained")
    axes = figure.subplots()
    for mark, name in zip(MARKS, ENGINES, strict=True):
        if name != BASELINE:
            draw(axes, workloads, name, mark)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(workloads)), list(workloads))
    axes.invert_yaxis()
    axes.grid(axis="both", alpha=0.3)
    axes.set_xlabel("time as a multiple of plain JAX (left is faster)")
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, metadata={"Date": None})


def draw(axes: Any, workloads: Mapping[str, Mapping[str, Any]], name: str, mark: str) -> None:
    """Draw the points of one engine."""
    ratios = [(goals.to_baseline(found, name), row) for row, found in enumerate(workloads.values())]
    points = [(ratio, row) for ratio, row in ratios if ratio is not None]
    if points:
        size, order = (70, 3) if name == OURS else (28, 2)
        axes.scatter(
            *zip(*points, strict=True), size, marker=mark, zorder=order, label=ENGINES[name].title
        )
