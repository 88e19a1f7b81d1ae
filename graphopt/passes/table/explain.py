"""A report as text and as JSON: rewrites of each flag, declined ones with reasons, and remedies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

from graphopt.display.table import Page
from graphopt.display.units import several, times
from graphopt.passes.engine.fusion import Applied, Declined
from graphopt.passes.engine.near_misses import TAKEN, NearMiss
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.flags import BUILD_FLAGS
from graphopt.passes.table.order import ROWS
from graphopt.passes.table.overview import overview
from graphopt.passes.table.report import ByOp, Ran, Report
from graphopt.passes.table.rows import AUTOMATIC, BlockRow, block_rows, refusal_rows
from graphopt.passes.table.times import time_line, time_rows

SCHEMA = 1
EVERYTHING = "all"
"""In place of a flag or pass: every one of them, op by op."""
APPLIED, NOTHING, REFUSED = "applied", "nothing to do", "refused"
NO_EFFECT, RUNTIME_FLAG, OFF = "no effect here", "obeyed by the runtime", "off"

# what passes join of which kind of op
JOINED = {"fuse-all-reduce-ops": "pd.all_reduce", "fuse-broadcast-ops": "pd.all_gather"}


@dataclass(frozen=True)
class FlagResult:
    """The outcome of one flag: a status, the number of changes, and why there are not more."""

    flag: str
    status: str
    times: int
    passes: tuple[str, ...]
    text: str

    @property
    def is_silent(self) -> bool:
        """True when the flag was set and nothing happened."""
        return self.status in (NOTHING, REFUSED, NO_EFFECT)


def flag_results(report: Report) -> list[FlagResult]:
    """A result for each flag that ran a pass, then for every other flag of the strategy."""
    results: list[FlagResult] = []
    for flag in dict.fromkeys(ran.flag for ran in report.ran):
        results.append(_result(report, flag, [ran for ran in report.ran if ran.flag == flag]))
    done = {result.flag for result in results}
    context = report.context
    others = [flag for flag in context.flags if flag not in done]
    return results + [_without_pass(context, flag) for flag in others]


def _without_pass(context: PassContext, name: str) -> FlagResult:
    """The outcome of a flag for which no pass ran."""
    flag, asked, on = BUILD_FLAGS.get(name), name in context.asked, bool(context.flags.get(name))
    if not on and not asked:
        return FlagResult(name, OFF, 0, (), "it is off")
    if flag is not None and asked and (refusal := flag.refusal(context)):
        return FlagResult(name, REFUSED, 0, (), f"refused because {refusal}")
    if flag is not None and flag.obeyed:
        return FlagResult(name, RUNTIME_FLAG, 0, (), flag.obeyed)
    if flag is not None and flag.no_effect:
        return FlagResult(name, NO_EFFECT, 0, (), flag.no_effect)
    if not on:
        return FlagResult(name, OFF, 0, (), "it is off")
    return FlagResult(name, NOTHING, 0, (), flag.idle if flag and flag.idle else _idle(context))


def _idle(context: PassContext) -> str:
    """The reason why a flag that is on selects no pass."""
    return (
        "this value requests nothing" if context.communicates else "one device needs no pass for it"
    )


def _result(report: Report, flag: str, ran: list[Ran]) -> FlagResult:
    names = tuple(item.pass_name for item in ran)
    number = sum(report.times(item) for item in ran)
    declined = [item for name in names for item in report.declined(name)]
    if number:
        return FlagResult(flag, APPLIED, number, names, f"applied {times(number)}")
    if declined:
        text = f"refused {times(len(declined))}, first because {declined[0].reason}"
        return FlagResult(flag, REFUSED, 0, names, text)
    near = [item for name in names for item in report.near_misses(name)]
    if near and all(item.reason.name == TAKEN for item in near):
        takers = ", ".join(dict.fromkeys(item.reason.text for item in near))
        return FlagResult(flag, NOTHING, 0, names, f"{takers}, {times(len(near))}")
    nearest = f"; the nearest miss: {near[0].reason}" if near else ""
    return FlagResult(flag, NOTHING, 0, names, f"no such pattern{nearest}")


def silent_flags(report: Report) -> list[FlagResult]:
    """The flags that the user switched on and that did nothing."""
    flags = report.context.flags
    return [
        result
        for result in flag_results(report)
        if result.flag in report.context.asked and flags.get(result.flag) and result.is_silent
    ]


# -- as text ---------------------------------------------------------------------------------------


def as_page(report: Report) -> Page:
    """The report on one screen."""
    notes = [*_flags_without_pass(report), *_notes(report)]
    if report.validation is not None:
        notes += report.validation.lines()
    return overview(report, _head(report), notes)


def as_text(report: Report, flag: str = "") -> str:
    """The report for people on one screen; op by op for a flag or pass, or for EVERYTHING.

    ValueError for a name that is neither.
    """
    if not flag:
        return as_page(report).text()
    flag = "" if flag == EVERYTHING else flag
    _check_name(report, flag)
    lines = [_first_line(report)] if flag else _head(report)
    if not flag:
        lines += filter(None, [time_line(report)])
    for ran in report.ran:
        if flag in ("", ran.flag, ran.pass_name):
            lines += _pass_lines(report, ran)
    lines += _flags_without_pass(report, flag)
    if not flag:
        lines += _notes(report)
    if report.validation is not None:
        lines += report.validation.lines()
    return "\n".join(lines)


def _first_line(report: Report) -> str:
    target = report.context.platform or "any platform (portable: no pass for a kind of device)"
    return f"{several(report.ops_before, 'op')} before, {report.ops_after} after, for {target}"


def _head(report: Report) -> list[str]:
    """The first line, and one about ops that do not run in each step."""
    count = f"{report.prepared} of the {report.ops_after}"
    once = f"{count} run once, not in each step: they read parameters alone"
    return [_first_line(report), *([once] if report.prepared else [])]


def _flags_without_pass(report: Report, flag: str = "") -> Iterator[str]:
    """A line for each flag, or for one, that ran no pass: what becomes of it."""
    for result in flag_results(report):
        if result.passes or not (flag == result.flag or (not flag and _is_told(report, result))):
            continue
        effect = f"{NO_EFFECT} ({result.text})" if result.status == NO_EFFECT else result.text
        yield f"{result.flag}: {effect}"


def _is_told(report: Report, result: FlagResult) -> bool:
    """True for flags without a pass that the whole report mentions: those that the user set."""
    return result.flag in report.context.asked and result.status != OFF


def _check_name(report: Report, name: str) -> None:
    """ValueError unless this is the name of a flag, of a pass that ran, or nothing."""
    passes = {row.pass_name for row in ROWS} | {ran.pass_name for ran in report.ran}
    known = {*(row.flag for row in ROWS), *BUILD_FLAGS, *passes}
    known.update(ran.flag for ran in report.ran)
    if name and name not in known:
        near = get_close_matches(name, known)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise ValueError(f"'{name}' is neither a flag of BuildStrategy nor a pass{hint}")


def _notes(report: Report) -> Iterator[str]:
    yield from report.notes
    for reason in report.kept_gradients:
        yield (
            f"a backward pass is not the derivative of the program ({reason}); its "
            f"gradient operators ({report.before['pd.vjp']}) are differentiated one by one"
        )
    yield from _by_op_lines(report)


def _by_op_lines(report: Report) -> Iterator[str]:
    """The ops for which the program runs op by op, alike ones together, and what to do."""
    groups: dict[tuple[str, str], list[ByOp]] = {}
    for found in report.by_op:
        groups.setdefault((found.what, found.fix), []).append(found)
    for number, ((what, fix), found) in enumerate(groups.items()):
        first = found[0]
        place = f" ({first.location})" if first.location else ""
        value = f"'{first.variable}' decides" if first.variable else "data decide"
        more = f" (and at {len(found) - 1} more)" if len(found) > 1 else ""
        head = "also" if number else "runs op by op on one device, each op a program of its own"
        yield f"{head}: {value} {what}{place}{more}"
        yield f"  to change that: {fix}"


def _pass_lines(report: Report, ran: Ran) -> Iterator[str]:
    applied, declined = report.applied(ran.pass_name), report.declined(ran.pass_name)
    near = report.near_misses(ran.pass_name)
    if ran.flag in AUTOMATIC and not (report.times(ran) or declined):
        return  # a clean-up that found nothing to clean
    counts = f"applied {times(len(applied))}, declined {times(len(declined))}"
    if ran.pass_name in JOINED:
        after = report.after[JOINED[ran.pass_name]]
        before = after + sum(len(outcome.replaced) - 1 for outcome in applied)
        counts += f"; {before} collectives before, {after} after"
    if near:
        counts += f", {len(near)} near {'miss' if len(near) == 1 else 'misses'}"
    head = f"{ran.flag} ({ran.pass_name}, {ran.seconds * 1e3:.1f} ms)"
    yield f"{head}: {ran.effect or counts}"
    for outcome in applied:
        yield f"  applied at {where(outcome)}" + (f": {outcome.note}" if outcome.note else "")
    yield from _grouped("declined", declined)
    yield from _grouped("near miss", near)


def _grouped(what: str, items: Iterable[Declined | NearMiss]) -> Iterator[str]:
    """A line for each reason, with the first place and how many more there are."""
    groups: dict[str, list[Declined | NearMiss]] = {}
    for item in items:
        key = str(item.reason) if isinstance(item, Declined) else _general(item)
        groups.setdefault(key, []).append(item)
    for group in groups.values():
        first = group[0]
        more = f" (and at {len(group) - 1} more)" if len(group) > 1 else ""
        yield f"  {what} at {where(first)}: {first.reason}{more}"
        if first.reason.fix:
            yield f"    to change that: {first.reason.fix}"


def _general(miss: NearMiss) -> str:
    """A near miss without the names of values, so that alike ones share a line."""
    words = [word for word in miss.reason.text.split() if not word.startswith("%")]
    return f"{miss.reason.name} {' '.join(words)}"


def where(item: Applied | Declined | NearMiss) -> str:
    """The last op of a pattern, and the user's line that made it."""
    return f"{item.anchor} ({item.location})" if item.location else item.anchor


