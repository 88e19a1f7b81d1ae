"""Explicit gradient operators -> `pd.grad`, where together they are the whole derivative.

A backward pass is raised if it computes exactly the derivative of its targets (see
`backward_pass.py`). Otherwise it keeps its operators, each as a `pd.vjp`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.program import GRAD_SUFFIX, Block, Operator, is_gradient
from graphopt.ir.program.sub_blocks import sub_block
from graphopt.ir.translate.gradients.backward_pass import (
    BackwardPass,
    NotStandard,
    Raised,
    Surroundings,
    leads_to_update,
)
from graphopt.ir.translate.gradients.explicit import GradientLink, base_name
from graphopt.ir.translate.gradients.flow import Contribution, GradientFlow
from graphopt.ir.translate.gradients.versions import OpPosition, VersionedName


@dataclass
class GradientPlan:
    """The plan for translating the operators of a block to `pd` ops.

    `grads` come before the operator of their index. Operators in `absorbed` are dropped, operators
    in `links` become a `pd.vjp` each. `reasons` has the reason for each pass that was not raised.
    """

    ops: Sequence[Operator]
    flow: GradientFlow | None = None
    grads: list[Raised] = field(default_factory=list[Raised])
    absorbed: set[int] = field(default_factory=set[int])
    links: dict[int, GradientLink] = field(default_factory=dict[int, GradientLink])
    reasons: list[str] = field(default_factory=list[str])
    parameters: dict[VersionedName, VersionedName] = field(
        default_factory=dict[VersionedName, VersionedName]
    )
    """Gradient -> parameter, for gradients that updates read from a pass that was not raised."""


def plan_gradients(
    ops: Sequence[Operator], block: Block, fetches: Iterable[str], *, inside: bool = False
) -> GradientPlan:
    """Plan the translation of the operators of `block`, with these names fetched at the end.

    With `inside`, for a loop or branch, a name in a gradient operator means its value when the
    forward operator read it.
    """
    if not any(map(is_gradient, ops)):
        return GradientPlan(ops)
    return _Planner(ops, block, fetches, inside=inside).plan()


class _Planner:
    def __init__(
        self, ops: Sequence[Operator], block: Block, fetches: Iterable[str], *, inside: bool
    ) -> None:
        self.ops, self.block, self.inside = ops, block, inside
        self.flow = GradientFlow(ops)
        self.versions = self.flow.versions
        kept = {n for op in ops for n in op.output_arg_names if self._is_state(n)}
        self.read_at_end = {self.versions.last(name) for name in (*fetches, *sorted(kept))}
        self.also_read: set[VersionedName] = set()
        """Values that the derivatives found so far need."""

    def _is_state(self, name: str) -> bool:
        variable = self.block.find_var(name)
        return variable is not None and variable.persistable

    def plan(self) -> GradientPlan:
        plan = GradientPlan(self.ops, self.flow)
        for members in reversed(self._passes(whole=True)):
            self._plan_pass(members, plan)
        self._keep_forwards(plan)
        return plan

    def _plan_pass(self, members: list[int], plan: GradientPlan) -> None:
        for link in (self.flow.links[at] for at in members):
            if "sub_block" in self.ops[link.at].attrs:
                given = {v.name for v, g in link.cotangents.items() if g not in self.flow.zeros}
                check_region(self.ops[link.forward], self.ops[link.at], link.results, given)
        reasons: list[str] = []
        wanted = self.read_at_end | self.also_read
        around = Surroundings(self.flow, self.block, wanted, self.inside)
        fine = [p for p in self._passes(whole=False) if p[0] in members]
        for attempt in ([members], fine) if len(fine) > 1 else ([members],):
            try:
                found = [BackwardPass(around, part).raise_derivative() for part in attempt]
            except NotStandard as reason:
                reasons.append(str(reason))
                continue
            for raised, absorbed in found:
                plan.grads.append(raised)
                plan.absorbed |= absorbed
                values = {v for v, _ in raised.wrt}.union(raised.no_grad, *raised.targets)
                self.also_read |= values
            return
        plan.links.update({at: self.flow.links[at] for at in members})
        plan.reasons += reasons[:1]
        plan.parameters.update(self._parameter_gradients(members))
        for at in members:
            self.also_read.update(self.versions.reads[at].values())

    def _parameter_gradients(self, members: Collection[int]) -> dict[VersionedName, VersionedName]:
        """Map each gradient that an update takes from these operators to its parameter."""
        found: dict[VersionedName, VersionedName] = {}
        for gradient, (value, terms) in self.flow.pure.items():
            mine = all(isinstance(t, Contribution) and t.at in members for t in terms)
            is_parameter = value not in self.versions.producer and self._is_state(value.name)
            readers = self.versions.readers.get(gradient, ())
            if not (mine and is_parameter) or any(map(self._passes_on, readers)):
                continue
            if leads_to_update(self.flow, readers):
                found[gradient] = value
        return found

    def _passes_on(self, at: int) -> bool:
        """True for an operator that only computes a gradient from other gradients."""
        written = self.versions.writes[at].values()
        return at in self.flow.links or any(v in self.flow.pure for v in written)

    def _keep_forwards(self, plan: GradientPlan) -> None:
        """Raise UnsupportedError if a kept operator is the gradient of an absorbed one."""
        for link in plan.links.values():
            if link.forward in plan.absorbed:
                raise UnsupportedError(
                    f"operator {self.ops[link.at].type} is not the standard derivative of the "
                    f"gradient operator {self.ops[link.forward].type} ({'; '.join(plan.reasons)})"
                )

    def _passes(self, *, whole: bool) -> list[list[int]]:
        """Group the gradient operators between which gradients flow, in program order.

        With `whole`, passes whose results are summed form one group.
        """
        group = {at: at for at in self.flow.links}

        def root(at: int) -> int:
            while group[at] != at:
                at = group[at]
            return at

        def join(several: Collection[int]) -> None:
            roots = sorted({root(at) for at in several})
            for other in roots[1:]:
                group[other] = roots[0]

        for at, link in self.flow.links.items():
            for value, gradient in link.cotangents.items():
                terms = self.flow.terms(gradient, value)
                join([at, *(t.at for t in terms if isinstance(t, Contribution))])
        if whole:
            for _, terms in self.flow.pure.values():
                join([t.at for t in terms if isinstance(t, Contribution)])
        found: dict[int, list[int]] = {}
        for at in sorted(group):
            found.setdefault(root(at), []).append(at)
        return [found[at] for at in sorted(found)]


_ARRAYS = ("read_from_array", "write_to_array")


def check_region(
    forward: Operator, op: Operator, results: Iterable[OpPosition], given: Collection[str]
) -> None:
    """Raise UnsupportedError unless a gradient operator's block derives the forward block.

    The two blocks are analyzed as one program; its seeds are the gradients of the forward block's
    outputs. `results` are the positions of the forward operator's inputs whose gradients `op`
    computes; `given` names the outputs whose gradients it reads.
    """
    inner, gradients = sub_block(forward), sub_block(op)
    where = f"operator {op.type} -> {', '.join(op.output_arg_names)}"
    if any(inner_op.type in _ARRAYS for inner_op in gradients.ops):
        raise UnsupportedError(
            f"{where}: gradients of tensor arrays inside a loop of a saved program are not "
            "supported; load the program without its backward pass, and take the gradients with "
            "append_backward"
        )
    fetches = [f"{forward.inputs[place.slot][place.position]}{GRAD_SUFFIX}" for place in results]
    try:
        plan = plan_gradients([*inner.ops, *gradients.ops], gradients, fetches, inside=True)
    except (ProgramError, UnsupportedError) as error:
        raise UnsupportedError(f"{where}: {error}") from None
    if plan.flow is None or plan.links or len(plan.grads) != 1:
        raise UnsupportedError(
            f"{where} does not compute the derivative of its forward operator {forward.type}: "
            f"{'; '.join(plan.reasons) or 'the block is not one derivative'}"
        )
    (raised,) = plan.grads
    last = plan.flow.versions.last
    for value, seed in raised.targets:
        if seed.version or base_name(seed.name) != value.name or value != last(value.name):
            raise UnsupportedError(
                f"{where} starts from '{seed.name}', which is not the gradient of a result "
                f"of its forward operator {forward.type}"
            )
    unused = set(given) - {value.name for value, _ in raised.targets}
    if unused:
        raise UnsupportedError(f"{where} does not use the gradient of '{min(unused)}'")
    found = {g.name for v, gs in raised.wrt for g in gs if not v.version}
    if found != set(fetches):
        missing = ", ".join(sorted(set(fetches) - found))
        raise UnsupportedError(f"{where} does not compute the gradients {missing} in a known way")
