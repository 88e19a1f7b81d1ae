"""The page of a GPU run, from its JSON: `python -m suite.gpu_page docs/benchmarks`."""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from suite.engines import BASELINE, OURS
from suite.report import ABSENT, number, table

Row = Mapping[str, Any]
GROUPED = "graphopt-groups"
OTHERS = (BASELINE, "torch", "torch-compile")
TITLES = {
    OURS: "graphopt",
    GROUPED: "+ build_cinn_pass, enable_auto_fusion",
    BASELINE: "plain JAX",
    "torch": "PyTorch",
    "torch-compile": "torch.compile",
}
DENSE_BF16 = {"A100": 312.0, "H100": 989.4, "H200": 989.4}
"""The vendor's TFLOP/s for matrix products in bfloat16 (SXM, without sparsity)."""
HEAD = """# GPUs

Run `make bench-gpu` to measure this page again. The [script](../../benchmarks/suite/gpu.py) says
how to run it without a network, and how long each part takes.

A step ends with its loss or output in NumPy. Its feeds are already on the device, unless a row says
otherwise. All engines start from the same parameters, and take turns if the device has room for all
of them. Each time is a median. "of the best other" is graphopt's time divided by the shortest time
of plain JAX, PyTorch and torch.compile; below 1 graphopt is faster. All engines may compute float32
products in TF32.
"""


def write(folder: Path) -> None:
    """Write `gpu.md` beside the `gpu.json` of a folder."""
    found = json.loads((folder / "gpu.json").read_text())
    (folder / "gpu.md").write_text("\n".join(page(found)).rstrip() + "\n")


def page(found: Row) -> Iterator[str]:
    """Yield the lines of the page."""
    yield HEAD
    yield from about(found)
    rows: Mapping[str, Row] = found.get("workloads", {})
    if rows:
        yield from ("## Milliseconds of a step", "")
        yield from step_table(rows)
        yield from ("", *means(rows), "")
    if any(rate(row, found) for row in rows.values()):
        yield from ("## Rates", "", *RATES, "")
        yield from rate_table(rows, found)
        yield ""
    if any(first_loss_s(each) for row in rows.values() for each in row["engines"].values()):
        yield from ("## Seconds to the first loss", "", *FIRST, "")
        yield from first_table(rows, found.get("again", {}))
        yield ""
    if any("device_bytes" in each for row in rows.values() for each in row["engines"].values()):
        yield from ("## Memory of the device", "", *MEMORY, "")
        yield from memory_table(rows)
        yield ""
    if any("forms" in row["engines"].get(OURS, {}) for row in rows.values()):
        yield from ("## Kernels", "", "The form that runs in the end, and why.", "")
        yield from kernel_table(rows)
        yield ""
    if "counts" in found:
        yield from ("## Compiled for a GPU, without one", "", *COMPILED, "")
        yield f"Compiled for an H100 with {found['counted_with']}."
        yield ""
        yield from count_table(found["counts"])
        yield ""
    if "overlaps" in found:
        yield from (*OVERLAPPED, "")
        yield from overlap_table(found["overlaps"])
        yield ""
    yield from ("## What was run", "")
    yield from part_table(found)


RATES = (
    "MFU is the rate of the operations in the model's products, divided by the rate that the",
    "vendor states for dense bfloat16. The operations are counted in plain JAX's program:",
    "forward, and three times that for training.",
)
FIRST = (
    "Seconds from the start of a process to the first loss, caches off. For graphopt, in",
    "addition, the startup program alone, and the next process with the entries that the first",
    "one kept on disk.",
)
MEMORY = (
    "The peak bytes of arrays in the count of each framework's allocator, and XLA's prediction for",
    "graphopt's step before it ran.",
)


COMPILED = (
    "`make count-gpu` ([script](../../benchmarks/suite/for_gpu.py)) compiles a step for an H100",
    "on a machine without one, and counts the kernels that XLA makes. Each cell has the number of",
    "graphopt, then of plain JAX. Where XLA would choose an algorithm by measuring on the card,",
    "it takes its first choice here, so this table says nothing about time. An epilogue is what",
    "cuDNN computes with a convolution: bias, residual, activation. Transposes (and copies) and",
    "converts are kernels that do nothing else. Memory is arguments, results and temporary",
    "arrays. Of a Transformer two layers are compiled.",
)
OVERLAPPED = (
    "The same for data-parallel training on eight H100: the sums of gradients over the devices,",
    "and the part of them that overlaps a product or a convolution in the order that XLA has set.",
)


