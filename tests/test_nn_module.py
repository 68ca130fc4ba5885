"""The behaviour of Module: registration, hooks, state dicts, modes, against PyTorch's."""

import gc
import warnings
import weakref
from collections import OrderedDict

import pytest
import torch
from _both import outcome, same

import tensotron
from tensotron import _epoch


def nets(lib):
    """A module class of the library with a bit of everything."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self, width=3):
            super().__init__()
            self.inner = nn.Linear(width, width)
            self.scale = nn.Parameter(lib.ones(width))
            self.register_buffer("offset", lib.zeros(width))
            self.register_buffer("cache", lib.zeros(1), persistent=False)
            self.absent = None

        def forward(self, x, *, gain=1.0):
            return self.inner(x) * self.scale * gain + self.offset

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = Block()
            self.blocks = nn.ModuleList([Block(), Block()])
            self.shared = self.a.inner
            self.table = nn.ParameterDict({"x": lib.ones(2)})
            self.register_parameter("none", None)

        def forward(self, x):
            for b in (self.a, *self.blocks):
                x = b(x)
            return self.shared(x)

    lib.manual_seed(0)
    return Block, Net


def both(fn):
    """fn(lib, Block, Net) gives the same plain data, or the same error, in both."""
    same(lambda lib: fn(lib, *nets(lib)))


def names(pairs):
    return [n for n, _ in pairs]


QUERIES = [
    lambda m: names(m.named_parameters()),
    lambda m: names(m.named_parameters(remove_duplicate=False)),
    lambda m: names(m.named_parameters(prefix="p", recurse=False)),
    lambda m: names(m.named_buffers()),
    lambda m: names(m.named_modules()),
    lambda m: names(m.named_modules(prefix="m", remove_duplicate=False)),
    lambda m: names(m.named_children()),
    lambda m: len(list(m.modules())),
    lambda m: len(list(m.parameters())),
    lambda m: len(list(m.parameters(recurse=False))),
    lambda m: list(m.state_dict()),
    lambda m: list(m.state_dict(prefix="q.")),
    lambda m: dict(m.state_dict()._metadata),
    lambda m: [v.requires_grad for v in m.state_dict(keep_vars=True).values()],
    lambda m: [v.requires_grad for v in m.state_dict().values()],
    lambda m: repr(m),
    lambda m: [n for n in dir(m) if n in ("a", "blocks", "none", "forward", "offset", "training")],
    lambda m: [n for n in dir(m.blocks) if n.isdigit()],
    lambda m: m.a.absent,
    lambda m: m.none,
    lambda m: m.nothing,
    lambda m: m.get_submodule("blocks.1.inner").in_features,
    lambda m: m.get_submodule("blocks.2"),
    lambda m: m.get_submodule("a.scale"),
    lambda m: m.get_submodule("") is m,
    lambda m: tuple(m.get_parameter("blocks.0.inner.weight").shape),
    lambda m: m.get_parameter("blocks.0.offset"),
    lambda m: m.get_parameter("blocks.0.other"),
    lambda m: tuple(m.get_buffer("a.offset").shape),
    lambda m: m.get_buffer("a.scale"),
    lambda m: [x.training for x in m.train(False).modules()],
    lambda m: [x.training for x in m.eval().train().modules()],
    lambda m: m.train(1),
    lambda m: [p.requires_grad for p in m.requires_grad_(False).parameters()],
    lambda m: [str(p.dtype).split(".")[1] for p in (*m.double().parameters(), *m.buffers())],
    lambda m: [str(p.dtype).split(".")[1] for p in m.double().float().parameters()],
    lambda m: sorted(m._modules) + sorted(m._parameters) + sorted(m.a._buffers) + sorted(m.a._non_persistent_buffers_set),
    lambda m: sorted(m.a.__getstate__()),
]


@pytest.mark.parametrize("i", range(len(QUERIES)))
def test_query(i):
    both(lambda lib, Block, Net: QUERIES[i](Net()))


def statement(text):
    def run(lib, Block, Net):
        m = Net()
        scope = {"m": m, "lib": lib, "nn": lib.nn, "Block": Block, "OrderedDict": OrderedDict, "P": lib.nn.Parameter}
        exec(text, scope)
        return [names(m.named_parameters()), names(m.named_buffers()), names(m.named_modules()), list(m.state_dict()),
                scope.get("out"), sorted(m.a.__getstate__())]

    return run


@pytest.mark.parametrize("text", [
    "m.a.scale = None",
    "m.a.scale = lib.ones(3)",
    "m.a.scale = 5",
    "m.a.scale = P(lib.ones(4)); out = m.a.scale",
    "m.a.offset = lib.ones(2); out = m.a.offset",
    "m.a.offset = None; out = m.a.offset",
    "m.a.offset = 3",
    "m.a.offset = P(lib.ones(2)); out = m.a.offset",
    "m.a.inner = None; out = m.a.inner",
    "m.a.inner = 3",
    "m.a.inner = lib.ones(2)",
    "m.a.inner = P(lib.ones(2)); out = m.a.inner",
    "m.a.scale = Block()",
    "m.a.absent = P(lib.ones(2)); out = m.a.absent",
    "m.a.absent = nn.Tanh(); out = repr(m.a.absent)",
    "m.a.absent = 7; out = m.a.absent",
    "m.a.extra = nn.Buffer(lib.ones(2)); out = m.a.extra",
    "m.a.extra = nn.Buffer(lib.ones(2), persistent=False); out = m.a.extra",
    "m.a.absent = nn.Buffer(lib.ones(2))",
    "del m.a.scale",
    "del m.a.offset",
    "del m.a.cache",
    "del m.a.inner",
    "del m.a.absent",
    "del m.a.nothing",
    "del m.a.scale; out = hasattr(m.a, 'scale')",
    "m.a._parameters['scale'] = P(lib.zeros(2)); out = m.a.scale",
    "del m.a._parameters['scale']; out = hasattr(m.a, 'scale')",
    "m.a._parameters.pop('scale'); out = hasattr(m.a, 'scale')",
    "m.a._parameters.clear(); out = hasattr(m.a, 'scale')",
    "m.a._parameters = {}; out = hasattr(m.a, 'scale')",
    "m.a._parameters.update(scale=P(lib.zeros(1)), more=P(lib.zeros(1))); out = (m.a.scale, m.a.more)",
    "m.a._parameters.setdefault('more', P(lib.zeros(1))); out = m.a.more",
    "m.a._buffers['offset'] = lib.ones(7); out = m.a.offset",
    "m.a._modules['inner'] = nn.Tanh(); out = repr(m.a.inner)",
    "m.a._modules.popitem(); out = hasattr(m.a, 'inner')",
    "w = m.a._parameters.pop('scale'); m.a.scale = w * 2; out = m.a.scale",
    "m.a.register_parameter('scale', P(lib.zeros(1))); out = m.a.scale",
    "m.a.register_parameter('offset', P(lib.zeros(1)))",
    "m.a.register_parameter('a.b', P(lib.zeros(1)))",
    "m.a.register_parameter('', P(lib.zeros(1)))",
    "m.a.register_parameter(3, P(lib.zeros(1)))",
    "m.a.register_parameter('q', lib.zeros(1))",
    "m.a.register_parameter('q', (P(lib.zeros(1)) * 2))",
    "m.a.register_parameter('forward', P(lib.zeros(1)))",
    "m.a.register_buffer('q', 5)",
    "m.a.register_buffer('q', None); out = m.a.q",
    "m.a.register_buffer('scale', lib.ones(1))",
    "m.a.register_buffer('offset', lib.ones(1), persistent=False)",
    "m.a.register_buffer('cache', lib.ones(1))",
    "m.a.register_buffer('a.b', lib.ones(1))",
    "m.a.register_buffer('', lib.ones(1))",
    "m.a.register_buffer(1, lib.ones(1))",
    "m.a.add_module('a.b', nn.Tanh())",
    "m.a.add_module('', nn.Tanh())",
    "m.a.add_module(1, nn.Tanh())",
    "m.a.add_module('scale', nn.Tanh())",
    "m.a.add_module('q', 5)",
    "m.a.register_module('q', None); out = repr(m.a)",
    "m.set_submodule('blocks.0', nn.Tanh())",
    "m.set_submodule('blocks.7', nn.Tanh())",
    "m.set_submodule('blocks.7', nn.Tanh(), strict=True)",
    "m.set_submodule('a.scale', nn.Tanh())",
    "m.set_submodule('', nn.Tanh())",
    "m.set_submodule('a', 5)",
    "m.__init__(); out = hasattr(m, 'a')",
    "Block(3, 4)",
    "nn.Module(3)",
    "nn.Module(x=3)",
    "nn.Module()(3)",
    "m.blocks.append(nn.Tanh()); m.blocks.insert(1, nn.ReLU()); out = repr(m.blocks)",
    "out = repr(m.blocks[0:1]); del m.blocks[0]; m.blocks[-1] = nn.Tanh()",
    "m.blocks += [nn.Tanh()]; out = repr(m.blocks + [nn.ReLU()]), len(m.blocks), repr(m.blocks.pop(-1))",
    "m.blocks[3]",
    "m.blocks.extend(3)",
    "m.blocks['0']",
    "s = nn.Sequential(OrderedDict(a=nn.Tanh(), b=nn.ReLU())); s[1] = nn.ELU(); out = repr(s), repr(s.a), repr(s[-2:])",
    "s = nn.Sequential(OrderedDict([(1, nn.Tanh())]))",
    "s = nn.Sequential(nn.Tanh()); s += s",
    "s = nn.Sequential(nn.Tanh(), nn.ReLU()); s += nn.Sequential(nn.ReLU()); out = repr(s * 2)",
    "s = nn.Sequential(nn.Tanh(), nn.ReLU()); s.append(nn.ELU()); s.insert(-1, nn.SELU()); out = repr(s)",
    "s = nn.Sequential(nn.Tanh(), nn.ReLU()); s *= 3; del s[1:3]; out = repr(s), repr(s.pop(0)), repr(2 * s)",
    "nn.Sequential(nn.Tanh()) + [1]",
    "nn.Sequential(nn.Tanh()) * 1.5",
    "nn.Sequential(nn.Tanh()) * 0",
    "nn.Sequential(3)",
    "nn.Sequential(nn.Tanh()).insert(5, nn.Tanh())",
    "nn.Sequential(nn.Tanh()).insert(0, 5)",
    "d = nn.ModuleDict([['b', nn.Tanh()], ('a', nn.ReLU())]); d['c'] = nn.ELU(); out = repr(d), d.pop('b') and list(d), 'a' in d",
    "d = nn.ModuleDict({'b': nn.Tanh()}); d.update({'a': nn.Tanh()}); d.clear(); out = len(d)",
    "nn.ModuleDict().update(5)",
    "nn.ModuleDict().update([5])",
    "nn.ModuleDict().update([(1, 2, 3)])",
    "nn.ModuleDict({'keys': nn.Tanh()})",
    "p = nn.ParameterList([lib.ones(1), lib.zeros(2)]); p.append(3); p[0] = lib.ones(3); out = repr(p[::-1]), repr(p), len(p)",
    "nn.ParameterList(lib.ones(2))",
    "nn.ParameterList()()",
    "p = nn.ParameterDict([('b', lib.ones(1)), ('a', 3)]); out = list(p.items()), p.pop('b'), repr(p), p.get('x', 4)",
    "p = nn.ParameterDict({'b': lib.ones(1)}) | nn.ParameterDict({'a': lib.ones(1)}); out = repr(p), p.popitem()",
    "p = nn.ParameterDict({'b': lib.ones(1)}); p.setdefault('c'); out = repr(p), list(reversed(p))",
    "p = nn.ParameterDict(); p[3] = 4",
    "p = nn.ParameterDict().fromkeys(['a', 'b'], 1); p.clear(); out = len(p)",
    "m.a.to(lib.int64)",
    "m.a.to('cpu', lib.float64); out = str(m.a.scale.dtype).split('.')[1]",
    "m.a.to(lib.float64, non_blocking=True); out = str(m.a.scale.dtype).split('.')[1]",
    "m.a.to(lib.ones(1, dtype=lib.float64)); out = str(m.a.scale.dtype).split('.')[1]",
    "m.a.to(dtype=lib.float64, device='cpu'); out = str(m.a.scale.dtype).split('.')[1]",
    "m.a(lib.ones(2, 3)).sum().backward(); p = m.a.scale; m.a.double(); out = m.a.scale is p, str(p.grad.dtype).split('.')[1]",
    "m.a(lib.ones(2, 3)).sum().backward(); m.a.zero_grad(False); out = m.a.scale.grad",
    "m.a(lib.ones(2, 3)).sum().backward(); m.a.zero_grad(); out = m.a.scale.grad",
    "m.load_state_dict({})",
    "m.load_state_dict(5)",
    "m.a.load_state_dict({'scale': lib.ones(3), 'wrong': lib.ones(1), 'inner.w': lib.ones(1), 'x.y': 1})",
    "out = repr(m.a.load_state_dict({'scale': lib.ones(3), 'wrong': lib.ones(1)}, strict=False)), m.a.scale",
    "m.a.load_state_dict({**m.a.state_dict(), 'scale': lib.ones(4)}, strict=False)",
    "m.a.load_state_dict({**m.a.state_dict(), 'scale': 5}, strict=False)",
    "out = repr(m.a.load_state_dict(m.a.state_dict())), tuple(m.a.load_state_dict(m.a.state_dict()))",
    "s = lib.ones(3) * 2; m.a.load_state_dict({'scale': s}, strict=False, assign=True); out = type(m.a.scale).__name__",
    "s = nn.Linear(1, 1).state_dict(); s['bias'] = s['bias'][0]; nn.Linear(1, 1).load_state_dict(s)",
    "m.a.forward = lambda x: 5; out = m.a(3)",
    "nn.utils.vector_to_parameters(lib.arange(6.0), [m.a.scale, m.blocks[0].scale]); out = m.a.scale",
    "out = nn.utils.parameters_to_vector([m.a.scale])",
    "nn.utils.vector_to_parameters(3, [m.a.scale])",
    "out = nn.Parameter(lib.ones(2)), nn.Parameter(lib.arange(3), requires_grad=False), nn.Parameter()",
    "nn.Parameter(lib.arange(3))",
    "nn.Parameter([1.0])",
    "out = repr(nn.Parameter(lib.ones(2, 2))), repr(nn.Parameter(lib.ones(2), False)), isinstance(lib.ones(1), P)",
    "x = lib.ones(2, requires_grad=True); p = P(x); p.data.fill_(3); out = x, p.is_leaf, p.grad_fn, type(p + 1).__name__",
])
def test_statement(text):
    both(statement(text))


def test_before_init():
    for line in ("self.p = nn.Parameter(lib.ones(1))", "self.m = nn.Tanh()", "self.b = nn.Buffer(lib.ones(1))",
                 "self.register_parameter('p', None)", "self.register_buffer('p', None)", "self.x = 5"):
        def run(lib, line=line):
            class M(lib.nn.Module):
                def __init__(self):
                    exec(line, {"self": self, "nn": lib.nn, "lib": lib})
                    super().__init__()

            return type(M()).__name__

        same(run)


def log_of_hooks(lib, Block, Net, register, backward=False, call=None):
    block, log = Block(), []
    handles = register(block, log)
    x = lib.ones(2, 3, requires_grad=True)
    for _ in range(2):
        try:
            y = block(x) if call is None else call(block, x)
            log.append(y if not backward else "forward")
            if backward:
                y.sum().backward()
                log.append(x.grad)
        except Exception as e:
            log.append((type(e).__name__, str(e)))
        for h in handles:
            h.remove()
    return log


def returning(log, name, value=None):
    def hook(module, *args):
        log.append((name, [[t for t in a if t is not None] if isinstance(a, tuple) else a for a in args]))
        return value(*args) if value else None

    return hook


FORWARD = [
    lambda m, log: [m.register_forward_pre_hook(returning(log, "pre")), m.register_forward_hook(returning(log, "post"))],
    lambda m, log: [m.register_forward_pre_hook(returning(log, "pre", lambda a: a[0] * 2))],
    lambda m, log: [m.register_forward_pre_hook(returning(log, "pre", lambda a: (a[0] * 2,)))],
    lambda m, log: [m.register_forward_hook(returning(log, "post", lambda a, o: o * 2))],
    lambda m, log: [m.register_forward_hook(returning(log, str(i)), prepend=i > 1) for i in range(4)],
    lambda m, log: [m.register_forward_pre_hook(returning(log, str(i)), prepend=i > 1) for i in range(4)],
    lambda m, log: [m.register_forward_pre_hook(
        returning(log, "kw", lambda a, k: (a, {"gain": 3.0})), with_kwargs=True)],
    lambda m, log: [m.register_forward_pre_hook(returning(log, "kw", lambda a, k: 5), with_kwargs=True)],
    lambda m, log: [m.register_forward_hook(returning(log, "kw", lambda a, k, o: o + 1), with_kwargs=True)],
    lambda m, log: [m.register_forward_hook(returning(log, "always"), always_call=True),
                    m.register_forward_hook(returning(log, "raises", lambda a, o: 1 / 0)),
                    m.register_forward_hook(returning(log, "after")),
                    m.register_forward_hook(returning(log, "always too"), always_call=True, with_kwargs=True)],
]


@pytest.mark.parametrize("i", range(len(FORWARD)))
def test_forward_hooks(i):
    both(lambda *a: log_of_hooks(*a, FORWARD[i]))
    both(lambda *a: log_of_hooks(*a, FORWARD[i], call=lambda m, x: m(x, gain=2.0)))
    both(lambda *a: log_of_hooks(*a, FORWARD[i], call=lambda m, x: m()))


BACKWARD = [
    lambda m, log: [m.register_full_backward_hook(returning(log, "back"))],
    lambda m, log: [m.register_full_backward_pre_hook(returning(log, "pre"))],
    lambda m, log: [m.register_full_backward_pre_hook(returning(log, "pre", lambda g: (g[0] * 2,))),
                    m.register_full_backward_hook(returning(log, "back", lambda gi, go: (gi[0] * 3,)))],
    lambda m, log: [m.register_full_backward_hook(returning(log, "wrong", lambda gi, go: (1, 2)))],
    lambda m, log: [m.register_full_backward_pre_hook(returning(log, "wrong", lambda go: (1, 2)))],
    lambda m, log: [m.register_full_backward_hook(returning(log, str(i)), prepend=i > 1) for i in range(4)],
    lambda m, log: [m.register_full_backward_hook(returning(log, "full")), m.register_backward_hook(print)],
    lambda m, log: [m.register_backward_hook(returning(log, "regular")), m.register_full_backward_hook(print)],
    lambda m, log: [m.inner.register_full_backward_hook(returning(log, "inner"))],
]


@pytest.mark.parametrize("i", range(len(BACKWARD)))
def test_backward_hooks(i):
    both(lambda *a: log_of_hooks(*a, BACKWARD[i], backward=True))
    both(lambda *a: log_of_hooks(*a, BACKWARD[i], backward=True, call=lambda m, x: m(x.detach())))


def test_global_hooks():
    def run(lib):
        from importlib import import_module

        where = import_module(lib.__name__ + ".nn.modules.module")
        log = []
        handles = [
            where.register_module_forward_pre_hook(lambda m, a: log.append(("pre", type(m).__name__))),
            where.register_module_forward_hook(lambda m, a, o: log.append(("post", type(m).__name__))),
            where.register_module_full_backward_pre_hook(lambda m, go: log.append(("bpre", type(m).__name__))),
            where.register_module_full_backward_hook(lambda m, gi, go: log.append(("back", type(m).__name__))),
            where.register_module_parameter_registration_hook(lambda m, n, p: log.append((n, tuple(p.shape)))),
            where.register_module_module_registration_hook(lambda m, n, s: log.append((n, type(s).__name__))),
            where.register_module_buffer_registration_hook(lambda m, n, b: log.append((n, b))),
        ]
        try:
            net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Tanh())
            net.register_buffer("b", None)
            net(lib.ones(1, 2, requires_grad=True)).sum().backward()
        finally:
            for h in handles:
                h.remove()
        net(lib.ones(1, 2))
        return log

    same(run)


def test_state_dict_hooks():
    def run(lib, Block, Net):
        m, log = Block(), []
        m.register_state_dict_pre_hook(lambda mod, prefix, keep: log.append((prefix, keep)))
        m.register_state_dict_post_hook(lambda mod, d, prefix, meta: d.pop(prefix + "offset") and None)
        m.inner._register_state_dict_hook(lambda mod, d, prefix, meta: {"ignored": 1})
        m.register_load_state_dict_pre_hook(lambda mod, d, *rest: log.append((type(mod).__name__, sorted(d), rest)))
        m._register_load_state_dict_pre_hook(lambda d, *rest: d.setdefault("offset", lib.ones(3)))
        m.register_load_state_dict_post_hook(lambda mod, keys: log.append(repr(keys)) or keys.unexpected_keys.clear())
        d = m.state_dict(prefix="p.")
        log.append(list(d))
        d = m.state_dict()
        d["surprise"] = lib.ones(1)
        log.append(repr(m.load_state_dict(d)))
        m.register_load_state_dict_post_hook(lambda mod, keys: 5)
        log.append(outcome(lambda _: m.load_state_dict(d), lib))
        m.register_state_dict_post_hook(lambda *a: 5)
        log.append(outcome(lambda _: m.state_dict(), lib))
        return log

    both(run)


def test_extra_state():
    def run(lib):
        class M(lib.nn.Module):
            n = 0

            def get_extra_state(self):
                return {"n": self.n}

            def set_extra_state(self, state):
                self.n = state["n"]

        a, b = M(), M()
        a.n = 5
        b.load_state_dict(a.state_dict())
        return [a.state_dict(), b.n, outcome(lambda _: b.load_state_dict({}), lib),
                outcome(lambda _: lib.nn.Tanh().load_state_dict(a.state_dict()), lib),
                outcome(lambda _: lib.nn.Tanh().get_extra_state(), lib)]

    same(run)


@pytest.mark.parametrize("kwargs", [{}, {"norm_type": 1}, {"norm_type": float("inf")}, {"norm_type": 3.0}], ids=str)
def test_clipping(kwargs):
    def run(lib):
        p = [lib.nn.Parameter(lib.arange(n, dtype=d)) for n, d in ((4.0, lib.float32), (3.0, lib.float64), (5.0, lib.float32))]
        out = [lib.nn.utils.clip_grad_norm_(p, 1.0, **kwargs)]
        for q in p[:2]:
            q.grad = q.detach() * 2
        out += [lib.nn.utils.get_total_norm([q.grad for q in p[:2]], **kwargs)]
        out += [lib.nn.utils.clip_grad_norm_(iter(p), 3.0, **kwargs), p[0].grad, p[1].grad]
        lib.nn.utils.clip_grad_value_(p, 0.25)
        out += [p[0].grad, p[1].grad, p[2].grad]
        p[0].grad[0] = float("nan")
        out += [outcome(lambda _: lib.nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True), lib)]
        return [o.tolist() if hasattr(o, "tolist") else o for o in out]

    got, want = run(tensotron), run(torch)
    assert got[-1] == want[-1]
    for g, w in zip(got[:-1], want[:-1]):
        assert g is None if w is None else g == pytest.approx(w, rel=1e-6, nan_ok=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        tensotron.nn.utils.clip_grad_norm_((p for p in ()), 1.0)
    assert "empty generator" in str(seen[0].message) and seen[0].filename == __file__


def test_modules_are_freed_without_the_collector():
    _, Net = nets(tensotron)
    gc.collect()
    gc.disable()
    try:
        m = Net()
        m(tensotron.ones(1, 3)).sum().backward()
        refs = [weakref.ref(x) for x in m.modules()] + [weakref.ref(p) for p in m.parameters()]
        del m
        assert not any(r() is not None for r in refs)
    finally:
        gc.enable()


def test_attributes_follow_members():
    """Members are found in the instance's dict, so that an attribute costs one look-up."""
    m = tensotron.nn.Linear(2, 2)
    assert vars(m)["weight"] is m._parameters["weight"]

    class Shadowed(tensotron.nn.Module):
        layer = "of the class"

        def __init__(self):
            super().__init__()
            self.layer = tensotron.nn.Tanh()

    assert Shadowed().layer == "of the class"  # as in PyTorch

    class Wrapped(tensotron.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

    assert Wrapped(m).in_features == 2
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'nothing'"):
        _ = Wrapped(m).nothing


def test_changes_are_counted():
    m = tensotron.nn.Sequential(tensotron.nn.Linear(2, 2), tensotron.nn.Dropout(0.1))
    p = m[0].weight
    changes = [
        lambda: setattr(m[1], "p", 0.2),
        lambda: setattr(m, "extra", tensotron.nn.Tanh()),
        lambda: m[0].register_buffer("b", None),
        lambda: setattr(m[0], "bias", None),
        lambda: m[0]._buffers.pop("b"),
        lambda: m.register_forward_hook(lambda *a: None).remove(),
        lambda: m.load_state_dict(m.state_dict()),
        lambda: m.double(),
        lambda: delattr(m, "extra"),
    ]
    for change in changes:
        before = _epoch.count()
        change()
        assert _epoch.count() > before
    before = _epoch.count()
    m(tensotron.ones(1, 2, dtype=tensotron.float64))
    m.eval()
    m[0].weight = p
    assert m[0].weight is p


def test_names_not_supported_yet():
    assert not hasattr(tensotron.nn, "LSTM")
    with pytest.raises(NotImplementedError, match=r"tensotron\.nn\.LSTM"):
        _ = tensotron.nn.LSTM
    with pytest.raises(AttributeError, match="has no attribute 'Lstm'"):
        _ = tensotron.nn.Lstm
    for name in dir(torch.nn):
        if name[0].isupper():
            try:
                getattr(tensotron.nn, name)
            except NotImplementedError:
                pass
