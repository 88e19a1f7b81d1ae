"""Emission of the gradient operators of a saved program: as `pd.grad`, or as one `pd.vjp` each.

`gradients/raising.py` plans this for versions of names; here the versions become SSA values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Operation, SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.creation import Full, FullLike
from graphopt.ir.dialect.ops.dynamic import Dynamic, draws
from graphopt.ir.dialect.ops.grad import Grad, Vjp
from graphopt.ir.dialect.ops.math import Add
from graphopt.ir.dialect.ops.shape import Assign, Reshape, Squeeze
from graphopt.ir.dialect.types import compatible, dtype_of, shape_of
from graphopt.ir.program import Operator, is_sparse_lookup
from graphopt.ir.translate.blocks.block import SKIPPED, BlockParser
from graphopt.ir.translate.gradients.backward_pass import Raised
from graphopt.ir.translate.gradients.explicit import GradientLink
from graphopt.ir.translate.gradients.flow import Contribution
from graphopt.ir.translate.gradients.raising import GradientPlan
from graphopt.ir.translate.gradients.versions import OpPosition, VersionedName
from graphopt.ir.translate.operators.emitter import Emitter
from graphopt.ir.translate.operators.sparse import SPARSE_UPDATES
from graphopt.ir.translate.operators.translator import errors_of
from graphopt.ir.translate.operators.updates import sparse_update

Gradients = dict[SSAValue, SSAValue]


class GradientParser:
    """A parser of one block that follows a gradient plan, as part of the conversion `parser`."""

    def __init__(self, parser: BlockParser, plan: GradientPlan) -> None:
        assert plan.flow is not None
        self.parser, self.plan, self.flow = parser, plan, plan.flow
        self.versions = plan.flow.versions
        self.values: dict[VersionedName, SSAValue] = {}
        self.emitted: dict[int, list[Operation]] = {}
        self.forwards = {link.forward for link in plan.links.values()}
        self.results = {g: raised for raised in plan.grads for _, gs in raised.wrt for g in gs}

    def run(self, prepare: Callable[[Operator], Operator]) -> None:
        """Parse every operator; `prepare` gives the form in which it is parsed."""
        grads: dict[int, list[Raised]] = {}
        for raised in reversed(self.plan.grads):
            grads.setdefault(raised.at, []).append(raised)
        for at, op in enumerate(self.plan.ops):
            for raised in grads.get(at, ()):
                self._emit_grad(raised)
            with errors_of(op):
                self._run_one(at, op, prepare)
        for raised in grads.get(len(self.plan.ops), ()):
            self._emit_grad(raised)

    def _run_one(self, at: int, op: Operator, prepare: Callable[[Operator], Operator]) -> None:
        self.parser.reader = op
        if op.type in SKIPPED:
            self._note_columns(at, op)
            return
        if at in self.plan.absorbed:
            for gradient in self.versions.writes[at].values():
                if gradient in self.results and gradient in self.values:
                    self.parser.bind(gradient.name, self.values[gradient])
            return
        for value in self.versions.reads[at].values():
            self._note(value)
        if at in self.plan.links:
            self._emit_link(self.plan.links[at], op)
        else:
            block = self.parser.frame.target
            before = block.last_op
            lookups = self._sparse_lookups(at)
            if lookups:
                self._run_sparse_update(op, lookups)
            else:
                self.parser.run([prepare(op)])
            if at in self.forwards:
                self.emitted[at] = _behind(before, block.first_op)
        for value in self.versions.writes[at].values():
            if value in self.plan.parameters:
                self._mark(value)
            self._note(value)

    def _mark(self, gradient: VersionedName) -> None:
        """Pass a parameter's gradient through a `pd.grad`, which does not change it.

        Data parallelism sums these gradients over the devices.
        """
        source = self._emit(Assign, self.values[self.plan.parameters[gradient]])
        copy, value = self._emit(Assign, source), self.parser.read(gradient.name)
        marked = self._emit(Grad, [copy], [source], [self.fitting(value, copy)], parameters=(0,))
        self.parser.bind(gradient.name, marked)

    def _sparse_lookups(self, at: int) -> list[int]:
        """Find the lookups that make up an update's gradient; empty unless all are sparse."""
        gradient = self.versions.reads[at].get(OpPosition("Grad", 0))
        if self.plan.ops[at].type not in SPARSE_UPDATES or gradient is None:
            return []
        terms = self.flow.pure[gradient][1] if gradient in self.flow.pure else ()
        found = {self.flow.links[t.at].forward for t in terms if isinstance(t, Contribution)}
        return sorted(found) if all(is_sparse_lookup(self.plan.ops[i]) for i in found) else []

    def _run_sparse_update(self, op: Operator, lookups: Sequence[int]) -> None:
        """Emit Adam or AdamW with the sparse gradient of these lookups."""
        numbers: list[SSAValue] = []
        for at in lookups:
            value = self.values[self.versions.reads[at][OpPosition("Ids", 0)]]
            old = self.plan.ops[at].type == "lookup_table" and _sizes(value)[-1:] == (1,)
            numbers.append(self._emit(Squeeze, value, axis=(-1,)) if old else value)
        for name, value in sparse_update(Emitter(self.parser.translator, op), numbers).items():
            self.parser.bind(name, value)

    def _note_columns(self, at: int, op: Operator) -> None:
        """Record what a feed operator writes; the lists of feeds and fetches are no values."""
        for value in self.versions.writes[at].values() if op.type == "feed" else ():
            self._note(value)

    def _note(self, value: VersionedName) -> None:
        """Record the current value of a name as the value of this version."""
        if value not in self.values:
            found = self.parser.find(value.name)
            if found is not None:
                self.values[value] = found

    def _emit(self, op_class: type[PdOp], *operands: object, **attrs: object) -> SSAValue:
        made = self.parser.translator.emit(op_class, self.parser.reader, *operands, **attrs)  # pyright: ignore
        return made.results[0]

    def fitting(self, gradient: SSAValue, value: SSAValue) -> SSAValue:
        """Fit a gradient to the shape of its value; a constant one also to the dtype.

        Old programs declare gradients of shape [1] where the op's result has shape [].
        """
        if compatible(gradient.type, value.type):
            return gradient
        if isinstance(gradient.owner, Full):
            return self._emit(FullLike, value, value=gradient.owner.attr("value"))
        return self._emit(Reshape, gradient, shape=[-1 if n < 0 else n for n in _sizes(value)])

    # A whole derivative ---------------------------------------------------------------------------

    def _emit_grad(self, raised: Raised) -> None:
        needed = [*raised.targets, *((value, value) for value, _ in raised.wrt)]
        for value in (v for pair in needed for v in pair):
            self._note(value)  # values read only by the gradient operators are unchanged
            if value not in self.values:
                raise UnsupportedError(
                    f"the gradient of '{raised.targets[0][0].name}' flows through '{value.name}', "
                    "which is not a tensor; gradients of tensor arrays are not supported in saved "
                    "programs"
                )
        of = [self.values[value] for value, _ in raised.targets]
        seeds = [
            self.fitting(self.values[seed], target)
            for (_, seed), target in zip(raised.targets, of, strict=True)
        ]
        made = self.parser.translator.emit(
            Grad,
            self.parser.reader,
            of,
            [self.values[value] for value, _ in raised.wrt],
            seeds,
            [self.values[value] for value in raised.no_grad if value in self.values],
            parameters=tuple(raised.parameters),
        )
        for (_, gradients), result in zip(raised.wrt, made.results, strict=True):
            for gradient in gradients:
                self.values[gradient] = result
                if self.versions.producer[gradient] < raised.at:
                    self.parser.bind(gradient.name, result)

    # One operator ---------------------------------------------------------------------------------

    def _emit_link(self, link: GradientLink, op: Operator) -> None:
        forward = self.plan.ops[link.forward]
        reads = self.versions.reads[link.forward].items()
        inputs = {place: self.values[v] for place, v in reads if v in self.values}
        outputs: Mapping[VersionedName, SSAValue] = self.values
        if link.forward not in self.emitted:
            raise ProgramError(
                f"operator {op.type} is the gradient of an operator {forward.type} that does not "
                "run before the gradient"
            )
        ops: Sequence[Operation] = self.emitted[link.forward]
        every = list(inputs.values())
        shared = any(every.count(inputs[place]) > 1 for place in link.results)
        if link.later or shared:
            inputs, outputs, ops = self._again(link, forward)
        gradients: Gradients = {}
        for value, gradient in link.cotangents.items():
            if value in outputs:
                result = outputs[value]
                self._add(gradients, result, self.fitting(self.values[gradient], result))
        self._pull_back(ops, gradients, {inputs[place] for place in link.results}, op)
        for place, name in link.results.items():
            value = inputs[place]
            found = gradients.get(value) or self._emit(FullLike, value, value=0.0)
            self.parser.bind(name.name, found)

    def _again(
        self, link: GradientLink, forward: Operator
    ) -> tuple[dict[OpPosition, SSAValue], dict[VersionedName, SSAValue], list[Operation]]:
        """Emit the forward operator again, for overwritten inputs or inputs that share a value."""
        inputs: dict[OpPosition, SSAValue] = {}
        renamed: dict[str, SSAValue] = {}
        slots: dict[str, list[str]] = {slot: list(n) for slot, n in forward.inputs.items()}
        for place, value in self.versions.reads[link.forward].items():
            now = self.values[link.later.get(place, value)]
            inputs[place] = self._emit(Assign, now)
            slots[place.slot][place.position] = f"{value.name}@{place.slot}@{place.position}"
            renamed[slots[place.slot][place.position]] = inputs[place]
        again = Operator(
            forward.block, forward.type, slots, forward.outputs, forward.attrs, forward.location
        )
        translator, block = self.parser.translator, self.parser.frame.target
        read, before = translator.read, block.last_op

        def read_renamed(name: str) -> SSAValue:
            return renamed[name] if name in renamed else read(name)

        translator.read = read_renamed
        try:
            written = translator.translate(again)
        finally:
            translator.read = read
        ops = _behind(before, block.first_op)
        if any(draws(op) for op in ops):
            raise UnsupportedError(
                f"operator {forward.type}: the derivative of random numbers at changed inputs is "
                "not supported"
            )
        of = self.versions.writes[link.forward].values()
        return inputs, {v: written[v.name] for v in of if v.name in written}, ops

    def _pull_back(
        self,
        ops: Sequence[Operation],
        gradients: Gradients,
        inputs: set[SSAValue],
        source: Operator,
    ) -> None:
        """Carry the gradients of the results of `ops` back to their inputs."""
        active = set(inputs)
        for op in ops:
            if active.intersection(op.operands):
                active.update(op.results)
        for op in reversed(ops):
            outs = [i for i, result in enumerate(op.results) if result in gradients]
            ins = [
                i
                for i, value in enumerate(op.operands)
                if value in active and dtype_of(value.type).is_differentiable
            ]
            if not outs or not ins:
                continue
            if isinstance(op, (RegionOp, Grad, Dynamic)) or not isinstance(op, PdOp):
                raise UnsupportedError(
                    f"operator {source.type}: the derivative of {op.name} alone is not supported, "
                    "and the gradients around the operator are not standard "
                    f"({'; '.join(self.plan.reasons)})"
                )
            made = self.parser.translator.emit(
                Vjp,
                source,
                list(op.operands),
                [gradients[op.results[i]] for i in outs],
                op=op.name,
                groups=[len(group) for group in op.operand_groups()],
                attrs=DictionaryAttr(
                    {n: a for n, a in op.properties.items() if n in attr_kinds(type(op))}
                ),
                ins=ins,
                outs=outs,
            )
            for index, gradient in zip(ins, made.results, strict=True):
                self._add(gradients, op.operands[index], gradient)

    def _add(self, gradients: Gradients, value: SSAValue, gradient: SSAValue) -> None:
        held = gradients.get(value)
        gradients[value] = gradient if held is None else self._emit(Add, held, gradient)


def _behind(before: Operation | None, first: Operation | None) -> list[Operation]:
    """Collect the ops added to a block since `before` was its last op."""
    found: list[Operation] = []
    op = first if before is None else before.next_op
    while op is not None:
        found.append(op)
        op = op.next_op
    return found


def _sizes(value: SSAValue) -> tuple[int, ...]:
    return shape_of(value.type)