def count_table(counts: Mapping[str, Row]) -> Iterator[str]:
    """Tabulate the counts of compiled steps, ours and plain JAX's."""
    shown: list[list[str]] = []
    for row in counts.values():
        ours, plain = row[OURS], row[BASELINE]
        pairs = [f"{ours[name]:,} / {plain[name]:,}" for name in ours if name != "bytes"]
        layers = f", {row['layers']} layers" if row["layers"] else ""
        held = f"{megabytes(ours['bytes'])} / {megabytes(plain['bytes'])}"
        shown.append([row["title"] + layers, *pairs, held])
    names = [name for row in counts.values() for name in row[OURS] if name != "bytes"]
    return table(["workload", *dict.fromkeys(names), "MB"], shown)


def overlap_table(overlaps: Mapping[str, Row]) -> Iterator[str]:
    """Tabulate the sums over devices, and the sums that overlap a product."""
    shown: list[list[str]] = []
    for row in overlaps.values():
        for title, found in row.items():
            if title not in ("title", "layers"):
                sums, share = found["sum bytes"], found["overlapped bytes"]
                part = f"{share / sums:.0%}" if sums else ABSENT
                cells = [str(found["sums"]), megabytes(sums), megabytes(share), part]
                shown.append([row["title"], title, *cells])
    heads = ["workload", "order", "sums", "MB", "beside products, MB", "part"]
    return table(heads, shown)


def about(found: Row) -> Iterator[str]:
    """Yield the card, the machine, versions and the date."""
    versions = found.get("versions", {})
    listed = [f"{package} {v}" for each in versions.values() for package, v in each.items()]
    card = found.get("card", "no card")
    cores = found.get("machine", {}).get("cores")
    driver = f", driver {found['driver']}" if found.get("driver") else ""
    yield f"Measured on {found['date'][:10]}: {card}{driver}, {cores} CPU cores."
    if listed:
        yield f"Versions: {', '.join(dict.fromkeys(listed))}."
    if found.get("size", "full") != "full":
        yield "**A trial with toy sizes: its figures say nothing about a GPU.**"
    yield from found.get("notes", ())
    yield ""
    if "correct" in found:
        yield f"{correct_line(found['correct'])}."
        yield ""


def correct_line(found: Row) -> str:
    """Format the numbers of recorded cases and saved models that are right."""
    right = found["cases"] - len(found["failed"])
    said = f"Recorded cases on the device: {right:,} of {found['cases']:,} are right"
    left = found.get("all", found["cases"]) - found["cases"]
    said += f" ({left:,} more had no time)" if left else ""
    models, run = found["models"], found["models_run"]
    return f"{said}; runs of saved models, plain and fused, that had time: {models} of {run}"


def step_s(row: Row, engine: str) -> float | None:
    """Return the median seconds of a step."""
    return row["engines"].get(engine, {}).get("step_s")


def of_best(row: Row) -> float | None:
    """Divide graphopt's time by the best other engine's."""
    others = [value for name in OTHERS if (value := step_s(row, name)) is not None]
    ours = step_s(row, OURS)
    return ours / min(others) if others and ours is not None else None


def step_table(rows: Mapping[str, Row]) -> Iterator[str]:
    """Tabulate the steps of every engine."""
    shown: list[list[str]] = []
    for row in rows.values():
        times = [milliseconds(row, name) for name in TITLES]
        ours, grouped = step_s(row, OURS), step_s(row, GROUPED)
        groups = grouped / ours if ours is not None and grouped is not None else None
        shown.append([row["title"], *times, number(of_best(row)), number(groups)])
    return table(["workload", *TITLES.values(), "of the best other", "groups / without"], shown)


def milliseconds(row: Row, engine: str) -> str:
    """Format a step in milliseconds, or the reason for a missing one."""
    found = row["engines"].get(engine)
    if found is None:
        return ABSENT
    if "step_s" not in found:
        return str(found.get("skipped", ABSENT)).replace("|", "/")
    return f"{1e3 * found['step_s']:.3g}"


def means(rows: Mapping[str, Row]) -> Iterator[str]:
    """Yield the geometric mean of the ratios to the best other engine."""
    ratios = [value for row in rows.values() if (value := of_best(row)) is not None]
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        yield f"Geometric mean of the ratios to the best other: {mean:.2f}, of {len(ratios)} rows."


def rate(row: Row, found: Row) -> tuple[float, float | None] | None:
    """Compute graphopt's images or words a second, and its MFU; None for a row without a unit."""
    seconds = step_s(row, OURS)
    if seconds is None or not row.get("counted"):
        return None
    flops = row["engines"].get(BASELINE, {}).get("flops")
    most = next((r for name, r in DENSE_BF16.items() if name in found.get("card", "")), None)
    share = flops / seconds / 1e12 / most if flops and most else None
    return row["count"] / seconds, share


