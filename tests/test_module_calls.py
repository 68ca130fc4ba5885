"""Calls of modules: the paths without Python frames give what forward in Python gives, and are left where it matters."""

import gc
import pickle
import types
import weakref

import numpy as np
import pytest

import tensotron as t
from tensotron import nn
from tensotron.nn import functional as F


def same(a, b):
    return a.shape == b.shape and bool((a == b).all())


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2), nn.Sigmoid())


def by_hand(n, x):
    for m in n:
        x = type(m).forward(m, x)
    return x


def test_same_as_forward():
    n, x = net(), t.randn(5, 3, requires_grad=True)
    assert same(n(x), by_hand(n, x))
    n(x).sum().backward()
    assert all(p.grad is not None for p in n.parameters()) and x.grad is not None


@pytest.mark.parametrize("kind", [nn.Linear, nn.ReLU, nn.Tanh, nn.Sigmoid])
def test_forward_of_the_instance(kind):
    m = kind(3, 3) if kind is nn.Linear else kind()
    m(t.ones(1, 3))
    m.forward = lambda x: "mine"
    assert m(t.ones(1, 3)) == "mine"
    assert nn.Sequential(m)(t.ones(1, 3)) == "mine"
    del m.forward
    assert isinstance(m(t.ones(1, 3)), t.Tensor)


def test_forward_of_a_bound_method():
    m = nn.Linear(2, 2)
    m.forward = types.MethodType(lambda self, x: self.weight, m)
    assert m(t.ones(1, 2)) is m.weight


def test_subclass_and_class_changes():
    class Mine(nn.Linear):
        pass

    m, x = Mine(2, 2), t.ones(1, 2)
    assert same(m(x), F.linear(x, m.weight, m.bias))
    Mine.forward = lambda self, x: "mine"  # after the first call
    assert m(x) == "mine" and nn.Sequential(m)(x) == "mine"
    del Mine.forward
    assert isinstance(m(x), t.Tensor)
    Mine.__call__ = lambda self, x: "called"
    assert m(x) == "called" and nn.Sequential(m)(x) == "called"


def test_member_that_the_class_defines():
    class Half(nn.Linear):
        @property
        def weight(self):
            return self._parameters["weight"] * 0.5

        @weight.setter
        def weight(self, value):
            self.register_parameter("weight", value)

    class Plain(nn.Linear):
        pass

    x, m = t.ones(1, 2), Plain(2, 2)
    full = m(x)
    Plain.weight = property(lambda self: self._parameters["weight"] * 0.5)
    assert same(m(x), F.linear(x, m._parameters["weight"] * 0.5, m.bias)) and not same(m(x), full)


def test_getattribute_of_the_class():
    class Odd(nn.Linear):
        def __getattribute__(self, name):
            return None if name == "bias" else super().__getattribute__(name)

    m, x = nn.Linear(2, 2), t.ones(1, 2)
    m.__class__ = Odd
    assert same(m(x), F.linear(x, m.weight, None))


def test_replaced_operators(monkeypatch):
    n, x = net(), t.randn(1, 3)
    for space, name, module in ((F, "linear", n[0]), (F, "relu", n[1]), (t, "tanh", n[3]), (t, "sigmoid", n[5])):
        with monkeypatch.context() as patch:
            patch.setattr(space, name, lambda *args: name)
            assert module(x) == name
        assert isinstance(module(x), t.Tensor)


def test_members_set_to_none_or_deleted():
    m, x = nn.Linear(2, 2), t.ones(1, 2)
    m.bias = None
    assert same(m(x), F.linear(x, m.weight))
    del m.weight
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'weight'"):
        m(x)


def test_inplace_relu():
    x = t.tensor([-1.0, 1.0])
    assert nn.ReLU(inplace=True)(x) is x and x.tolist() == [0.0, 1.0]
    m = nn.ReLU()
    m.inplace = 1
    x = t.tensor([-1.0, 1.0])
    assert m(x) is x


def test_own_iteration_of_a_sequential():
    class Twice(nn.Sequential):
        def __iter__(self):
            return iter(list(self._modules.values()) * 2)

    n = Twice(nn.Tanh())
    assert same(n(t.ones(2)), t.ones(2).tanh().tanh())


def test_sequential_changed_while_it_runs():
    class Grows(nn.Module):
        def forward(self, x):
            n.append(nn.Tanh())
            return x

    n = nn.Sequential(Grows(), nn.Tanh())
    with pytest.raises(RuntimeError, match="dictionary changed size during iteration"):
        n(t.ones(1))


def test_sequential_in_itself():
    n = nn.Sequential()
    n.add_module("0", n)
    with pytest.raises(RecursionError):
        n(t.ones(1))


def test_numbers_of_arguments():
    m = nn.Linear(2, 2)
    x = t.ones(1, 2)
    assert same(m(input=x), m(x))
    with pytest.raises(TypeError, match="forward.* missing 1 required positional argument: 'input'"):
        m()
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        m(x, x)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        m(x, other=1)
    with pytest.raises(TypeError, match=r"linear\(\): argument 'input' \(position 1\) must be Tensor, not list"):
        m([1.0])
    with pytest.raises(TypeError, match=r"tanh\(\): argument 'input' \(position 1\) must be Tensor, not int"):
        nn.Tanh()(1)


