"""The first op at which the values of two programs diverge, both on the same inputs.

The programs may be one model in two formats, which differ in names, and in how many ops compute a
value. A value of the first program is *found* in the second one if the second has the same numbers
under its name, as the result of the op in its place or, for more than a few numbers, under any
name. A value that is not found need not be wrong: the other program may compute it within another
op. So the search begins at a result that differs and goes back as far as values are not found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult, SSAValue

from graphopt.debug.compare import Array
from graphopt.debug.differences import (
    Difference,
    RunOutcome,
    Tolerance,
    difference,
    largest_gap,
)
from graphopt.debug.program_source import Inputs, Subject, complete, parse_for_feeds
from graphopt.debug.reduce import record
from graphopt.errors import FeedError, GraphoptError
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.signature import FEED, FETCH, STATE, main_function, signature_of

# arrays with fewer elements, such as sizes and axes, are often equal by chance
_MANY = 16
# the suffix that makes the name of a value unique
_NUMBERED = re.compile(r"(\.\d+)+$")


@dataclass(frozen=True)
class RecordedProgram:
    """A program and the array of every value of `@main`, of one run."""

    subject: Subject
    arrays: Mapping[SSAValue, Array]
    made_up: Sequence[str] = ()
    """The names and shapes of its random inputs."""
    error: Exception | None = None
    """The exception that ended the run."""

    @cached_property
    def ports(self) -> dict[tuple[str, str], SSAValue]:
        """The feeds and the state by kind and name, and the fetches."""
        module = self.subject.module
        block, signature = main_function(module).body.block, signature_of(module)
        last = block.last_op
        returned = last.operands if isinstance(last, ReturnOp) else ()
        found: dict[tuple[str, str], SSAValue] = {
            (p.kind, p.name): value for p, value in zip(signature.results, returned, strict=True)
        }
        found |= {
            (p.kind, p.name): value
            for p, value in zip(signature.arguments, block.args, strict=True)
        }
        return found

    @cached_property
    def names(self) -> dict[SSAValue, str]:
        """The name of each named value; for feeds and state it is the variable's name."""
        found = {value: value.name_hint for value in self.arrays if value.name_hint}
        return found | {v: name for (kind, name), v in self.ports.items() if kind != FETCH}

    def own_name(self, value: SSAValue) -> str:
        """Return a value's name without its number; "" for a value that is named after its op.

        A program of Paddle 3 names no values, so that they have the names of their ops.
        """
        name = _NUMBERED.sub("", self.names.get(value, ""))
        kind = value.op.name.removeprefix("pd.") if isinstance(value, OpResult) else ""
        return "" if name == kind else name

    @property
    def results(self) -> dict[str, SSAValue]:
        """The fetched values, by name."""
        return {name: value for (kind, name), value in self.ports.items() if kind == FETCH}


@dataclass(frozen=True)
class ValueDifference:
    """A value of the first program, its twin in the second one, and how they differ."""

    value: SSAValue
    twin: SSAValue
    difference: Difference


@dataclass(frozen=True)
class FirstDifference:
    """The first op whose result differs, and the inputs of it that are equal.

    One of `ops` is wrong. The last one has the result that differs; those before it have no
    counterpart.
    """

    result: ValueDifference
    ops: tuple[Operation, ...]
    changed: tuple[ValueDifference, ...]
    """The parameters of these ops whose values differ."""
    equal: tuple[SSAValue, ...]
    """The inputs of these ops that are equal in both programs."""
    missing: tuple[SSAValue, ...]
    """The parameters of these ops that the second program lacks."""


@dataclass(frozen=True)
class ComparedPrograms:
    """The difference of the results of two programs, and the first op that differs."""

    found: int
    """The number of the first program's values that have an equal in the second program."""
    values: int
    largest: tuple[float, str]
    """The largest difference of a result, with the result's name, if all results count as equal."""
    wrong: Difference | None = None
    first: FirstDifference | None = None


