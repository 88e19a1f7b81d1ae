"""Keywords of Paddle 1.8, dtypes that follow the default dtype, and other calls of scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt.ir.dialect.ops.update.basic import Adam
from graphopt.ir.formats import read_program, write_program
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.static import Executor, Program, data, program_guard

GRID = np.arange(12.0).reshape(3, 4)


@pytest.fixture(autouse=True)
def static_mode() -> None:
    paddle.enable_static()


def run(build: Callable[[Any], Any], x: np.ndarray[Any, Any] = GRID) -> list[np.ndarray[Any, Any]]:
    """Run a function of a fed tensor, and return its results."""
    program = Program()
    with program_guard(program, Program()):
        outs = build(data("x", list(x.shape), str(x.dtype)))
        outs = list(outs) if isinstance(outs, (tuple, list)) else [outs]
    return Executor().run(program, feed={"x": x}, fetch_list=outs)


def test_keywords_of_1_8() -> None:
    """`input`, `dim`, `dims` and others are `x` and `axis` since 2.0."""
    numbers = np.array([2, 0])
    found = run(
        lambda x: [
            paddle.trace(input=x, dim1=1, dim2=0),
            paddle.tril(input=x),
            paddle.triu(input=x, diagonal=1),
            paddle.flip(x, dims=[0]),
            paddle.roll(input=x, shifts=1, dims=[0]),
            paddle.index_select(x, paddle.to_tensor(numbers), dim=1),
            paddle.cross(input=x[:, :3], other=x[:, 1:], dim=1),
        ]
    )
    expected = [
        np.trace(GRID),
        np.tril(GRID),
        np.triu(GRID, 1),
        GRID[::-1],
        np.roll(GRID, 1, 0),
        GRID[:, numbers],
        np.cross(GRID[:, :3], GRID[:, 1:]),
    ]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    with pytest.raises(TypeError, match="'dims' and 'axis'"):
        run(lambda x: paddle.flip(x, dims=[0], axis=[0]))


def test_ranges_have_the_default_dtype() -> None:
    """Ranges have the default dtype, as other functions that make float tensors."""
    before = paddle.get_default_dtype()
    paddle.set_default_dtype("float64")
    try:
        for make in (
            lambda: paddle.linspace(0, 1, 3),
            lambda: paddle.logspace(0, 1, 3),
            lambda: paddle.arange(0.0, 1.0, 0.5),
            lambda: paddle.full([2], 1.0),
            lambda: paddle.eye(2),
            lambda: paddle.rand([2]),
            lambda: paddle.normal(0.0, 1.0, [2]),
            lambda: paddle.to_tensor([0.5]),
        ):
            with program_guard(Program(), Program()):
                assert make().dtype == "float64"
    finally:
        paddle.set_default_dtype(before)


def test_the_smaller_of_two_middles() -> None:
    """With mode "min" the median is an element, and comes with its position.

    In other modes the median of integers is float32, as in 2.6.2 and 3.3.1.
    """
    x = np.array([[3.0, 1, 4, 1], [5, 9, 2, 6], [0, np.nan, 1, 2]])
    middle, place = run(lambda x: paddle.median(x, axis=1, mode="min"), x)
    np.testing.assert_array_equal(middle, [1, 5, np.nan])
    np.testing.assert_array_equal(place, [3, 0, 1])
    (whole,) = run(lambda x: paddle.median(x, mode="min"), x[:2])
    assert whole == 3
    (between,) = run(lambda x: paddle.median(x, axis=0), np.array([[1, 4], [2, 4]]))
    assert between.dtype == np.float32 and between.tolist() == [1.5, 4]


def test_abs_of_a_variable() -> None:
    """Python's abs takes a Variable."""
    np.testing.assert_array_equal(run(lambda x: abs(x), -GRID)[0], GRID)


def test_epsilon_of_adam() -> None:
    """Fluid's programs mark their epsilon by an attribute, files by the version of Paddle."""

    def kinds(program: Program) -> set[bool]:
        module = parse_program(program, ("x",), ())
        return {op.attr("uncorrected_epsilon") for op in module.walk() if isinstance(op, Adam)}

    programs: dict[str, Program] = {}
    for name, optimizer in (
        ("fluid", paddle.fluid.optimizer.Adam(0.01)),
        ("2.x", paddle.optimizer.Adam(0.01)),
    ):
        programs[name] = Program()
        with program_guard(programs[name], Program()):
            optimizer.minimize(paddle.mean(paddle.static.nn.fc(data("x", [2, 3]), 1)))
    assert kinds(programs["fluid"]) == {True}
    assert kinds(programs["2.x"]) == {False}
    for version, expected in ((1008005, True), (2006002, False)):
        programs["2.x"].saved = {"version": {"version": version}}
        assert kinds(read_program(write_program(programs["2.x"]))) == {expected}


def test_a_step_of_fluids_adam() -> None:
    """A gradient as small as epsilon gives the step of 1.8.5."""
    fluid, gradient = paddle.fluid, 1e-8
    main, startup = Program(), Program()
    with program_guard(main, startup):
        one = fluid.initializer.Constant(1.0)
        w = fluid.layers.create_parameter([1], "float32", default_initializer=one)
        loss = fluid.layers.mean(w * fluid.data("x", [1], "float32"))
        fluid.optimizer.Adam(0.01, epsilon=1e-8).minimize(loss)
    exe, scope = Executor(), paddle.static.Scope()
    exe.run(startup, scope=scope)
    exe.run(main, feed={"x": np.array([gradient], "float32")}, scope=scope)
    moved = 0.01 * 0.001**0.5 / 0.1 * 0.1 * gradient / (0.001**0.5 * gradient + 1e-8)
    np.testing.assert_allclose(np.array(scope.find_var(w.name).get_tensor()), 1 - moved, rtol=1e-6)
