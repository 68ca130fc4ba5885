"""Kullback-Leibler divergences."""

import math
import warnings

import tensotron as _t
from tensotron.distributions.bernoulli import Bernoulli
from tensotron.distributions.categorical import Categorical, OneHotCategorical
from tensotron.distributions.exponential import Exponential
from tensotron.distributions.independent import Independent
from tensotron.distributions.laplace import Laplace
from tensotron.distributions.normal import Normal
from tensotron.distributions.transformed_distribution import HalfNormal, TransformedDistribution
from tensotron.distributions.uniform import Uniform
from tensotron.distributions.utils import _sum_rightmost

__all__ = ["kl_divergence", "register_kl"]

_REGISTRY = {}
_FOUND = {}  # (type, type) -> function, or None


def register_kl(type_p, type_q):
    """Decorator: the function computes kl_divergence(p, q) for these classes, and for subclasses that have none closer."""
    for cls in (type_p, type_q):
        if not isinstance(cls, type):
            raise TypeError(f"kl_divergence is registered for classes, not for {cls}")

    def decorator(fn):
        _REGISTRY[type_p, type_q] = fn
        _FOUND.clear()
        return fn

    return decorator


def _look_up(type_p, type_q):
    """The function of the closest classes, p's first; warns where q's first would give another."""
    fits = [(p, q) for p, q in _REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not fits:
        return None
    by_p = min(fits, key=lambda m: (type_p.__mro__.index(m[0]), type_q.__mro__.index(m[1])))
    by_q = min(fits, key=lambda m: (type_q.__mro__.index(m[1]), type_p.__mro__.index(m[0])))
    if _REGISTRY[by_p] is not _REGISTRY[by_q]:
        warnings.warn(f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({by_p[0].__name__}, "
                      f"{by_q[1].__name__})", RuntimeWarning, stacklevel=3)
    return _REGISTRY[by_p]


def kl_divergence(p, q):
    """KL(p || q), of shape batch_shape.

    Raises:
        NotImplementedError: there is no formula for these classes.
    """
    types = type(p), type(q)
    if types not in _FOUND:
        _FOUND[types] = _look_up(*types)
    fn = _FOUND[types]
    if fn is None:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {types[0].__name__} and q type {types[1].__name__}")
    return fn(p, q)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    softplus = _t.nn.functional.softplus
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    ones[q.probs == 0] = math.inf
    ones[p.probs == 0] = 0
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    zeros[q.probs == 1] = math.inf
    zeros[p.probs == 1] = 0
    return ones + zeros


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    t = p.probs * (p.logits - q.logits)
    t[(q.probs == 0).expand_as(t)] = math.inf
    t[(p.probs == 0).expand_as(t)] = 0
    return t.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    distance = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + distance - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    result[(q.low > p.low) | (q.high < p.high)] = math.inf
    return result


@register_kl(Uniform, Normal)
def _uniform_normal(p, q):
    width = p.high - p.low
    t1 = (math.sqrt(math.pi * 2) * q.scale / width).log()
    t2 = width.pow(2) / 12
    t3 = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return t1 + 0.5 * (t2 + t3) / q.scale.pow(2)


@register_kl(Exponential, Normal)
def _exponential_normal(p, q):
    variance, square = q.scale.pow(2), p.rate.pow(2)
    t1 = 0.5 * (square * variance * 2 * math.pi).log()
    return t1 - 1 + (square.reciprocal() - q.loc / p.rate + q.loc.pow(2) * 0.5) / variance


def _infinite(name):
    return lambda p, q: _t.full_like(getattr(p, name), math.inf)


register_kl(Exponential, Uniform)(_infinite("rate"))
register_kl(Normal, Uniform)(_infinite("loc"))
register_kl(Normal, Exponential)(_infinite("loc"))


@register_kl(Uniform, Exponential)
def _uniform_exponential(p, q):
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    result[p.low < q.support.lower_bound] = math.inf
    return result


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
