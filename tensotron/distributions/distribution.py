"""The base of distributions: shapes, validation of arguments and samples, repr."""

import warnings

from tensotron._core.geometry import Size
from tensotron._core.tensor import Tensor
from tensotron.autograd import no_grad
from tensotron.distributions.constraints import is_dependent
from tensotron.distributions.utils import lazy_property

__all__ = ["Distribution", "ExponentialFamily"]

EMPTY = Size()


class Distribution:
    """A distribution for each index of batch_shape, over samples of shape event_shape.

    Raises:
        ValueError: validate_args is on (as by default) and a parameter violates its constraint.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value):
        """Whether distributions check parameters and samples that do not say it themselves."""
        if value not in [True, False]:
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=EMPTY, event_shape=EMPTY, validate_args=None):
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()

    def _validate_parameters(self):
        try:
            constraints = self.arg_constraints
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                          "the distribution with `validate_args=False` to turn off validation.", stacklevel=4)
            return
        attributes = self.__dict__
        for name, constraint in constraints.items():
            if name not in attributes and isinstance(getattr(type(self), name), lazy_property) or is_dependent(constraint):
                continue
            value = getattr(self, name)
            if not constraint.holds(value):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} "
                    f"to satisfy the constraint {constraint!r}, but found invalid values:\n{value}")

    def expand(self, batch_shape, _instance=None):
        """The distribution with its parameters expanded to another batch_shape."""
        raise NotImplementedError

    def _expanded(self, cls, instance, batch_shape, names, event_shape=EMPTY):
        """For expand(): a new instance with the parameters `names` expanded."""
        new = self._get_checked_instance(cls, instance)
        for name in names:
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name].expand(batch_shape)
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def batch_shape(self):
        """Shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self):
        """Shape of one sample."""
        return self._event_shape

    @property
    def arg_constraints(self):
        """Names of parameters and their constraints."""
        raise NotImplementedError

    @property
    def support(self):
        """The constraint of samples."""
        raise NotImplementedError

    @property
    def mean(self):
        raise NotImplementedError

    @property
    def mode(self):
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self):
        raise NotImplementedError

    @property
    def stddev(self):
        return self.variance.sqrt()

    def sample(self, sample_shape=EMPTY):
        """Samples of shape sample_shape + batch_shape + event_shape, without gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=EMPTY):
        """Samples that are differentiable by the parameters."""
        raise NotImplementedError

    def sample_n(self, n):
        """sample((n,))"""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value):
        """Log of the density (or probability) at `value`.

        Raises:
            ValueError: validate_args is on and `value` lies outside of the support, or its shape does not fit.
        """
        raise NotImplementedError

    def cdf(self, value):
        """Probability of samples up to `value`."""
        raise NotImplementedError

    def icdf(self, value):
        """Inverse of cdf."""
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """All values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError

    def entropy(self):
        """Entropy, of shape batch_shape."""
        raise NotImplementedError

    def perplexity(self):
        """exp(entropy)"""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape=EMPTY):
        if not isinstance(sample_shape, Size):
            sample_shape = Size(sample_shape)
        return sample_shape + self._batch_shape + self._event_shape

    def _validate_sample(self, value):
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, events = value.shape, self._event_shape
        if events and shape[len(shape) - len(events):] != events:
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {events}.")
        expected = self._batch_shape + events if events else self._batch_shape
        if shape != expected:
            for i, j in zip(reversed(shape), reversed(expected)):
                if i != 1 and j != 1 and i != j:
                    raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                          "distribution with `validate_args=False` to turn off validation.", stacklevel=3)
            return
        if not support.holds(value):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}")

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is not None:
            return _instance
        if type(self).__init__ != cls.__init__:
            raise NotImplementedError(f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method "
                                      "must also define a custom .expand() method.")
        return self.__new__(type(self))

    def __repr__(self):
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                shown.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """Distributions of an exponential family: natural parameters and a log normaliser, from which the entropy follows."""

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def entropy(self):
        from tensotron.autograd import grad

        parameters = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*parameters)
        gradients = grad(normalizer.sum(), parameters, create_graph=True)
        result = -self._mean_carrier_measure + normalizer
        for p, g in zip(parameters, gradients):
            result = result - (p * g).reshape((*self._batch_shape, -1)).sum(-1)
        return result
