"""Modules of tensotron.nn against PyTorch's: the same parameters after the same seed, the same repr, output, gradients."""

import copy
import pickle

import numpy as np
import pytest
import torch

import tensotron

X = np.random.RandomState(0).randn


def arrays(*shapes):
    return [X(*s).astype(np.float32) for s in shapes]


# (expression of a module, shapes of its inputs)
CASES = [
    ("Linear(3, 4)", [(2, 3)]),
    ("Linear(3, 4, bias=False)", [(5, 2, 3)]),
    ("Linear(3, 4, dtype=lib.float64)", None),
    ("Bilinear(3, 4, 2)", [(5, 3), (5, 4)]),
    ("Identity(1, x=2)", [(2, 3)]),
    ("Conv1d(4, 6, 3, padding=1, groups=2)", [(2, 4, 5)]),
    ("Conv1d(2, 3, 2, padding='same', padding_mode='circular')", [(2, 2, 5)]),
    ("Conv2d(2, 3, (3, 2), stride=2)", [(1, 2, 7, 6)]),
    ("Conv2d(2, 3, 3, padding=1, padding_mode='reflect', bias=False)", [(1, 2, 5, 5)]),
    ("Conv2d(2, 3, 3, padding='same', dilation=2)", [(1, 2, 5, 5)]),
    ("BatchNorm1d(3)", [(4, 3)]),
    ("BatchNorm1d(3, affine=False)", [(4, 3, 2)]),
    ("BatchNorm2d(3, momentum=None)", [(2, 3, 2, 2)]),
    ("BatchNorm2d(3, track_running_stats=False)", [(2, 3, 2, 2)]),
    ("BatchNorm3d(2)", [(2, 2, 2, 2, 2)]),
    ("LayerNorm(3)", [(4, 3)]),
    ("LayerNorm((2, 3), bias=False)", [(4, 2, 3)]),
    ("GroupNorm(2, 4)", [(2, 4, 3)]),
    ("RMSNorm(3)", [(4, 3)]),
    ("RMSNorm((2, 3), eps=1e-3, elementwise_affine=False)", [(4, 2, 3)]),
    ("MaxPool1d(2)", [(1, 2, 6)]),
    ("MaxPool2d((2, 1), stride=2, padding=(1, 0))", [(1, 2, 6, 6)]),
    ("AvgPool1d(2, ceil_mode=True)", [(1, 2, 5)]),
    ("AvgPool2d(2, count_include_pad=False, padding=1)", [(1, 2, 5, 5)]),
    ("AdaptiveAvgPool1d(2)", [(1, 2, 5)]),
    ("AdaptiveAvgPool2d((2, None))", [(1, 2, 5, 5)]),
    ("AdaptiveMaxPool1d(3)", [(1, 2, 5)]),
    ("AdaptiveMaxPool2d(2)", [(1, 2, 5, 5)]),
    ("Dropout(0.3)", [(20, 3)]),
    ("Dropout1d(0.3)", [(4, 5, 3)]),
    ("Dropout2d(0.3)", [(4, 5, 3, 2)]),
    ("Dropout3d(0.3)", [(4, 5, 3, 2, 1)]),
    ("AlphaDropout(0.3)", [(20, 3)]),
    ("FeatureAlphaDropout(0.3)", [(4, 5, 3)]),
    ("Flatten()", [(2, 3, 4)]),
    ("Unflatten(1, (2, -1))", [(2, 6)]),
    ("PReLU(3)", [(2, 3, 4)]),
    ("RReLU()", [(4, 5)]),
    ("Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Sequential(nn.Linear(3, 1, bias=False)))", [(4, 2)]),
    *[
        (f"{name}()", [(4, 6)])
        for name in "ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Sigmoid Tanh Softplus Softsign Hardtanh Hardswish "
        "Hardsigmoid LogSigmoid Softshrink Hardshrink Tanhshrink GLU".split()
    ],
    ("GELU(approximate='tanh')", [(4, 6)]),
    ("Threshold(0.1, 20)", [(4, 6)]),
    ("Softmax(dim=1)", [(4, 6)]),
    ("LogSoftmax(dim=-1)", [(4, 6)]),
    ("Softmin(dim=0)", [(4, 6)]),
    ("Softmax2d()", [(2, 4, 6, 1)]),
    *[(f"{name}(reduction='{r}')", [(4, 3), (4, 3)])
      for name in "MSELoss L1Loss SmoothL1Loss HuberLoss BCEWithLogitsLoss".split() for r in ("mean", "sum", "none")],
    ("SmoothL1Loss(beta=0.5)", [(4, 3), (4, 3)]),
    ("KLDivLoss(reduction='batchmean', log_target=True)", [(4, 3), (4, 3)]),
    ("MSELoss(size_average=False)", [(4, 3), (4, 3)]),
    ("L1Loss(reduce=False)", [(4, 3), (4, 3)]),
    ("InstanceNorm1d(3)", [(2, 3, 4)]),
    ("InstanceNorm2d(3, affine=True, track_running_stats=True)", [(2, 3, 2, 2)]),
    ("InstanceNorm3d(3)", [(3, 2, 2, 2)]),
    ("LocalResponseNorm(2)", [(2, 3, 4)]),
    ("LocalResponseNorm(3, k=2.0)", [(2, 5, 2, 2)]),
    ("LPPool1d(2, 3)", [(2, 3, 7)]),
    ("LPPool2d(3.0, (2, 3), stride=2, ceil_mode=True)", [(2, 3, 7, 7)]),
    ("ConstantPad1d((1, -1), 3.5)", [(2, 3, 4)]),
    ("ZeroPad2d(1)", [(2, 3, 4, 4)]),
    ("ReflectionPad2d((1, 2, 0, 1))", [(2, 3, 4, 4)]),
    ("ReplicationPad3d(1)", [(2, 3, 2, 2)]),
    ("CircularPad1d(2)", [(2, 3, 4)]),
    ("PixelShuffle(2)", [(1, 8, 3, 3)]),
    ("PixelUnshuffle(2)", [(1, 2, 4, 4)]),
    ("ChannelShuffle(2)", [(1, 4, 3, 3)]),
    ("CosineSimilarity()", [(3, 4), (3, 4)]),
    ("CosineSimilarity(dim=-1, eps=2.0)", [(3, 4), (4,)]),
    ("PairwiseDistance(p=1, keepdim=True)", [(3, 4), (3, 4)]),
    ("MarginRankingLoss(0.2)", [(4,), (4,), (4,)]),
    ("PoissonNLLLoss()", [(4, 3), (4, 3)]),
    ("TripletMarginLoss(p=1, swap=True)", [(4, 3), (4, 3), (4, 3)]),
    ("TripletMarginWithDistanceLoss(reduction='sum')", [(4, 3), (4, 3), (4, 3)]),
    ("MultiLabelSoftMarginLoss(lib.tensor([1.0, 2, 3]))", [(4, 3), (4, 3)]),
    ("ModuleList([nn.Linear(2, 3), nn.ReLU(), nn.ReLU(), nn.Linear(2, 3)])", None),
    ("ModuleDict({'a': nn.Linear(2, 3), 'b': nn.Sequential(nn.Tanh(), nn.Tanh())})", None),
    ("ParameterList([lib.ones(2), nn.Parameter(lib.ones(2, 3)), 5])", None),
    ("ParameterDict({'b': lib.ones(2), 'a': nn.Parameter(lib.ones(2, 3)), 'c': 'text'})", None),
    ("Embedding(5, 3)", None),
    ("Embedding(5, 3, padding_idx=-1, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True)", None),
]


