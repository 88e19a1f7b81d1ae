"""A failed call leaves programs, names and counters unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import fluid
from graphopt.errors import ProgramError
from graphopt.ir.program import Program, unique_name
from graphopt.static import nn as static_nn

layers = fluid.layers
Call = Callable[[], Any]


class Mine(Exception):
    """An error that the script itself raises."""


def fails(*_: Any) -> Any:
    """Append operators and then fail, as a function of a script may."""
    paddle.ones([2]) + paddle.ones([2])
    raise Mine


class Decay:
    """A regularizer that appends operators and then fails."""

    def term(self, parameter: Any) -> Any:
        return fails(parameter)


def state(*programs: Program) -> Any:
    """Return the state that a failed call may not change."""
    shown = [
        (repr(p), p.version, p.num_blocks, p.current_block_idx, dict(p.lr_schedulers))
        for p in programs
    ]
    return shown, {key: n for key, n in unique_name._generator._counters.items() if n}


def data() -> tuple[Any, Any]:
    """Declare a matrix and a weight that does not fit it."""
    x = paddle.static.data("x", [4, 8])
    return x, paddle.static.data("w", [4, 3])


# Each makes what the call is given and returns the call.


def bad_matmul(x: Any, w: Any) -> Call:
    return lambda: paddle.matmul(x, w)


def bad_operator(x: Any, w: Any) -> Call:
    return lambda: x @ w


def bad_method(x: Any, w: Any) -> Call:
    return lambda: x.matmul(w)


def bad_activation(x: Any, w: Any) -> Call:
    """Return a call that fails after the multiplication and the bias."""
    return lambda: static_nn.fc(x, 4, activation="nope")


def bad_last_input(x: Any, w: Any) -> Call:
    """Return a call that fails after the first input's weight and its initializer."""
    other = paddle.reshape(w, [2, 6])
    return lambda: static_nn.fc([x, other], 5)


def bad_norm(x: Any, w: Any) -> Call:
    images = paddle.reshape(x, [4, 2, 2, 2])
    return lambda: layers.batch_norm(images, act="nope")


def bad_layer(x: Any, w: Any) -> Call:
    layer = paddle.nn.Sequential(paddle.nn.Linear(8, 2), paddle.nn.Linear(8, 2))
    return lambda: layer(x)


def bad_constructor(x: Any, w: Any) -> Call:
    return lambda: paddle.nn.Linear(8, 2, bias_attr=3)


def bad_rnn(x: Any, w: Any) -> Call:
    cell = layers.GRUCell(hidden_size=3)
    sequences, start = paddle.reshape(x, [2, 2, 8]), paddle.zeros([2, 5])
    return lambda: layers.rnn(cell, sequences, start)


def bad_branch(x: Any, w: Any) -> Call:
    yes = paddle.full([1], True, "bool")
    return lambda: static_nn.cond(yes, lambda: F.relu(x), fails)


def uneven_branches(x: Any, w: Any) -> Call:
    yes = paddle.full([1], True, "bool")
    return lambda: static_nn.cond(yes, lambda: x, lambda: [x, x])


def bad_loop(x: Any, w: Any) -> Call:
    start = paddle.zeros([1])
    return lambda: static_nn.while_loop(lambda i: i < 3, fails, [start])


def bad_initializer(x: Any, w: Any) -> Call:
    return lambda: layers.create_parameter([2], "float32", default_initializer=fails)


def bad_regularizer(x: Any, w: Any) -> Call:
    """Return a call that fails after the gradients and the weight's decay."""
    first = paddle.ParamAttr(regularizer=paddle.regularizer.L2Decay(0.1))
    loss = paddle.mean(static_nn.fc(x, 4, weight_attr=first))
    loss.block.all_parameters()[1].regularizer = Decay()
    return lambda: paddle.optimizer.Momentum(0.1).minimize(loss)


def bad_gradients(x: Any, w: Any) -> Call:
    x.stop_gradient = False
    total = paddle.sum(x)
    return lambda: paddle.static.gradients([total], [x], target_gradients=[w])


def bad_while(x: Any, w: Any) -> Any:
    loop = layers.While(paddle.full([1], True, "bool"))
    with loop.block():
        paddle.matmul(x, w)


def bad_switch(x: Any, w: Any) -> Any:
    with layers.Switch() as switch, switch.case(paddle.full([1], True, "bool")):
        fails()


def bad_step(x: Any, w: Any) -> Any:
    rnn = layers.StaticRNN()
    with rnn.step():
        rnn.step_input(x)
        raise Mine


BAD = [
    bad_matmul,
    bad_operator,
    bad_method,
    bad_activation,
    bad_last_input,
    bad_norm,
    bad_layer,
    bad_constructor,
    bad_rnn,
    bad_branch,
    uneven_branches,
    bad_loop,
    bad_initializer,
    bad_regularizer,
    bad_gradients,
]


@pytest.fixture
def programs() -> Any:
    main, startup = Program(), Program()
    with paddle.static.program_guard(main, startup), unique_name.guard():
        yield main, startup


@pytest.mark.parametrize("bad", BAD)
def test_a_failed_call_changes_nothing(programs: Any, bad: Callable[[Any, Any], Call]) -> None:
    """A failed call changes neither programs nor later names, and causes no compilation."""
    call = bad(*data())
    before = state(*programs)
    with pytest.raises((ValueError, TypeError, NotImplementedError, Mine)):
        call()
    assert state(*programs) == before


def test_an_optimizer_goes_on_after_a_failed_call(programs: Any) -> None:
    """The next call creates the states of the failed call again."""
    x, _ = data()
    loss = paddle.mean(static_nn.fc(x, 4))
    decay = Decay()
    optimizer = paddle.optimizer.Momentum(0.1, grad_clip=paddle.nn.ClipGradByNorm(1.0))
    bias = programs[0].all_parameters()[1]
    bias.regularizer = decay
    with pytest.raises(Mine):
        optimizer.minimize(loss)
    bias.regularizer = None
    optimizer.minimize(loss)
    known = {variable.name for variable in programs[0].list_vars()}
    assert set(optimizer.get_opti_var_name_list()) <= known


def test_a_failed_call_is_not_run(programs: Any) -> None:
    """The program runs without the failed call."""
    x, w = data()
    y = x + 1.0
    with pytest.raises(ProgramError):
        paddle.matmul(x, w)
    (found,) = paddle.static.Executor().run(feed={"x": np.zeros((4, 8), "float32")}, fetch_list=[y])
    assert (found == 1.0).all()


@pytest.mark.parametrize("bad", [bad_while, bad_switch, bad_step])
def test_a_failed_block_leaves_no_block(programs: Any, bad: Callable[[Any, Any], Any]) -> None:
    """A failed `with` statement leaves only the operators from before it."""
    main, _ = programs
    x, w = data()
    with pytest.raises((ProgramError, Mine)):
        bad(x, w)
    assert main.num_blocks == 1
    assert main.current_block_idx == 0
    assert [op.type for op in main.global_block().ops] in ([], ["fill_constant"])


def test_an_attribute_that_was_removed_is_back() -> None:
    """An attribute that a failed branch removes from an earlier operator is restored."""
    main = Program()
    with paddle.static.program_guard(main, Program()):
        x, _ = data()
        paddle.scale(x, 3.0)
        operator = main.global_block().ops[-1]

        def remove() -> Any:
            operator._remove_attr("scale")
            raise Mine

        with pytest.raises(Mine):
            static_nn.cond(paddle.sum(x) > 0, remove, lambda: x)
    assert operator.attr("scale") == 3.0
