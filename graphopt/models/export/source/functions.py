"""Functions for repeated calls, and loops for consecutive calls of one function.

Stretches of calls are alike if the texts of their calls are, and values flow through them in the
same way; they may differ in the layers of weights. The stretch that saves most becomes a function,
repeatedly, so that functions call functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.ir import SSAValue

from graphopt.models.export.source.calls import Label, Numbered, SourceCall, free_name
from graphopt.models.export.source.program import read_by

FEWEST, LONGEST, MOST = 3, 160, 4
"""The fewest and the most calls of a function, and the most values that it reads."""

ACTIVATIONS = (
    *("relu", "relu6", "gelu", "sigmoid", "tanh", "silu", "swish", "mish"),
    *("hardswish", "hardsigmoid", "leaky_relu", "elu"),
)
"""Calls that end a layer, so that no function starts with one."""

_NUMBER = re.compile(r"(.*?)(\d+)$", re.S)


@dataclass
class SourceFunction:
    """A function: its values and layer numbers as parameters, its calls and its result."""

    name: str
    values: Sequence[SSAValue]
    parameters: Sequence[str]
    calls: list[SourceCall]
    result: SSAValue


@dataclass
class Loop(SourceCall):
    """Calls of one function, each of which reads the previous result.

    `rows` are the layer numbers of each iteration, `carried` is the operand that the result
    becomes.
    """

    rows: list[list[Label]] = field(default_factory=list[list[Label]])
    parameters: Sequence[str] = ()
    carried: int = 0


# by call, by operand: a call of the stretch, or -1 for outside, and the index of its result
_Wiring: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True)
class _Stretch:
    begin: int
    outside: tuple[SSAValue, ...]


def divide(
    calls: list[SourceCall], outputs: Sequence[SSAValue]
) -> tuple[list[SourceFunction], list[SourceCall]]:
    """Extract functions; return them in the order of their calls, and the remaining calls."""
    functions: list[SourceFunction] = []
    while (found := _best(calls, outputs)) is not None:
        length, stretches = found
        function, labels = _function(calls, length, stretches, functions)
        functions.append(function)
        for stretch, row in reversed(list(zip(stretches, labels, strict=True))):
            last = calls[stretch.begin + length - 1].results[0]
            given = [f"{{{at}}}" for at in range(len(stretch.outside))]
            own = [
                f"<{at}>" if len(function.parameters) == 1 else f"{name}=<{at}>"
                for at, name in enumerate(function.parameters)
            ]
            call = SourceCall(
                f"{function.name}({', '.join(['w', *given, *own])})",
                [last],
                list(stretch.outside),
                row,
                hint=function.name,
            )
            calls = [*calls[: stretch.begin], call, *calls[stretch.begin + length :]]
    for function in functions:
        function.calls = list(in_loops(function.calls, [function.result]))
    return functions, list(in_loops(calls, outputs))


def _best(
    calls: Sequence[SourceCall], outputs: Sequence[SSAValue]
) -> tuple[int, list[_Stretch]] | None:
    """Find the length and the places of the stretches that save most as a function."""
    kinds: dict[str, int] = {}
    tokens = [
        -at - 1 if call.functions else kinds.setdefault(call.text, len(kinds))
        for at, call in enumerate(calls)
    ]
    place = {
        value: (at, r) for at, call in enumerate(calls) for r, value in enumerate(call.results)
    }
    longest = min(LONGEST, len(calls) // 2)
    closed = _closed_stretches(calls, outputs, longest)
    same = tokens[:]
    best: tuple[float, int, list[_Stretch]] | None = None
    for length in range(2, longest + 1):
        # equal numbers in `same` mean equal texts of this many calls
        longer: dict[tuple[int, int], int] = {}
        same = [
            longer.setdefault((beginning, tokens[at + length - 1]), len(longer))
            for at, beginning in enumerate(same[: len(calls) - length + 1])
        ]
        groups: dict[int, list[int]] = {}
        for begin in closed[length]:
            groups.setdefault(same[begin], []).append(begin)
        for begins in groups.values():
            if len(begins) < 2 or begins[-1] - begins[0] < length:
                continue
            if best is not None and _gain(length, len(begins), 0) <= best[0]:
                continue
            wired: dict[_Wiring, list[_Stretch]] = {}
            for begin in begins:
                wiring, outside = _wiring(calls, begin, length, place)
                rows = wired.setdefault(wiring, [])
                if not rows or rows[-1].begin + length <= begin:
                    rows.append(_Stretch(begin, outside))
            for rows in wired.values():
                many = len(rows[0].outside)
                gain = _gain(length, len(rows), many)
                if len(rows) > 1 and many <= MOST and gain > (best[0] if best else 0):
                    best = gain, length, rows
    return None if best is None else best[1:]


def _gain(length: int, count: int, outside: int) -> float:
    """Score a function: many short ones are easier to read than few long ones."""
    return (length - 1) ** 0.7 * (count - 1) - 0.2 * outside


def _closed_stretches(
    calls: Sequence[SourceCall], outputs: Sequence[SSAValue], longest: int
) -> list[list[int]]:
    """List by length the starts of stretches whose only live result is their last call's first."""
    last_read: dict[SSAValue, int] = {}
    for at, call in enumerate(calls):
        last_read.update(dict.fromkeys(read_by(call), at))
    last_read.update(dict.fromkeys(outputs, len(calls)))
    reads = [[last_read.get(value, -1) for value in call.results] for call in calls]
    closed: list[list[int]] = [[] for _ in range(longest + 1)]
    for begin, call in enumerate(calls):
        if call.hint in ACTIVATIONS:
            continue
        reach = -1
        for end in range(begin + 1, min(begin + longest, len(calls)) + 1):
            first, *others = reads[end - 1]
            if end - begin >= FEWEST and reach < end <= first and max(others, default=-1) < 0:
                closed[end - begin].append(begin)
            reach = max(reach, *reads[end - 1])
    return closed


