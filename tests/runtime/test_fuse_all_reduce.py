"""fuse_all_reduce_ops: gradients travel in groups, by Paddle's rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.display.units import times
from graphopt.ir.program import Variable
from graphopt.runtime.settings.flags import get_flags, set_flags
from graphopt_tests.runtime.nets import Net, build, regression_feed, value
from graphopt_tests.runtime.trainings import module_text, stablehlo, state_of

SIZE, COUNT = "FLAGS_fuse_parameter_memory_size", "FLAGS_fuse_parameter_groups_size"


@pytest.fixture(autouse=True)
def flags_of_paddle() -> Iterator[None]:
    """Restore Paddle's values of the flags after a test."""
    yield
    set_flags({SIZE: -1, COUNT: 1})


def three_layers(width: int = 4) -> Net:
    """Build three fc layers with biases, which have six gradients."""

    def make() -> tuple[Variable, Variable]:
        hidden = static.data("x", [None, 3], "float32")
        static.data("y", [None, 2], "float32")
        for _ in range(3):
            hidden = static.nn.fc(hidden, width, activation="tanh")
        loss = paddle.mean(paddle.square(hidden))
        paddle.optimizer.Momentum(0.1).minimize(loss)
        return loss, hidden

    with paddle.utils.unique_name.guard():
        return build(make, seed=1)


def sums(program: Any) -> int:
    """Count the collectives of a run, in the IR and in StableHLO."""
    found = module_text(program).count("pd.all_reduce")
    assert stablehlo(program).count('"stablehlo.all_reduce"') == found
    return found


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("flags", "groups"),
    [({}, 3), ({SIZE: 0}, 1), ({SIZE: 1}, 1), ({SIZE: 1, COUNT: 3}, 2), ({SIZE: 1e-5}, 3)],
)
def test_groups(flags: dict[str, Any], groups: int) -> None:
    """Six gradients become one collective for each group; without the flag, one each."""
    set_flags(flags)
    net = three_layers()
    program, single = net.parallel(2), net.parallel(2, fuse_all_reduce_ops=False)
    found: list[Any] = []
    for chosen in (program, single):
        net.start()
        for step in range(3):
            net.run(regression_feed(12, seed=step), (), chosen)
        found.append(state_of(net))
    for name, array in found[0].items():
        assert np.array_equal(array, found[1][name]), name
    assert (sums(program), sums(single)) == (groups, 6)
    explained = program.explain("fuse_all_reduce_ops")
    assert f"applied {times(groups)}, " in explained
    assert f"6 collectives before, {groups} after" in explained


@pytest.mark.exhaustive
def test_large_gradients_travel_alone() -> None:
    """A gradient above the measured size is not copied into a buffer."""
    net = three_layers(width=128)
    program = net.parallel(2)
    net.run(regression_feed(12), (), program)
    # the second and third weight have 64 KB
    assert sums(program) == 5
    assert "large: the value has 65536 bytes" in program.explain()


def test_one_device_sums_nothing() -> None:
    """On one device there are no collectives to join."""
    net = three_layers()
    program = net.parallel(1)
    net.run(regression_feed(12), (), program)
    assert "pd.all_reduce" not in module_text(program)
    assert value("fc_0.w_0").shape == (3, 4)


def test_flags() -> None:
    """Flags keep their values; sizes are numbers, also in the environment."""
    assert get_flags([SIZE, COUNT]) == {SIZE: -1, COUNT: 1}
    set_flags({SIZE: 3})
    assert get_flags(SIZE) == {SIZE: 3}
    with pytest.raises(ValueError, match=f"{SIZE} should be a number, found 'much'"):
        set_flags({SIZE: "much"})
    assert get_flags(SIZE) == {SIZE: 3}
