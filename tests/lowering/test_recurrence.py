"""Loops whose steps multiply rows with matrices equal `lax.scan`, with JAX's gradients."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from jax import numpy as jnp

from graphopt.lowering.kernels.recurrence import Multiply, Step, scan_products

SIZE, STEPS = 3, 5
Loop = Any


def step(multiply: Multiply, bias: Any, states: Any, given: Any) -> tuple[Any, Any]:
    """Compute two products, the second of the first's result; some steps reset the state."""
    inputs, begins = given
    hidden, total = states
    hidden = jnp.where(begins, jnp.ones_like(hidden), hidden)
    gate = jnp.tanh(inputs + multiply(0, hidden) + bias)
    hidden = jnp.sin(multiply(1, gate * hidden) + inputs)
    return (hidden, total + gate), (hidden, gate)


def with_scan(
    step: Step, matrices: Any, others: Any, start: Any, inputs: Any, reverse: bool
) -> tuple[Any, Any]:
    def body(states: Any, given: Any) -> tuple[Any, Any]:
        return step(lambda number, x: x @ matrices[number], others, states, given)

    return lax.scan(body, start, inputs, reverse=reverse)


def operands(*shape: int) -> tuple[Any, ...]:
    """Make matrices, bias, states and inputs; the last dimension of `shape` is a row's."""
    draw = np.random.default_rng(0)

    def made(*sizes: int) -> Any:
        return jnp.asarray(draw.standard_normal(sizes))

    square = (SIZE, SIZE)
    return (
        (made(*square), made(*square)),
        made(SIZE),
        (made(*shape), made(*shape)),
        made(STEPS, *shape),
    )


def loss(loop: Loop, reverse: bool) -> Any:
    begins = np.asarray([True, False, False, True, False])

    def of(matrices: Any, bias: Any, start: Any, inputs: Any) -> Any:
        at = jnp.asarray(begins).reshape(STEPS, *[1] * (inputs.ndim - 1))
        end, outs = loop(step, matrices, bias, start, (inputs, at), reverse)
        return sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves((end, outs)))

    return of


@pytest.mark.parametrize("shape", [(SIZE,), (2, SIZE)])
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_are_those_of_jax(shape: tuple[int, ...], reverse: bool) -> None:
    arguments = operands(*shape)
    ours, plain = (loss(loop, reverse) for loop in (scan_products, with_scan))
    each = tuple(range(len(arguments)))
    found = jax.jit(jax.value_and_grad(ours, each))(*arguments)
    expected = jax.jit(jax.value_and_grad(plain, each))(*arguments)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, expected)


def test_no_step_has_no_gradient_of_a_matrix() -> None:
    matrices, bias, start, inputs = operands(2, SIZE)
    gradient = jax.grad(lambda matrices: _no_steps(matrices, bias, start, inputs))(matrices)
    assert all(not each.any() and each.shape == (SIZE, SIZE) for each in gradient)


def _no_steps(matrices: Any, bias: Any, start: Any, inputs: Any) -> Any:
    none = inputs[:0], jnp.zeros((0, 1, 1), bool)
    end, outs = scan_products(step, matrices, bias, start, none, False)
    return sum(jnp.sum(x) for x in jax.tree.leaves((end, outs)))


def test_second_derivatives_are_those_of_jax() -> None:
    arguments = operands(2, SIZE)

    def of_gradient(loop: Loop) -> Any:
        def of(matrices: Any, *rest: Any) -> Any:
            found = jax.grad(loss(loop, False), (0, 1, 2, 3))(matrices, *rest)
            return sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(found))

        return jax.jit(jax.grad(of, (0, 1, 2, 3)))(*arguments)

    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        of_gradient(scan_products),
        of_gradient(with_scan),
    )


def test_no_sum_in_the_loop_is_as_large_as_a_matrix() -> None:
    """The backward loop carries states only; a matrix's gradient is one product after it."""
    big = 64
    draw = np.random.default_rng(0).standard_normal
    matrices = (jnp.asarray(draw((big, big))),) * 2
    rows = jnp.asarray(draw((STEPS, 2, big)))
    start = (rows[0], rows[1])
    carried = []
    for loop in (scan_products, with_scan):
        gradient = jax.grad(loss(loop, False), (0,))
        jaxpr = jax.make_jaxpr(gradient)(matrices, rows[0, 0], start, rows)
        loops = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]
        sizes = [out.aval.shape for eqn in loops for out in eqn.outvars[: eqn.params["num_carry"]]]
        carried.append((big, big) in sizes)
    assert carried == [False, True]
