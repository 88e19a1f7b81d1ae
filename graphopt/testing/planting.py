"""The plan of a planted pattern: the op at each of its nodes, with its operand types.

A plan is made before any op: backwards from the type of a value, and where no op gives it, forwards
from the values below in the pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from graphopt.ir.dialect.definition import operand_names
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.norm import BatchNormBase
from graphopt.ir.dialect.types import Tensor, dtype_of, shape_of, tensor
from graphopt.passes.engine.fusion import Hole, Node, Value
from graphopt.passes.engine.pattern import Result
from graphopt.testing.calls import TypedCall, calls_of
from graphopt.testing.makers import PLANTED, Draw, Recipe, Shape

TRIES, MOST = 3, 60
"""The most calls to try for one node, and for a whole pattern."""
Types = Mapping[int, Tensor]
"""Required operand types, by position."""


@dataclass(eq=False)
class Planned:
    """An op to be made: its call, and the holes or ops of its first operands in the pattern."""

    op_class: type[PdOp]
    call: TypedCall
    state: Sequence[int] = ()
    names: Mapping[int, str] = field(default_factory=dict[int, str])
    below: dict[int, tuple[Planned, int]] = field(default_factory=dict[int, "tuple[Planned, int]"])
    """By operand: the planned op that computes it, and the index of its result."""
    holes: dict[int, Value] = field(default_factory=dict[int, Value])


@dataclass
class Known:
    """The parts of a pattern that are planned: types of holes, ops of nodes."""

    holes: dict[Value, Tensor] = field(default_factory=dict[Value, Tensor])
    nodes: dict[Node, Planned] = field(default_factory=dict[Node, Planned])

    def copy(self) -> Known:
        """Copy, to try another way."""
        return Known(dict(self.holes), dict(self.nodes))


class Planner:
    """A planner of patterns, whose choices are drawn."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.left = MOST

    def plan(self, root: Node, shape: Shape | None) -> Planned | None:
        """Plan a pattern that gives this shape in float32, or without a shape any type.

        None when no plan is found. TypeError for a pattern with an op that cannot be planted.
        """
        self.left = MOST
        wanted = None if shape is None else tensor(shape, "float32")
        found = self._node(root, wanted, 0, Known())
        return None if found is None else found[0]

    def _node(
        self, node: Node, wanted: Tensor | None, result: int, known: Known
    ) -> tuple[Planned, Known] | None:
        """Plan a node and all nodes below it; also return the parts known then."""
        if node in known.nodes:
            given = known.nodes[node]
            return (given, known) if _gives(given.call, wanted, result) else None
        op_class = self._class_of(node)
        order = self.draw(st.sampled_from(list(node.orders)))
        for _ in range(TRIES):
            self.left -= 1
            types = _types_of_holes(order, known)
            planned = self._op(op_class, order, types, wanted, result)
            if planned is None or self.left < 0:
                break
            found = self._below(planned, order, known)
            if found is not None:
                found.nodes[node] = planned
                return planned, found
        return None if wanted is not None else self._forwards(node, op_class, order, known)

    def _class_of(self, node: Node) -> type[PdOp]:
        """Draw one of the ops that a node may be. TypeError when none of them can be planted."""
        usable = [op for op in node.types if op in PLANTED] or [
            op for op in node.types if calls_of(op)
        ]
        if not usable:
            raise TypeError(
                f"{node.expected} cannot be planted: no operands and properties of its class were "
                "found that its type rule takes; plant a program of your own, or give "
                "graphopt.testing.starts.STARTS a call of it"
            )
        return self.draw(st.sampled_from(usable))

    def _forwards(
        self, node: Node, op_class: type[PdOp], order: Sequence[Hole], known: Known
    ) -> tuple[Planned, Known] | None:
        """Plan a node after the values below it, which may have any types."""
        known = known.copy()
        types: dict[int, Tensor] = {}
        for at, hole in enumerate(order):
            if isinstance(hole, Value):
                continue
            below, index = _node_of(hole)
            found = self._node(below, None, index, known) if self.left > 0 else None
            if found is None or index >= len(found[0].call.results):
                return None
            known = found[1]
            types[at] = found[0].call.results[index]
        types.update(_types_of_holes(order, known))
        planned = self._op(op_class, order, types, None, 0) if types else None
        done = None if planned is None else self._below(planned, order, known)
        if planned is None or done is None:
            return None
        done.nodes[node] = planned
        return planned, done

    def _below(self, planned: Planned, order: Sequence[Hole], known: Known) -> Known | None:
        """Plan the operands of an op; return the parts known then."""
        known = known.copy()
        for at, (hole, type) in enumerate(zip(order, planned.call.flat, strict=False)):
            if isinstance(hole, Value):
                known.holes.setdefault(hole, type)
                planned.holes[at] = hole
                continue
            node, index = _node_of(hole)
            found = self._node(node, type, index, known)
            if found is None:
                return None
            planned.below[at] = (found[0], index)
            known = found[1]
        return known

    def _op(
        self,
        op_class: type[PdOp],
        order: Sequence[Hole],
        types: Types,
        wanted: Tensor | None,
        result: int,
    ) -> Planned | None:
        """Plan an op on operands of these types, with a result of the wanted type; else None."""
        if (
            op_class in PLANTED
            and wanted is not None
            and dtype_of(wanted) == "float32"
            and not result
        ):
            return self.by_hand(op_class, order, shape_of(wanted))
        found = calls_of(op_class, tuple(types.items()), wanted, result)
        if not found:
            return None
        names = dict(enumerate(operand_names(op_class)))
        kept = [at for at, name in names.items() if name in ("mean", "variance")]
        state = kept if issubclass(op_class, BatchNormBase) else ()  # the state that it updates
        return Planned(op_class, self.draw(st.sampled_from(found)), state, names)

    def by_hand(self, op_class: type[PdOp], order: Sequence[Hole], shape: Shape) -> Planned | None:
        """Plan an op with the operands of its maker."""
        recipe = PLANTED[op_class](self.draw, shape)
        if recipe is None:
            return None
        recipe = as_usual(recipe, order, shape, self.draw(st.integers(0, 3)) > 0)
        groups = tuple(
            () if each is None else (tensor(each, "float32"),) for each in recipe.operands
        )
        call = TypedCall.of(op_class, groups, recipe.attrs)
        return Planned(op_class, call, recipe.state, recipe.names)


def as_usual(recipe: Recipe, order: Sequence[Hole], shape: Shape, wanted: bool) -> Recipe:
    """Replace operand shapes of a recipe by those that the pattern's holes usually have."""
    usual = [hole.usually if isinstance(hole, Value) else "full" for hole in order]
    if not wanted or "any" in usual or len(usual) < len(recipe.operands):
        return recipe
    operands = tuple(shape[-1:] if kind == "vector" else shape for kind in usual)
    return Recipe(operands, recipe.attrs, recipe.state, recipe.names)


def _node_of(hole: Node | Result) -> tuple[Node, int]:
    return (hole.node, hole.index) if isinstance(hole, Result) else (hole, 0)


def _types_of_holes(order: Sequence[Hole], known: Known) -> dict[int, Tensor]:
    return {
        at: known.holes[hole]
        for at, hole in enumerate(order)
        if isinstance(hole, Value) and hole in known.holes
    }


def _gives(call: TypedCall, wanted: Tensor | None, result: int) -> bool:
    return wanted is None or call.results[result : result + 1] == (wanted,)
