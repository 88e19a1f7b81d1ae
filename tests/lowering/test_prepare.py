"""`@prepare` in NumPy: it agrees with the lowering, and runs only where this is certain."""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np
import pytest

from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.traits import Movement
from graphopt.lowering.host_rules import on_host, rule_of
from graphopt.lowering.host_steps import RULES, HostSteps
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.state.scope import Scope
from graphopt_tests.ir.test_ops import COMPUTED
from graphopt_tests.op_calls import build, built, flat
from graphopt_tests.op_calls import rule_of as lowering_of

ON_HOST = [case for case in COMPUTED if on_host(built(*case.values))]


@pytest.mark.parametrize(("op_class", "case"), ON_HOST)
def test_rules_agree_with_the_lowering(op_class: type[PdOp], case: Any) -> None:
    """Data movement is equal bit by bit; a reciprocal root may differ in the last bit."""
    op = build(op_class, case)[1]
    with jax.enable_x64(True):
        (expected,) = map(np.asarray, lowering_of(op_class, case)(*flat(case)))
    rule = rule_of(op)
    assert rule is not None
    name, parameters = rule
    found = RULES[name](*flat(case), *parameters)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if op.get_trait(Movement) is None:
        np.testing.assert_array_max_ulp(found, expected, 1)
    else:
        np.testing.assert_array_equal(found, expected)


MODULE = """
builtin.module {
  func.func @prepare(state %w: tensor<2x3xf32>) -> (prepared "p": tensor<3x2xf32>) {
    %t = pd.transpose(%w) {perm = [1, 0]}
    %p = pd.OP(%t)
    func.return %p : tensor<3x2xf32>
  }
  func.func @main(prepared "p" %p: tensor<3x2xf32>) -> (fetch "y": tensor<3x2xf32>) {
    func.return %p : tensor<3x2xf32>
  }
}
"""


@pytest.mark.parametrize(("name", "compiled"), [("rsqrt", False), ("tanh", True)])
def test_xla_compiles_the_rest(name: str, compiled: bool) -> None:
    """One op without a rule makes XLA compile all ops; the result is a copy either way."""
    device = jax.devices("cpu")[0]
    prepare = Prepare.of(parse_text(MODULE.replace("OP", name)), "cpu", lambda: device)
    assert prepare is not None
    assert (prepare.steps is None) == compiled
    weights = np.arange(1, 7, dtype="float32").reshape(2, 3)
    (found,) = prepare(Scope(), (jax.device_put(weights, device),))
    expected = {"rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh}[name](weights.T)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "record",
    [
        [1, [["sqrt", [0], []]], [1]],
        [1, [["rsqrt", [1], []]], [1]],
        [1, [], [1]],
        [1, [["rsqrt", [-1], []]], [0]],
    ],
)
def test_a_record_with_other_steps_is_refused(record: Any) -> None:
    """A record is refused for an unknown rule, or for a value used before it is computed."""
    with pytest.raises(ValueError, match=r"step|results"):
        HostSteps.of_record(record)


def test_steps_come_back_from_their_record() -> None:
    """Steps survive a round trip through JSON."""
    steps = HostSteps(
        2,
        (
            ("transpose", (0,), ((1, 0),)),
            ("scale", (2,), (2.0, 1.0, True)),
            ("reshape", (1,), ((3, 2),)),
            ("add", (3, 4), ()),
        ),
        (5, 2),
    )
    again = HostSteps.of_record(json.loads(json.dumps(steps.record())))
    assert again == steps
    x = np.arange(6, dtype="float32").reshape(2, 3)
    y = x.ravel()
    summed, turned = again((x, y))
    np.testing.assert_array_equal(summed, x.T * 2 + 1 + y.reshape(3, 2))
    np.testing.assert_array_equal(turned, x.T)
