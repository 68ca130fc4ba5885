"""Probability distributions: torch.distributions' names."""

from tensotron.distributions import constraints
from tensotron.distributions.bernoulli import Bernoulli
from tensotron.distributions.categorical import Categorical, OneHotCategorical
from tensotron.distributions.distribution import Distribution
from tensotron.distributions.exp_family import ExponentialFamily
from tensotron.distributions.exponential import Exponential
from tensotron.distributions.independent import Independent
from tensotron.distributions.kl import kl_divergence, register_kl
from tensotron.distributions.laplace import Laplace
from tensotron.distributions.normal import Normal
from tensotron.distributions.transformed_distribution import HalfNormal, LogNormal, TransformedDistribution
from tensotron.distributions.transforms import *  # noqa: F403
from tensotron.distributions.transforms import __all__ as _transforms
from tensotron.distributions.uniform import Uniform

__all__ = [
    *_transforms,
    "Bernoulli",
    "Categorical",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "HalfNormal",
    "Independent",
    "Laplace",
    "LogNormal",
    "Normal",
    "OneHotCategorical",
    "TransformedDistribution",
    "Uniform",
    "constraints",
    "kl_divergence",
    "register_kl",
]

_NOT_YET = frozenset(
    """Beta Binomial Cauchy Chi2 ContinuousBernoulli Dirichlet FisherSnedecor Gamma GeneralizedPareto Geometric Gumbel
    HalfCauchy InverseGamma Kumaraswamy LKJCholesky LogisticNormal LowRankMultivariateNormal MixtureSameFamily
    Multinomial MultivariateNormal NegativeBinomial OneHotCategoricalStraightThrough Pareto Poisson RelaxedBernoulli
    RelaxedOneHotCategorical StudentT VonMises Weibull Wishart CatTransform CorrCholeskyTransform
    CumulativeDistributionTransform LowerCholeskyTransform PositiveDefiniteTransform StackTransform
    StickBreakingTransform biject_to transform_to""".split()
)


class _NotYet(NotImplementedError, AttributeError):
    """A name of torch.distributions that is not supported: also an AttributeError, so that hasattr is false."""


def __getattr__(name):
    if name in _NOT_YET:
        raise _NotYet(f"tensotron.distributions.{name} is not supported yet (docs/unsupported.md)")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
