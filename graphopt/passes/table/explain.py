"""A report on one screen, op by op, and as JSON: rewrites, refusals with reasons, and remedies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from graphopt.display.table import Cell, Column, Page, Table
from graphopt.display.units import milliseconds, quantity, several, size, times
from graphopt.ir.dialect.ops.control import FusionGroup
from graphopt.passes.engine.blocks import LAYER, Fused
from graphopt.passes.engine.costs import Cost
from graphopt.passes.engine.fusion import Applied, Declined
from graphopt.passes.engine.near_misses import TAKEN, NearMiss
from graphopt.passes.table.context import TF32, PassContext
from graphopt.passes.table.flags import BUILD_FLAGS
from graphopt.passes.table.order import ROWS
from graphopt.passes.table.report import (
    AUTOMATIC,
    BlockRow,
    ByOp,
    PassRow,
    Ran,
    RefusalRow,
    Report,
    block_rows,
    pass_rows,
    refusal_rows,
    report_line,
    time_line,
    time_rows,
)

SCHEMA = 2
EVERYTHING = "all"
"""In place of a flag or pass: report every pass, op by op."""
APPLIED, NOTHING, REFUSED = "applied", "nothing to do", "refused"
NO_EFFECT, RUNTIME_FLAG, OFF = "no effect here", "obeyed by the runtime", "off"

# pass -> the kind of op that it joins
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
    """List the result of each flag that ran a pass, then of every other flag of the strategy."""
    results: list[FlagResult] = []
    for flag in dict.fromkeys(ran.flag for ran in report.ran):
        results.append(_result(report, flag, [ran for ran in report.ran if ran.flag == flag]))
    done = {result.flag for result in results}
    context = report.context
    others = [flag for flag in context.flags if flag not in done]
    return results + [_without_pass(context, flag) for flag in others]


def _without_pass(context: PassContext, name: str) -> FlagResult:
    """Return the outcome of a flag for which no pass ran."""
    flag, asked, on = BUILD_FLAGS.get(name), name in context.asked, bool(context.flags.get(name))
    if not on and not asked:
        return FlagResult(name, OFF, 0, (), "the flag is off")
    if flag is not None and asked and (refusal := flag.refusal(context)):
        return FlagResult(name, REFUSED, 0, (), f"refused because {refusal}")
    if flag is not None and flag.obeyed:
        return FlagResult(name, RUNTIME_FLAG, 0, (), flag.obeyed)
    if flag is not None and flag.no_effect:
        return FlagResult(name, NO_EFFECT, 0, (), flag.no_effect)
    if not on:
        return FlagResult(name, OFF, 0, (), "the flag is off")
    return FlagResult(name, NOTHING, 0, (), flag.idle if flag and flag.idle else _idle(context))


def _idle(context: PassContext) -> str:
    """Return the reason why a flag that is on selects no pass."""
    return (
        "this value of the flag requests no pass"
        if context.communicates
        else "the flag needs several devices, and the program runs on one"
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
    nearest = f"; the nearest miss is {near[0].reason}" if near else ""
    return FlagResult(flag, NOTHING, 0, names, f"the program has no such pattern{nearest}")


def silent_flags(report: Report) -> list[FlagResult]:
    """List the flags that the user switched on and that did nothing."""
    flags = report.context.flags
    return [
        result
        for result in flag_results(report)
        if result.flag in report.context.asked and flags.get(result.flag) and result.is_silent
    ]


# -- as text ---------------------------------------------------------------------------------------


def as_page(report: Report) -> Page:
    """Build the report as a page of one screen."""
    notes = [*_flags_without_pass(report), *_notes(report)]
    if report.validation is not None:
        notes += report.validation.lines()
    return overview(report, _head(report), notes)


def as_text(report: Report, flag: str = "") -> str:
    """Format the report on one screen, or op by op for a flag, a pass or EVERYTHING.

    Raise ValueError for a name that is none of these.
    """
    if not flag:
        return as_page(report).text()
    flag = "" if flag == EVERYTHING else flag
    _check_name(report, flag)
    lines = [_first_line(report)] if flag else _head(report)
    if not flag:
        lines += filter(None, _time_lines(report))
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
    more = f", and {report.required} that {_devices(report)} require" if report.required else ""
    after = report.ops_after - report.required
    return f"{several(report.ops_before, 'op')} before, {after} after{more}, for {target}"


def _fused_line(report: Report) -> list[str]:
    """Summarize the fusions that happened, by the ops that became one."""
    counts: Counter[Fused] = Counter()
    for block in report.blocks:
        counts.update(block.fused)
    if not counts:
        return []
    ops = sum(number * len(fused.ops) for fused, number in counts.items())
    common = sorted(counts, key=lambda fused: (-counts[fused], -len(fused.ops), fused.ops))
    told, others = common[:_MOST_KINDS], common[_MOST_KINDS:]
    kinds = [f"{counts[e]} x {_words(e, 1)}" if counts[e] > 1 else _words(e, 1) for e in told]
    more = [f"{sum(counts[each] for each in others)} more"] if others else []
    return [f"{several(counts.total(), 'fusion')} of {ops} ops: {', '.join([*kinds, *more])}"]


def _devices(report: Report) -> str:
    return several(report.context.ranks * report.context.model, "device")


def _head(report: Report) -> list[str]:
    """Compose the first line, the fusions, and the ops not counted: in groups, or run only once."""
    groups = several(report.after[FusionGroup.name], "group")
    grouped = f"{groups} of {report.in_groups} ops in all; each group counts as one op"
    more = several(report.prepared, "more op")
    once = f"{more} with only parameters as operands: run once, not in each step"
    return [
        _first_line(report),
        *_fused_line(report),
        *([grouped] if report.in_groups else []),
        *([once] if report.prepared else []),
    ]


def _flags_without_pass(report: Report, flag: str = "") -> Iterator[str]:
    """Yield a line on the effect of each flag, or of `flag` alone, that ran no pass."""
    for result in flag_results(report):
        if result.passes or not (flag == result.flag or (not flag and _is_told(report, result))):
            continue
        effect = f"{NO_EFFECT} ({result.text})" if result.status == NO_EFFECT else result.text
        yield f"{result.flag}: {effect}"


def _is_told(report: Report, result: FlagResult) -> bool:
    """True for a flag without a pass that the whole report mentions: one that the user set."""
    return result.flag in report.context.asked and result.status != OFF


def _check_name(report: Report, name: str) -> None:
    """Raise ValueError unless this is the name of a flag or a pass, or empty."""
    passes = {row.pass_name for row in ROWS} | {ran.pass_name for ran in report.ran}
    known = {*(row.flag for row in ROWS), *BUILD_FLAGS, *passes}
    known.update(ran.flag for ran in report.ran)
    if name and name not in known:
        near = get_close_matches(name, known)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise ValueError(f"'{name}' is neither a flag of BuildStrategy nor a pass{hint}")


def _notes(report: Report) -> Iterator[str]:
    if precision := report.context.precision:
        where = "on GPUs that have it" if precision == TF32 else "on any GPU"
        yield f"float32 products are computed in {precision} {where} (FLAGS_graphopt_tf32)"
    yield from report.notes
    for reason in report.kept_gradients:
        yield (
            f"a backward pass is not the derivative of the program ({reason}); the "
            f"gradient operators ({report.before['pd.vjp']}) are differentiated one by one"
        )
    yield from _by_op_lines(report)


_OP_BY_OP = "runs op by op on one device, each op compiled alone"


def _by_op_lines(report: Report) -> Iterator[str]:
    """Yield lines on the ops for which the program runs op by op, grouped, with the fix."""
    groups: dict[tuple[str, str], list[ByOp]] = {}
    for found in report.by_op:
        groups.setdefault((found.what, found.fix), []).append(found)
    for number, ((what, fix), found) in enumerate(groups.items()):
        first = found[0]
        place = f" ({first.location})" if first.location else ""
        value = f"'{first.variable}' decides" if first.variable else "data decide"
        more = f" (and at {len(found) - 1} more)" if len(found) > 1 else ""
        head = "also" if number else _OP_BY_OP
        if report.deciding and not number:
            head = f"compiled for numbers that come again; for other numbers, the program {head}"
        yield f"{head}: {value} {what}{place}{more}"
        yield f"  to change that: {fix}"


def _pass_lines(report: Report, ran: Ran) -> Iterator[str]:
    applied, declined = report.applied(ran.pass_name), report.declined(ran.pass_name)
    near = report.near_misses(ran.pass_name)
    if ran.flag in AUTOMATIC and not (report.times(ran) or declined):
        return  # a clean-up that changed nothing
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
    yield from _group_reasons("declined", declined)
    yield from _group_reasons("near miss", near)


def _group_reasons(what: str, items: Iterable[Declined | NearMiss]) -> Iterator[str]:
    """Yield a line for each reason, with the first place and the number of others, and its fix."""
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
    """Return a key for a near miss without the names of values, so that like ones share a line."""
    words = [word for word in miss.reason.text.split() if not word.startswith("%")]
    return f"{miss.reason.name} {' '.join(words)}"


def where(item: Applied | Declined | NearMiss) -> str:
    """Format the last op of a pattern, and the user's line that made it."""
    return f"{item.anchor} ({item.location})" if item.location else item.anchor