def record_both(
    first: Subject, second: Subject, inputs: Inputs
) -> tuple[RecordedProgram, RecordedProgram]:
    """Run both programs on the inputs of the first one, each op computed on its own.

    Feeds go by name, or by their order where no name is the same; state for which one program has
    no value comes from the other. Raises FeedError for inputs that do not fit.
    """
    theirs = _state(second, second.known)
    arrays, made_up = complete(replace(first, known={**theirs, **first.known}), inputs)
    ours = {p.name: arrays[p.name] for p in signature_of(first.module).arguments if p.kind == FEED}
    names = [p.name for p in signature_of(second.module).arguments if p.kind == FEED]
    if not set(names) & set(ours) and len(names) == len(ours):
        ours = dict(zip(names, ours.values(), strict=True))
    lacking = [name for name in names if name not in ours]
    if lacking:
        raise FeedError(
            f"no value for the feed '{lacking[0]}' of {second.origin}: its feeds are "
            f"{', '.join(names)}, and the feeds of {first.origin} are {', '.join(ours)}"
        )
    known = {**_state(first, arrays), **second.known, **ours}
    others, _ = complete(replace(second, known=known), Inputs(sizes=inputs.sizes))
    recorded = _run(first, arrays, made_up)
    if recorded.error is not None:
        raise recorded.error
    return recorded, _run(second, others, ())


def _state(subject: Subject, arrays: Mapping[str, Array]) -> dict[str, Array]:
    ports = signature_of(subject.module).arguments
    return {p.name: arrays[p.name] for p in ports if p.kind == STATE and p.name in arrays}


def _run(subject: Subject, arrays: Mapping[str, Array], made_up: Sequence[str]) -> RecordedProgram:
    """Run a program, compiled for the sizes of its feeds where possible, and record its values."""
    error: Exception | None = None
    found: dict[SSAValue, Array] = {}
    if (compilation := subject.compilation) is not None:
        try:
            feeds = {name: arrays[name] for name in compilation.feeds}
            sized, module = parse_for_feeds(compilation, feeds)
            subject = replace(subject, module=module, compilation=sized)
        except GraphoptError as raised:  # with open sizes, the program runs up to the failing op
            error = raised
    try:
        record(subject.module, arrays, subject.seed, into=found)
        error = None
    except GraphoptError as raised:
        error = error or raised
    return RecordedProgram(subject, found, made_up, error)


def compare_programs(
    first: RecordedProgram,
    second: RecordedProgram,
    aligned: Sequence[tuple[Operation, Operation]],
    tolerance: Tolerance,
) -> ComparedPrograms:
    """Compare the results and, if they differ, find the first op that makes them differ.

    `aligned` are ops in one place of both programs. Raises FeedError where no result of the first
    program has a counterpart.
    """
    twins = _Twins(first, second, aligned, tolerance)
    values = [v for v in first.arrays if isinstance(v, OpResult)]
    found = sum(value in twins.found for value in values)
    pairs = list(_paired_results(first, second))
    if not pairs:
        raise FeedError(
            f"no result of {first.subject.origin} has a counterpart: its results are "
            f"{', '.join(first.results) or 'none'}, and the results of {second.subject.origin} are "
            f"{', '.join(second.results) or 'none'}"
        )
    for name, value, twin in pairs:
        wrong = twins.difference(value, twin, name)
        if wrong is not None:
            begin = twins.first_difference(ValueDifference(value, twin, wrong))
            return ComparedPrograms(found, len(values), (0.0, ""), wrong, begin)
    outcomes = (
        RunOutcome({name: program.arrays[value] for name, value in each})
        for program, each in (
            (first, [(name, value) for name, value, _ in pairs]),
            (second, [(name, twin) for name, _, twin in pairs]),
        )
    )
    return ComparedPrograms(found, len(values), largest_gap(*outcomes))


def _paired_results(
    first: RecordedProgram, second: RecordedProgram
) -> Iterator[tuple[str, SSAValue, SSAValue]]:
    """Yield the results of one name or, where no name is the same, in one place."""
    ours, theirs = first.results, second.results
    if not ours.keys() & theirs.keys() and len(ours) == len(theirs):
        theirs = dict(zip(ours, theirs.values(), strict=True))
    for name, value in ours.items():
        if name in theirs:
            yield name, value, theirs[name]


