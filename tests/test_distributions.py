"""distributions against PyTorch: samples bit for bit where its numbers are, densities, shapes, errors, repr."""

import pickle

import numpy as np
import pytest
import torch
from _both import outcome, same

import tensotron

LIBS = (tensotron, torch)
# log, exp and erf differ in the last places
CLOSE = {"rtol": 2e-6, "atol": 1e-6}


def close(fn):
    """Like same(), but numbers may differ in the last places."""
    got, want = fn(tensotron), fn(torch)
    compare(got, want)


def compare(got, want):
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want):
            compare(g, w)
    elif isinstance(want, torch.Tensor):
        assert str(got.dtype) == str(want.dtype) and tuple(got.shape) == tuple(want.shape)
        assert got.requires_grad == want.requires_grad
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), **CLOSE)
    else:
        assert str(got) == str(want)


def table(L):
    D, t = L.distributions, L.tensor
    row = t([[0.1, 0.2, 0.7], [1.0, 1.0, 0.0]])
    return {
        "categorical probs": D.Categorical(row), "categorical logits": D.Categorical(logits=row.log().clamp(min=-1e4)),
        "categorical one": D.Categorical(logits=t([0.3, -1.0, 2.0, 0.0])), "categorical deep": D.Categorical(L.ones(2, 3, 4)),
        "categorical positional": D.Categorical(t([1.0, 3.0])), "categorical f64": D.Categorical(logits=row.double()),
        "normal": D.Normal(t([0.5, -1.0]), t([1.0, 0.1])), "normal numbers": D.Normal(1.5, 2),
        "normal mixed": D.Normal(L.zeros(3, 2), 0.5),
        "normal broadcast": D.Normal(L.zeros(3, 1), L.ones(2) * 2), "normal f64": D.Normal(t(1.0, dtype=L.float64), 2.0),
        "bernoulli": D.Bernoulli(t([0.2, 0.5, 1.0])),
        "bernoulli logits": D.Bernoulli(logits=t([[-1.0], [3.0]])),
        "bernoulli number": D.Bernoulli(0.3), "uniform numbers": D.Uniform(-2, 3),
        "uniform": D.Uniform(t([0.0, -1.0]), t([1.0, 5.0])),
        "exponential": D.Exponential(t([0.5, 3.0])), "exponential number": D.Exponential(2.0),
        "independent": D.Independent(D.Normal(L.zeros(4, 3), L.ones(4, 3)), 1),
        "independent 2": D.Independent(D.Normal(L.zeros(4, 3), 1), 2),
        "independent 0": D.Independent(D.Bernoulli(L.ones(2) / 3), 0),
        "independent uniform": D.Independent(D.Uniform(L.zeros(3), 1), 1),
        "laplace": D.Laplace(t([0.5, -1.0]), t([1.0, 0.1])), "laplace number": D.Laplace(0.0, 2),
        "log normal": D.LogNormal(t([0.5, -1.0]), t([1.0, 0.1])), "half normal": D.HalfNormal(t([1.0, 0.1])),
        "one hot": D.OneHotCategorical(row), "one hot logits": D.OneHotCategorical(logits=t([0.3, -1.0])),
    }  # fmt: skip


CONTINUOUS = ("Normal", "Uniform", "Exponential", "Laplace", "LogNormal", "HalfNormal")
NAMES = list(table(torch))


@pytest.mark.parametrize("name", NAMES)
def test_samples(name):
    def fn(L):
        d = table(L)[name]
        out = []
        for seed, shape in enumerate([(), (1,), (5,), (2, 3), (17,)]):
            L.manual_seed(seed)
            out += [d.sample() if shape == () else d.sample(shape), d.sample(L.Size(shape))]
            if d.has_rsample:
                out += [d.rsample(), d.rsample(shape)]
        return out, L.rand(2)

    if any(k in name for k in ("normal", "exponential", "independent", "laplace")):
        close(fn)
    else:
        same(fn)


