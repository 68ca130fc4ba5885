"""Rules of histories and of memory that programs rely on, each as in PyTorch: operators that assign, frozen leaves, kept
gradients, tensors that overlap."""

import pytest
import torch
from _both import outcome, same

import tensotron as tt

ASSIGNING = {
    "**=": [2, 2.0], "//=": [2, 2.5], "%=": [3, 2.5], "&=": [3], "|=": [8], "^=": [1], "+=": [1], "-=": [1], "*=": [2], "/=": [2],
}


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("operator", ASSIGNING)
def test_operators_that_assign_write_in_place(operator, dtype):
    def run(lib, number):
        x = lib.tensor([[0, 1, 1], [1, 0, 1]], dtype=getattr(lib, dtype))
        names = {"y": x[0]}
        exec(f"y {operator} number", {"number": number}, names)
        return names["y"]._base is x, x

    for number in ASSIGNING[operator]:
        got, want = (outcome(lambda lib: run(lib, number), lib) for lib in (tt, torch))
        assert got[:2] == want[:2]  # the result, or the class of what is raised


def test_assigning_something_else_is_refused():
    x = tt.ones(2)
    with pytest.raises(TypeError):
        x **= "a"


@pytest.mark.parametrize("op", ["eq_", "ne_", "lt_", "le_", "gt_", "ge_"])
@pytest.mark.parametrize("number", [True, False])
def test_comparison_in_place_ends_the_history(op, number):
    def run(lib):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1.5
        getattr(y, op)(2 if number else lib.ones(2))
        name = type(y.grad_fn).__name__
        y.sum().backward()
        return name, x.grad

    same(run)


def freeze(x):
    x.requires_grad_(False)


@pytest.mark.parametrize("how", [freeze, lambda x: x.detach_()])
def test_leaf_frozen_after_the_forward(how):
    def run(lib):
        x = lib.ones(2, requires_grad=True)
        y = x * 2
        how(x)
        y.sum().backward()
        return x.grad

    same(run)


def set_item(b):
    b[0] = 5.0


@pytest.mark.parametrize("change", [lambda b: b.mul_(3), set_item, lambda b: b[:2].mul_(3), lambda b: b.t_(), lambda b: None])
def test_retained_gradient_is_that_of_the_last_version(change):
    def run(lib):
        x = lib.ones(3, 2, requires_grad=True)
        b = x * 2
        b.retain_grad()
        change(b)
        (b * lib.arange(6.0).reshape(b.shape)).sum().backward()
        return b.grad, b.retains_grad, x.grad

    same(run)


def test_retained_gradients_add_up():
    def run(lib):
        y = lib.ones(3, requires_grad=True) * 2
        y.retain_grad()
        y.sum().backward(retain_graph=True)
        (y * 3).sum().backward()
        return y.grad

    same(run)


def test_gradient_of_a_hooked_tensor():
    def run(lib):
        x = lib.ones(3, requires_grad=True)
        y = x * 1
        y.register_hook(lambda g: g * 5)
        z = (y * 1).sum()
        return lib.autograd.grad(z, [y, x], retain_graph=True), lib.autograd.grad(z, y)

    same(run)


def test_view_made_without_grad_mode():
    def run(lib):
        y = lib.ones(3, requires_grad=True) * 2
        with lib.no_grad():
            v = y[0]
        v.register_hook(lambda g: None)
        for f in ("exp", "relu", "sigmoid", "abs"):
            getattr(v, f)().backward(create_graph=True)
        (v * v).backward(create_graph=True)
        return v.grad

    same(run)


@pytest.mark.parametrize("op", ["mul_", "div_", "pow_", "atan2_", "xlogy_", "add_", "addcmul_", "addcdiv_"])
def test_own_value_as_the_operand(op):
    def run(lib):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        getattr(y, op)(*[y] * (2 if op.startswith("addc") else 1))
        y.sum().backward()
        return x.grad

    got, want = outcome(run, tt), outcome(run, torch)
    assert got[:2] == want[:2]


OVERLAPS = [
    lambda lib, x: x.copy_(x.t()),
    lambda lib, x: x[1:].copy_(x[:-1]),
    lambda lib, x: lib.add(x[:-1], 1, out=x[1:]),
    lambda lib, x: lib.sin(x[:-1], out=x[1:]),
    lambda lib, x: lib.sin(x, out=x),
    lambda lib, x: x.copy_(x.view(3, 3)),
]


