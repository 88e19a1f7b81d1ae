"""The instructions of a compiled program, parsed from XLA's text, with their ops and FLOPs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from graphopt.lowering.locations import number_in
from graphopt.runtime.profiling.peak import ProductForm

_HEAD = re.compile(r"^(?:ENTRY )?%?(?P<name>[\w.\-]+) .*\{$")
_LINE = re.compile(r"^\s+(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<type>\([^=]*?\)|\S+) (?P<rest>.*)$")
_OPCODE = re.compile(r"^(?P<opcode>[\w\-]+)\((?P<operands>[^)]*)\)")
_DIMS = re.compile(r"\w+\[([\d,]*)\]")
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")
_WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2}
_WIDTHS |= {"s64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16}
# instructions whose results are views of their operands
_VIEWS = frozenset({"bitcast", "get-tuple-element", "tuple"})
_CALLED = re.compile(r"\b(calls|to_apply|body|condition|branch_computations)=\{?([^,}\s]+)")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
# instructions that only run others, which have events of their own
CONTROL = frozenset({"while", "call", "conditional"})


class InstructionOps(NamedTuple):
    """The op that an instruction belongs to, by number, and whether it is in the derivative."""

    number: int
    is_gradient: bool


@dataclass
class Instruction:
    """One line of an HLO computation."""

    opcode: str
    dtype: str
    dims: tuple[int, ...]
    bytes: int
    operands: tuple[str, ...]
    called: tuple[str, ...]
    part: InstructionOps | None
    trips: int
    text: str


@dataclass
class Instructions:
    """All instructions of a module by name; names are unique in a module."""

    by_name: dict[str, Instruction] = field(default_factory=dict[str, Instruction])
    computations: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @classmethod
    def of(cls, text: str) -> Instructions:
        """Parse the instructions in XLA's text."""
        found, current = cls(), list[str]()
        for line in text.splitlines():
            if head := _HEAD.match(line):
                current = found.computations.setdefault(head["name"], [])
            elif (parts := _LINE.match(line)) and (made := _instruction(parts)) is not None:
                found.by_name[parts["name"]] = made
                current.append(parts["name"])
        return found

    def shares(self, name: str) -> Mapping[InstructionOps, float]:
        """Attribute an instruction to parts, with shares that sum to 1; empty if unknown.

        A fusion with products or convolutions belongs to these. Others are shared by the number of
        elements that their instructions write.
        """
        weights: Counter[InstructionOps] = Counter()
        products: Counter[InstructionOps] = Counter()
        for inner, instruction in self._inside(name):
            if instruction.part is None:
                continue
            weights[instruction.part] += prod(instruction.dims)
            products[instruction.part] += self.flops_alone(inner)
        chosen = products if products.total() else weights
        if not chosen.total():
            part = self._neighbour(name)
            return {} if part is None else {part: 1.0}
        total = chosen.total()
        return {part: weight / total for part, weight in chosen.items() if weight}

    def is_control(self, name: str) -> bool:
        """Return whether an instruction only runs other instructions."""
        found = self.by_name.get(name)
        return found is not None and found.opcode in CONTROL

    def flops(self) -> Mapping[InstructionOps, Counter[ProductForm]]:
        """Count the FLOPs of products and convolutions in one run, by part and form.

        A multiplication and addition count as 2; multiplications with padding do not count. The
        body of a loop counts as often as it runs, once where XLA does not know.
        """
        found: defaultdict[InstructionOps, Counter[ProductForm]] = defaultdict(Counter)
        entry = next(reversed(self.computations), None)
        if entry is not None:
            self._count(entry, 1, found)
        return found

    def _count(
        self,
        computation: str,
        times: int,
        found: defaultdict[InstructionOps, Counter[ProductForm]],
    ) -> None:
        for name in self.computations.get(computation, ()):
            instruction = self.by_name[name]
            if instruction.part is not None and (flops := self.flops_alone(name)):
                form = ProductForm(instruction.opcode, self.by_name[instruction.operands[0]].dtype)
                found[instruction.part][form] += times * flops
            for called in instruction.called:
                self._count(called, times * instruction.trips, found)

    def flops_alone(self, name: str) -> int:
        """Count the FLOPs of a product or convolution; 0 for any other instruction."""
        it = self.by_name[name]
        if it.opcode not in ("dot", "convolution") or len(it.operands) < 2:
            return 0
        left, right = (self.by_name[each].dims for each in it.operands[:2])
        if it.opcode == "dot":
            axes = _numbers(it.text, "lhs_contracting_dims")
            return 2 * prod(it.dims) * prod(left[axis] for axis in axes)
        labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", it.text)
        if labels is None or not right:
            return 0
        image, filter, result = labels.groups()
        taps = prod(
            _taps(left[image.index(axis)], right[filter.index(axis)], it.dims[at], window)
            for at, axis in enumerate(result)
            if axis.isdigit()
            for window in [_window(it.text, int(axis))]
        )
        made = it.dims[result.index("b")] * it.dims[result.index("f")]
        return 2 * made * right[filter.index("i")] * taps

    def _inside(self, name: str) -> Iterator[tuple[str, Instruction]]:
        """Yield an instruction, or the instructions of the computation that it fuses."""
        instruction = self.by_name.get(name)
        if instruction is None:
            return
        if not instruction.called or instruction.opcode in CONTROL:
            yield name, instruction
            return
        inner = [
            each for called in instruction.called for each in self.computations.get(called, ())
        ]
        for each in inner:
            yield from self._inside(each)
        if all(self.by_name[each].part is None for each in inner):
            yield name, instruction

    def at_peak(self) -> Mapping[str, int]:
        """Map instructions to the bytes of results that are alive when memory peaks.

        Only the entry counts, in the order in which it runs. Arguments are excluded, views have no
        bytes of their own, and a buffer that XLA reuses counts for each of its values.
        """
        order = self.computations.get(next(reversed(self.computations), ""), [])
        last: dict[str, int] = {}
        for at, name in enumerate(order):
            for operand in self.by_name[name].operands:
                for owner in self._owners(operand):
                    last[owner] = at
        alive, best = dict[str, int](), dict[str, int]()
        total = most = 0
        for at, name in enumerate(order):
            if self.by_name[name].opcode not in (*_VIEWS, "parameter"):
                alive[name] = self.by_name[name].bytes
                total += alive[name]
            if total > most:
                most, best = total, dict(alive)
            for gone in [each for each in alive if last.get(each, at) <= at]:
                total -= alive.pop(gone)
        return best

    def _owners(self, name: str) -> Sequence[str]:
        """Find the instructions whose results a value aliases or contains."""
        found = self.by_name.get(name)
        if found is None or found.opcode not in _VIEWS:
            return (name,)
        return [owner for operand in found.operands for owner in self._owners(operand)]

    def _neighbour(self, name: str) -> InstructionOps | None:
        """Find the part of a copy that XLA made: the part of its producer, else of a consumer.

        The copies of a step's arguments have no producer.
        """
        return self._nearest(name, self._operands) or self._nearest(name, self._readers)

    def _nearest(self, name: str, next_to: Callable[[str], Sequence[str]]) -> InstructionOps | None:
        seen, queue = {name}, [name]
        for each in queue:
            for other in next_to(each):
                if other in seen or other not in self.by_name:
                    continue
                if (part := self.by_name[other].part) is not None:
                    return part
                seen.add(other)
                queue.append(other)
        return None

    def _operands(self, name: str) -> Sequence[str]:
        found = self.by_name.get(name)
        return () if found is None else found.operands

    def _readers(self, name: str) -> Sequence[str]:
        return self._users.get(name, ())

    @cached_property
    def _users(self) -> Mapping[str, Sequence[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name, instruction in self.by_name.items():
            for operand in instruction.operands:
                found[operand].append(name)
        return found


def _instruction(parts: re.Match[str]) -> Instruction | None:
    rest = parts["rest"]
    opcode = _OPCODE.match(rest)
    if opcode is None:
        return None
    dims, name, trips = _DIMS.search(parts["type"]), _OP_NAME.search(rest), _TRIPS.search(rest)
    number = None if name is None else number_in(name[1])
    return Instruction(
        opcode["opcode"],
        array[1] if (array := _ARRAY.search(parts["type"])) else "",
        _sizes(dims[1]) if dims else (),
        sum(
            _WIDTHS.get(kind, 4) * prod(_sizes(each))
            for kind, each in _ARRAY.findall(parts["type"])
        ),
        tuple(re.findall(r"%([\w.\-]+)", opcode["operands"])),
        tuple(found[1].lstrip("%") for found in _CALLED.findall(rest)),
        None if number is None else InstructionOps(*number),
        int(trips[1]) if trips else 1,
        rest,
    )


class _ConvWindow(NamedTuple):
    """The window of a convolution along one axis."""

    stride: int
    low: int
    """The padding at the start; negative where elements are cropped."""
    image_step: int
    """The distance between two elements of the dilated image, which has zeros in between."""
    filter_step: int


def _window(text: str, axis: int) -> _ConvWindow:
    found = re.search(r"\bwindow=\{([^}]*)\}", text)
    parts = dict(part.split("=") for part in found[1].split()) if found else {}

    def part(name: str, default: str) -> int:
        # `pad` has a number for each end of an axis
        return int(parts[name].split("x")[axis].split("_")[0]) if name in parts else int(default)

    return _ConvWindow(
        part("stride", "1"), part("pad", "0"), part("lhs_dilate", "1"), part("rhs_dilate", "1")
    )


def _taps(image: int, filter: int, result: int, window: _ConvWindow) -> int:
    """Count the pairs of a filter element and an image element, over all results of an axis."""
    places = (np.arange(result) * window.stride - window.low)[:, None]
    at = places + np.arange(filter) * window.filter_step
    inside = (at >= 0) & (at <= (image - 1) * window.image_step) & (at % window.image_step == 0)
    return int(inside.sum())


def _numbers(text: str, key: str) -> tuple[int, ...]:
    found = re.search(rf"\b{key}=\{{([\d,]*)\}}", text)
    return _sizes(found[1]) if found else ()


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, filter(None, text.split(","))))
