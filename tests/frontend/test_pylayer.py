"""Functions with their own derivative (static_pylayer)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.formats.protobuf.program_desc import read_program, write_program
from graphopt_tests.frontend.differences import X, data
from graphopt_tests.frontend.programs import fresh, run, start, types, weight

static_pylayer = static.nn.static_pylayer


def test_the_gradient_is_that_of_the_second_function() -> None:
    """The backward function maps all results' gradients to each input's, which flow on."""
    with fresh():
        x = data()
        a = x * 2.0
        first, second = static_pylayer(
            lambda a, b: (paddle.exp(a), a * b),
            [a, x],
            lambda d_first, d_second: (d_first * 3.0, d_first + d_second),
        )
        loss = paddle.sum(first * 5.0 + second)
        (gradient,) = static.gradients([loss], [x])
        found, changed, of_a = run([first, gradient, static.gradients([loss], [a])[0]], x=X)
    np.testing.assert_allclose(found, np.exp(2 * X))
    np.testing.assert_allclose(of_a, np.full(X.shape, 15.0))
    np.testing.assert_allclose(changed, 2 * 15.0 + np.full(X.shape, 6.0))


def test_branches_inside() -> None:
    """Both functions may branch; the backward branch may depend on the gradient."""
    with fresh():
        x = data()

        def forward(x: Any) -> Any:
            return static.nn.cond(paddle.sum(x) > 0, lambda: x + x, lambda: x - 1.0)

        def backward(d: Any) -> Any:
            return static.nn.cond(paddle.max(d) > 2.0, lambda: -d, lambda: d * d)

        out = static_pylayer(forward, [x], backward)
        factor = static.data("factor", [], "float64")
        (gradient,) = static.gradients([out * factor], [x])
        for sign, number, wanted in ((1, 3.0, -3.0), (-1, 0.5, 0.25)):
            value, found = run([out, gradient], x=sign * X, factor=np.float64(number))
            np.testing.assert_allclose(value, 2 * X if sign > 0 else -X - 1)
            np.testing.assert_allclose(found, np.full(X.shape, wanted))


def test_what_else_the_function_uses_has_no_gradient() -> None:
    """A parameter that is not an input stays; an optimizer in a branch differentiates, too."""
    with fresh() as (main, _):
        x, w, v = data(dtype="float32"), weight("w", [1.0, 2.0, 3.0]), weight("v", [1.0, 1.0, 1.0])
        out = static_pylayer(lambda y: y * v, [x * w], lambda d: d * 0.5)
        loss = paddle.sum(out)

        def step() -> None:
            paddle.optimizer.SGD(1.0).minimize(loss + 0.0)

        static.nn.cond(paddle.sum(x) > 0, step)
        start()
        new_w, new_v = run(["w", "v"], x=X.astype("float32"))
        assert "pylayer" in types(main)
    np.testing.assert_allclose(new_w, [1.0, 2.0, 3.0] - 0.5 * X.sum(0), rtol=1e-6)
    np.testing.assert_allclose(new_v, [1.0, 1.0, 1.0])


def test_without_a_derivative() -> None:
    """Results of a function without derivative stop gradients. It may return nothing."""
    with fresh():
        x, w = data(dtype="float32"), weight("w", [1.0, 2.0, 3.0])
        inner = x * w
        with pytest.raises(ValueError, match="``stop_gradient`` attr of all inputs"):
            static_pylayer(lambda y: y * 2.0, [inner])
        inner.stop_gradient = True
        out = static_pylayer(lambda y: {"twice": y * 2.0}, [inner])["twice"]
        assert static_pylayer(lambda y: None, [inner]) is None
        (gradient,) = static.gradients([out * w], [w])
        start()
        value, found = run([out, gradient], x=X.astype("float32"))
    np.testing.assert_allclose(value, 2 * X * [1, 2, 3], rtol=1e-6)
    np.testing.assert_allclose(found, (2 * X * [1, 2, 3]).sum(0), rtol=1e-6)


def test_saved_programs_keep_both_blocks() -> None:
    """Paddle's format keeps both blocks, and gradients work after reading."""
    with fresh() as (main, _):
        out = static_pylayer(paddle.tanh, [data()], lambda d: d * 7.0)
        assert [op.attr("blocks") for op in main.global_block().ops if op.type == "pylayer"] == [
            [1, 2]
        ]
    again = read_program(write_program(main))
    with static.program_guard(again):
        x = again.global_block().var("x")
        (gradient,) = static.gradients([again.global_block().var(out.name)], [x])
        value, found = run([out.name, gradient], x=X)
    np.testing.assert_allclose(value, np.tanh(X))
    np.testing.assert_allclose(found, np.full(X.shape, 7.0))


def test_a_copy_for_tests_has_no_derivative() -> None:
    """The clone computes the same, and refuses gradients."""
    with fresh() as (main, _):
        out = static_pylayer(paddle.tanh, [data()], lambda d: d * 7.0)
        test = main.clone(for_test=True)
    with static.program_guard(test):
        np.testing.assert_allclose(run([out.name], x=X)[0], np.tanh(X))
        block = test.global_block()
        (gradient,) = static.gradients([block.var(out.name)], [block.var("x")])
        with pytest.raises(ValueError, match="clone"):
            run([gradient], x=X)


@pytest.mark.parametrize(
    ("forward", "inputs", "backward", "error", "message"),
    [
        (abs, 3, None, TypeError, "must be a list"),
        (3, [], None, TypeError, "must be callable"),
        (lambda x: x, [1], lambda d: [d, d], TypeError, "argument"),
        (lambda *_: None, [1], lambda: [1.0, 2.0], ValueError, "but got 0 and 2"),
    ],
)
def test_errors(forward: Any, inputs: Any, backward: Any, error: Any, message: str) -> None:
    """Wrong arguments, and another number of gradients, raise."""
    with fresh() as (main, _):
        with pytest.raises(error, match=message):
            static_pylayer(forward, inputs, backward)
        assert main.num_blocks == 1


def test_a_gradient_of_another_shape_than_its_input() -> None:
    """The sizes are known in the run, and the error states them."""
    with fresh():
        x = static.data("x", [None, 3], "float32")
        x.stop_gradient = False
        y = static.nn.static_pylayer(lambda x: paddle.concat([x, x], 0), [x], lambda g: g[:3])
        (gradient,) = static.gradients(paddle.sum(y), x)
        np.testing.assert_array_equal(run([gradient], x=np.ones((3, 3), "float32"))[0], 1)
        with pytest.raises(ValueError, match=r"of shape \[3, 3\] for input 0, which is \[2, 3\]"):
            run([gradient], x=np.ones((2, 3), "float32"))
