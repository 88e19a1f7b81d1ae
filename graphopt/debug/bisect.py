"""The work of `graphopt bisect` on one program: compare, search, reduce, write."""

from __future__ import annotations

import argparse
import functools
import warnings
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from graphopt.debug.compare import Array
from graphopt.debug.differences import (
    Difference,
    DifferenceKind,
    Tolerance,
    largest_gap,
    run,
    run_by_op,
)
from graphopt.debug.oracles import UNOPTIMIZED
from graphopt.debug.program_source import Inputs, Subject, complete
from graphopt.debug.reduce import record, reduce_module
from graphopt.debug.replay import reference, replay
from graphopt.debug.search import Suspect, WrongRewrite, find_wrong_rewrite, isolate, still_wrong
from graphopt.debug.shrink import plain_inputs, shrink_sizes
from graphopt.display.units import several, size
from graphopt.errors import GraphoptError
from graphopt.passes.engine import replay_file
from graphopt.passes.engine.crash import versions
from graphopt.passes.engine.replay_file import MadeUp, ReplayFile
from graphopt.runtime.settings.progress import announce

# the most bytes of inputs in a file
MOST_DATA = 4 << 20
_SHOWN = 12


def look(subject: Subject, given: Inputs, arguments: argparse.Namespace, output: Path) -> bool:
    """Compare a program with the reference; if it is wrong, write a reduced file, return True."""
    inputs, made_up = complete(subject, given)
    print(f"program: {subject.origin}, {several(_ops(subject.module), 'op')}")
    if made_up:
        more = f" and {len(made_up) - 4} more" if len(made_up) > 4 else ""
        print(f"random inputs: {', '.join(made_up[:4])}{more} (seed {arguments.seed})")
    suspect = Suspect(
        subject.module,
        subject.steps or (),
        inputs,
        functools.partial(run, seed=subject.seed),
        reference(arguments.against, subject.seed),
        Tolerance(arguments.rtol, arguments.atol),
    )
    with announce(lambda: "running the program with its passes and without", files=False):
        whole = suspect.trial()
        seen = suspect.judge(whole)
    if seen is None:
        gap, name = largest_gap(suspect.compute_reference(), whole.outcome)
        where = f" ({name})" if name else ""
        rewrites = f"{len(whole.asked)} rewrite{'s' * (len(whole.asked) != 1)}"
        print(f"equal after {rewrites}: the largest difference is {gap:.3g}{where}")
        return False
    # the whole pipeline left valid IR, so its parts need no verification
    suspect = replace(suspect, verify_each=seen.kind is DifferenceKind.PASS)
    with announce(lambda: "searching for the rewrite", files=False):
        searched, found = _find_rewrite(suspect, seen, arguments.against)
    _tell(found)
    for attempt in (searched, replace(suspect, trials={})):
        file, data = _write_reduced_program(subject, attempt, found, arguments)
        text = replay_file.write(file, output)
        # a difference found op by op must also appear in the compiled program
        if replay(replay_file.read(text, str(output)), data) is not None:
            break
        print("the reduced program is right when XLA compiles it as a whole: reducing again")
    else:
        print("the reduced program does not reproduce the difference; wrote it anyway")
    output.write_text(text, "utf-8")
    print(f"wrote {output} ({size(len(text))}); run it again: {file.command(output)}")
    return True


def _find_rewrite(suspect: Suspect, seen: Difference, against: str) -> tuple[Suspect, WrongRewrite]:
    """Find the wrong rewrite: op by op, which is quick, if results differ there too.

    Also return the suspect with which it was found.
    """
    seed = (
        suspect.evaluate.keywords["seed"] if isinstance(suspect.evaluate, functools.partial) else 7
    )
    by_op = functools.partial(run_by_op, seed=seed)
    reference = by_op if against == UNOPTIMIZED else suspect.against
    quick = replace(suspect, evaluate=by_op, against=reference, trials={})
    for attempt in (quick, suspect):
        try:
            also = attempt.judge(attempt.trial())
            if also is not None and also.like(seen):
                found = find_wrong_rewrite(attempt, check=suspect)
                if found is not None:
                    return attempt, found
        except GraphoptError:
            if attempt is suspect:
                raise
    raise GraphoptError(f"the results differ intermittently (not deterministic): {seen}")