def _wiring(
    calls: Sequence[SourceCall],
    begin: int,
    length: int,
    place: Mapping[SSAValue, tuple[int, int]],
) -> tuple[_Wiring, tuple[SSAValue, ...]]:
    """Describe the flow of values in a stretch, and collect the values from outside."""
    outside: dict[SSAValue, int] = {}
    rows: list[tuple[tuple[int, int], ...]] = []
    for call in calls[begin : begin + length]:
        row: list[tuple[int, int]] = []
        for value in call.operands:
            made, result = place.get(value, (-1, 0))
            if made >= begin:
                row.append((made - begin, result))
            else:
                row.append((-1, outside.setdefault(value, len(outside))))
        rows.append(tuple(row))
    return tuple(rows), tuple(outside)


def _function(
    calls: Sequence[SourceCall],
    length: int,
    stretches: Sequence[_Stretch],
    others: Sequence[SourceFunction],
) -> tuple[SourceFunction, list[list[Label]]]:
    """Build the function of some stretches; return it and the layer numbers of each stretch."""
    first = stretches[0]
    body = calls[first.begin : first.begin + length]
    columns = [
        [calls[s.begin + at].labels[k] for s in stretches]
        for at, call in enumerate(body)
        for k in range(len(call.labels))
    ]
    parameters, labels, values = _parameters(columns)
    rows = [[column[at] for column in values] for at in range(len(stretches))]
    names = iter(labels)
    own = [
        SourceCall(
            call.text,
            call.results,
            call.operands,
            [next(names) for _ in call.labels],
            call.hint,
        )
        for call in body
    ]
    name = _name(body, first, {each.name for each in others})
    function = SourceFunction(name, first.outside, parameters, own, body[-1].results[0])
    return function, rows


