"""Convolution, relu and pooling of a Sequential in one pass: what is seen is what the operators give one by one."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import tensotron
import tensotron.nn.functional as F
from tensotron import nn


def data(*shape, dtype=np.float32, seed=0):
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


def nets(lib, c, o, k, **conv):
    def build(*more):
        return lib.nn.Sequential(lib.nn.Conv2d(c, o, k, **conv), lib.nn.ReLU(), *more)

    return [build(), build(lib.nn.MaxPool2d(2)), build(lib.nn.MaxPool2d((2, 2), 2), lib.nn.Flatten()),
            build(lib.nn.MaxPool2d(3, 2)), build(lib.nn.MaxPool2d(2, ceil_mode=True)), build(lib.nn.Tanh())]


def one_by_one(net, x):
    for m in net:
        x = m.forward(x)
    return x


def names(node):
    out = []
    while node is not None and node.next_functions:
        out.append((node.name(), len(node.next_functions)))
        node = node.next_functions[0][0]
    return out


def run(call, net, x):
    x = x.clone().requires_grad_()
    net.zero_grad()
    y = call(net, x)
    (y * y).sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in net.parameters())]


SHAPES = [((3, 1, 28, 28), (1, 8, 3), {"padding": 1}), ((2, 8, 14, 14), (8, 16, 3), {"padding": 1}),
          ((2, 4, 21, 19), (4, 32, 4), {"stride": 2}), ((2, 4, 9, 11), (4, 6, 3), {"groups": 2, "bias": False}),
          ((5, 2, 4, 4), (2, 3, 2), {"padding": "same"})]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape, conv, options", SHAPES)
def test_same_bits_and_graph_as_one_by_one(shape, conv, options, dtype):
    x = tensotron.as_tensor(data(*shape, dtype=dtype))
    for net in nets(tensotron, *conv, **options):
        net = net.to(getattr(tensotron, dtype))
        with tensotron.no_grad():
            net[0].weight[0, 0, 0, 0] = float("nan")
            net[0].weight[1].zero_()
        got, want = run(lambda m, x: m(x), net, x), run(one_by_one, net, x)
        for a, b in zip(got, want):
            assert a.numpy().tobytes() == b.numpy().tobytes()
        assert names(net(x).grad_fn) == names(one_by_one(net, x).grad_fn)
        with tensotron.no_grad():
            assert net(x).numpy().tobytes() == want[0].numpy().tobytes()


@pytest.mark.parametrize("shape, conv, options", SHAPES)
def test_gradients_are_torchs(shape, conv, options):
    x = data(*shape, dtype=np.float64)
    for ours, theirs in zip(nets(tensotron, *conv, **options), nets(torch, *conv, **options)):
        ours, theirs = ours.double(), theirs.double()
        for a, b in zip(ours.parameters(), theirs.parameters()):
            b.data.copy_(torch.as_tensor(a.detach().numpy()))
        for a, b in zip(run(lambda m, x: m(x), ours, tensotron.as_tensor(x)), run(lambda m, x: m(x), theirs, torch.as_tensor(x))):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


def both(fn):
    """What fn(lib) gives with tensotron and with torch, on the same weights."""
    out = []
    for lib in (torch, tensotron):
        net = lib.nn.Sequential(lib.nn.Conv2d(1, 4, 3), lib.nn.ReLU(), lib.nn.MaxPool2d(2))
        with lib.no_grad():
            net[0].weight.copy_(lib.as_tensor(data(4, 1, 3, 3)))
            net[0].bias.copy_(lib.as_tensor(data(4)))
        out.append(fn(lib, net, lib.as_tensor(data(2, 1, 12, 12))))
    np.testing.assert_allclose(out[1], out[0], rtol=1e-4, atol=1e-5)


def test_hooks_see_the_gradient_before_relu():
    def parts(lib, net, x):
        h = net[1](net[0](x))
        h.retain_grad()
        net[2](h).sum().backward()
        return h.grad.numpy()

    def hook(lib, net, x):
        seen = []
        h = net[1](net[0](x))
        h.register_hook(lambda g: seen.append(g.numpy().copy()))
        net[2](h).sum().backward()
        return seen[0]

    def node_hooks(lib, net, x):
        seen = []
        y = net(x)
        y.grad_fn.register_hook(lambda gin, gout: seen.append(gin[0].numpy().copy()))
        y.grad_fn.next_functions[0][0].register_prehook(lambda gout: seen.append(gout[0].numpy().copy()))
        y.sum().backward()
        return np.stack(seen)

    def relu_hook(lib, net, x):
        seen = []
        y = net(x)
        y.grad_fn.next_functions[0][0].register_hook(lambda gin, gout: seen.extend(g[0].numpy().copy() for g in (gin, gout)))
        y.sum().backward()
        return np.stack(seen)

    def wanted(lib, net, x):
        h = net[1](net[0](x))
        return lib.autograd.grad(net[2](h).sum(), h)[0].numpy()

    for fn in (parts, hook, node_hooks, relu_hook, wanted):
        both(fn)


def test_the_node_called_by_hand_is_the_pooling_alone():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2))
    y = net(tensotron.as_tensor(data(2, 1, 12, 12)) - 5)  # all of some windows negative
    with tensotron.no_grad():
        g = y.grad_fn(tensotron.ones_like(y), None)
    assert g.sum() == y.numel()


@pytest.mark.unsanitized("starts an interpreter of its own")
def test_all_of_this_in_a_fresh_process():
    """Modules look for hooks, and call one by one, from the first hook of any module in the process on."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "not fresh"]
    done = subprocess.run(command, env={**os.environ, "TENSOTRON_FRESH": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.skipif("TENSOTRON_FRESH" not in os.environ, reason="needs a process in which no module had hooks")
def test_no_frames():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten())
    x, frames = tensotron.as_tensor(data(2, 1, 12, 12)), []
    net(x)
    sys.setprofile(lambda frame, event, arg: frames.append(frame.f_code.co_name) if event == "call" else None)
    try:
        net(x)
    finally:
        sys.setprofile(None)
    assert frames == ["forward"]  # that of Flatten


def test_a_relu_used_twice():
    def fn(lib, net, x):
        h = net[1](net[0](x))
        (net[2](h).sum() + (h * h).sum() + net[2](h).square().sum()).backward()
        return net[0].weight.grad.numpy()
    both(fn)


def test_graph_twice_and_second_derivatives():
    def twice(lib, net, x):
        y = net(x).sum()
        y.backward(retain_graph=True)
        y.backward()
        return net[0].weight.grad.numpy()

    def second(lib, net, x):
        g, = lib.autograd.grad((net(x) ** 2).sum(), net[0].weight, create_graph=True)
        return lib.autograd.grad((g ** 2).sum(), net[0].weight)[0].numpy()

    for fn in (twice, second):
        both(fn)


def test_a_result_changed_in_place():
    for lib in (torch, tensotron):
        net = lib.nn.Sequential(lib.nn.Conv2d(1, 4, 3), lib.nn.ReLU())
        y = net(lib.as_tensor(data(2, 1, 12, 12)))
        assert y._version == 0
        z = lib.nn.functional.max_pool2d(y, 2)
        with lib.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()

    def pooled(lib, net, x):
        y = net(x)
        y.data.zero_()  # unseen by the graph, and no part of it
        y.sum().backward()
        return net[0].weight.grad.numpy()
    both(pooled)


def test_a_gradient_that_somebody_keeps_is_not_written_to():
    x = tensotron.as_tensor(data(64, 128)).requires_grad_()
    g = tensotron.as_tensor(data(64, 128, seed=1))
    before = g.clone()
    kept = []
    y = F.relu(x)
    z = y * 1
    z.register_hook(kept.append)
    y.register_hook(lambda g: kept.append(g.detach()))
    z.backward(g)
    assert (g == before).all() and all((k == before).all() for k in kept)
    want = np.where(x.detach().numpy() > 0, before.numpy(), 0)
    assert (x.grad.numpy() == want).all()


def test_what_stands_in_the_way():
    x = tensotron.as_tensor(data(2, 1, 12, 12))
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2))
    calls = []

    class Conv(nn.Conv2d):
        def _conv_forward(self, input, weight, bias):
            calls.append("conv")
            return super()._conv_forward(input, weight, bias)

    class Relu(nn.ReLU):
        def forward(self, x):
            calls.append("relu")
            return super().forward(x)

    class Pool(nn.MaxPool2d):
        def forward(self, x):
            calls.append("pool")
            return super().forward(x)

    mixed = nn.Sequential(Conv(1, 4, 3), Relu(), Pool(2))
    mixed.load_state_dict(net.state_dict())
    assert (mixed(x) == net(x)).all() and calls == ["conv", "relu", "pool"]
    net[1].forward = lambda x: x - 1
    assert (net(x) == F.max_pool2d(net[0](x) - 1, 2)).all()
    del net[1].forward
    net[0]._conv_forward = lambda x, w, b: F.conv2d(x, w, b) * 2
    assert (net(x) == F.max_pool2d(F.relu(F.conv2d(x, net[0].weight, net[0].bias) * 2), 2)).all()


