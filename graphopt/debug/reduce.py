"""Delta reduction: the smallest part of a program that is still interesting.

Ops are left out in ever smaller chunks (Zeller's ddmin), and then results. An operand that a
removed op computed becomes a new feed, which holds the recorded value, so every part of a program
is a program of its own. Each candidate is verified before it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.traits import IsTerminator

from graphopt.debug.compare import Array
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.signature import FEED, FETCH, STATE, main_function, signature_of
from graphopt.ir.dialect.verify_ssa import verify_ssa

Interesting = Callable[[ModuleOp, Mapping[str, Array]], bool]
# the distances from the ops in focus that the first guesses include
_DEPTHS = (0, 1, 2, 3, 5, 8)


@dataclass(frozen=True)
class Reduced:
    """The smallest program found, its inputs, the number of candidates tried, and its op count."""

    module: ModuleOp
    inputs: dict[str, Array]
    tried: int
    ops: int


def reduce_module(
    module: ModuleOp,
    inputs: Mapping[str, Array],
    interesting: Interesting,
    *,
    values: Mapping[SSAValue, Array] | None = None,
    focus: Collection[Operation] = (),
    most: int = 400,
) -> Reduced:
    """Leave out ops and results of `@main` while `interesting(module, inputs)` stays true.

    `values` are the arrays of all values of `@main` (see `record`); without them new feeds get no
    value, which is enough for a condition on the IR. `focus` are the ops around which the first
    guess is made. At most `most` candidates are tried. An exception from `interesting` counts as
    False. Raises ValueError when the program itself is not interesting.
    """
    whole = _Parts(module, dict(inputs), values)
    search = _Search(whole, interesting, most)
    start = whole.everything()
    if not search.holds(start):
        raise ValueError("the program to reduce is not interesting, so it cannot be reduced")
    start = search.guess(start, [op for op in whole.ops if op in set(focus)])
    best = search.minimize(start)
    built, fed = whole.build(best)
    return Reduced(built, fed, search.tried, len(best.ops))


def record(
    module: ModuleOp,
    inputs: Mapping[str, Array],
    seed: int = 7,
    *,
    into: dict[SSAValue, Array] | None = None,
) -> dict[SSAValue, Array]:
    """Record the numbers of every value of `@main`, each op computed separately on one device.

    They are put `into` a dict, which keeps the values computed before an op that raises.
    """
    import jax

    import graphopt.lowering.rules  # noqa: F401  (every op can be computed)
    from graphopt.lowering.collectives import ALONE
    from graphopt.lowering.evaluate import Context, evaluate_block

    found = {} if into is None else into
    block = main_function(module).body.block
    ports = signature_of(module).arguments
    # JAX caches compiled ops by device, among others
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        env: dict[Any, Any] = {
            argument: (jax.numpy.asarray(inputs[port.name]),)
            for argument, port in zip(block.args, ports, strict=True)
        }
        try:
            key = np.array([seed, 1], np.uint32)
            evaluate_block(block, env, Context(ALONE, key, by_op=True, keeps_values=True))
        finally:
            found.update((k, np.array(v[0])) for k, v in env.items() if isinstance(k, SSAValue))
    return found


@dataclass(frozen=True)
class _Part:
    """Some ops of `@main` and some results: kind, name, value."""

    ops: tuple[Operation, ...]
    results: tuple[tuple[str, str, SSAValue], ...]


@dataclass
class _Parts:
    """A program from which parts are built."""

    module: ModuleOp
    inputs: dict[str, Array]
    values: Mapping[SSAValue, Array] | None
    ops: list[Operation] = field(init=False)

    def __post_init__(self) -> None:
        function = main_function(self.module)
        self.block = function.body.block
        self.signature = signature_of(self.module)
        self.attrs = function.arg_attrs
        self.ops = [op for op in self.block.ops if not op.has_trait(IsTerminator)]
        self.reads = {op: values_read(op) for op in self.ops}
        self.returned = list(self.block.last_op.operands) if self.block.last_op else []
        self.used = {value for read in self.reads.values() for value in read} | set(self.returned)

    def everything(self) -> _Part:
        """Return the whole program."""
        ports = self.signature.results
        results = [(p.kind, p.name, v) for p, v in zip(ports, self.returned, strict=True)]
        return _Part(tuple(self.ops), tuple(results))

    def part(self, of: _Part, ops: Iterable[Operation]) -> _Part:
        """Select ops and their results: old ones, and all values that have no reader now."""
        chosen = set(ops)
        kept = [op for op in self.ops if op in chosen]
        read = {value for op in kept for value in self.reads[op]}
        results = [r for r in of.results if _owner(r[2]) in chosen]
        read.update(value for _, _, value in results)
        taken = {name for _, name, _ in results}
        for op in kept:
            if any(value in read for value in op.results):
                continue
            for value in op.results:
                if value in self.used:
                    name = _free(value.name_hint or "out", taken)
                    results.append((FETCH, name, value))
        return _Part(tuple(kept), tuple(results))

    def build(self, part: _Part) -> tuple[ModuleOp, dict[str, Array]]:
        """Build the program of a part, and its inputs."""
        made = {value for op in part.ops for value in op.results}
        needed = dict.fromkeys(v for op in part.ops for v in self.reads[op] if v not in made)
        needed |= dict.fromkeys(v for _, _, v in part.results if v not in made)
        written = {name for kind, name, _ in part.results if kind == STATE}
        block, mapper = Block(), dict[SSAValue, SSAValue]()
        attrs: list[DictionaryAttr] = []
        fed: dict[str, Array] = {}
        taken = {port.name for port in self.signature.arguments} | written
        for argument, port in zip(self.block.args, self.signature.arguments, strict=True):
            if argument in needed or (port.kind == STATE and port.name in written):
                mapper[argument] = block.insert_arg(argument.type, len(block.args))
                attrs.append(self._attributes(argument.index))
                if port.name in self.inputs:
                    fed[port.name] = self.inputs[port.name]
        for value in needed:
            if value in mapper:
                continue
            name = _free(value.name_hint or "value", taken)
            mapper[value] = block.insert_arg(value.type, len(block.args))
            attrs.append(DictionaryAttr({FEED: StringAttr(name)}))
            if self.values is not None:
                fed[name] = self.values[value]
        for old, new in mapper.items():
            new.name_hint = old.name_hint
        for op in part.ops:
            block.add_op(op.clone(value_mapper=mapper))
        outs = [mapper[value] for _, _, value in part.results]
        block.add_op(ReturnOp(*outs))
        function = FuncOp(
            "main",
            FunctionType.from_lists([arg.type for arg in block.args], [out.type for out in outs]),
            Region(block),
            arg_attrs=ArrayAttr(attrs),
            res_attrs=ArrayAttr(
                [DictionaryAttr({kind: StringAttr(name)}) for kind, name, _ in part.results]
            ),
        )
        module = ModuleOp([function])
        module.verify()
        verify_ssa(module)
        return module, fed

    def _attributes(self, index: int) -> DictionaryAttr:
        assert self.attrs is not None
        return self.attrs.data[index]

    def around(self, focus: Sequence[Operation], depth: int, *, users: bool) -> list[Operation]:
        """Collect the ops that `focus` reads, with `users` its readers too, `depth` steps away."""
        chosen = set(focus)
        last = set(focus)
        for _ in range(depth):
            near = {
                owner for op in last for v in self.reads[op] if (owner := _owner(v)) is not None
            }
            if users:
                made = {value for op in last for value in op.results}
                near |= {op for op in self.ops if any(v in made for v in self.reads[op])}
            last = near - chosen
            chosen |= last
        return [op for op in self.ops if op in chosen]


@dataclass
class _Search:
    """A search that tries parts, and caches the verdicts."""

    parts: _Parts
    interesting: Interesting
    most: int
    tried: int = 0
    seen: dict[Any, bool] = field(default_factory=dict[Any, bool])

    def holds(self, part: _Part) -> bool:
        """True when the part is a valid program that is interesting."""
        key = part.ops, part.results
        if key not in self.seen:
            if self.tried >= self.most:
                return False
            self.tried += 1
            try:
                self.seen[key] = self.interesting(*self.parts.build(part))
            except Exception:
                self.seen[key] = False
        return self.seen[key]

    def guess(self, start: _Part, focus: Sequence[Operation]) -> _Part:
        """Find the first interesting part around the ops in focus; the start without one."""
        for users in (False, True) if focus else ():
            for depth in _DEPTHS:
                # To fetch an inner value of a pattern would prevent the match, so try without
                # results first.
                for results in ((), start.results):
                    chosen = self.parts.around(focus, depth, users=users)
                    part = self.parts.part(_Part(start.ops, results), chosen)
                    if self.holds(part):
                        return part
        return start

    def minimize(self, part: _Part) -> _Part:
        """Reduce a part until no op and no result can be left out."""
        while True:
            before = part
            part = self._fewer_ops(part)
            part = self._fewer_results(part)
            if part == before or self.tried >= self.most:
                return part

    def _fewer_ops(self, part: _Part) -> _Part:
        size = max(len(part.ops) // 2, 1)
        while True:
            end = len(part.ops)
            while end > 0:
                # from the end: the last ops have the fewest users
                start = max(end - size, 0)
                rest = part.ops[:start] + part.ops[end:]
                smaller = self.parts.part(part, rest)
                if rest and self.holds(smaller):
                    part = smaller
                end = start
            if size == 1:
                return part
            size = max(size // 2, 1)

    def _fewer_results(self, part: _Part) -> _Part:
        if len(part.results) > 4:
            for chunk in (part.results[:1], part.results[-1:]):
                smaller = _Part(part.ops, chunk)
                if self.holds(smaller):
                    return smaller
        for result in part.results[::-1]:
            rest = tuple(other for other in part.results if other is not result)
            smaller = _Part(part.ops, rest)
            if rest and self.holds(smaller):
                part = smaller
        return part


def _owner(value: SSAValue) -> Operation | None:
    return value.op if isinstance(value, OpResult) else None


def _free(name: str, taken: set[str]) -> str:
    """Find a free name and reserve it."""
    number, found = 0, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found