def build(expression, lib):
    lib.manual_seed(3)
    return eval("nn." + expression, {"nn": lib.nn, "lib": lib})


def state(module):
    return {k: (str(v.dtype), v.numpy().tobytes()) for k, v in module.state_dict().items()}


@pytest.mark.filterwarnings("ignore:size_average")
@pytest.mark.parametrize("expression,shapes", CASES, ids=[c[0][:60] for c in CASES])
def test_module(expression, shapes):
    ours, theirs = build(expression, tensotron), build(expression, torch)
    assert repr(ours) == repr(theirs)
    assert state(ours) == state(theirs)  # bit for bit: initialisation draws torch's numbers
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()]
    assert tensotron.rand(1).item() == torch.rand(1).item()
    if shapes is None:
        return
    for training in (True, False):
        results = []
        inputs = arrays(*shapes)
        for module, lib in ((ours, tensotron), (theirs, torch)):
            module.train(training)
            lib.manual_seed(5)
            x = [lib.from_numpy(a.copy()).requires_grad_() for a in inputs]
            out = module(*x)
            module.zero_grad()
            if out.requires_grad:
                (out * lib.arange(out.numel()).reshape(out.shape)).sum().backward()
            results.append([out, *[t.grad for t in x], *[p.grad for p in module.parameters()], *module.buffers()])
        for got, want in zip(*results):
            assert (got is None) == (want is None)
            if want is not None:
                np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["CrossEntropyLoss", "NLLLoss"])