@pytest.mark.parametrize("name", NAMES)
def test_densities_and_moments(name):
    def fn(L):
        d = table(L)[name]
        L.manual_seed(3)
        out = []
        for value in (d.sample(), d.sample((3,))):
            out.append(d.log_prob(value))
            for method in ("cdf", "icdf"):
                if type(d).__name__ in CONTINUOUS:
                    out.append(getattr(d, method)(value if method == "cdf" else L.rand(value.shape, dtype=value.dtype)))
        out += [d.mean, d.mode, d.variance, d.stddev, d.batch_shape, d.event_shape, d.has_rsample, d.has_enumerate_support]
        out += [d.entropy(), d.perplexity(), d.support, repr(d)]
        if d.has_enumerate_support:
            out += [d.enumerate_support(), d.enumerate_support(expand=False)]
        return out

    close(fn)


@pytest.mark.parametrize("name", NAMES)
def test_expand_and_pickle(name):
    def fn(L):
        d = table(L)[name]
        big = d.expand((2, *d.batch_shape))
        L.manual_seed(1)
        out = [big.batch_shape, big.event_shape, big.sample(), big.log_prob(big.sample()), big.entropy(), repr(big)]
        again = pickle.loads(pickle.dumps(d))
        L.manual_seed(2)
        return out + [again.sample(), again.entropy(), repr(again)]

    close(fn)


def test_lazy_parameters():
    def fn(L):
        c = L.distributions.Categorical(logits=L.tensor([[1.0, 2.0], [0.0, -1.0]]))
        out = ["probs" in vars(c), c.probs, "probs" in vars(c), c.logits, c.probs.argmax(-1), c.param_shape]
        return out + [L.distributions.Bernoulli(0.25).logits]

    close(fn)


def test_gradients():
    def fn(L):
        D = L.distributions
        logits = L.tensor([[1.0, 2.0, -0.5], [0.1, 0.2, 0.3]], requires_grad=True)
        loc, scale = L.tensor([0.3, -0.2], requires_grad=True), L.tensor([0.5, 1.5], requires_grad=True)
        c, n, u = D.Categorical(logits=logits), D.Normal(loc, scale), D.Uniform(loc, scale + 1)
        b, e = D.Bernoulli(logits=loc), D.Exponential(scale)
        with L.no_grad():
            assert c.probs.requires_grad  # computed with gradients all the same
        loss = c.log_prob(L.tensor([2, 0])).sum() + (c.probs * c.entropy().unsqueeze(-1)).sum() + n.rsample().pow(2).sum()
        loss = loss + n.log_prob(L.tensor([0.1, 0.2])).sum() + n.entropy().sum() + n.cdf(L.ones(2)).sum() + u.rsample().sum()
        loss = loss + b.log_prob(L.ones(2)).sum() + b.entropy().sum() + e.rsample().sum() + n.icdf(L.tensor([0.3, 0.9])).sum()
        loss.backward()
        return logits.grad, loc.grad, scale.grad, n.sample().requires_grad, c.sample().requires_grad, loss

    close(fn)


def test_inverse_of_the_normal_cdf():
    def fn(L):
        p = L.cat([L.linspace(0, 1, 101), L.tensor([1e-7, 1e-3, 0.999, 1 - 1e-7, -0.1, 1.1])])
        wide = L.distributions.Normal(L.tensor(1.0, dtype=L.float64), 2.0)
        return L.distributions.Normal(0.0, 1.0).icdf(p), wide.icdf(p.double())

    close(fn)


