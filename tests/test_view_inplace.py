"""In-place ops that change a tensor's geometry: of tensors, and of views whose base has a history."""

import pytest
from _both import same

OPS = {
    "t_": lambda v: v.t_(),
    "transpose_": lambda v: v.transpose_(0, 1),
    "swapaxes_": lambda v: v.swapaxes_(-1, 0),
    "swapdims_": lambda v: v.swapdims_(0, 1),
    "unsqueeze_": lambda v: v.unsqueeze_(1),
    "squeeze_": lambda v: v.squeeze_(),
    "squeeze_ of a dimension": lambda v: v.squeeze_(0),
    "squeeze_ of dimensions": lambda v: v.squeeze_((0, 1)),
    "as_strided_": lambda v: v.as_strided_((2, 2), (1, 1)),
    "as_strided_ from an offset": lambda v: v.as_strided_((2,), (1,), 1),
}
VIEWS = {
    "itself": lambda b: b,
    "whole": lambda b: b[:],
    "part": lambda b: b[:2, 1:3],
    "row": lambda b: b[1:2],
    "transposed": lambda b: b.t(),
    "view of a view": lambda b: b.t()[1:],
}


def weights(lib, t):
    return (lib.arange(float(t.numel())) + 1).reshape(t.shape)


@pytest.mark.parametrize("then", ["nothing", "mul_", "base mul_"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("op", OPS)
def test_view_with_a_history(op, view, then):
    def run(lib):
        x = lib.arange(9.0).reshape(3, 3).requires_grad_()
        base = x * 1
        v = VIEWS[view](base)
        other = base[1]
        assert OPS[op](v) is v
        names = [type(v.grad_fn).__name__, type(base.grad_fn).__name__]
        if then == "mul_":
            v.mul_(3)
        elif then == "base mul_":
            base.mul_(3)
        names += [type(t.grad_fn).__name__ for t in (v, base, other)]
        (v * weights(lib, v)).sum().backward(retain_graph=True)
        first = x.grad.clone()
        x.grad = None
        ((base * weights(lib, base)).sum() + (other * other).sum()).backward()
        return names, v._version, base._version, tuple(v.stride()), v.detach(), first, x.grad

    same(run)


@pytest.mark.parametrize("op", OPS)
def test_refused(op):
    def leaf(lib):
        OPS[op](lib.ones(2, 2, requires_grad=True))

    def view_of_leaf(lib):
        OPS[op](lib.ones(2, 2, requires_grad=True)[:])

    def multi_view(lib):
        OPS[op]((lib.ones(2, 2, 2, requires_grad=True) * 1).unbind(0)[0])

    def saved(lib):
        x = lib.ones(2, 2, requires_grad=True) * 1
        y = x * x
        OPS[op](x[:])
        y.sum().backward()

    for fn in (leaf, view_of_leaf, multi_view, saved):
        same(fn)


@pytest.mark.parametrize("op", OPS)
def test_without_gradients(op):
    def run(lib):
        with lib.no_grad():
            x = lib.ones(2, 2, requires_grad=True)
            OPS[op](x)
            y = (lib.ones(2, 2, requires_grad=True) * 1)[:]
            OPS[op](y)
        z = lib.arange(4.0).reshape(2, 2)
        OPS[op](z[:])
        OPS[op](z)
        return x, x.requires_grad, x._version, y, y.requires_grad, z, z._version

    same(run)