def test_class_losses(name, reduction):
    x, classes = X(4, 3).astype(np.float32), np.array([0, 2, -100, 1])
    weight = np.array([0.5, 1, 2], np.float32)
    out = []
    for lib in (tensotron, torch):
        loss = getattr(lib.nn, name)(weight=lib.from_numpy(weight), reduction=reduction)
        out.append(loss(lib.from_numpy(x), lib.from_numpy(classes)).numpy())
        assert list(loss.state_dict()) == ["weight"]
    np.testing.assert_allclose(*out, rtol=1e-6)


def test_margin_losses():
    x, y = X(4, 3).astype(np.float32), X(4, 3).astype(np.float32)
    sign, classes = np.array([1, -1, 1, -1], np.float32), np.array([0, 2, 1, 1])
    labels = np.array([[1, -1, 0], [2, 0, -1], [-1, 1, 1], [0, 1, 2]])
    for expression, target in [
        ("HingeEmbeddingLoss(0.5)(x, t)", sign.reshape(4, 1).repeat(3, 1)),
        ("CosineEmbeddingLoss(0.1)(x, y, t)", sign),
        ("CosineEmbeddingLoss()(x[0], y[0], t)", np.float32(-1)),
        ("CosineEmbeddingLoss()(x[0], y, t)", sign),
        ("GaussianNLLLoss(full=True)(x, y, t)", np.abs(x)),
        ("GaussianNLLLoss()(x, y, t)", x),
        ("SoftMarginLoss()(x, t)", sign.reshape(4, 1)),
        ("SoftMarginLoss()(y, x)", x),
        ("MultiMarginLoss(p=2, weight=w)(x, t)", classes),
        ("MultiMarginLoss(reduction='none')(x, t)", classes),
        ("MultiMarginLoss()(x[0], t)", np.array(2)),
        ("MultiMarginLoss()(x, t)", classes[:3]),
        ("MultiLabelMarginLoss(reduction='none')(x, t)", labels),
        ("MultiLabelMarginLoss()(x[0], t)", labels[1]),
        ("MultiLabelMarginLoss()(x, t)", labels[0]),
    ]:
        out = []
        for lib in (tensotron, torch):
            a, b, t = lib.from_numpy(x).requires_grad_(), lib.from_numpy(y), lib.tensor(target)
            try:
                loss = eval("nn." + expression, {"nn": lib.nn, "x": a, "y": b, "t": t, "w": lib.tensor([1.0, 2, 3])})
                loss.sum().backward()
                out.append((loss.detach().numpy(), a.grad.numpy()))
            except (RuntimeError, ValueError) as e:
                out.append(type(e))
        if isinstance(out[1], tuple):
            for got, want in zip(*out):
                np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)
        else:
            assert out[0] is out[1]


def test_bce_loss_saturates():
    x, y = np.array([0, 1, 0, 1, 0.25], np.float32), np.array([0, 1, 1, 0, 0.5], np.float32)
    out = []
    for lib in (tensotron, torch):
        a, b = lib.from_numpy(x).requires_grad_(), lib.from_numpy(y)
        loss = lib.nn.BCELoss(reduction="none")(a, b)
        loss.sum().backward()
        out.append([loss.detach().numpy(), a.grad.numpy()])
        with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
            lib.nn.BCELoss()(a * 2 + 1, b)
    np.testing.assert_allclose(out[0], out[1], rtol=1e-6)