BAD = {
    "both": lambda D, L: D.Categorical(L.ones(2), L.ones(2)),
    "none": lambda D, L: D.Categorical(),
    "no dimension": lambda D, L: D.Categorical(L.tensor(1.0)),
    "logits no dimension": lambda D, L: D.Categorical(logits=L.tensor(1.0)),
    "negative probs": lambda D, L: D.Categorical(L.tensor([0.5, -0.1])),
    "zero probs": lambda D, L: D.Categorical(L.zeros(2)),
    "nan logits": lambda D, L: D.Categorical(logits=L.tensor([0.0, float("nan")])),
    "inf logits": lambda D, L: D.Categorical(logits=L.tensor([[0.0, float("inf")]])),
    "scale zero": lambda D, L: D.Normal(0.0, 0.0),
    "scale negative": lambda D, L: D.Normal(L.zeros(2), L.tensor([1.0, -1.0])),
    "loc nan": lambda D, L: D.Normal(float("nan"), 1.0),
    "loc a str": lambda D, L: D.Normal("a", 1.0),
    "shapes": lambda D, L: D.Normal(L.zeros(2), L.ones(3)) and None,
    "probs above one": lambda D, L: D.Bernoulli(1.5),
    "bernoulli both": lambda D, L: D.Bernoulli(0.5, 0.5),
    "uniform empty": lambda D, L: D.Uniform(1.0, 1.0),
    "rate": lambda D, L: D.Exponential(L.tensor([-1.0])),
    "too many dims": lambda D, L: D.Independent(D.Normal(L.zeros(2), 1), 2),
    "value beyond": lambda D, L: D.Categorical(L.ones(3)).log_prob(L.tensor(3)),
    "value negative": lambda D, L: D.Categorical(L.ones(3)).log_prob(L.tensor([-1])),
    "value a fraction": lambda D, L: D.Categorical(L.ones(3)).log_prob(L.tensor(0.5)),
    "value nan": lambda D, L: D.Normal(0.0, 1.0).log_prob(L.tensor(float("nan"))),
    "value a number": lambda D, L: D.Normal(0.0, 1.0).log_prob(1.0),
    "value of a shape": lambda D, L: D.Normal(L.zeros(2), 1.0).log_prob(L.zeros(3)),
    "value of an event shape": lambda D, L: D.Independent(D.Normal(L.zeros(2), 1.0), 1)._validate_sample(L.zeros(3)),
    "value outside": lambda D, L: D.Uniform(0.0, 1.0).log_prob(L.tensor(2.0)),
    "value not binary": lambda D, L: D.Bernoulli(0.5).log_prob(L.tensor(0.5)),
    "value not one-hot": lambda D, L: D.OneHotCategorical(L.ones(2)).log_prob(L.ones(2)),
    "sample shape": lambda D, L: D.Normal(0.0, 1.0).sample(3) and None,
    "no rsample": lambda D, L: D.Categorical(L.ones(2)).rsample(),
    "no cdf": lambda D, L: D.Categorical(L.ones(2)).cdf(L.tensor(0)),
    "no kl": lambda D, L: D.kl_divergence(D.Categorical(L.ones(2)), D.Normal(0.0, 1.0)),
    "default": lambda D, L: D.Distribution.set_default_validate_args("no"),
    "dependent": lambda D, L: D.constraints.dependent.check(L.ones(1)),
}


@pytest.mark.parametrize("name", BAD)
def test_errors(name):
    same(lambda L: BAD[name](L.distributions, L))


def test_messages_to_the_end():
    def fn(L):
        text = []
        for name in ("negative probs", "scale negative", "value beyond", "value not binary"):
            try:
                BAD[name](L.distributions, L)
            except ValueError as exc:
                text.append(str(exc))
        return text

    assert len(fn(torch)) == 4
    same(fn)


def test_validation_can_be_turned_off():
    for lib in LIBS:
        D = lib.distributions
        assert D.Normal(0.0, -1.0, validate_args=False).log_prob(1.0) is not None
        D.Distribution.set_default_validate_args(False)
        try:
            assert D.Normal(0.0, -1.0).scale == -1
            D.Categorical(lib.ones(2)).log_prob(lib.tensor(1))
            with pytest.raises(ValueError):
                D.Normal(0.0, -1.0, validate_args=True)
        finally:
            D.Distribution.set_default_validate_args(True)
        with pytest.raises(ValueError):
            D.Normal(0.0, -1.0)


