"""Variables in stacks are read and written as if each had its own array."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from graphopt.errors import ScopeError
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.signature import STATE, Port, signature_of, stack_name
from graphopt.ir.dialect.text import text_of
from graphopt.ir.dialect.types import tensor
from graphopt.lowering.plan import Replicated, home_of
from graphopt.runtime.state.bound import bind, take
from graphopt.runtime.state.scope import Scope

NAMES = ("a", "b", "c", "d")
# stacks of programs: some share variables, some have them in another order
STACKS = (("a", "b", "c"), ("b", "c", "d"), ("c", "b"), NAMES)
ITEM = tensor((2,), "float32")


def port_of(names: tuple[str, ...]) -> Port:
    if len(names) == 1:
        return Port(STATE, names[0], ITEM)
    return Port(STATE, stack_name(names), tensor((len(names), 2), "float32"), stack_of=names)


def mapped_on(device: Any) -> Replicated:
    sharding = jax.sharding.SingleDeviceSharding(device)
    return Replicated("alone", lambda: None, 1, lambda _: sharding, home_of(device))


@functools.partial(jax.jit, donate_argnums=0)
def grow(array: Any) -> Any:
    """Update in place: the old array is donated."""
    return array * 2 + 1


def taken(mapped: Replicated, port: Port, scope: Scope) -> Any:
    """Return the array of a port for a program that only reads it."""
    return take(mapped, bind(mapped, port, scope))


class Stacks(RuleBasedStateMachine):
    """Programs that update or read variables, in stacks or one by one, on two devices."""

    def __init__(self) -> None:
        super().__init__()
        self.scope = Scope()
        self.model = {name: np.full(2, at, "float32") for at, name in enumerate(NAMES)}
        for name, value in self.model.items():
            self.scope.var(name).get_tensor().set(value)
        self.devices = [mapped_on(device) for device in jax.devices("cpu")[:2]]

    wanted = st.one_of(st.sampled_from(STACKS), st.sampled_from(NAMES).map(lambda n: (n,)))
    device = st.integers(0, 1)

    @rule(names=wanted, at=device)
    def update(self, names: tuple[str, ...], at: int) -> None:
        """Run a step that donates these variables."""
        mapped, port = self.devices[at], port_of(names)
        bound = bind(mapped, port, self.scope)
        assert bound.slot is not None
        new = grow(take(mapped, bound, keep=True))
        bound.slot.put(new, layout=bound.layout, home=mapped.home)
        for name in names:
            self.model[name] = self.model[name] * 2 + 1

    @rule(names=wanted, at=device)
    def read(self, names: tuple[str, ...], at: int) -> None:
        """Run a program that only reads these variables."""
        port = port_of(names)
        found = np.array(taken(self.devices[at], port, self.scope))
        wanted = [self.model[name] for name in names]
        np.testing.assert_array_equal(found, np.stack(wanted) if port.stack_of else wanted[0])

    @rule(name=st.sampled_from(NAMES), value=st.integers(-3, 3))
    def write(self, name: str, value: int) -> None:
        """Write a variable, as a script, a checkpoint or the startup program does."""
        self.model[name] = np.full(2, value, "float32")
        slot = self.scope.find_var(name)
        assert slot is not None
        slot.get_tensor().set(self.model[name])

    @rule()
    def look_from_a_kid(self) -> None:
        """Shadow a variable in a child scope, whose stacks are different."""
        kid = self.scope.new_scope()
        kid.var("b").put(np.full(2, 9, "float32"))
        port = port_of(("a", "b", "c"))
        found = np.array(taken(self.devices[0], port, kid))
        np.testing.assert_array_equal(found[1], [9, 9])
        np.testing.assert_array_equal(found[0], self.model["a"])
        self.scope.drop_kids()

    @invariant()
    def every_variable_has_its_latest_value(self) -> None:
        for name, value in self.model.items():
            slot = self.scope.find_var(name)
            assert slot is not None
            np.testing.assert_array_equal(slot.numpy(), value)


Stacks.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestStacks = Stacks.TestCase


def test_a_variable_without_a_value_is_named() -> None:
    """The error names the variable of a stack that lacks its value."""
    scope, port = Scope(), port_of(("a", "b"))
    scope.var("a").put(np.zeros(2, "float32"))
    scope.var("b")
    with pytest.raises(ScopeError, match="variable 'b' has not been initialized"):
        taken(mapped_on(jax.devices("cpu")[0]), port, scope)


def test_a_variable_of_another_shape_is_named() -> None:
    """The error names the variable of a stack that does not fit."""
    scope, port = Scope(), port_of(("a", "b"))
    scope.var("a").put(np.zeros(2, "float32"))
    scope.var("b").put(np.zeros(3, "float32"))
    with pytest.raises(ScopeError, match=r"variable 'b' is float32 \[2\] in the program"):
        taken(mapped_on(jax.devices("cpu")[0]), port, scope)


TEXT = """builtin.module {
  func.func @main(%%s: tensor<2x3xf32> {pd.state = "a .. b", pd.stack_of = [%s]}%s) -> () {
    func.return
  }
}"""


def test_stacks_are_read_and_written_as_text() -> None:
    """The text of a module names the variables of a stack."""
    module = parse_text(TEXT % ('"a", "b"', ""))
    (port,) = signature_of(module).arguments
    assert (port.stack_of, port.variables) == (("a", "b"), ("a", "b"))
    assert text_of(parse_text(text_of(module))) == text_of(module)


@pytest.mark.parametrize(
    ("names", "more", "message"),
    [
        ('"a"', "", "must list as many variables"),
        ('"a", "a"', "", "must list as many variables"),
        ('"a", "b"', ', %b: tensor<3xf32> {pd.state = "b"}', "are the variable 'b'"),
    ],
)
def test_wrong_stacks_are_refused(names: str, more: str, message: str) -> None:
    """A stack needs as many variables as items, each in one place."""
    with pytest.raises(ValueError, match=message):
        signature_of(parse_text(TEXT % (names, more)))
