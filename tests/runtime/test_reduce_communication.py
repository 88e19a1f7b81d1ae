"""reduce_strategy=Reduce: owners, conflicts with other flags, and parameter traffic."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Variable
from graphopt_tests.runtime.nets import (
    build,
    close,
    fc_mean,
    parameter,
    regression,
    regression_feed,
    rows,
    value,
)
from graphopt_tests.runtime.trainings import (
    REDUCE,
    module_text,
    same,
    stablehlo,
    trained,
)


def test_fetched_gradients_are_summed_on_the_owner_only() -> None:
    """With X = 1 .. 4 on two devices, the owner has the sum, the other one its own share."""
    net = fc_mean(rate=1.0)
    (merged,) = net.run(rows(1, 2, 3, 4), "w@GRAD", net.parallel(2, reduce_strategy=REDUCE))
    close(merged, [[2.5], [1.75]])
    close(value("w"), [[-0.5]])


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("devices", "owners"), [(2, [0, 1, 0, 1, 0, 0, 1, 1]), (3, [0, 1, 2, 0, 1, 2, 1, 1])]
)
def test_owners(devices: int, owners: list[int]) -> None:
    """In backward order, each gradient goes to the device with the fewest elements so far."""

    def make() -> tuple[Variable, Variable]:
        hidden = static.data("x", [None, 6], "float32")
        for number, (inner, width) in enumerate([(6, 4), (4, 8), (8, 2), (2, 1)]):
            w = parameter(f"w{number}", np.ones((inner, width)))
            hidden = paddle.matmul(hidden, w) + parameter(f"b{number}", np.ones(width))
        loss = paddle.mean(hidden)
        paddle.optimizer.SGD(0.1).minimize(loss)
        return loss, hidden

    net = build(make)
    program = net.parallel(devices, reduce_strategy=REDUCE)
    net.run({"x": np.ones((6, 6), "float32")}, (), program)
    text = module_text(program)
    found = dict(re.findall(r"pd.reduce_scatter\(%([wb]\d)\S*\) {owner = (\d)", text))
    order = ["b3", "w3", "b2", "w2", "b1", "w1", "b0", "w0"]
    assert [int(found[name]) for name in order] == owners
    assert "owners in Paddle: " in program.explain()


@pytest.mark.exhaustive
def test_conflicts() -> None:
    """Reduce disables flags on whole gradients, AllReduce flags on gathers; both report it."""
    net = regression()
    for flags, text in (
        ({"reduce_strategy": REDUCE, "fuse_all_reduce_ops": True}, "fuse_all_reduce_ops: "),
        ({"reduce_strategy": REDUCE, "fuse_all_optimizer_ops": True}, "fuse_all_optimizer_ops: "),
        ({"fuse_broadcast_ops": True}, "fuse_broadcast_ops: reduce_strategy=AllReduce"),
    ):
        program = net.parallel(2, **flags)
        with pytest.warns(UserWarning, match=text):
            net.run(regression_feed(4), (), program)
        assert "switches this flag off, as in Paddle" in program.explain()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.run(regression_feed(4), (), net.parallel(2, reduce_strategy=REDUCE))


@pytest.mark.every(2)
@pytest.mark.parametrize("joined", [True, False])
def test_fuse_broadcast_ops(joined: bool) -> None:
    """All small parameters share one gather, or each has one: in the IR and in StableHLO."""
    net = regression(lambda: paddle.optimizer.Momentum(0.1))
    program = net.parallel(2, reduce_strategy=REDUCE, fuse_broadcast_ops=joined)
    wanted = trained(net, net.parallel(2))
    same(trained(net, program), wanted)
    assert module_text(program).count("pd.all_gather") == (1 if joined else 2)
    assert stablehlo(program).count("stablehlo.all_gather") == (1 if joined else 2)
