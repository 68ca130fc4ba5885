"""The Laplace distribution."""

import tensotron as _t
from tensotron._core.geometry import Size
from tensotron.distributions import constraints
from tensotron.distributions.distribution import EMPTY, Distribution
from tensotron.distributions.utils import batch_shape_of, broadcast_all

__all__ = ["Laplace"]


class Laplace(Distribution):
    """Laplace distribution around `loc` with scale `scale`, tensors or numbers.

    Raises:
        ValueError: scale is not positive, or loc is NaN.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(batch_shape_of(self.loc, loc, scale), validate_args=validate_args)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return 2 * self.scale.pow(2)

    @property
    def stddev(self):
        return (2**0.5) * self.scale

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Laplace, _instance, Size(batch_shape), ("loc", "scale"))

    def rsample(self, sample_shape=EMPTY):
        u = self.loc.new_empty(self._extended_shape(sample_shape)).uniform_(_t.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value):
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self):
        return 1 + (2 * self.scale).log()