# -- as JSON ---------------------------------------------------------------------------------------


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain data; docs/reference/explain-json.md says what the fields mean."""
    return {
        "schema": SCHEMA,
        "platform": report.context.platform or None,
        "ops": {"before": dict(report.before), "after": dict(report.after)},
        "flags": [
            {
                "flag": result.flag,
                "status": result.status,
                "times": result.times,
                "passes": list(result.passes),
                "text": result.text,
            }
            for result in flag_results(report)
        ],
        "passes": [
            {
                "pass": ran.pass_name,
                "flag": ran.flag,
                "seconds": ran.seconds,
                "ops_before": ran.ops_before,
                "ops_after": ran.ops_after,
                "applied": report.times(ran),
                "declined": len(report.declined(ran.pass_name)),
                "near_misses": len(report.near_misses(ran.pass_name)),
                "numerics": ran.numerics.value if ran.numerics is not None else None,
                "sweep": ran.sweep,
                "removed": ran.removed,
                "saved": asdict(ran.saved) if ran.saved is not None else None,
            }
            for ran in report.ran
        ],
        "cost": {"before": asdict(report.cost_before), "after": asdict(report.cost_after)}
        if report.detailed
        else None,
        "times": [asdict(row) for row in time_rows(report)],
        "collectives": [
            {"after": each.after, **asdict(found)}
            for each in report.traffic
            for found in each.collectives
        ],
        "measured": asdict(report.measured) if report.measured is not None else None,
        "refusals": [asdict(row) for row in refusal_rows(report)],
        "blocks": [_block(row) for row in block_rows(report)],
        "anchors": [_anchor(item) for item in (*report.outcomes, *report.near)],
        "runs_op_by_op": sorted({found.op for found in report.by_op}),
        "op_by_op": [asdict(found) for found in report.by_op],
        "gradients": {
            "kept_operators": report.before["pd.vjp"],
            "reasons": list(report.kept_gradients),
        },
        "validation": report.validation.to_json() if report.validation is not None else None,
    }


def _block(row: BlockRow) -> dict[str, Any]:
    fused = [
        {"pass": each.rule, "ops": list(each.ops), "made": each.made, "times": number}
        for each, number in row.fused
    ]
    return {**asdict(row), "fused": fused}


def _anchor(item: Applied | Declined | NearMiss) -> dict[str, Any]:
    outcomes = {Applied: "fired", Declined: "refused", NearMiss: "near miss"}
    found: dict[str, Any] = {
        "pass": item.rule,
        "op": item.anchor,
        "location": item.location,
        "outcome": outcomes[type(item)],
    }
    if isinstance(item, Applied):
        note = {"note": item.note} if item.note else {}
        return {**found, "replaced": list(item.replaced), **note}
    reason = item.reason
    told = {"name": reason.name, "text": reason.text, "fix": reason.fix}
    return {**found, "reason": told}


def applied_counts(report: Report) -> dict[str, int]:
    """The number of changes by each pass that made some: the content of a lock file."""
    counts: Counter[str] = Counter()
    for ran in report.ran:
        counts[ran.pass_name] += report.times(ran)
    return {name: number for name, number in sorted(counts.items()) if number}