def _tell(found: WrongRewrite) -> None:
    """Print the rewrite."""
    words = {DifferenceKind.PASS: "a pass fails", DifferenceKind.RUN: "the optimized program fails"}
    kind = found.difference.kind
    print(f"{words.get(kind, 'the results differ')}: {found.difference}")
    line = f", from {found.line}" if found.line else ""
    if found.number:
        at = f" on {found.where}" if found.where else ""
        print(f"rewrite {found.number} of {found.total}: {found.pass_name}{at}{line}")
    else:
        print(f"caused by a pass, not by a single rewrite: {found.pass_name}{line}")
    for change in found.change[:_SHOWN]:
        print(f"  {change[0]} {change[1:].strip()}")
    if len(found.change) > _SHOWN:
        print(f"  ... {several(len(found.change) - _SHOWN, 'more line')}")
    if found.number and found.alone:
        print("results are right when only this rewrite is disabled")
    elif found.number:
        print(
            "other rewrites are wrong too: results still differ when only this rewrite is disabled"
        )


def _write_reduced_program(
    subject: Subject, suspect: Suspect, found: WrongRewrite, arguments: argparse.Namespace
) -> tuple[ReplayFile, dict[str, Array]]:
    """Build the file of the smallest program that is wrong in the same way, and all its inputs."""
    small = isolate(suspect, found)
    wrong = still_wrong(small, found.difference)
    runs = found.difference.kind is not DifferenceKind.PASS
    values = _values(small, subject.seed) if runs else None
    names = {f"{op.name} {op.results[0].name_hint}" for op in found.focus if op.results}
    focus = [
        op
        for op in small.module.walk()
        if op.results and f"{op.name} {op.results[0].name_hint}" in names
    ]
    module, inputs = small.module, dict(small.inputs)
    if values is not None or not runs:
        try:
            with announce(lambda: "reducing the program", files=False):
                reduced = reduce_module(module, inputs, wrong, values=values, focus=focus)
        except ValueError as error:
            print(f"not reduced: {error}")
        else:
            with announce(lambda: "reducing its sizes", files=False):
                module, inputs = shrink_sizes(reduced.module, reduced.inputs, wrong)
            before = _ops(suspect.module)
            tries = several(reduced.tried, "try", "tries")
            print(f"reduced {several(before, 'op')} to {reduced.ops}, in {tries}")
    fed: dict[str, Array | MadeUp] = plain_inputs(module, inputs, wrong) if runs else {}
    final = replace(small, module=module, inputs=_arrays(fed), trials={})
    last = find_wrong_rewrite(final) if runs else None
    again = final.judge(final.trial())
    seen = again if again is not None else found.difference
    kept, left_out = _within(fed)
    notes = [f"Found by graphopt bisect in {Path(subject.origin).name}."]
    if found.number:
        notes += [f"Rewrite {found.number} of {found.total}: {found.pass_name} on {found.where}"]
    notes += [f"From {found.line}"] if found.line else []
    notes += list(found.change[:_SHOWN])
    if left_out:
        words = f"Inputs too large for this file; give them with --data: {', '.join(left_out)}"
        print(words)
        notes.append(words)
    file = ReplayFile(
        what=str(seen),
        kind=seen.kind.value,
        module=module,
        steps=tuple(step.texts for step in small.steps if step.passes),
        limit=last.number if last is not None and last.number else -1,
        seed=subject.seed,
        against=arguments.against,
        rtol=arguments.rtol,
        atol=arguments.atol,
        verify_each=suspect.verify_each,
        imports=tuple(arguments.imports),
        versions=versions(),
        notes="\n".join(notes),
        inputs=kept,
    )
    return file, _arrays(fed)


def _values(suspect: Suspect, seed: int) -> dict[SSAValue, Array] | None:
    """Record the array of every value of the program, to feed them; None when that fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return record(suspect.module, suspect.inputs, seed)
    except Exception as error:
        print(
            "not reduced: the values of the program cannot be recorded: "
            f"{type(error).__name__}: {error}"
        )
        return None


def _arrays(inputs: dict[str, Array | MadeUp]) -> dict[str, Array]:
    return {n: v.array() if isinstance(v, MadeUp) else v for n, v in inputs.items()}


def _within(
    inputs: dict[str, Array | MadeUp],
) -> tuple[dict[str, Array | MadeUp], list[str]]:
    """Select the inputs that fit into a file, smallest first, and the names of the others."""
    kept: dict[str, Array | MadeUp] = {}
    total = 0
    for name, value in sorted(inputs.items(), key=lambda item: getattr(item[1], "nbytes", 0)):
        total += getattr(value, "nbytes", 0)
        if total <= MOST_DATA:
            kept[name] = value
    return {n: v for n, v in inputs.items() if n in kept}, [n for n in inputs if n not in kept]


def _ops(module: ModuleOp) -> int:
    return sum(op.name.startswith("pd.") for op in module.walk())
