"""Distributions of Paddle 3: numbers of 3.3.1, sizes that runs decide, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import distribution as kinds
from graphopt import static
from graphopt_tests.frontend.programs import fresh, run
from graphopt_tests.frontend.test_distribution import check_samples

Array = np.ndarray[Any, Any]
Make = Callable[[], kinds.Distribution]
COVARIANCE = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.5]], "float32")
OTHER = np.array([[1.0, 0.2, 0.1], [0.2, 2.0, -0.3], [0.1, -0.3, 1.0]], "float32")
CORRELATED = np.array([[1.0, 0.3, 0.2], [0.3, 1.0, -0.4], [0.2, -0.4, 1.0]], "float32")
FACTORS = np.stack([np.linalg.cholesky(CORRELATED), np.eye(3, dtype="float32")])
TINY = -1.1920929e-07

# two distributions, a value, and the numbers of the first one and of the divergence from the other
GIVEN: dict[str, tuple[Make, Make | None, Any, dict[str, Any]]] = {
    "exponential": (
        lambda: kinds.Exponential([0.5, 2.0]),
        lambda: kinds.Exponential([1.0, 1.5]),
        [0.3, 1.2],
        {
            "mean": [2.0, 0.5],
            "variance": [4.0, 0.25],
            "entropy": [1.6931472, 0.3068528],
            "log_prob": [-0.8431472, -1.7068529],
            "prob": [0.430354, 0.1814359],
            "cdf": [0.139292, 0.9092821],
            "kl": [0.3068528, 0.0376821],
        },
    ),
    "gamma": (
        lambda: kinds.Gamma([0.5, 2.0], [1.0, 3.0]),
        lambda: kinds.Gamma([1.5, 0.7], [2.0, 0.4]),
        [0.3, 1.2],
        {
            "mean": [0.5, 0.6666667],
            "variance": [0.5, 0.2222222],
            "entropy": [0.0906096, 0.4786035],
            "log_prob": [-0.2703785, -1.220454],
            "prob": [0.7630906, 0.2950962],
            "kl": [0.7306428, 0.4875853],
        },
    ),
    "chi2": (
        lambda: kinds.Chi2([1.5, 4.0]),
        lambda: kinds.Chi2([3.0, 2.0]),
        [0.3, 1.2],
        {
            "mean": [1.5, 4.0],
            "variance": [3.0, 8.0],
            "entropy": [1.374963, 2.2703629],
            "log_prob": [-0.5721481, -1.8039728],
            "kl": [0.4903322, 0.4227842],
        },
    ),
    "student_t": (
        lambda: kinds.StudentT([0.5, 1.5, 4.0], [0.0, 1.0, 2.0], [1.0, 2.0, 0.5]),
        None,
        [0.3, 1.2, -1.0],
        {
            "mean": [np.nan, 1.0, 2.0],
            "variance": [np.nan, np.inf, 0.5],
            "entropy": [3.666728, 2.8428059, 0.9886136],
            "log_prob": [-1.4346688, -1.7781031, -6.0441451],
        },
    ),
    "poisson": (
        lambda: kinds.Poisson([0.5, 7.0, 0.0]),
        lambda: kinds.Poisson([2.0, 3.0, 1.0]),
        [0, 4, 1],
        {
            "mean": [0.5, 7.0, 0.0],
            "variance": [0.5, 7.0, 0.0],
            "entropy": [0.9276375, 2.3788745, 0.0],
            "log_prob": [-0.5, -2.3944135, TINY],
            "kl": [0.8068529, 1.9310826, 10792.901],
        },
    ),
    "binomial": (
        lambda: kinds.Binomial(np.array([5, 9]), [0.3, 0.8]),
        lambda: kinds.Binomial(np.array([5, 9]), [0.5, 0.6]),
        [2, 11],
        {
            "mean": [1.5, 7.2],
            "variance": [1.05, 1.44],
            "entropy": [1.4136155, 1.5647087],
            "log_prob": [-1.1753855, TINY],
            "kl": [0.4114143, 0.8236462],
        },
    ),
    "continuous_bernoulli": (
        lambda: kinds.ContinuousBernoulli([0.2, 0.4995, 0.9]),
        lambda: kinds.ContinuousBernoulli([0.3, 0.6, 0.5]),
        [0.1, 0.5, 0.8],
        {
            "mean": [0.3880142, 0.4998333, 0.6698804],
            "variance": [0.0758978, 0.0833333, 0.0665089],
            "entropy": [-0.0764145, 0.0, -0.1796312],
            "log_prob": [0.475687, 0.0, 0.4655331],
            "cdf": [0.1725993, 0.5, 0.5999433],
            "kl": [0.0112654, 0.0069085, 0.1796312],
        },
    ),
    "covariance": (
        lambda: kinds.MultivariateNormal([1.0, 2.0, 3.0], COVARIANCE),
        lambda: kinds.MultivariateNormal([0.0, 2.0, 1.0], scale_tril=np.linalg.cholesky(OTHER)),
        [0.5, 1.0, 4.0],
        {
            "mean": [1.0, 2.0, 3.0],
            "variance": [2.0, 1.0, 1.5],
            "entropy": 4.7038379,
            "log_prob": -4.3086438,
            "kl": 2.824672,
        },
    ),
    "precision": (
        lambda: kinds.MultivariateNormal([1.0, 2.0, 3.0], precision_matrix=COVARIANCE),
        None,
        [[0.5, 1.0, 4.0], [0.0, 0.0, 0.0]],
        {
            "variance": [0.5766871, 1.226994, 0.7157464],
            "entropy": 3.809793,
            "log_prob": [-3.7597933, -14.8597937],
        },
    ),
    "lkj_cholesky": (
        lambda: kinds.LKJCholesky(3, [1.0, 2.5]),
        None,
        FACTORS,
        {"log_prob": [-1.643468, -0.2929776]},
    ),
}


@pytest.mark.every(5)
@pytest.mark.parametrize("name", GIVEN)
def test_numbers_are_paddles(name: str) -> None:
    make, other, value, wanted = GIVEN[name]
    with fresh():
        made: Any = make()
        point = paddle.assign(np.asarray(value, "float32"))
        found: dict[str, Any] = {
            "entropy": getattr(made, "entropy", None),
            "kl": lambda: kinds.kl_divergence(made, other()) if other else None,
            **{what: lambda one=what: getattr(made, one)(point) for what in ("log_prob", "prob")},
            "cdf": lambda: made.cdf(point),
            "mean": lambda: made.mean,
            "variance": lambda: made.variance,
        }
        numbers = run([found[what]() for what in wanted])
    for what, one in zip(wanted, numbers, strict=True):
        np.testing.assert_allclose(one, wanted[what], 2e-5, 1e-6, err_msg=what)


MADE: dict[str, Make] = {
    "exponential": lambda: kinds.Exponential([0.5, 2.0]),
    "gamma": lambda: kinds.Gamma(2.0, [0.5, 2.0]),
    "chi2": lambda: kinds.Chi2(3.0),
    "student_t": lambda: kinds.StudentT(30.0, [1.0, 2.0], 0.5),
    "poisson": lambda: kinds.Poisson([0.5, 7.0]),
    "binomial": lambda: kinds.Binomial(7, [0.2, 0.7]),
    "continuous_bernoulli": lambda: kinds.ContinuousBernoulli([0.2, 0.4995, 0.9]),
    "covariance": lambda: kinds.MultivariateNormal([1.0, 2.0, 3.0], COVARIANCE),
    "factors": lambda: kinds.MultivariateNormal(1.0, scale_tril=np.stack([[[2.0]], [[1.0]]])),
}


@pytest.mark.every(5)
@pytest.mark.parametrize("name", MADE)
def test_samples_have_the_mean_and_the_variance(name: str) -> None:
    """4,000 samples have the mean and the variance, within five standard errors."""
    check_samples(MADE[name])


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["cvine", "onion"])
def test_factors_are_those_of_correlations(method: str) -> None:
    """Rows have length 1 and positive diagonals; for two rows both methods draw alike."""
    paddle.seed(1)
    with fresh():
        many = kinds.LKJCholesky(4, [[1.0, 2.0]], method).sample([50])
        pair = kinds.LKJCholesky(2, 2.0, method).sample([4000])
        found, small = run([many, pair])
    assert found.shape == (50, 1, 2, 4, 4)
    np.testing.assert_allclose((found**2).sum(-1), 1.0, atol=1e-5)
    assert (np.diagonal(found, axis1=-2, axis2=-1) > 0).all()
    assert not np.triu(found, 1).any()
    # the correlation of two is 2b - 1 for b of Beta(2, 2)
    np.testing.assert_allclose(small[:, 1, 0].std(), np.sqrt(1 / 5), 0.05)


@pytest.mark.exhaustive
def test_correlations_have_the_variance_of_their_density() -> None:
    """Correlations of four variables are distributed as 2b - 1 with b of Beta(3, 3)."""
    paddle.seed(1)
    with fresh():
        (found,) = run([kinds.LKJCholesky(4, 2.0, "cvine").sample([4000])])
    correlations = found @ found.swapaxes(-1, -2)
    spread = correlations.std(0)[np.tril_indices(4, -1)]
    np.testing.assert_allclose(spread, np.sqrt(1 / 7), 0.06)


@pytest.mark.exhaustive
def test_open_batches_and_gradients() -> None:
    """The run decides the batch size, and how many counts are likely."""
    with fresh():
        rate = static.data("rate", [None, 2], "float32")
        rate.stop_gradient = False
        poisson, gamma = kinds.Poisson(rate), kinds.Gamma(paddle.full_like(rate, 2.0), rate)
        moved = gamma.rsample([3])
        (slope,) = static.gradients([paddle.sum(gamma.log_prob(moved))], [rate])
        fetches = [poisson.sample([5]), poisson.entropy(), moved, slope]
        counts, entropy, times, gradient = run(fetches, rate=np.ones((4, 2), "float32"))
    assert (counts.shape, times.shape, gradient.shape) == ((5, 4, 2), (3, 4, 2), (4, 2))
    np.testing.assert_allclose(entropy, 1.3048423, 1e-5)
    # the change of a sample with its rate makes up for its change of density
    np.testing.assert_allclose(gradient, np.full((4, 2), 3.0), 1e-4)


def test_families_by_their_normalisers() -> None:
    """The gradients of a derived class's normalizer give its entropy and divergence."""

    class Waiting(kinds.ExponentialFamily):
        def __init__(self, rate: Any) -> None:
            self.rate = rate
            super().__init__(rate.shape)

        @property
        def _natural_parameters(self) -> tuple[Any, ...]:
            return (-self.rate,)

        def _log_normalizer(self, *natural: Any) -> Any:
            return -paddle.log(-natural[0])

        @property
        def _mean_carrier_measure(self) -> float:
            return 0.0

    with fresh():
        one, other = (
            Waiting(paddle.assign(np.array([0.5, 2.0], "float32"))),
            paddle.assign(np.array([1, 1], "float32")),
        )
        same = kinds.Exponential([0.5, 2.0])
        found = run(
            [
                one.entropy(),
                same.entropy(),
                kinds.kl_divergence(one, Waiting(other)),
                kinds.kl_divergence(same, kinds.Exponential(other)),
            ]
        )
        with pytest.raises(NotImplementedError, match="ExponentialFamily has no _natural"):
            kinds.ExponentialFamily([2]).entropy()
    np.testing.assert_allclose(found[0], found[1], 1e-6)
    np.testing.assert_allclose(found[2], found[3], 1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kinds.MultivariateNormal([0.0]), "exactly one of .* found none"),
        (
            lambda: kinds.MultivariateNormal([0.0], OTHER, OTHER),
            "found covariance_matrix and precision_matrix",
        ),
        (lambda: kinds.MultivariateNormal([0.0], [1.0]), "should have two axes or more"),
        (lambda: kinds.LKJCholesky(1), "'dim' should be at least 2"),
        (lambda: kinds.LKJCholesky(3, 1.0, "vine"), "should be 'onion' or 'cvine'"),
        (
            lambda: kinds.kl_divergence(kinds.Poisson([1.0, 2.0]), kinds.Poisson(1.0)),
            "batches of one shape",
        ),
        (
            lambda: kinds.kl_divergence(
                kinds.ContinuousBernoulli([0.1, 0.2]), kinds.ContinuousBernoulli(0.1)
            ),
            "batches of one shape",
        ),
    ],
)
def test_wrong_uses(call: Callable[[], Any], message: str) -> None:
    with fresh(), pytest.raises(ValueError, match=message):
        call()
