"""The uniform distribution."""

import math

import tensotron as _t
from tensotron._core.geometry import Size
from tensotron.distributions import constraints
from tensotron.distributions.distribution import EMPTY, Distribution
from tensotron.distributions.utils import batch_shape_of, broadcast_all

__all__ = ["Uniform"]


class Uniform(Distribution):
    """Uniform between `low` (inclusive) and `high` (exclusive), tensors or numbers.

    Raises:
        ValueError: low is not below high.
    """

    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(batch_shape_of(self.low, low, high), validate_args=validate_args)

    @property
    def arg_constraints(self):
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def mean(self):
        return (self.high + self.low) / 2

    @property
    def mode(self):
        return math.nan * self.high

    @property
    def stddev(self):
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self):
        return (self.high - self.low).pow(2) / 12

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Uniform, _instance, Size(batch_shape), ("low", "high"))

    def rsample(self, sample_shape=EMPTY):
        drawn = _t.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        inside = self.low.le(value).type_as(self.low).mul(self.high.gt(value).type_as(self.low))
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return (self.high - self.low).log()