class _Twins:
    """The values of the first program that the second one has, and candidates for the others."""

    def __init__(
        self,
        first: RecordedProgram,
        second: RecordedProgram,
        aligned: Sequence[tuple[Operation, Operation]],
        tolerance: Tolerance,
    ) -> None:
        self._first, self._second, self._tolerance = first, second, tolerance
        self._failed = RunOutcome({}, second.error)
        self._ports = {v: port for port, v in first.ports.items() if port[0] != FETCH}
        self._by_name: dict[str, list[SSAValue]] = defaultdict(list)
        for value in second.arrays:
            self._by_name[second.own_name(value)].append(value)
        self._by_kind: dict[object, list[SSAValue]] = defaultdict(list)
        for value, array in second.arrays.items():
            self._by_kind[array.shape, array.dtype].append(value)
        self._aligned: dict[SSAValue, SSAValue] = {}
        for ours, theirs in aligned:
            self._aligned.update(zip(ours.results, theirs.results, strict=False))
        self.found: dict[SSAValue, SSAValue] = {}
        """Values of the first program and their equals in the second program, in order."""
        for value in first.arrays:
            twin = self._find(value)
            if twin is not None:
                self.found[value] = twin

    def difference(self, value: SSAValue, twin: SSAValue, name: str = "") -> Difference | None:
        """Compare the numbers of a value and of its twin."""
        wanted = RunOutcome({name: self._first.arrays[value]})
        theirs = self._second.arrays
        found = RunOutcome({name: theirs[twin]}) if twin in theirs else self._failed
        return difference(wanted, found, self._tolerance)

    def _candidates(self, value: SSAValue) -> list[SSAValue]:
        """List the values of the second program that should equal this one.

        These are the result of the op in its place, the values of its name, and the results of ops
        with the same operands.
        """
        if value in self._ports:
            twin = self._second.ports.get(self._ports[value])
            return [] if twin is None else [twin]
        name, exact = self._first.own_name(value), self._first.names.get(value)
        named = self._by_name[name] if name else []
        named = sorted(named, key=lambda each: self._second.names[each] != exact)
        aligned = [self._aligned[value]] if value in self._aligned else []
        found = dict.fromkeys([*aligned, *named, *self._read_alike(value)])
        return [twin for twin in found if twin in self._second.arrays]

    def _read_alike(self, value: SSAValue) -> Iterator[SSAValue]:
        """Yield results of the second program's ops with the kind and operands of a value's op."""
        if not isinstance(value, OpResult):
            return
        read = {at: twin for at, v in enumerate(value.op.operands) if (twin := self._read_twin(v))}
        for use in next(iter(read.values())).uses if read else ():
            op = use.operation
            alike = op.name == value.op.name and len(op.operands) == len(value.op.operands)
            if alike and all(op.operands[at] is twin for at, twin in read.items()):
                yield from op.results[value.index : value.index + 1]

    def _read_twin(self, value: SSAValue) -> SSAValue | None:
        """Return the twin of an operand, of state whatever its numbers; None without one."""
        found = self.found.get(value)
        return self._second.ports.get(self._ports.get(value, ("", ""))) if found is None else found

    def _find(self, value: SSAValue) -> SSAValue | None:
        """Find the second program's value with these numbers: a candidate or, if large, any."""
        for twin in self._candidates(value):
            if self.difference(value, twin) is None:
                return twin
        array = self._first.arrays[value]
        if array.size < _MANY or (array == array.reshape(-1)[0]).all():
            return None
        like = self._by_kind[array.shape, array.dtype]
        return next((twin for twin in like if self.difference(value, twin) is None), None)

    def _differing(self, value: SSAValue) -> ValueDifference | None:
        """Pair a value that is not found with its twin, of its shape if possible; else None."""
        shape = self._first.arrays[value].shape
        candidates = self._candidates(value)
        like = [twin for twin in candidates if self._second.arrays[twin].shape == shape]
        for twin in like or candidates:
            found = self.difference(value, twin)
            if found is not None:
                return ValueDifference(value, twin, found)
        return None

    def first_difference(self, result: ValueDifference) -> FirstDifference:
        """Find the first op that leads to a differing result and has all its inputs found."""
        cone = self._not_found(result.value)
        order = [v for v in self._first.arrays if v in cone and isinstance(v, OpResult)]
        first = next((d for v in order if (d := self._differing(v)) is not None), result)
        between = self._not_found(first.value)
        ops = list(dict.fromkeys(v.op for v in order if v in between)) or (
            [first.value.op] if isinstance(first.value, OpResult) else []
        )
        made = {value for op in ops for value in op.results}
        read = dict.fromkeys(v for op in ops for v in values_read(op) if v not in made)
        lost = [v for v in read if v not in self.found]
        changed = {v: d for v in lost if (d := self._differing(v)) is not None}
        return FirstDifference(
            first,
            tuple(ops),
            tuple(changed.values()),
            tuple(v for v in read if v in self.found),
            tuple(v for v in lost if v not in changed),
        )

    def _not_found(self, value: SSAValue) -> set[SSAValue]:
        """Collect a value and its producers up to the values already found."""
        seen = {value}
        todo = [value]
        while todo:
            at = todo.pop()
            if not isinstance(at, OpResult):
                continue
            for read in values_read(at.op):
                if read in self._first.arrays and read not in self.found and read not in seen:
                    seen.add(read)
                    todo.append(read)
        return seen
