"""Calls that come again and again become a function, and its calls in a row a loop.

Stretches are alike when the texts of their calls are and values flow through them in the same way;
they may differ in the layers of weights. The one that saves most becomes a function, again and
again, so that functions call functions.
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
"""Calls that end a layer, so that no function begins with one."""

_NUMBER = re.compile(r"(.*?)(\d+)$", re.S)


@dataclass
class SourceFunction:
    """A function: the values and the numbers of layers that it takes, its calls and its result."""

    name: str
    values: Sequence[SSAValue]
    parameters: Sequence[str]
    calls: list[SourceCall]
    result: SSAValue


@dataclass
class Loop(SourceCall):
    """Calls of one function, each of which reads the result of the one before.

    `rows` are the numbers of layers in each turn, `carried` is which operand the result becomes.
    """

    rows: list[list[Label]] = field(default_factory=list[list[Label]])
    parameters: Sequence[str] = ()
    carried: int = 0


# for each call, for each operand: of which call of the stretch, or which value from outside
_Wiring: TypeAlias = tuple[tuple[tuple[str, int, int], ...], ...]


@dataclass(frozen=True)
class _Stretch:
    begin: int
    outside: tuple[SSAValue, ...]


def divide(
    calls: list[SourceCall], outputs: Sequence[SSAValue]
) -> tuple[list[SourceFunction], list[SourceCall]]:
    """The functions of a program in the order of their calls, and the calls that are left."""
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
    """The length and the places of the stretches that save most as a function."""
    kinds: dict[str, int] = {}
    tokens = [
        -at - 1 if call.functions else kinds.setdefault(call.text, len(kinds))
        for at, call in enumerate(calls)
    ]
    place = {
        value: (at, r) for at, call in enumerate(calls) for r, value in enumerate(call.results)
    }
    last_read = _last_reads(calls, outputs)
    best: tuple[float, int, list[_Stretch]] | None = None
    for length in range(FEWEST, min(LONGEST, len(calls) // 2) + 1):
        groups: dict[tuple[int, ...], list[int]] = {}
        for begin in range(len(calls) - length + 1):
            groups.setdefault(tuple(tokens[begin : begin + length]), []).append(begin)
        for begins in groups.values():
            if len(begins) < 2 or begins[-1] - begins[0] < length:
                continue
            if calls[begins[0]].hint in ACTIVATIONS:
                continue
            if best is not None and _gain(length, len(begins), 0) <= best[0]:
                continue
            wired: dict[tuple[_Wiring, int], list[_Stretch]] = {}
            for begin in begins:
                one = _wiring(calls, begin, length, place, last_read)
                if one is not None:
                    rows = wired.setdefault(one[0], [])
                    if not rows or rows[-1].begin + length <= begin:
                        rows.append(_Stretch(begin, one[1]))
            for rows in wired.values():
                many = len(rows[0].outside)
                gain = _gain(length, len(rows), many)
                if len(rows) > 1 and many <= MOST and gain > (best[0] if best else 0):
                    best = gain, length, rows
    return None if best is None else best[1:]


def _gain(length: int, count: int, outside: int) -> float:
    """The gain of a function: many short ones are easier to read than few long ones."""
    return (length - 1) ** 0.7 * (count - 1) - 0.2 * outside


def _last_reads(calls: Sequence[SourceCall], outputs: Sequence[SSAValue]) -> Mapping[SSAValue, int]:
    """By value, the last call that reads it; the number of calls for an output."""
    found: dict[SSAValue, int] = {}
    for at, call in enumerate(calls):
        for value in read_by(call):
            found[value] = at
    return found | dict.fromkeys(outputs, len(calls))


def _wiring(
    calls: Sequence[SourceCall],
    begin: int,
    length: int,
    place: Mapping[SSAValue, tuple[int, int]],
    last_read: Mapping[SSAValue, int],
) -> tuple[tuple[_Wiring, int], tuple[SSAValue, ...]] | None:
    """The flow of values in a stretch, and those from outside; None unless one leaves it."""
    outside: dict[SSAValue, int] = {}
    rows: list[tuple[tuple[str, int, int], ...]] = []
    leaves: list[tuple[int, int]] = []
    for at in range(begin, begin + length):
        row: list[tuple[str, int, int]] = []
        for value in calls[at].operands:
            made, result = place.get(value, (-1, 0))
            if made >= begin:
                row.append(("own", made - begin, result))
            else:
                row.append(("outside", outside.setdefault(value, len(outside)), 0))
        rows.append(tuple(row))
        for result, value in enumerate(calls[at].results):
            if last_read.get(value, -1) >= begin + length:
                leaves.append((at - begin, result))
    if leaves != [(length - 1, 0)]:
        return None
    return (tuple(rows), len(outside)), tuple(outside)


def _function(
    calls: Sequence[SourceCall],
    length: int,
    stretches: Sequence[_Stretch],
    others: Sequence[SourceFunction],
) -> tuple[SourceFunction, list[list[Label]]]:
    """The function of some stretches, and the numbers of layers for each of them."""
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
    """The parameters for labels that differ, the labels by them, and the values of each one."""
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
    """A name by what the function does."""
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
    """The calls, those of one function in a row as loops."""
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
    """The end of the calls of one function that begin here, and which operand they carry."""
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
