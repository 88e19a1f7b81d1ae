"""Parameter updates for generated programs: several kinds, in groups that may be one op or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.math import Multiply
from graphopt.ir.dialect.ops.update.basic import Adam, Adamw, Momentum, Sgd
from graphopt.ir.dialect.signature import STATE
from graphopt.ir.dialect.types import shape_of
from graphopt.testing.transformers import Builder

# properties that all updates of a group share, with other values than the defaults
KINDS: Mapping[type[PdOp], Sequence[Mapping[str, Any]]] = {
    Sgd: ({},),
    Momentum: (
        {"mu": 0.5},
        {"mu": 0.75},
        {"mu": 0.5, "use_nesterov": True},
        {"mu": 0.5, "regularization_method": "l2_decay", "regularization_coeff": 0.5},
    ),
    Adam: ({}, {"beta1": 0.5}, {"beta2": 0.5}, {"epsilon": 0.25}),
    Adamw: (
        {},
        {"beta1": 0.5},
        {"coeff": 0.5},
        {"coeff": 0.5, "with_decay": False},
        {"with_decay": False},
        {"lr_ratio": 0.5},
    ),
}
# states that are written, each with its new value
Written = list[tuple[str, SSAValue]]


class PlainUpdates:
    """Updates that are alike for all weights."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.rate = builder.add(Full, shape=(1,), value=0.1)

    def update(self, name: str, weight: SSAValue, gradient: SSAValue) -> Written:
        """Update a weight; return it by its name."""
        return [(name, self.builder.add(Sgd, weight, gradient, self.rate))]


class Updates:
    """Updates of weights one after the other; usually like the one before, sometimes otherwise.

    In some programs most gradients are scaled before.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder, self.draw = builder, builder.draw
        self.rates = [self._rate(0.125)]
        if self._seldom():
            self.rates.append(self._rate(self.draw(st.sampled_from([0.125, 0.25]))))
        self.factor = self._rate(0.5) if self.draw(st.booleans()) else None
        self.choose()

    def _seldom(self) -> bool:
        return self.draw(st.integers(0, 3)) == 3

    def _rate(self, value: float) -> SSAValue:
        return self.builder.add(Full, shape=(1,), value=value)

    def choose(self) -> None:
        """Draw a kind of update, and its properties."""
        self.kind = self.draw(st.sampled_from(list(KINDS)))
        self.attrs = self.draw(st.sampled_from(KINDS[self.kind]))

    def update(self, name: str, weight: SSAValue, gradient: SSAValue) -> Written:
        """Update a weight and its state; return them by the names of the values they replace."""
        if self._seldom():
            self.choose()
        elif self._seldom():
            self.attrs = self.draw(st.sampled_from(KINDS[self.kind]))
        rate = self.draw(st.sampled_from(self.rates))
        if self.factor is not None and not self._seldom():
            gradient = self.builder.add(Multiply, gradient, self.factor)
        shape = shape_of(weight.type)
        states: list[tuple[str, SSAValue]] = []
        if self.kind is Momentum:
            states = [self.state(name, "velocity", shape)]
            operands = (weight, gradient, states[0][1], rate)
        elif self.kind is Sgd:
            operands = (weight, gradient, rate)
        else:
            states = [
                self.state(name, "moment1", shape),
                self.state(name, "variance", shape),
                self.state(name, "beta1_pow", (1,)),
                self.state(name, "beta2_pow", (1,)),
            ]
            operands = (weight, gradient, rate, *(value for _, value in states))
        new = self.builder.add(self.kind, *operands, **self.attrs)
        assert isinstance(new.owner, PdOp)
        names = (name, *(state for state, _ in states))
        return list(zip(names, new.owner.results, strict=True))

    def state(self, weight: str, slot: str, shape: tuple[int, ...]) -> tuple[str, SSAValue]:
        """Add a state argument of an update; return its name and value."""
        value = self.builder.leaf(STATE, shape, f"{weight}.{slot}")
        return self.builder.name_of(value), value
