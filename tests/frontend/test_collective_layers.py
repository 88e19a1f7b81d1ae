"""Communication between trainers as layers, on one place and on several, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import distributed as dist
from graphopt import fluid, static
from graphopt.distributed import ReduceOp
from graphopt.errors import GraphoptError, UnsupportedError
from graphopt.fluid.layers import collective
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.runtime.nets import strategy

ROWS = np.array([[1.0, -2.0], [3.0, 4.0], [5.0, 0.5], [-1.0, 2.0]], "float32")


def on_places(fetches: list[Any], count: int, loss: Any = None) -> list[Any]:
    """Run on `count` places, each with a part of the rows; return the concatenated fetches."""
    program: Any = static.default_main_program()
    if count > 1:
        places = static.cpu_places(count)
        program = static.CompiledProgram(program).with_data_parallel(
            loss_name=loss and loss.name,
            build_strategy=strategy(gradient_scale_strategy="One"),
            places=places,
        )
    return static.Executor().run(program, feed={"x": ROWS}, fetch_list=fetches)


@pytest.mark.parametrize(
    ("reduction", "wanted"),
    [
        ("sum", ROWS[:2] + ROWS[2:]),
        ("max", np.maximum(ROWS[:2], ROWS[2:])),
        ("min", np.minimum(ROWS[:2], ROWS[2:])),
        ("prod", ROWS[:2] * ROWS[2:]),
    ],
)
def test_reductions_over_places(reduction: str, wanted: Any) -> None:
    with fresh():
        x = static.data("x", [None, 2])
        made = [collective._c_allreduce(x, reduce_type=reduction)]
        made.append(collective._allreduce(x, reduce_type=reduction))
        assert made[0].name == f"x.c_allreduce_{reduction}_0"
        alone = on_places(made, 1)
        both = on_places(made, 2)
    for found in alone:
        np.testing.assert_array_equal(found, ROWS)
    for found in both:
        np.testing.assert_array_equal(found, np.concatenate([wanted, wanted]))


def test_rows_of_all_places() -> None:
    with fresh():
        x = static.data("x", [None, 2])
        gathered = fluid.layers.collective._c_allgather(x, 2)
        (found,) = on_places([gathered], 2)
        np.testing.assert_array_equal(found, np.concatenate([ROWS, ROWS]))
        with pytest.raises(GraphoptError, match="a collective of 2 replicas, but runs on 1"):
            on_places([gathered], 1)


def test_the_value_of_one_place() -> None:
    with fresh():
        copy = static.data("x", [None, 2]) * 1.0
        sent = collective._c_sync_calc_stream(collective._c_broadcast(copy, 1))
        assert sent is copy
        (found,) = on_places([sent], 2)
        np.testing.assert_array_equal(found, np.concatenate([ROWS[2:], ROWS[2:]]))
        with pytest.raises(GraphoptError, match="there is no replica 1: the program runs on 1"):
            on_places([sent], 1)


def test_gradients_are_added_up_over_places() -> None:
    """The gradients of a sum, and of gathered rows, are summed over places, as in Paddle."""
    with fresh():
        x = static.data("x", [None, 2])
        x.stop_gradient = False
        total = collective._c_allreduce(x)
        gathered = collective._c_allgather(x, 2)
        weights = paddle.assign(np.arange(8, dtype="float32").reshape(4, 2))
        largest = collective._c_allreduce(x, reduce_type="max")
        loss = paddle.sum(total * x)
        slopes = [
            static.gradients([loss], [x])[0],
            static.gradients([paddle.sum(gathered * weights)], [x])[0],
            static.gradients([paddle.sum(largest + x)], [x])[0],
        ]
        first, second, third = on_places(slopes, 2, loss)
    added = ROWS[:2] + ROWS[2:]
    np.testing.assert_allclose(first, np.concatenate([added, added]) * 2, 1e-6)
    np.testing.assert_allclose(second, np.arange(8).reshape(4, 2) * 2, 1e-6)
    np.testing.assert_array_equal(third, np.ones_like(ROWS))


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (ReduceOp.SUM, ROWS[:2] + ROWS[2:]),
        (ReduceOp.MAX, np.maximum(ROWS[:2], ROWS[2:])),
        (ReduceOp.AVG, (ROWS[:2] + ROWS[2:]) / 2),
    ],
)
def test_the_functions_of_later_releases(op: int, wanted: Any) -> None:
    """The functions of later releases write in place, and also work on one place."""
    with fresh():
        copy = static.data("x", [None, 2]) * 1.0
        dist.all_reduce(copy, op)
        (alone,) = on_places([copy], 1)
        (both,) = on_places([copy], 2)
    np.testing.assert_array_equal(alone, ROWS)
    np.testing.assert_array_equal(both, np.concatenate([wanted, wanted]))


def test_one_trainer_gathers_its_own_tensor() -> None:
    with fresh():
        x = static.data("x", [None, 2])
        found: list[Any] = [None]
        dist.all_gather(found, x)
        scalars: list[Any] = []
        dist.all_gather(scalars, paddle.sum(x))
        copy = x * 2.0
        dist.broadcast(copy, 0)
        rows, total, twice = on_places([*found, *scalars, copy], 1)
        with pytest.raises(UnsupportedError, match="one group, that of all trainers"):
            dist.all_reduce(copy, group=object())
        with pytest.raises(ValueError, match="'op' should be one of ReduceOp"):
            dist.all_reduce(copy, 9)
    np.testing.assert_array_equal(rows, ROWS)
    np.testing.assert_array_equal(twice, 2 * ROWS)
    assert total == ROWS.sum() and total.shape == ()


def test_wrong_uses() -> None:
    with fresh():
        x = static.data("x", [4, 2])
        with pytest.raises(TypeError, match="one of sum, prod, max, min, found 'mean'"):
            collective._c_allreduce(x, reduce_type="mean")
        with pytest.raises(UnsupportedError, match="add up by _c_allreduce"):
            collective._c_reducescatter(x, 2)