# -- as JSON ---------------------------------------------------------------------------------------


def as_json(report: Report) -> dict[str, Any]:
    """Convert the report to plain data; docs/reference/explain-json.md describes the fields."""
    return {
        "schema": SCHEMA,
        "platform": report.context.platform or None,
        "ops": {
            "before": dict(report.before),
            "after": dict(report.after),
            "required": report.required,
            "prepared": report.prepared,
            "in_groups": report.in_groups,
        },
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
                "candidates": row.candidates,
                "required": row.required,
                "numerics": ran.numerics.value if ran.numerics is not None else None,
                "sweep": ran.sweep,
                "removed": ran.removed,
                "saved": asdict(ran.saved) if ran.saved is not None else None,
            }
            for ran, row in zip(report.ran, pass_rows(report), strict=True)
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
    had = {"had": item.had} if isinstance(item, NearMiss) else {}
    return {**found, "reason": told, **had}


def applied_counts(report: Report) -> dict[str, int]:
    """Count the changes by each pass that made some: the content of a lock file."""
    counts: Counter[str] = Counter()
    for ran in report.ran:
        counts[ran.pass_name] += report.times(ran)
    return {name: number for name, number in sorted(counts.items()) if number}


# -- as one page: a table of passes, the kinds of refusals, the layers and blocks ------------------