def test_embedding_gradients():
    index = np.array([[0, 1, 1], [4, 2, 0]])
    for kwargs in ({}, {"padding_idx": 1}, {"scale_grad_by_freq": True}, {"max_norm": 0.5}):
        out = []
        for lib in (tensotron, torch):
            lib.manual_seed(0)
            table = lib.nn.Embedding(5, 3, **kwargs)
            y = table(lib.from_numpy(index))
            (y * lib.arange(18).reshape(2, 3, 3)).sum().backward()
            out.append([y.detach().numpy(), table.weight.grad.numpy(), table.weight.detach().numpy()])
        for got, want in zip(*out):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    frozen = tensotron.nn.Embedding.from_pretrained(tensotron.ones(2, 3))
    assert not frozen.weight.requires_grad and repr(frozen) == "Embedding(2, 3)"


SPECIAL = np.array([0, -0.0, 1, -1, 3, -3, 6, -6, 0.5, -0.5, 2.5, 30, -30, 100, np.inf, -np.inf, np.nan], np.float32)
SPECIAL = np.tile(SPECIAL, 32)  # whole vectors: PyTorch treats NaN differently in the rest


IN_PLACE = ["relu6(x)", "hardtanh(x, -0.5, 2.5)", "hardswish(x)", "hardsigmoid(x)", "threshold(x, 1, 7)",
            "rrelu(x, 0.1, 0.3)", "mish(x)"]
ONLY_NEW = ["hardshrink(x)", "softshrink(x)", "softsign(x)", "tanhshrink(x)", "logsigmoid(x)", "prelu(x, w)"]


@pytest.mark.parametrize("call", ONLY_NEW + IN_PLACE + [c[:-1] + ", inplace=True)" for c in IN_PLACE])
def test_activations_at_special_values(call):
    for dtype in (np.float32, np.float64):
        out = []
        for lib in (tensotron, torch):
            x = lib.from_numpy(SPECIAL.astype(dtype)).requires_grad_()
            w = lib.tensor([0.25], dtype=x.dtype, requires_grad=True)
            y = eval("F." + call, {"F": lib.nn.functional, "x": x * 1, "w": w})
            (g,) = lib.autograd.grad(y.sum(), x)
            out.append((y.detach().numpy(), g.numpy()))
        np.testing.assert_allclose(out[0], out[1], rtol=2e-6 if dtype == np.float32 else 1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", [(1, 2), (2, 0, 1, 1), (-1, 1, 0, -2), (4, 0), (1, 1, 1)])
def test_pad(mode, pad):
    x = X(2, 3, 4, 5).astype(np.float32)[0] if len(pad) == 2 and mode != "constant" else X(2, 3, 4, 5).astype(np.float32)

    def run(lib):
        t = lib.from_numpy(x.copy())[0:1].squeeze(0) if x.ndim == 3 else lib.from_numpy(x.copy())
        t.requires_grad_()
        y = lib.nn.functional.pad(t, pad, mode=mode)
        (y * lib.arange(y.numel()).reshape(y.shape)).sum().backward()
        return y.detach().numpy().tolist(), t.grad.numpy().tolist()

    try:
        want = run(torch)
    except Exception as e:
        with pytest.raises(type(e)):
            run(tensotron)
    else:
        assert run(tensotron) == want


def test_copies_and_pickles():
    def make(lib):
        lib.manual_seed(0)
        return lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3))

    m = make(tensotron)
    for twin in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert repr(twin) == repr(m) and state(twin) == state(m)
        assert twin[0].weight is not m[0].weight and twin[0].weight is twin[0]._parameters["weight"]
        twin[0].weight = tensotron.nn.Parameter(tensotron.zeros(3, 2))
        assert twin[0].weight.sum().item() == 0 and m[0].weight.abs().sum().item() > 0
    shallow = copy.copy(m[0])
    assert shallow._parameters is m[0]._parameters
    shallow.bias = None
    assert m[0].bias is None and shallow.bias is None
    p = tensotron.nn.Parameter(tensotron.ones(2), requires_grad=False)
    p.tag = 1
    q = pickle.loads(pickle.dumps(p))
    assert type(q) is tensotron.nn.Parameter and not q.requires_grad and q.tag == 1 and q.sum().item() == 2
    assert copy.deepcopy(p) is not p and type(copy.deepcopy(p)) is type(p)
