"""The work of sequence ops in XLA, and the numbers that they clip."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graphopt.lowering.ops.sequence.layers import sequence_conv, sequence_row_conv
from graphopt.lowering.ops.sequence.recurrent import sequence_lstmp

pytestmark = pytest.mark.usefixtures("sixty_four_bits")


def test_a_long_context_is_one_gather() -> None:
    """The size of the program does not grow with the context, for each number of rows."""
    x, lengths = jnp.ones((7, 2)), jnp.array([3, 4])

    def size(count: int, function: str) -> int:
        if function == "sequence_conv":
            text = jax.make_jaxpr(lambda f: sequence_conv(x, lengths, f, None, count, -1))
            return len(text(jnp.ones((2 * count, 3))).eqns)
        text = jax.make_jaxpr(lambda f: sequence_row_conv(x, lengths, f))
        return len(text(jnp.ones((count, 2))).eqns)

    for function in ("sequence_conv", "sequence_row_conv"):
        assert size(128, function) == size(2, function)


@pytest.mark.parametrize("start", [-2, 0, 1])
def test_a_context_ends_with_its_sequence(start: int) -> None:
    """Rows of other sequences count as 0."""
    x, lengths = jnp.arange(1.0, 6.0)[:, None], jnp.array([2, 3])
    found = sequence_conv(x, lengths, jnp.eye(3), None, 3, start)
    sequences = ([1.0, 2.0], [3.0, 4.0, 5.0])
    expected = [
        [s[at] if 0 <= at < len(s) else 0.0 for at in range(row + start, row + start + 3)]
        for s in sequences
        for row in range(len(s))
    ]
    assert found.tolist() == expected


@pytest.mark.exhaustive
def test_a_cut_projection_passes_no_gradient_on() -> None:
    """As in Paddle 1.8.5, a projection clipped to 0.1 passes no gradient; one within does."""
    x, lengths = jnp.ones((2, 8)), jnp.array([1, 1])
    matrix, bias = jnp.zeros((2, 8)), jnp.zeros((1, 8))

    def total(projection: jax.Array) -> jax.Array:
        names = ("sigmoid", "tanh", "tanh", "identity")
        made, _ = sequence_lstmp(
            *(x, lengths, matrix, projection, bias, None, None, False, False, *names, 0.0, 0.1)
        )
        return made.sum()

    slopes = jax.grad(total)(jnp.array([[5.0, 0.01], [5.0, 0.01]]))
    gate = jax.nn.sigmoid(1.0)
    hidden = gate * jnp.tanh(gate * jnp.tanh(1.0))
    np.testing.assert_allclose(slopes, [[0, 2 * hidden]] * 2, 1e-6)