_MOST_LINES = 4
_MOST_REFUSALS = 10
_MOST_BLOCKS = 12
_MOST_KINDS = 6
_SHORT = 60


def overview(report: Report, head: Sequence[str], notes: Sequence[str]) -> Page:
    """Build the page of a report, which starts with `head` and ends with `notes`."""
    rows = [row for row in pass_rows(report) if row.fired or row.asked or _is_refused(row, report)]
    return Page(
        [
            "\n".join(filter(None, [*head, *_cost_line(report), *_time_lines(report)])),
            _pass_table([row for row in rows if not row.required], report),
            _required_table([row for row in rows if row.required], report),
            _traffic_table(report),
            _refusal_table(
                refusal_rows(report),
                {row.pass_name for row in rows if row.asked},
                {row.pass_name for row in rows if row.asked and not row.fired},
            ),
            _block_table(block_rows(report)),
            "\n".join(notes),
        ]
    )


def _time_lines(report: Report) -> list[str]:
    return [time_line(report), report_line(report)]


def _is_refused(row: PassRow, report: Report) -> bool:
    """True for the pass of a flag that is on by default and that declined a match."""
    return row.flag not in AUTOMATIC and bool(report.declined(row.pass_name))


def _cost_line(report: Report) -> list[str]:
    """Format the cost of one call before and after the optimizations, if it was counted."""
    old = report.cost_before
    new = report.cost_after + _required_cost(report)
    if not report.detailed:
        return []
    traffic = _change(size(old.traffic), size(new.traffic))
    work = _change(f"{quantity(old.flops)}FLOP", f"{quantity(new.flops)}FLOP")
    arrays = _change(f"{old.state_arrays}", several(new.state_arrays, "array"))
    state = f"{_change(size(old.state_bytes), size(new.state_bytes))} in {arrays}"
    return [f"forward, unknown sizes as 1: traffic {traffic}, {work}; state {state}"]


