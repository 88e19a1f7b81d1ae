"""The origin of each op through the passes: the pass that made it, its source ops, its layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import FusionGroup, Yield
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.signature import FEED, STATE, main_function, signature_of
from graphopt.passes.engine.blocks import CodeBlock, blocks_of

Labels = tuple[str, ...]
"""The labels of the clusters around an op, outermost first."""

UPDATES, INITIAL_VALUES = "updates", "initial values"


class Origins:
    """The origins of the ops of a module, kept up to date as passes change it.

    Where a pass replaces an op by one of the same kind in the same layer, as for another layout,
    the new op is the old one rebuilt.
    """

    def __init__(self, module: ModuleOp) -> None:
        self._made: dict[Operation, str] = dict.fromkeys(module.walk(), "")
        self._rebuilt: dict[Operation, tuple[str, ...]] = {}
        self._fused: dict[Operation, tuple[str, ...]] = {}
        """The kinds of the ops that were fused into one, in order."""
        self._fused_by: dict[Operation, str] = {}
        self._results = signature_of(module).results
        self._labels: dict[Operation | Block, Labels] = dict.fromkeys(self._made, ())
        self._names = {op: name for op in self._made if (name := _own_name(op))}
        self._last = list(self._made)
        self._of_state: dict[str, Labels] = {}
        """By the name of a parameter, the labels of the ops that read it."""
        names = _state_names(module)
        blocks = blocks_of(module)
        for _, group in groupby(blocks, lambda each: (each[0].kind, each[0].words)):
            several = [(block, ops) for block, ops in group if len(ops) > 1]
            around = _around([block for block, _ in several])
            for block, ops in several:
                labels = (*around, f"{block.kind} {block.number}: {block.words}")
                self._labels.update(dict.fromkeys(ops, labels))
                read = (names[v] for op in ops for v in values_read(op) if v in names)
                self._of_state.update(dict.fromkeys(read, labels))

    def after(self, made_by: str, module: ModuleOp) -> None:
        """Attribute the ops that are new in the module to the pass that made them.

        The ops of a fusion belong to this pass, others to `made_by`.
        """
        ops = list(module.walk())
        self._results = signature_of(module).results
        gone: dict[tuple[str, Labels], list[Operation]] = defaultdict(list)
        now = set(ops)
        for op in self._last:
            if op not in now:
                gone[op.name, self._labels[op]].append(op)
        learnt: dict[SSAValue, Labels] = {
            value: self._of_state.get(name, ()) for value, name in _state_names(module).items()
        }
        places: dict[Operation | Block, int] = {}
        for op in ops:
            operands = values_read(op)
            if op not in self._made:
                labels = self._labels[op] = self._found_labels(op, operands, learnt, places)
                before = gone[op.name, labels]
                rebuilt = before.pop(0) if before else None
                own = self._fused_by.get(op, made_by)
                self._made[op] = own if rebuilt is None else self._made[rebuilt]
                if rebuilt is not None and rebuilt in self._fused:
                    self._fused.setdefault(op, self._fused[rebuilt])
                if name := _own_name(op) or self._names.get(rebuilt or op, ""):
                    self._names[op] = name
                if rebuilt is not None:
                    self._rebuilt[op] = (*self._rebuilt.get(rebuilt, ()), made_by)
            if operands and all(value in learnt for value in operands):
                learnt.update(dict.fromkeys(op.results, self._labels[op]))
            places[op] = len(places)
        self._last = ops

    def took(self, rule: str, ops: Sequence[PdOp], made: Sequence[PdOp]) -> None:
        """Note that a fusion replaces these ops, given last one first, by those that it made."""
        self._fused_by.update(dict.fromkeys(made, rule))
        if len(ops) > 1:
            self._fused[made[-1]] = tuple(kind for op in ops[::-1] for kind in self.kinds_in(op))

    def kinds_in(self, op: Operation) -> tuple[str, ...]:
        """Return the kinds of the ops fused into this one; its own where no fusion made it."""
        return self._fused.get(op) or (op.name.removeprefix("pd."),)

    def fused_kinds(self, op: Operation) -> tuple[str, ...]:
        """Return the kinds of the ops fused into this one, or in this group; () for none."""
        if isinstance(op, FusionGroup):
            inner = (each for each in op.body.block.ops if not isinstance(each, Yield))
            return tuple(kind for each in inner for kind in self.kinds_in(each))
        return self._fused.get(op, ())

    def _found_labels(
        self,
        op: Operation,
        operands: Sequence[SSAValue],
        learnt: Mapping[SSAValue, Labels],
        places: Mapping[Operation | Block, int],
    ) -> Labels:
        """Find the layer or block whose parameters an op reads, else its latest operand's."""
        if isinstance(op, (Grad, Update)):  # they read parameters of layers, but belong to none
            return ()
        found = [learnt[value] for value in operands if value in learnt]
        makers = {value.owner for value in operands if value.owner in places}
        found += [self._labels[maker] for maker in sorted(makers, key=places.__getitem__)[::-1]]
        return next(filter(None, found), ())

    def made_by(self, op: Operation) -> str:
        """Return the pass that made an op; "" for an op of the user's program."""
        return self._made[op]

    def rebuilt_by(self, op: Operation) -> tuple[str, ...]:
        """Return the passes that replaced an op by one of its kind."""
        return self._rebuilt.get(op, ())

    def name_of(self, op: Operation) -> str:
        """Return the name of the first result, or its name before it was rebuilt; "" for none."""
        return self._names.get(op, "")

    def labels(self, op: Operation) -> Labels:
        """Return the labels of the clusters around an op."""
        if isinstance(op, Update):
            return (UPDATES,)
        return (INITIAL_VALUES,) if self._is_initial(op) else self._labels.get(op, ())

    def _is_initial(self, op: Operation) -> bool:
        """True for an op that computes a variable without operands, as in a startup program."""
        uses = [use for result in op.results for use in result.uses]
        return (
            bool(uses)
            and not values_read(op)
            and all(isinstance(use.operation, ReturnOp) for use in uses)
            and all(self._results[use.index].kind == STATE for use in uses)
        )


def _own_name(op: Operation) -> str:
    return (op.results[0].name_hint or "") if op.results else ""


def _around(blocks: Sequence[CodeBlock]) -> Labels:
    """Return the cluster around like consecutive blocks; () for one block."""
    if len(blocks) < 2:
        return ()
    kind, words = blocks[0].kind, blocks[0].words
    numbers = f"{blocks[0].number} to {blocks[-1].number}"
    return (f"{kind}s {numbers}: each {words}",)


def _state_names(module: ModuleOp) -> dict[SSAValue, str]:
    """Map the arguments of parameters and other state to their names."""
    ports = zip(main_function(module).body.block.args, signature_of(module).arguments, strict=True)
    return {argument: port.name for argument, port in ports if port.kind != FEED}