def test_kl():
    def fn(L):
        D, t = L.distributions, L.tensor
        groups = [
            [D.Categorical(t([[0.1, 0.9], [1.0, 0.0]])), D.Categorical(logits=t([0.3, 0.4])), D.Categorical(t([0.0, 1.0]))],
            [D.Bernoulli(t([0.0, 0.4, 1.0])), D.Bernoulli(t([0.5, 0.3, 0.2])), D.Bernoulli(t([0.0, 1.0, 1.0]))],
            [D.Normal(t([0.0, 1.0]), t([1.0, 2.0])), D.Normal(0.5, 0.3), D.Uniform(t([0.0, 1.0]), 3.0), D.Uniform(-1.0, 5.0),
             D.Exponential(t([1.0, 2.0]))],
            [D.Independent(D.Normal(L.zeros(2, 3), 1), 1), D.Independent(D.Normal(L.ones(2, 3), 2), 1)],
            [D.Laplace(0.0, 1.0), D.Laplace(t([1.0, -2.0]), 0.5)], [D.HalfNormal(1.0), D.HalfNormal(t([0.5, 2.0]))],
            [D.LogNormal(0.0, 1.0), D.LogNormal(1.0, 2.0)],
            [D.OneHotCategorical(t([0.1, 0.9])), D.OneHotCategorical(t([0.5, 0.5]))],
        ]  # fmt: skip
        return [D.kl_divergence(p, q) for group in groups for p in group for q in group]

    close(fn)


def test_register_kl():
    for lib in LIBS:
        D = lib.distributions

        class Mine(D.Normal):
            pass

        assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)) == 0
        D.register_kl(Mine, D.Normal)(lambda p, q: "mine")
        assert D.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)) == "mine"
        assert D.kl_divergence(D.Normal(0.0, 1.0), Mine(0.0, 1.0)) == 0
        with pytest.raises(TypeError):
            D.register_kl("Normal", D.Normal)


def test_subclasses():
    def fn(L):
        class Scaled(L.distributions.Normal):
            def __init__(self, scale):
                super().__init__(0.0, scale)

        out = []
        none = L.distributions.Distribution
        for call in (lambda: Scaled(2.0).expand((2,)), lambda: none().sample(), lambda: repr(Scaled(2.0))):
            try:
                out.append(str(call()))
            except NotImplementedError as exc:
                out.append(str(exc))
        return out

    same(fn)


def test_constraints():
    def fn(L):
        c = L.distributions.constraints
        values = L.tensor([[-1.0, 0.0, 0.5], [1.0, 2.0, float("nan")], [0.25, 0.25, 0.5]])
        some = [
            c.boolean, c.one_hot, c.nonnegative_integer, c.positive_integer, c.integer_interval(0, 1), c.real, c.real_vector,
            c.positive, c.nonnegative, c.greater_than(0.5), c.greater_than_eq(0.5), c.less_than(1), c.unit_interval,
            c.interval(-1, 0),
            c.half_open_interval(0, 1), c.simplex, c.independent(c.positive, 2), c.multinomial(3),
            c.cat([c.positive, c.real], dim=1, lengths=[1, 2]), c.stack([c.positive, c.real, c.boolean], dim=0),
        ]  # fmt: skip
        shown = [repr(k) for k in some if k.event_dim < 9 and type(k).__name__ not in ("_Cat", "_Stack")]
        return [k.check(values) for k in some], shown, [(k.event_dim, k.is_discrete) for k in some], c.is_dependent(c.dependent)

    same(fn)


def test_paths_of_modules():
    from tensotron.distributions.categorical import Categorical
    from tensotron.distributions.normal import Normal

    assert Categorical is tensotron.distributions.Categorical and Normal is tensotron.distributions.Normal
    with pytest.raises(NotImplementedError, match="Beta"):
        tensotron.distributions.Beta(1.0, 1.0)
    assert not hasattr(tensotron.distributions, "MultivariateNormal")


def test_samples_of_a_policy():
    """What a program in reinforcement learning does at each step; one stream."""

    def fn(L):
        L.manual_seed(7)
        out = []
        for _ in range(20):
            logits = L.randn(4, 3)
            c = L.distributions.Categorical(logits=logits)
            a = c.sample()
            out += [a, c.log_prob(a), c.entropy()]
            n = L.distributions.Normal(logits, logits.exp())
            out.append(n.log_prob(n.sample()).sum(-1))
        return out

    close(fn)
    assert outcome(lambda L: L.rand(1), tensotron) == outcome(lambda L: L.rand(1), torch)