def _change(before: str, after: str) -> str:
    """Format a number before and after; once if it is unchanged."""
    return after if after.split()[0] == before.split()[0] else f"{before} -> {after}"


# -- passes ----------------------------------------------------------------------------------------

_PASS_COLUMNS = (
    Column("flag or pass"),
    Column("fired", right=True),
    Column("ops", right=True),
    Column("traffic", right=True),
    Column("state", right=True),
    Column("FLOPs", right=True),
    Column("step ms", right=True),
    Column("pass ms", right=True),
)


def _pass_table(rows: Sequence[PassRow], report: Report) -> Table:
    """Build the table of the optimizations, with their total."""
    ops = f"{report.ops_before} -> {report.ops_after - report.required}"
    saved = report.cost_before - report.cost_after - _required_cost(report)
    step = "" if report.measured is None else f"{report.measured.step_ms:.2f}"
    seconds = sum(ran.seconds for ran in report.ran if not ran.is_required)
    return _with_total(rows, [ops, *_gains(saved), step, milliseconds(seconds)])


def _required_table(rows: Sequence[PassRow], report: Report) -> Table:
    """Build the table of the passes that several devices require, with their total."""
    if not rows:
        return Table((), ())
    after = report.ops_after
    ops = f"{after - report.required} -> {after}" if report.required else ""
    seconds = sum(ran.seconds for ran in report.ran if ran.is_required)
    cells = [ops, *_gains(_required_cost(report)), "", milliseconds(seconds)]
    title = f"not optimizations: what {_devices(report)} require"
    return replace(_with_total(rows, cells), title=title)


def _required_cost(report: Report) -> Cost:
    costs = (ran.saved for ran in report.ran if ran.is_required and ran.saved is not None)
    return sum(costs, Cost())


def _with_total(rows: Sequence[PassRow], total: Sequence[str]) -> Table:
    last = [Cell(text, "dim") for text in ("in all", "", *total)]
    return Table(_PASS_COLUMNS, [*map(_pass_cells, rows), last])


def _pass_cells(row: PassRow) -> list[str | Cell]:
    fired = f"{row.fired} of {row.candidates}"
    style = "good" if row.fired else "warn" if row.asked else "dim"
    ops = f"{row.ops_before} -> {row.ops_after}" if row.ops_before != row.ops_after else ""
    gained = "" if row.gained_ms is None else f"{-row.gained_ms:+.2f}"
    return [
        row.name,
        Cell(fired, style),
        ops,
        *_gains(row.saved),
        gained,
        milliseconds(row.seconds),
    ]


def _gains(saved: Cost) -> list[str]:
    """Format the changes of traffic, state and FLOPs as signed numbers; "" where unchanged."""
    if saved.state_bytes:
        state = _with_sign(size(-saved.state_bytes))
    else:
        state = f"{-saved.state_arrays:+} arrays" if saved.state_arrays else ""
    return [
        _with_sign(size(-saved.traffic)) if saved.traffic else "",
        state,
        _with_sign(quantity(-saved.flops)) if saved.flops else "",
    ]


def _with_sign(text: str) -> str:
    return text if text.startswith("-") else f"+{text}"


# -- collectives -----------------------------------------------------------------------------------

_TRAFFIC_COLUMNS = (
    Column("after"),
    Column("op"),
    Column("count", right=True),
    Column("payload", right=True),
    Column("sent by a device", right=True),
)


def _traffic_table(report: Report) -> Table:
    """Build the table of a step's collectives, after each step of the passes that changed them."""
    rows = [
        [each.after, found.op, str(found.count), size(found.payload), size(found.sent)]
        for each in report.traffic
        for found in each.collectives
    ]
    count = report.context.ranks * report.context.model
    return Table(
        _TRAFFIC_COLUMNS, rows, f"collectives of a step on {count} devices" if rows else ""
    )


# -- refusals --------------------------------------------------------------------------------------

