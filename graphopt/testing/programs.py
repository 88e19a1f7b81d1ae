"""A Hypothesis strategy for well-typed `pd` modules with planted fusion patterns.

Each module has feeds and state, a few outputs of planted patterns and random ops, a loss,
its gradients with respect to the state, updates of its weights, and some fetched intermediate
values (which sometimes make a fusion decline).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from hypothesis import strategies as st
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.math import AddN
from graphopt.ir.dialect.ops.norm import BatchNormBase
from graphopt.ir.dialect.ops.reduce import Mean
from graphopt.ir.dialect.signature import FEED, FETCH, STATE
from graphopt.ir.dialect.text import text_of
from graphopt.ir.dialect.types import Tensor, dtype_of, shape_of, tensor
from graphopt.passes.engine.fusion import Fusion, Value
from graphopt.testing.cleanup_patterns import Idiom
from graphopt.testing.makers import MAKERS, Draw, Shape
from graphopt.testing.planting import Planned, Planner
from graphopt.testing.transformers import planter_of
from graphopt.testing.updates import PlainUpdates, Updates

SHAPES: Sequence[Shape] = ((2, 3), (1, 4), (3, 1), (2, 1, 3), (2, 3, 2, 2), (1, 2, 3, 1))

# a shape that every op can produce
IMAGES: Shape = (2, 3, 2, 2)


class Generated:
    """A generated module, shown as its text in failing tests."""

    def __init__(self, module: ModuleOp, notes: Sequence[str] = ()) -> None:
        self.module = module
        self.notes = notes

    def __repr__(self) -> str:
        return f"\n{text_of(self.module)}\n"


@st.composite
def programs(
    draw: Draw, plant: Sequence[Fusion] = (), training: bool = True, updates: bool = False
) -> Generated:
    """Draw a module that contains the patterns of some of these fusions, often with other users.

    Without `training` there is no loss, gradient or update; with `updates` the updates are of
    several kinds, else all are alike.
    """
    builder = _Builder(draw)
    outputs: list[SSAValue] = []
    choices = list(plant)
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(SHAPES))
        if choices and draw(st.integers(0, 3)):
            fusion = draw(st.sampled_from(choices))
            if planter_of(fusion) is not None:
                choices = []  # one of these is enough for a program
            planted = builder.plant_fusion(fusion, shape)
            outputs.append(planted if planted is not None else builder.random_op(shape, 2))
        else:
            outputs.append(builder.random_op(shape, draw(st.integers(1, 3))))
    return Generated(builder.finish(outputs, training=training, updates=updates))


class _Builder:
    """The module under construction."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.block = Block()
        self.ports: list[tuple[str, str]] = []
        self.shared: list[SSAValue] = []
        self.written: list[tuple[str, SSAValue]] = []
        self.planner = Planner(draw)

    def leaf(self, kind: str, shape: Shape | Tensor, name: str) -> SSAValue:
        """Add an argument to the function, in float32 where a shape is given."""
        index = len(self.block.args)
        type = tensor(shape, "float32") if isinstance(shape, tuple) else shape
        value = self.block.insert_arg(type, index)
        value.name_hint = f"{name}.{index}"
        self.ports.append((kind, f"{name}.{index}"))
        return value

    def name_of(self, argument: SSAValue) -> str:
        """Return the name of an argument of the function."""
        names = zip(self.block.args, self.ports, strict=True)
        return next(name for value, (_, name) in names if value is argument)

    def value(self, type: Tensor, depth: int) -> SSAValue:
        """Draw a value of this type: an existing one, a new feed, or the result of a random op."""
        existing = [v for v in (*self.block.args, *self.shared) if v.type == type]
        choice = self.draw(st.integers(0, 3))
        if existing and choice == 0:
            return self.draw(st.sampled_from(existing))
        if depth > 0 and choice > 1 and dtype_of(type) == "float32":
            return self.random_op(shape_of(type), depth - 1)
        return self.leaf(FEED, type, "x")

    def random_op(self, shape: Shape, depth: int) -> SSAValue:
        """Add a random op that gives this shape."""
        op_class = self.draw(st.sampled_from(list(MAKERS)))
        planned = self.planner.by_hand(op_class, (), shape)
        if planned is None:
            return self.leaf(FEED, tensor(shape, "float32"), "x")
        value = self.make(planned, {}, depth).results[0]
        self.shared.append(value)
        return value

    def plant_fusion(self, fusion: Fusion, shape: Shape) -> SSAValue | None:
        """Plant the pattern of a fusion; it has this shape unless the fusion has a planter."""
        if isinstance(fusion, Idiom):
            return fusion.plant(self)
        planter = planter_of(fusion)
        if planter is not None:
            return planter(self, fusion)
        for wanted in (shape, IMAGES, None):
            planned = self.planner.plan(fusion.root, wanted)
            if planned is not None:
                return self.build(planned, {}, {}).results[0]
        return None

    def build(
        self,
        planned: Planned,
        holes: dict[Value, SSAValue],
        made: dict[Planned, PdOp],
    ) -> PdOp:
        """Build the op of a plan, after the ops below it.

        Its value is private, except for one in eight: otherwise fusions would decline all the time.
        A hole or node that occurs twice gets one value.
        """
        operands: dict[int, SSAValue] = {}
        for position, (below, index) in planned.below.items():
            if below not in made:
                made[below] = self.build(below, holes, made)
            operands[position] = made[below].results[index]
        types = planned.call.flat
        for position, hole in planned.holes.items():
            if hole in holes and types[position] == holes[hole].type:
                operands[position] = holes[hole]
        op = self.make(planned, operands, 1)
        for position, hole in planned.holes.items():
            holes.setdefault(hole, op.operands[position])
        if not self.draw(st.integers(0, 7)):
            self.shared.append(op.results[0])
        return op

    def make(self, planned: Planned, given: Mapping[int, SSAValue], depth: int) -> PdOp:
        """Make an op with these operands; the others are made to fit."""
        operands: list[SSAValue] = []
        for position, type in enumerate(planned.call.flat):
            if position in given:
                operands.append(given[position])
            elif position in planned.state:
                operands.append(self.leaf(STATE, type, planned.names.get(position, "w")))
            else:
                operands.append(self.value(type, depth))
        rest = iter(operands)
        groups = [list(islice(rest, len(group))) for group in planned.call.operands]
        op = planned.op_class.make(*groups, **planned.call.attrs)
        self.append(op)
        if isinstance(op, BatchNormBase):
            self.statistics(op)
        return op

    def statistics(self, norm: BatchNormBase) -> None:
        """Write the moving statistics back to their state."""
        for read, written in ((norm.mean, norm.mean_out), (norm.variance, norm.variance_out)):
            index = self.block.args.index(read)
            self.written.append((self.ports[index][1], written))

    def finish(
        self, outputs: Sequence[SSAValue], *, training: bool, updates: bool = False
    ) -> ModuleOp:
        """Close the function with fetches and state, after an optional training step."""
        results = [(FETCH, f"out.{i}", value) for i, value in enumerate(outputs)]
        if training:
            results += self.training_step(outputs, updates=updates)
        if self.shared and not self.draw(st.integers(0, 3)):
            results.append((FETCH, "inner", self.draw(st.sampled_from(self.shared))))
        results += [(STATE, name, value) for name, value in self.written]
        self.block.add_op(ReturnOp(*(value for _, _, value in results)))
        return _module(self.block, self.ports, results)

    def training_step(
        self, outputs: Sequence[SSAValue], *, updates: bool
    ) -> list[tuple[str, str, SSAValue]]:
        """Add a loss, its gradients with respect to all arguments, and an update of the weights."""
        weights = [
            argument
            for argument, (kind, name) in zip(self.block.args, self.ports, strict=True)
            if kind == STATE and name.startswith("w.")
        ]
        others = [
            argument
            for argument in self.block.args
            if argument not in weights and dtype_of(argument.type).is_floating
        ]
        middles = [value for value in self.shared if dtype_of(value.type).is_differentiable]
        if middles and not self.draw(st.integers(0, 3)):
            others.append(self.draw(st.sampled_from(middles)))
        wrt = [*weights, *others]
        means = [self.add(Mean, value) for value in outputs if _is_differentiated(value)]
        loss = self.add(AddN, means or [self.add(Mean, self.random_op(SHAPES[0], 1))])
        seed = self.add(FullLike, loss, value=1.0)
        grad = Grad.make([loss], wrt, [seed], [], parameters=tuple(range(len(weights))))
        self.block.add_op(grad)
        update = (Updates(self) if updates else PlainUpdates(self)).update
        for weight, gradient in zip(weights, grad.results, strict=False):
            self.written += update(self.name_of(weight), weight, gradient)
        fetched = [(FETCH, "loss", loss)]
        gradients = grad.results[len(weights) :]
        return fetched + [(FETCH, f"grad.{i}", value) for i, value in enumerate(gradients)]

    def add(self, op_class: type[PdOp], *operands: Any, **attrs: Any) -> SSAValue:
        """Append an op and return its first result."""
        op = op_class.make(*operands, **attrs)
        self.append(op)
        return op.results[0]

    def append(self, op: PdOp) -> None:
        """Append an op; results are named after it and its index, as in programs of users."""
        number = len(self.block.ops)
        for index, result in enumerate(op.results):
            result.name_hint = f"{op.name.removeprefix('pd.')}_{number}.{index or 'tmp'}"
        self.block.add_op(op)


def _module(
    block: Block, ports: Sequence[tuple[str, str]], results: Sequence[tuple[str, str, SSAValue]]
) -> ModuleOp:
    inputs: list[Attribute] = [argument.type for argument in block.args]
    outputs: list[Attribute] = [value.type for _, _, value in results]

    def attrs(entries: Sequence[tuple[str, str]]) -> ArrayAttr[DictionaryAttr]:
        return ArrayAttr([DictionaryAttr({kind: StringAttr(name)}) for kind, name in entries])

    function = FuncOp(
        "main",
        FunctionType.from_lists(inputs, outputs),
        Region(block),
        arg_attrs=attrs(ports),
        res_attrs=attrs([(kind, name) for kind, name, _ in results]),
    )
    return ModuleOp([function])


def _is_differentiated(output: SSAValue) -> bool:
    """True where a loss can depend on a value: no size depends on data, which tracing lacks."""
    waiting, seen = [output], set[SSAValue]()
    while waiting:
        value = waiting.pop()
        if isinstance(value.owner, DataSizedOp):
            return False
        if value not in seen and isinstance(value.owner, PdOp):
            waiting += value.owner.operands
        seen.add(value)
    return dtype_of(output.type) == "float32"
