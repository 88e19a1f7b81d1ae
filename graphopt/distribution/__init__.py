"""Probability distributions and transforms of them (paddle.distribution)."""

from graphopt.distribution import chi2 as chi2
from graphopt.distribution import kl as kl
from graphopt.distribution import lkj_cholesky as lkj_cholesky
from graphopt.distribution import transform as transform
from graphopt.distribution.base import Distribution as Distribution
from graphopt.distribution.base import ExponentialFamily as ExponentialFamily
from graphopt.distribution.chi2 import Chi2 as Chi2
from graphopt.distribution.continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
from graphopt.distribution.counts import Binomial as Binomial
from graphopt.distribution.counts import Poisson as Poisson
from graphopt.distribution.discrete import Bernoulli as Bernoulli
from graphopt.distribution.discrete import Categorical as Categorical
from graphopt.distribution.discrete import Geometric as Geometric
from graphopt.distribution.discrete import Multinomial as Multinomial
from graphopt.distribution.gamma import Exponential as Exponential
from graphopt.distribution.gamma import Gamma as Gamma
from graphopt.distribution.kl import kl_divergence as kl_divergence
from graphopt.distribution.kl import register_kl as register_kl
from graphopt.distribution.lkj_cholesky import LKJCholesky as LKJCholesky
from graphopt.distribution.multivariate_normal import MultivariateNormal as MultivariateNormal
from graphopt.distribution.real import Cauchy as Cauchy
from graphopt.distribution.real import Gumbel as Gumbel
from graphopt.distribution.real import Laplace as Laplace
from graphopt.distribution.real import Normal as Normal
from graphopt.distribution.real import Uniform as Uniform
from graphopt.distribution.simplex import Beta as Beta
from graphopt.distribution.simplex import Dirichlet as Dirichlet
from graphopt.distribution.student_t import StudentT as StudentT
from graphopt.distribution.transform import AbsTransform as AbsTransform
from graphopt.distribution.transform import AffineTransform as AffineTransform
from graphopt.distribution.transform import ChainTransform as ChainTransform
from graphopt.distribution.transform import ExpTransform as ExpTransform
from graphopt.distribution.transform import IndependentTransform as IndependentTransform
from graphopt.distribution.transform import PowerTransform as PowerTransform
from graphopt.distribution.transform import ReshapeTransform as ReshapeTransform
from graphopt.distribution.transform import SigmoidTransform as SigmoidTransform
from graphopt.distribution.transform import SoftmaxTransform as SoftmaxTransform
from graphopt.distribution.transform import StackTransform as StackTransform
from graphopt.distribution.transform import StickBreakingTransform as StickBreakingTransform
from graphopt.distribution.transform import TanhTransform as TanhTransform
from graphopt.distribution.transform import Transform as Transform
from graphopt.distribution.transformed import Independent as Independent
from graphopt.distribution.transformed import LogNormal as LogNormal
from graphopt.distribution.transformed import TransformedDistribution as TransformedDistribution
from graphopt.frontend.calls import publish

publish(globals(), __name__)