_REFUSAL_COLUMNS = (Column(right=True), Column(), Column(wraps=True), Column())


def _refusal_table(rows: Sequence[RefusalRow], asked: set[str], idle: set[str]) -> Table:
    """Build the table of refusals, a row for each kind; near misses only of requested passes.

    Patterns that another pass took are included where the requested pass is `idle`.
    """
    shown = [row for row in rows if not row.near or row.pass_name in (idle if row.had else asked)]
    cells: list[list[str | Cell]] = []
    for row in shown[:_MOST_REFUSALS]:
        text = row.text if row.near else f"{row.kind}: {row.text}"
        edit = f". Edit: {row.fix}" if row.fix else ""
        count = Cell(str(row.count), "warn" if row.asked and not row.near else "")
        cells.append([count, row.pass_name, f"{text}{edit}", short_lines(row.lines)])
    left = shown[_MOST_REFUSALS:]
    if left:
        count = str(sum(row.count for row in left))
        cells.append([count, "others", f'of {several(len(left), "kind")}: see "all"', ""])
    return Table(_REFUSAL_COLUMNS, cells, "not fired" if cells else "")


def short_lines(lines: Sequence[str], most: int = _MOST_LINES) -> str:
    """Shorten the lines of scripts: each file once, by its last name."""
    files: dict[str, list[str]] = {}
    for line in filter(None, lines[:most]):
        file, _, number = line.rpartition(":")
        files.setdefault(file, []).append(number)
    found = " ".join(f"{Path(file).name}:{','.join(numbers)}" for file, numbers in files.items())
    return f"{found} +{len(lines) - most}" if len(lines) > most else found


# -- layers and blocks -----------------------------------------------------------------------------

_BLOCK_COLUMNS = (
    Column(right=True),
    Column("layer or block", wraps=True),
    Column("fused", right=True),
    Column("as", wraps=True),
    Column("until"),
)


def _block_table(rows: Sequence[BlockRow]) -> Table:
    """Build the table of blocks with fusions or refusals, and of the largest other blocks."""
    told = [row for row in rows if row.fused_ops or row.refused]
    if not told:
        return Table((), ())
    rank = {row: (row not in told, -row.count * row.ops_in_each) for row in rows}
    large = [row for row in rows if row in told or row.ops_in_each > 1]
    kept = set(sorted(large, key=rank.__getitem__)[:_MOST_BLOCKS])
    cells: list[list[str | Cell]] = []
    for row in rows:
        if row in kept:
            cells += _block_cells(row)
    left = [row for row in rows if row not in kept]
    if left:
        count = sum(row.count for row in left)
        kinds = ", ".join(row.ops for row in left if row.ops_in_each == 1)
        words = kinds if len(kinds) < _SHORT and all(row.ops_in_each == 1 for row in left) else ""
        name = f"others: {words}" if words else f"others, of {several(len(left), 'kind')}"
        cells.append([f"{count} x", name, "-", "", ""])
    return Table(_BLOCK_COLUMNS, cells, "layers and blocks, forward")


def _block_cells(row: BlockRow) -> Iterable[list[str | Cell]]:
    name = row.ops if row.kind == LAYER else f"{row.kind}: {row.ops}"
    fused = f"{row.fused_ops} of {row.ops_in_each}" if row.fused_ops else "-"
    style = "good" if row.fused_ops else "warn" if row.refused else ""
    made = "; ".join(_words(each, number) for each, number in row.fused)
    yield [
        f"{row.count} x",
        name,
        Cell(fused, style),
        made,
        short_lines([row.line]),
    ]
    for text in row.refused:
        numbers = ", ".join(map(str, row.numbers[:_MOST_LINES]))
        more = ", ..." if row.count > _MOST_LINES else ""
        yield ["", Cell(f"  no. {numbers}{more}", "warn"), "", Cell(text, "warn"), ""]


def _words(fused: Fused, number: int) -> str:
    """Name a fusion by its ops, or by the fused op if there are many."""
    text = " + ".join(fused.ops) if len(fused.ops) <= _MOST_LINES else fused.made
    return text if number == 1 else f"{number} x {text}"
