"""Transforms of random variables and transformed distributions against PyTorch."""

import pickle

import pytest
import torch
from _both import same
from test_distributions import close

import tensotron


def table(L):
    D, t = L.distributions, L.tensor
    return {
        "exp": D.ExpTransform(), "sigmoid": D.SigmoidTransform(), "softplus": D.SoftplusTransform(), "tanh": D.TanhTransform(),
        "abs": D.AbsTransform(), "power": D.PowerTransform(t(2.0)), "affine": D.AffineTransform(1.0, -2.0),
        "affine tensors": D.AffineTransform(t([1.0, 2.0, 3.0]), t([0.5, -1.0, 2.0])),
        "affine event": D.AffineTransform(0.5, 3.0, 1),
        "compose": D.ComposeTransform([D.AffineTransform(1.0, 2.0), D.TanhTransform(), D.AffineTransform(0.0, 0.5)]),
        "compose event": D.ComposeTransform([D.ExpTransform(), D.AffineTransform(0.0, 2.0, 1)]), "identity": D.identity_transform,
        "independent": D.IndependentTransform(D.TanhTransform(), 1), "reshape": D.ReshapeTransform((3,), (1, 3)),
        "softmax": D.SoftmaxTransform(), "inverse": D.ExpTransform().inv,
        "inverse compose": D.ComposeTransform([D.ExpTransform()]).inv,
    }  # fmt: skip


@pytest.mark.parametrize("name", list(table(torch)))
def test_transforms(name):
    def fn(L):
        f = table(L)[name]
        x = L.tensor([[0.3, 1.2, 2.5], [0.1, 0.7, 0.2]])
        y = f(x)
        out = [y, f.inv(y), f.bijective, repr(f), repr(f.inv), f.domain, f.codomain, f.forward_shape(L.Size([2, 3]))]
        out.append(f == f.inv.inv)
        if f.bijective:
            out += [f.log_abs_det_jacobian(x, y), f.inv.log_abs_det_jacobian(y, x)]
        out += [f == table(L)[name], f != L.distributions.AbsTransform()]
        if "inverse" not in name or L is tensotron:  # PyTorch forgets what an inverse inverts
            out.append(pickle.loads(pickle.dumps(f))(x))
        else:
            out.append(y)
        if name not in ("softmax", "reshape"):
            out.append(f.sign if f.bijective else None)
        return out

    close(fn)


def test_cache():
    for lib in (tensotron, torch):
        t = lib.distributions.TanhTransform(cache_size=1)
        x = lib.tensor([50.0, 0.1])
        y = t(x)
        assert t.inv(y) is x and t(x) is y and t.with_cache(0).inv(y)[0] == float("inf")
        assert t.with_cache() is t
    same(lambda L: L.distributions.TanhTransform(cache_size=2))


def squashed(L, loc, scale, **kwargs):
    D = L.distributions
    return D.TransformedDistribution(D.Normal(loc, scale), [D.TanhTransform(cache_size=1)], **kwargs)


def test_squashed_normal():
    """Soft actor-critic's policy."""

    def fn(L):
        loc = L.tensor([[0.3, -2.0], [1.0, 0.0]], requires_grad=True)
        scale = L.tensor([[0.5, 1.0], [2.0, 0.1]], requires_grad=True)
        L.manual_seed(3)
        d = squashed(L, loc, scale)
        a = d.rsample()
        log_prob = d.log_prob(a).sum(-1)
        log_prob.sum().backward()
        both = L.distributions.Independent(d, 1)
        shapes = d.batch_shape, both.event_shape, d.support, repr(d), d.has_rsample, d.expand((3, 2, 2)).sample()
        return a, log_prob, loc.grad, scale.grad, d.sample((5,)), both.log_prob(a), d.cdf(a), d.icdf(L.full((2, 2), 0.3)), shapes

    close(fn)


def test_transformed_distributions():
    def fn(L):
        D = L.distributions
        L.manual_seed(0)
        ds = [
            D.TransformedDistribution(D.Uniform(0.0, 1.0), [D.SigmoidTransform().inv, D.AffineTransform(1.0, -2.0)]),
            D.TransformedDistribution(D.Normal(L.zeros(3), 1.0), D.AffineTransform(L.zeros(2, 1), 2.0)),
            D.TransformedDistribution(D.Normal(L.zeros(2, 3), 1.0), D.ReshapeTransform((3,), (3, 1))),
            D.TransformedDistribution(D.Normal(L.zeros(3), 1.0), [D.IndependentTransform(D.ExpTransform(), 1)]),
            D.TransformedDistribution(D.Independent(D.Normal(L.zeros(3), 1.0), 1), [D.ExpTransform()]),
            D.TransformedDistribution(D.Normal(0.0, 1.0), []),
        ]
        out = []
        for d in ds:
            x = d.sample((2,))
            out += [x, d.log_prob(x), d.batch_shape, d.event_shape, d.support, d.expand((4, *d.batch_shape)).sample()]
        x = ds[0].sample((4,))
        return out + [ds[0].cdf(x), ds[0].icdf(L.linspace(0.1, 0.9, 4))]

    close(fn)


def test_refusals():
    same(lambda L: L.distributions.TransformedDistribution(L.distributions.Normal(0.0, 1.0), 3))
    same(lambda L: L.distributions.TransformedDistribution(L.distributions.Normal(0.0, 1.0), [3]))
    same(lambda L: L.distributions.TransformedDistribution(L.distributions.Normal(0.0, 1.0), L.distributions.SoftmaxTransform()))
    same(lambda L: L.distributions.ReshapeTransform((2,), (3,)))
    same(lambda L: squashed(L, 0.0, 1.0).log_prob(L.tensor(2.0)))
    same(lambda L: L.distributions.kl_divergence(squashed(L, 0.0, 1.0), L.distributions.LogNormal(0.0, 1.0)))


def test_transforms_of_the_users():
    """As pytorch_sac defines its own."""

    def fn(L):
        D = L.distributions

        class Tanh(D.transforms.Transform):
            domain, codomain = D.constraints.real, D.constraints.interval(-1.0, 1.0)
            bijective, sign = True, +1

            def __init__(self, cache_size=1):
                super().__init__(cache_size=cache_size)

            def __eq__(self, other):
                return isinstance(other, Tanh)

            def _call(self, x):
                return x.tanh()

            def _inverse(self, y):
                return 0.5 * (y.log1p() - (-y).log1p())

            def log_abs_det_jacobian(self, x, y):
                return 2.0 * (0.6931471805599453 - x - L.nn.functional.softplus(-2.0 * x))

        class Squashed(D.transformed_distribution.TransformedDistribution):
            def __init__(self, loc, scale):
                self.loc, self.scale = loc, scale
                self.base_dist = D.Normal(loc, scale)
                super().__init__(self.base_dist, [Tanh()])

            @property
            def mean(self):
                mu = self.loc
                for tr in self.transforms:
                    mu = tr(mu)
                return mu

        L.manual_seed(1)
        d = Squashed(L.tensor([0.1, 0.5]), L.tensor([1.0, 2.0]))
        a = d.rsample()
        return a, d.log_prob(a), d.mean

    close(fn)
