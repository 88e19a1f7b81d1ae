"""The gradient of the cross entropy with hard labels, which has its own rule."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import numpy as jnp

from graphopt.lowering.ops.loss import cross_entropy_with_softmax
from graphopt_tests.example_counts import examples

Array = jax.Array


pytestmark = pytest.mark.usefixtures("sixty_four_bits")


def loss_of(x: Array, label: Array, axis: int) -> Array:
    """Compute the sum of squared losses, so that the second derivative is not zero."""
    _, loss = cross_entropy_with_softmax(x, label, axis, False, True, -100)
    return jnp.sum(loss**2)


def plainly(x: Array, label: Array, axis: int) -> Array:
    """Compute the same by definition; logarithms, but not derivatives, end at -64 as in Paddle."""
    below = x - jnp.max(x, axis, keepdims=True)
    floor = jax.lax.stop_gradient(jnp.maximum(below, -64) - below)
    scores = jnp.moveaxis(jax.nn.log_softmax(x, axis) + floor, axis, -1)
    hot = jax.nn.one_hot(jnp.squeeze(label, axis), x.shape[axis], dtype=x.dtype)
    return jnp.sum(jnp.sum(scores * hot, -1) ** 2)


@pytest.mark.exhaustive
@settings(max_examples=examples(8), deadline=None, derandomize=True)
@given(st.integers(0, 99), st.sampled_from([-1, 0, 1]), st.sampled_from([1.0, 1000.0]))
def test_derivatives(seed: int, axis: int, scale: float) -> None:
    """First and second derivatives equal the definition's, also for large logits."""
    generator = np.random.default_rng(seed)
    x = jnp.asarray(scale * generator.normal(size=(3, 4, 2)))
    shape = [1 if i == axis % 3 else n for i, n in enumerate(x.shape)]
    label = jnp.asarray(generator.integers(0, x.shape[axis], shape))
    # -100 is ignored: no class is hot
    label = jnp.where(jnp.asarray(generator.random(shape) < 0.3), -100, label)
    ours, theirs = (jax.jit(jax.grad(f), static_argnums=2) for f in (loss_of, plainly))
    np.testing.assert_allclose(ours(x, label, axis), theirs(x, label, axis), rtol=1e-9, atol=1e-9)

    def second(gradient: object) -> Array:
        total = jax.jit(lambda x: jnp.sum(jnp.sin(gradient(x, label, axis))))  # pyright: ignore
        return jax.jit(jax.grad(total))(x)

    np.testing.assert_allclose(second(ours), second(theirs), rtol=1e-7, atol=1e-7)


@pytest.mark.exhaustive
def test_a_class_that_does_not_exist() -> None:
    """Its loss is nan, and its gradient is zero or nan."""
    x, label = jnp.ones((2, 3)), jnp.asarray([[7], [-1]])
    loss, gradient = jax.value_and_grad(loss_of)(x, label, -1)
    assert np.isnan(loss)
    assert not np.any(np.nan_to_num(gradient))


def test_a_class_past_32_bits() -> None:
    """A label beyond 32 bits is not truncated to a valid class."""
    with jax.enable_x64(True):
        label = jnp.asarray([[2**32 + 1]])
        assert np.isnan(loss_of(jnp.ones((1, 3)), label, -1))


def test_no_logarithms_of_all_probabilities() -> None:
    """Of arrays as large as the logits, a step computes only the gradient."""
    x = jax.ShapeDtypeStruct((64, 5000), np.float32)
    label = jax.ShapeDtypeStruct((64, 1), np.int64)
    step = jax.jit(jax.value_and_grad(lambda x, y: loss_of(x, y, -1)))
    text = step.lower(x, label).compile().as_text()
    entry = text[text.index("\nENTRY") :].splitlines()[1:]
    large = [line for line in entry if line.strip().startswith("%") and "= f32[64,5000]" in line]
    assert len([line for line in large if "parameter" not in line]) <= 1, large