@pytest.mark.parametrize("i", range(len(OVERLAPS)))
def test_overlapping_tensors(i):
    same(lambda lib: OVERLAPS[i](lib, lib.arange(9.0).reshape(3, 3)).mul(64).round())


RULES = [
    lambda lib: lib.ones(3)[:2].detach_(),
    lambda lib: setattr(lib.ones(3, requires_grad=True) * 2, "requires_grad", True),
    lambda lib: lib.zeros(2, 3, 4).H,
    lambda lib: lib.zeros(3).H,
    lambda lib: lib.zeros(3).mT,
    lambda lib: lib.tensor(1.0).mT,
    lambda lib: lib.tensor(1.0).H,
    lambda lib: [lib.ones(1, 3).expand(2, 3).t_(), lib.ones(3).expand(2, 3).unsqueeze_(0)],
    lambda lib: lib.ones(3).expand(2, 3).transpose_(0, 1),
    lambda lib: lib.neg(lib.tensor([1]), out=lib.empty(1)),
    lambda lib: lib.abs(lib.tensor([1.0]), out=lib.empty(1, dtype=lib.float64)),
    lambda lib: type(lib.ones(2, requires_grad=True).log1p().grad_fn).__name__,
    lambda lib: hasattr(lib.Tensor, "isnan_"),
    lambda lib: [lib.tensor([3e9, 1.0]).sum(dtype=d) for d in (lib.int32, lib.int64)],
    lambda lib: [lib.tensor([float("inf"), 1.0]).sum(0, dtype=d) for d in (lib.int32, lib.uint8)],
    lambda lib: lib.tensor([3e9, 1.0]).prod(dtype=lib.int32),
    lambda lib: lib.nn.functional.huber_loss(lib.tensor([1.0, 3.0]), lib.zeros(2), weight=lib.tensor([1.0, 3.0])),
    lambda lib: lib.nn.functional.huber_loss(lib.tensor([1.0, 3.0]), lib.zeros(2), "sum", weight=lib.tensor([1.0, 3.0])),
]


@pytest.mark.parametrize("i", range(len(RULES)))
def test_rule(i):
    same(RULES[i])


def test_version_after_data_is_set():
    def run(lib):
        x = lib.ones(2)
        x.add_(1)
        x.data = lib.ones(2)
        return x._version

    same(run)


@pytest.mark.parametrize(
    "mode, amounts", [("circular", (0, 0)), ("circular", (0, -1)), ("reflect", (0, 0)), ("replicate", (0, 0))])
def test_padding_is_a_copy(mode, amounts):
    def run(lib):
        x = lib.arange(3.0).view(1, 1, 3)
        lib.nn.functional.pad(x, amounts, mode).add_(100)
        return x

    same(run)


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, -1, float("inf"), -float("inf")])
@pytest.mark.parametrize("value", [1e30, -1e-30, 0.0, -2.0])
def test_norm_along_dimensions_of_one_element(p, value):
    """Nothing is raised to a power that could overflow."""
    def run(lib):
        out = []
        for shape, dim, keepdim in (((2, 1), 1, False), ((1, 3), 0, True), ((1, 1), (0, 1), False), ((2, 1), -1, True)):
            x = lib.full(shape, value, requires_grad=True)
            y = x.norm(p, dim, keepdim)
            y.sum().backward()
            out += [y.detach(), x.grad]
        return out

    for got, want in zip(run(tt), run(torch)):
        assert (got is None) == (want is None)
        assert want is None or torch.allclose(torch.from_numpy(got.numpy()), want, 1e-6, 0, equal_nan=True)


@pytest.mark.parametrize("weights", [None, [2.0, 3.0, 1.0]])
def test_second_derivative_of_logits_at_zero(weights):
    def run(lib):
        x, t = lib.tensor([0.0, 0.5, -40.0], requires_grad=True), lib.tensor([0.2, 0.7, 1.0], requires_grad=True)
        loss = lib.nn.functional.binary_cross_entropy_with_logits(
            x, t, pos_weight=None if weights is None else lib.tensor(weights), reduction="sum")
        gx, gt = lib.autograd.grad(loss, [x, t], create_graph=True)
        second = lib.autograd.grad(gt.sum(), x, retain_graph=True) + lib.autograd.grad(gx.sum(), [x, t])
        return [gx.detach(), gt.detach(), *second]

    for got, want in zip(run(tt), run(torch)):
        assert torch.allclose(torch.from_numpy(got.numpy()), want, 1e-6, 1e-12)