def test_call_impl_of_a_class():
    class Wrapped(nn.Linear):
        def _call_impl(self, *args, **kwargs):
            return ("wrapped", super()._call_impl(*args, **kwargs))

    m, x = Wrapped(2, 2), t.ones(1, 2)
    assert m(x)[0] == m(input=x)[0] == nn.Sequential(m)(x)[0] == "wrapped"


def test_hooks_are_seen_from_the_first_on():
    n, x, seen = net(), t.ones(1, 3), []
    n(x)
    handle = n[2].register_forward_hook(lambda *a: seen.append(1))
    n(x)
    handle.remove()
    n(x)
    assert seen == [1]


def test_modules_are_plain_python_objects():
    m = nn.Linear(2, 2)
    assert nn.Module.__mro__[0] is nn.Module and callable(m) and m.__call__(t.ones(1, 2)).shape == (1, 2)
    other = pickle.loads(pickle.dumps(m))
    assert same(other(t.ones(1, 2)), m(t.ones(1, 2)))
    ref = weakref.ref(m)
    del m
    assert ref() is None

    class Both(nn.Module, dict):
        def forward(self, x):
            return x

    assert Both()(3) == 3


# ---- what else became short --------------------------------------------------------------------
def test_no_grad_as_decorator_and_class():
    @t.no_grad
    def f():
        return t.is_grad_enabled()

    @t.no_grad()
    def g():
        return t.is_grad_enabled()

    assert not f() and not g() and t.is_grad_enabled() and f.__name__ == "f"
    assert t.no_grad(orig_func=g).__name__ == "g" and isinstance(t.no_grad(None), t.no_grad)
    with pytest.raises(TypeError):
        t.no_grad(f, g)

    class Mine(t.no_grad):
        pass

    with Mine(), t.enable_grad():
        assert t.is_grad_enabled()


def test_freed_tensors_come_back_clean():
    x = t.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    x.note = "kept in a dict"
    v = t.ones(2, 3)[0]
    v.data.add_(1)
    ref = weakref.ref(v)
    del x, v
    assert ref() is None
    gc.collect()
    for _ in range(600):
        y = t.empty(3)
        assert not y.requires_grad and y.grad is None and y.is_leaf and y._base is None and y._version == 0 and not y.__dict__


def test_numpy_arrays_share_memory():
    x = t.arange(6.0).view(2, 3)
    a = x.t().numpy()
    assert a.shape == (3, 2) and a.flags.writeable and a.dtype == np.float32 and np.array_equal(a, x.numpy().T)
    a[0, 1] = 7
    assert x[1, 0].item() == 7
    del x
    assert a[0, 1] == 7
    for kind in ("float64", "int64", "int32", "uint8", "bool"):
        b = np.ones((2, 2), kind)
        y = t.as_tensor(b[:, 1])
        assert y.stride() == (2,) and y.numpy().dtype == kind
        y.zero_()
        assert not b[:, 1].any() and b[:, 0].all()
    swapped = np.ones(2, ">f4")
    with pytest.raises(ValueError, match="byte order"):
        t.as_tensor(swapped)


def test_clip_takes_lists_that_are_not_plain():
    x = t.ones(2, requires_grad=True)
    y = x * 1
    y.retain_grad()
    (y * t.ones(2)).sum().backward()
    assert abs(nn.utils.clip_grad_norm_([x, y], 1.0).item() - 2.0) < 1e-6
    assert abs(x.grad.norm().item() ** 2 + y.grad.norm().item() ** 2 - 1.0) < 1e-5
    with pytest.raises(AttributeError):
        nn.utils.clip_grad_norm_([x, 3], 1.0)


def test_members_in_any_order():
    x = t.randn(2, 3)
    modules = [nn.Linear(3, 3) for _ in range(200)]
    for k, m in enumerate(modules):
        for _ in range(k % 3):
            space = vars(m)
            moved = {name: space.pop(name) for name in list(space)[:: k % 5 + 1]}
            space.update(moved)
        assert same(m(x), F.linear(x, m.weight, m.bias))
        m.weight, m.bias = nn.Parameter(t.randn(3, 3)), None
        assert same(m(x), F.linear(x, m.weight))
    r = nn.ReLU()
    for inplace in (False, True, False):
        r.inplace = inplace
        y = x.clone()
        assert (r(y) is y) == inplace


def test_operator_replaced_after_many_calls(monkeypatch):
    m, x = nn.Linear(3, 3), t.ones(1, 3)
    for _ in range(200):
        m(x)
    with monkeypatch.context() as patch:
        patch.setattr(F, "linear", lambda *args: "mine")
        assert m(x) == "mine"
    F.one_more_name = 1
    assert isinstance(m(x), t.Tensor)
    del F.one_more_name