def _parameters(
    columns: Sequence[Sequence[Label]],
) -> tuple[list[str], list[Label], list[Sequence[Label]]]:
    """Choose parameters for the labels that differ; return names, labels in them, and arguments."""
    split = [[_letters_and_number(label) for label in column] for column in columns]
    groups: dict[tuple[int, ...], list[int]] = {}
    texts: dict[tuple[Label, ...], list[int]] = {}
    for at, column in enumerate(columns):
        if len(set(column)) == 1:
            continue
        if len({letters for letters, _ in split[at]}) == 1:
            numbers = [number for _, number in split[at]]
            groups.setdefault(tuple(n - numbers[0] for n in numbers), []).append(at)
        else:
            texts.setdefault(tuple(column), []).append(at)
    labels: list[Label] = [column[0] for column in columns]
    parameters: list[str] = []
    values: list[Sequence[Label]] = []
    for members in groups.values():
        least = min(members, key=lambda at: split[at][0][1])
        letters = split[least][0][0]
        kind = _identifier(letters)
        name = "n" if len(groups) == 1 or not kind else f"{kind}_n"
        name = free_name(name, parameters)
        parameters.append(name)
        values.append([number for _, number in split[least]])
        base = split[least][0][1]
        for at in members:
            labels[at] = Numbered(split[at][0][0], name, split[at][0][1] - base)
    for column, members in texts.items():
        name = free_name("layer", parameters)
        parameters.append(name)
        values.append(column)
        for at in members:
            labels[at] = Numbered("", name)
    return parameters, labels, values


def _letters_and_number(label: Label) -> tuple[str, int]:
    if isinstance(label, int):
        return "", label
    found = _NUMBER.match(label) if isinstance(label, str) else None
    return (found[1], int(found[2])) if found else (str(label), -1)


def _identifier(letters: str) -> str:
    name = re.sub(r"\W+", "_", letters).strip("_").lower()
    return name if name.isidentifier() else ""


def _name(body: Sequence[SourceCall], stretch: _Stretch, taken: set[str]) -> str:
    """Choose a name by the function's ops."""
    hints = [call.hint for call in body]
    adds = body[-1].text.startswith(("{0} + {1}", "{1} + {0}")) or any(
        call.hint == "add" and set(call.operands) & set(stretch.outside) for call in body
    )
    if "softmax" in hints and "matmul" in hints:
        name = "attention_layer" if "normed" in hints else "attention"
    elif "conv" in hints:
        name = "residual_block" if adds else "conv_block"
    elif "matmul" in hints:
        name = "mixer_block" if adds and "transpose" in hints else "dense_block"
    else:
        name = "block"
    return free_name(name, taken)


def in_loops(calls: Sequence[SourceCall], outputs: Sequence[SSAValue]) -> Iterator[SourceCall]:
    """Yield the calls; consecutive calls of one function become a loop."""
    reads: dict[SSAValue, int] = {}
    for call in calls:
        for value in read_by(call):
            reads[value] = reads.get(value, 0) + 1
    for value in outputs:
        reads[value] = reads.get(value, 0) + 1
    at = 0
    while at < len(calls):
        end, carried = _row(calls, at, reads)
        if end - at < 2:
            yield calls[at]
            at += 1
            continue
        first = calls[at]
        names = re.findall(r"(?:(\w+)=)?<\d+>", first.text)
        yield Loop(
            first.text,
            calls[end - 1].results,
            first.operands,
            first.labels,
            hint=first.hint,
            rows=[call.labels for call in calls[at:end]],
            parameters=[name or "n" for name in names],
            carried=carried,
        )
        at = end


def _row(calls: Sequence[SourceCall], begin: int, reads: Mapping[SSAValue, int]) -> tuple[int, int]:
    """Find the end of the consecutive calls that begin here, and the operand that they carry."""
    first, carried = calls[begin], -1
    end = begin + 1
    if not re.match(r"\w+\(w[,)]", first.text) or first.functions:
        return end, carried
    while end < len(calls) and calls[end].text == first.text:
        before = calls[end - 1].results[0]
        places = [i for i, value in enumerate(calls[end].operands) if value is before]
        others = [
            one is other
            for i, (one, other) in enumerate(zip(first.operands, calls[end].operands, strict=True))
            if i not in places
        ]
        if len(places) != 1 or reads[before] != 1 or not all(others):
            break
        if carried not in (-1, places[0]):
            break
        carried = places[0]
        end += 1
    return end, carried
