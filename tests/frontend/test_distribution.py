"""Aspects of paddle.distribution that no recorded program has: samples, batches, rules, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import distribution as kinds
from graphopt import static
from graphopt_tests.frontend.programs import fresh, run

MADE: dict[str, Callable[[], kinds.Distribution]] = {
    "normal": lambda: kinds.Normal([1.0, -2.0], 2.0),
    "uniform": lambda: kinds.Uniform([1.0, -2.0], 3.0),
    "laplace": lambda: kinds.Laplace(1.0, 2.0),
    "gumbel": lambda: kinds.Gumbel(1.0, 2.0),
    "log_normal": lambda: kinds.LogNormal(0.0, 0.25),
    "bernoulli": lambda: kinds.Bernoulli(np.array([0.2, 0.7], "float32")),
    "geometric": lambda: kinds.Geometric(0.4),
    "multinomial": lambda: kinds.Multinomial(5, [0.2, 0.3, 0.5]),
    "beta": lambda: kinds.Beta(2.0, [1.0, 3.0]),
    "dirichlet": lambda: kinds.Dirichlet([1.0, 2.0, 3.0]),
    "independent": lambda: kinds.Independent(kinds.Normal([1.0, 2.0], 1.0), 1),
}


def check_samples(make: Callable[[], kinds.Distribution]) -> None:
    """Check that samples have the mean and the variance, within five standard errors."""
    paddle.seed(1)
    with fresh():
        made = make()
        drawn = made.sample([4000])
        assert drawn.shape == (4000, *made.batch_shape, *made.event_shape)
        assert drawn.stop_gradient
        values, mean, variance = run([drawn, made.mean, made.variance])
    error = 5 * np.sqrt(np.maximum(variance, 1e-3) / 4000)
    np.testing.assert_array_less(np.abs(values.mean(0) - mean), error)
    np.testing.assert_allclose(values.var(0), variance, 0.2, 0.01)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", MADE)
def test_samples_have_the_mean_and_the_variance(name: str) -> None:
    """4,000 samples have the mean and the variance, within five standard errors."""
    check_samples(MADE[name])


def test_classes_are_drawn_by_their_logits() -> None:
    """Batches may have any rank; the shape of the samples comes first."""
    with fresh():
        logits = np.log(np.array([[0.1, 0.9], [0.6, 0.4]], "float32"))
        both, one = kinds.Categorical(logits), kinds.Categorical(logits[0])
        deep = kinds.Categorical(np.stack([logits] * 3))
        drawn = [both.sample([1500]), one.sample([2, 3]), deep.sample([4])]
        classes, few, many = run(drawn)
    assert [classes.shape, few.shape, many.shape] == [(1500, 2), (2, 3), (4, 3, 2)]
    np.testing.assert_allclose(classes.mean(0), [0.9, 0.4], atol=0.07)


def test_open_batches_and_gradients() -> None:
    """The run decides the batch size; rsample passes gradients to the parameters."""
    with fresh():
        loc = static.data("loc", [None, 2], "float32")
        loc.stop_gradient = False
        made = kinds.Normal(loc, paddle.full_like(loc, 0.5))
        moved = made.rsample([3])
        (slope,) = static.gradients([paddle.sum(moved)], [loc])
        drawn, gradient, entropy = run(
            [moved, slope, made.entropy()], loc=np.zeros((4, 2), "float32")
        )
    assert (drawn.shape, entropy.shape) == ((3, 4, 2), (4, 2))
    assert np.array_equal(gradient, np.full((4, 2), 3.0))


def test_a_rule_for_two_classes() -> None:
    """A rule also holds for derived classes; pairs without a rule are refused."""

    class Mine(kinds.Normal):
        pass

    with fresh():
        one, other = Mine(0.0, 1.0), kinds.Uniform(0.0, 1.0)
        with pytest.raises(NotImplementedError, match="no rule for Mine and Uniform"):
            kinds.kl_divergence(one, other)

        @kinds.register_kl(kinds.Normal, kinds.Uniform)
        def rule(p: Any, q: Any) -> str:
            return "ruled"

        try:
            assert kinds.kl_divergence(one, other) == "ruled"
        finally:
            kinds.kl._RULES.clear()
        with pytest.raises(TypeError, match="not derived from Distribution"):
            kinds.register_kl(int, kinds.Normal)  # type: ignore[arg-type]


def test_transforms_are_called_with_what_there_is() -> None:
    """A transform applies to a distribution, a transform or a Variable."""
    with fresh():
        exp = kinds.ExpTransform()
        moved = exp(kinds.Normal([0.0, 1.0], 1.0))
        assert isinstance(moved, kinds.TransformedDistribution) and moved.batch_shape == (2,)
        chain = exp(kinds.StickBreakingTransform())
        assert isinstance(chain, kinds.ChainTransform) and chain.in_rank == 1
        assert chain.inverse_shape(chain.forward_shape((4, 2))) == (4, 2)
        (found,) = run([exp(static.data("x", [1], "float32"))], x=np.zeros(1, "float32"))
        assert found.tolist() == [1.0]


@pytest.mark.exhaustive
def test_operators_of_saved_samplers() -> None:
    """Saved programs may have `dirichlet` and `exponential`, which graphopt never appends."""
    with fresh():
        x = static.data("x", [None, 3])
        shares, times = x.block.create_var("shares"), x.block.create_var("times")
        x.block.append_op("dirichlet", {"Alpha": x}, {"Out": shares}, {})
        x.block.append_op("exponential", {"X": x}, {"Out": times}, {"lambda": 4.0})
        drawn, waited = run([shares, times], x=np.tile(np.float32([1.0, 2.0, 5.0]), (5000, 1)))
    np.testing.assert_allclose(drawn.sum(1), 1.0, 1e-5)
    np.testing.assert_allclose(drawn.mean(0), [0.125, 0.25, 0.625], atol=0.02)
    np.testing.assert_allclose(drawn.var(0), np.array([7, 12, 15]) / 64 / 9, rtol=0.15)
    np.testing.assert_allclose([waited.mean(), waited.std()], 0.25, rtol=0.05)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: kinds.Normal("0", 1.0), TypeError, "'loc' must be a number"),
        (lambda: kinds.Cauchy(0.0, 1.0).mean, ValueError, "Cauchy distribution has no mean"),
        (lambda: kinds.Multinomial(0, [0.5]), ValueError, "'total_count' should be above 0"),
        (lambda: kinds.Dirichlet(1.0), ValueError, "should have one axis or more"),
        (lambda: kinds.Beta(1.0, 1.0).rsample(), NotImplementedError, "Beta has no rsample"),
        (lambda: kinds.Independent(kinds.Normal(0.0, 1.0), 1), ValueError, r"in \[1, 0\]"),
        (
            lambda: kinds.Normal(0.0, 1.0).kl_divergence(kinds.Uniform(0.0, 1.0)),
            TypeError,
            "'other' must be a Normal",
        ),
        (lambda: kinds.ReshapeTransform([2], [3]), ValueError, "different sizes"),
        (
            lambda: kinds.SoftmaxTransform().forward_log_det_jacobian(paddle.ones([2])),
            NotImplementedError,
            "SoftmaxTransform has no forward_log_det_jacobian",
        ),
        (lambda: kinds.SoftmaxTransform().forward(paddle.ones([])), ValueError, "1 axes or more"),
    ],
)
def test_wrong_uses(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with fresh(), pytest.raises(kind, match=message):
        call()
