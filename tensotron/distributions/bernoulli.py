"""The Bernoulli distribution."""

import math

import tensotron as _t
from tensotron._core.geometry import Size
from tensotron.autograd import no_grad
from tensotron.distributions import constraints
from tensotron.distributions.distribution import EMPTY, Distribution, ExponentialFamily
from tensotron.distributions.utils import (
    batch_shape_of,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)

__all__ = ["Bernoulli"]


def _cross_entropy(logits, value):
    return _t.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")


class Bernoulli(ExponentialFamily):
    """1 with probability `probs`, or of log odds `logits`; else 0.

    Raises:
        ValueError: both or none are given, or they violate their constraints.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, validate_args=None):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = logits if probs is None else probs
        (self._param,) = broadcast_all(given)
        if probs is None:
            self.logits = self._param
        else:
            self.probs = self._param
        super().__init__(batch_shape_of(self._param, given), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        batch_shape = Size(batch_shape)
        new = self._get_checked_instance(Bernoulli, _instance)
        for name in ("probs", "logits"):
            if name in self.__dict__:
                new._param = new.__dict__[name] = self.__dict__[name].expand(batch_shape)
        Distribution.__init__(new, batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self):
        return self._param.shape

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        mode[self.probs == 0.5] = math.nan
        return mode

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=EMPTY):
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return _t.bernoulli(self.probs.expand(shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -_cross_entropy(*broadcast_all(self.logits, value))

    def entropy(self):
        return _cross_entropy(self.logits, self.probs)

    def enumerate_support(self, expand=True):
        values = _t.arange(2, dtype=self._param.dtype).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    @property
    def _natural_params(self):
        p = clamp_probs(self.probs)
        return ((p / (1 - p)).log(),)

    def _log_normalizer(self, x):
        return x.exp().log1p()