def test_errors_are_torchs():
    for shape in ((2, 1, 2, 2), (2, 3, 12, 12), (1, 12, 12), (2, 1, 3, 9), (12, 12), (0, 1, 12, 12)):
        said = []
        for lib in (torch, tensotron):
            net = lib.nn.Sequential(lib.nn.Conv2d(1, 4, 3), lib.nn.ReLU(), lib.nn.MaxPool2d(2))
            try:
                said.append(tuple(net(lib.as_tensor(data(*shape))).shape))
            except Exception as e:
                said.append(type(e))
        assert said[0] == said[1]


def test_replays_are_the_eager_bits():
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten())
    x = tensotron.as_tensor(data(4, 1, 16, 16))

    def step(x):
        net.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        return loss

    eager = [step(x).detach().numpy().tobytes()] + [p.grad.numpy().tobytes() for p in net.parameters()]
    compiled = tensotron.compile(step)
    for _ in range(3):
        replayed = [compiled(x).detach().numpy().tobytes()] + [p.grad.numpy().tobytes() for p in net.parameters()]
        assert replayed == eager


def test_bias_gradient_alone_and_with_the_weights():
    x, w = tensotron.as_tensor(data(3, 2, 9, 20)), tensotron.as_tensor(data(5, 2, 3, 3))
    grads = []
    for with_weight in (False, True):
        b = tensotron.zeros(5, requires_grad=True)
        F.conv2d(x, w.clone().requires_grad_(with_weight), b).square().sum().backward()
        grads.append(b.grad.numpy().tobytes())
    assert grads[0] == grads[1]