def rate_table(rows: Mapping[str, Row], found: Row) -> Iterator[str]:
    """Tabulate images or words a second, TFLOP/s and MFU."""
    shown: list[list[str]] = []
    for row in rows.values():
        rated = rate(row, found)
        if rated is not None:
            flops = row["engines"].get(BASELINE, {}).get("flops")
            tflops = f"{flops / row['engines'][OURS]['step_s'] / 1e12:.3g}" if flops else ABSENT
            share = ABSENT if rated[1] is None else f"{rated[1]:.1%}"
            shown.append([row["title"], f"{rated[0]:,.0f} {row['counted']}", tflops, share])
    yield from table(["workload", "a second", "TFLOP/s", "MFU"], shown)
    if "limits" in found:
        reached = ", ".join(f"{n} {r:.3g} TFLOP/s" for n, r in found["limits"].items())
        yield from ("", f"A product of matrices of {8192} reaches: {reached}.")


def first_loss_s(row: Row) -> float | None:
    """Compute seconds from process start to the first loss, without waits for other engines."""
    if "prepared_s" not in row or "build_s" not in row:
        return row.get("first_loss_s")
    first = row["first_step_s"] if "first_step_s" in row else row["compile_s"] + row["step_s"]
    return row["prepared_s"] + row["build_s"] + first


def first_table(rows: Mapping[str, Row], again: Row) -> Iterator[str]:
    """Tabulate first losses, graphopt's startup program, and the second process."""
    names = [OURS, *OTHERS]
    shown: list[list[str]] = []
    for row in rows.values():
        engines = row["engines"]
        cells = [seconds(first_loss_s(engines.get(name, {}))) for name in names]
        shown.append([row["title"], *cells, seconds(engines.get(OURS, {}).get("startup_s"))])
    yield from table(["workload", *(TITLES[n] for n in names), "startup program"], shown)
    for name, (first, second) in again.items():
        said = f"{TITLES[name]}, with caches: {first:.1f} s, the next process {second:.1f} s."
        yield from ("", said)


def seconds(value: float | None) -> str:
    """Format seconds for readers."""
    return ABSENT if value is None else f"{value:.3g}"


def memory_table(rows: Mapping[str, Row]) -> Iterator[str]:
    """Tabulate the memory peaks of the engines, and XLA's predictions."""
    names = [OURS, GROUPED, *OTHERS]
    shown: list[list[str]] = []
    for row in rows.values():
        taken = {n: row["engines"].get(n, {}).get("device_bytes") for n in names}
        if not any(taken.values()):
            continue
        said = row["engines"].get(OURS, {}).get("predicted_bytes")
        share = said / taken[OURS] if said and taken[OURS] else None
        peaks = [megabytes(taken[name]) for name in names]
        shown.append([row["title"], *peaks, megabytes(said), number(share)])
    titles = [f"{TITLES[name]}, MB" for name in names]
    return table(["workload", *titles, "XLA said, MB", "said / taken"], shown)


def megabytes(count: int | None) -> str:
    """Format bytes in millions."""
    return ABSENT if count is None else f"{count / 1e6:,.0f}"


def kernel_table(rows: Mapping[str, Row]) -> Iterator[str]:
    """Tabulate the running form, with flags and with groups."""
    shown: list[list[str]] = []
    for row in rows.values():
        said = ["; ".join(row["engines"].get(n, {}).get("forms", ())) for n in (OURS, GROUPED)]
        shown.append([row["title"], *(text.replace("|", "/") or ABSENT for text in said)])
    return table(["workload", "graphopt", TITLES[GROUPED]], shown)


def part_table(found: Row) -> Iterator[str]:
    """Tabulate each part of the script: its time, or the reason why it did not run."""
    from suite.gpu import SECONDS

    shown: list[list[str]] = []
    for name, planned in SECONDS.items():
        part = found.get("parts", {}).get(name, {"skipped": "it was not asked for"})
        took = f"{part['seconds']:.0f} s" if "seconds" in part else ABSENT
        said = part.get("failed", "") or (
            f"not run: {part['skipped']}" if "skipped" in part else ""
        )
        shown.append([f"`{name}`", f"{planned:.0f} s", took, said.replace("|", "/")])
    return table(["part", "planned", "took", ""], shown)


def row_line(row: Row, found: Row) -> str:
    """Format a line of progress about a workload."""
    times = [f"{title} {milliseconds(row, name)}" for name, title in TITLES.items()]
    rated = rate(row, found)
    ends = [f"of the best other {number(of_best(row))}"]
    if rated is not None:
        ends += [f"{rated[0]:,.0f} {row['counted']} a second"]
        ends += [f"MFU {rated[1]:.1%}"] if rated[1] is not None else []
    return "  ms: " + "; ".join([*times, *ends])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
