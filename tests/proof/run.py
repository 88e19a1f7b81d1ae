"""`make properties` and `make mutants`: the large runs; see docs/explanation/proof.md.

    python tests/proof/run.py properties 2000 [--seed 0] [--jobs 2] [--xla 0.02]
    python tests/proof/run.py mutants 400 [--only TEXT] [--every 8 --first 0] [--jobs 2]

The exit status is 1 when a property fails, or when more than one mutant in twenty survives.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from multiprocessing import get_context
from pathlib import Path

TESTS = Path(__file__).parents[1]
BATCH = 50
PARTS = 40


def load_settings() -> None:
    """Apply the settings of the tests: JAX's, and the name of the tests' package."""
    spec = importlib.util.spec_from_file_location("graphopt_conftest", TESTS / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    if "graphopt_tests" not in sys.modules:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def prove(batch: int, count: int, seed: int, xla: float):  # type: ignore[no-untyped-def]
    """Prove one batch of programs, and return the tally."""
    load_settings()
    from graphopt_tests.proof.corpus import all_patterns, collect
    from graphopt_tests.proof.properties import Prover

    prover = Prover(xla_share=xla)
    first = seed * 1_000_000 + batch * BATCH
    for number, generated in enumerate(collect(all_patterns(), count, first)):
        prover.prove(generated, first + number)
    return prover.tally


def judge_mutants(  # type: ignore[no-untyped-def]
    part: int, parts: int, count: int, only: str, sample: slice
):
    """Judge every `parts`-th mutant of a sample."""
    load_settings()
    from graphopt_tests.proof.mutants import all_mutants, verdict

    found: list[tuple[str, str]] = []
    chosen = [mutant for mutant in all_mutants() if only in mutant.name][sample]
    for mutant in chosen[part::parts]:
        found.append((mutant.name, verdict(mutant, count)))
        if found[-1][1] in ("", "same"):
            print(f"survived: {mutant.name}", file=sys.stderr, flush=True)
    return found


def properties(arguments: argparse.Namespace) -> int:
    """Prove in several processes, and print the tables."""
    load_settings()
    from graphopt_tests.proof.properties import Tally
    from graphopt_tests.proof.report import tables

    start, total = time.time(), Tally()
    batches = -(-arguments.count // BATCH)
    with pool(arguments.jobs) as processes:
        jobs = [
            processes.submit(prove, batch, BATCH, arguments.seed, arguments.xla)
            for batch in range(batches)
        ]
        for number, job in enumerate(jobs):
            merge(total, job.result())
            done = f"{number + 1}/{batches} batches, {len(total.failures)} failures"
            print(f"\r{done}, {time.time() - start:.0f} s", end="", file=sys.stderr, flush=True)
    print("", file=sys.stderr)
    print(tables(total))
    for reason, count in total.unknown.most_common(10):
        print(f"not known, {count} times: {reason}", file=sys.stderr)
    for failure in total.failures[:10]:
        print("\n" + failure, file=sys.stderr)
    return 1 if total.failures else 0


def merge(total: object, part: object) -> None:
    """Add up two tallies, field by field."""
    for each in fields(total):  # type: ignore[arg-type]
        a, b = getattr(total, each.name), getattr(part, each.name)
        if isinstance(a, Counter):
            a.update(b)
        elif isinstance(a, dict):
            for name, worst in b.items():
                old = a.setdefault(name, worst)
                old.absolute = max(old.absolute, worst.absolute)
                old.relative = max(old.relative, worst.relative)
        else:
            setattr(total, each.name, a + b)


def mutants(arguments: argparse.Namespace) -> int:
    """Judge all mutants and list the survivors."""
    parts, sample = PARTS, slice(arguments.first, None, arguments.every)
    with pool(arguments.jobs) as processes:
        jobs = [
            processes.submit(judge_mutants, part, parts, arguments.count, arguments.only, sample)
            for part in range(parts)
        ]
        verdicts: list[tuple[str, str]] = []
        for number, job in enumerate(jobs):
            verdicts += job.result()
            kept = sum(verdict in ("", "same") for _, verdict in verdicts)
            done = f"{number + 1}/{parts} parts, {len(verdicts)} mutants, {kept} survived"
            print(done, file=sys.stderr, flush=True)
    load_settings()
    from graphopt_tests.proof.mutants import EQUIVALENT

    kinds = Counter(verdict.partition(":")[0] for _, verdict in verdicts)
    survivors = [name for name, verdict in verdicts if verdict in ("", "same")]
    argued = [name for name in survivors if name in EQUIVALENT]
    counted = len(verdicts) - len(argued)
    killed = len(verdicts) - len(survivors)
    print(
        f"{len(verdicts)} mutants, {killed} killed, {len(survivors)} survived, of which "
        f"{len(argued)} cannot be told from the right pass: {killed / counted:.1%} of the others"
    )
    for kind, count in kinds.most_common():
        print(f"| {kind or 'nothing, though it does something else'} | {count} |")
    for line in by_file(verdicts, EQUIVALENT):
        print(line)
    for name in survivors:
        if name not in EQUIVALENT:
            print(f"survived: {name}")
    return 0 if killed >= 0.95 * counted else 1


def by_file(verdicts: Sequence[tuple[str, str]], equivalent: Mapping[str, str]) -> Iterator[str]:
    """Yield a row for each module of conditions and each pass of patterns."""
    totals = dict[str, list[int]]()
    for name, verdict in verdicts:
        place = name.partition(":")[0].partition(" `")[0].partition(".")[0]
        row = totals.setdefault(place, [0, 0, 0])
        survived = verdict in ("", "same")
        row[0] += not survived
        row[1] += survived and name in equivalent
        row[2] += survived and name not in equivalent
    for place, (killed, argued, survived) in sorted(totals.items()):
        yield f"| `{place}` | {killed} | {argued} | {survived} |"


def pool(jobs: int) -> ProcessPoolExecutor:
    """Start a pool of spawned processes."""
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; see the docstring of the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["properties", "mutants"])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--xla", type=float, default=0.02)
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args(words)
    return {"properties": properties, "mutants": mutants}[arguments.what](arguments)


if __name__ == "__main__":
    sys.exit(main())
