"""Subscripts, gathers, scatters, masks and joins against PyTorch: values, gradients, names, messages."""

import random
import warnings

import numpy as np
import pytest
import torch
from _both import same

import tensotron

GET = """
x[0] | x[-1] | x[3] | x[-4] | x[0, 4] | x[0, 0, 0] | x[1:] | x[::2] | x[5:2] | x[-2:, 1:3] | x[::-1] | x[::0] | x[0:1.5]
x[None] | x[..., None] | x[:, None, 0] | x[...] | x[()] | x[:] | x[..., 0] | x[True] | x[False] | x[True, 0] | x[0.5]
x[[0, 1]] | x[[[0, 1], [0, 1]]] | x[[slice(None), 0]] | x[[True, False, True]] | x[[True]] | x[[]] | x[range(2)]
x[np.array([0, 2])] | x[np.array([True, False, True])] | x[np.int64(1)] | x[np.float32(1)] | x[{}] | x[1, 'a']
x[i([0, -1])] | x[i([0, 3])] | x[i(1)] | x[i(True)] | x[i([1.5])] | x[i([[0], [1]]), i([2, 0])]
x[i([0, 1]), i([0, 1, 2])] | x[x > 3] | x[x > 99] | x[x[:, 0] > 3] | x[i([True, False])] | x[:, i([True, False])]
x[i([0]), ..., i([1])] | y[:, i([0]), :, i([1])] | y[i([0, 1]), 0] | y[:, 0, :, i([0, 1])] | y[0, :, i([0, 1])]
y[y[:, :, 0, 0] == 0, 1] | y[None, i([1]), ..., 2] | z[0] | z[:] | z[...] | z[None] | z[i(0)] | z[True] | e[i([0])]
e[e[:, 0].long()] | x[2**70] | x[np.array(1)] | x[0, ..., 0]
""".replace("\n", "|").split("|")

SET = """
x[0] = 1 | x[0] = L.ones(1, 1, 4) | x[0] = 'a' | x[0] = [1, 2] | x[0] = None | x[5] = 1 | x[i([5])] = 1
x[:, 1:3] = L.ones(2) | x[i([0, 1])] = L.ones(4).long() | x[i([0, 1])] = 5 | x[i([0, 0])] = L.arange(8.).reshape(2, 4)
x[x > 3] = 0 | x[x > 3] = L.zeros(3) | x[i([0, 1])] = L.ones(3) | x[i([0, 1])] = L.ones(1, 1, 2, 4) | x[True] = 7
x[False] = 7 | x[...] = 3 | x[None] = 3 | x[()] = 3 | x[0] = x[1] | x[1:] = x[:-1] | x[x > 3] = x[x > 3] * 2
x[:, i([1, 0])] = x[:, i([0, 1])] | x[::2, ::2] = 0 | x[0] = L.ones(2, 4) | x[x[:, 0] > 3] = L.ones(1).double()
x[i([True, False, True]), 1:3] = -1
""".replace("\n", "|").split("|")

CALLS = """
x.index_select(0, i([0, 2])) | x.index_select(0, i([[0]])) | x.index_select(0, i(1)) | x.index_select(2, i([0]))
x.index_select(0, i([3])) | x.index_select(0, i([0.])) | z.index_select(0, i([0])) | z.index_select(0, i([0, 0]))
x.gather(0, i([[0, 1, 2, 1]])) | x.gather(1, i([[3], [0]])) | x.gather(0, i([0])) | x.gather(0, i([[0, 1, 2, 1, 0]]))
x.gather(0, i([[0, 1, 2, 3]])) | x.gather(0, i([[0.]])) | z.gather(0, i([0, 0])) | x.scatter(0, i([[0, 1, 2, 1]]), 1.5)
x.scatter(0, i([[0, 0, 0, 0], [0, 0, 0, 0]]), L.arange(8.).reshape(2, 4)) | x.scatter(0, i([[9]]), 1)
x.scatter(0, i([[0, 1]]), L.ones(1, 1)) | x.scatter(0, i([[0]]), L.ones(1, 1).long())
x.scatter(0, i([[0]]), 2., reduce='add') | x.scatter(0, i([[0]]), 2., reduce='mul')
x.scatter_add(0, i([[0, 1, 2, 1], [0, 0, 0, 0]]), L.ones(2, 4)) | x.scatter_add(0, i([[0]]), L.ones(1))
x.index_add(0, i([0, 0]), L.ones(2, 4)) | x.index_add(0, i([0, 0]), L.ones(2, 4), alpha=2)
x.index_add(0, i([0, 0]), L.ones(3, 4)) | x.index_copy(0, i([0, 1]), L.ones(2, 4)) | x.index_fill(0, i([-1]), 5)
x.index_fill(0, i([4]), 5.) | x.index_put((i([0, 0]),), L.ones(2, 4), True) | x.index_put((i([0]), i([1])), L.ones(1))
x.index_put((i([0]),), L.ones(3)) | x.masked_select(x > 3) | x.masked_select(x) | x.masked_scatter(x > 3, L.arange(20.))
x.masked_scatter(x > 3, L.ones(3)) | L.take(x, i([[0, -1]])) | L.take(x, i([12])) | x.nonzero()
L.take_along_dim(x, i([[0, -1]]), 1) | L.take_along_dim(x, i([0, 7])) | x.nonzero(as_tuple=True) | z.nonzero()
L.argwhere(x > 3) | L.cat([x, x]) | L.cat([x, x.long()], -1) | L.cat([]) | L.cat([z]) | L.cat([x, L.ones(3, 3)])
L.cat([L.zeros(0), x], 1) | L.cat([x, 1]) | L.cat(x) | L.cat([x, x], out=L.zeros(6, 4))
L.cat([x, x], out=L.zeros(6, 4).long()) | L.stack([x, x], -1) | L.stack([x, x[0]]) | L.stack([]) | L.stack([z, z])
L.split(x, 2) | L.split(x, [1, 2]) | L.split(x, [1, 1]) | L.split(x, 0) | L.split(x, -1) | x.split((2, 1), -2)
L.chunk(x, 2) | x.chunk(5, 1) | L.chunk(x, 0) | L.chunk(e, 3) | L.nn.functional.one_hot(i([0, 2]))
L.nn.functional.one_hot(i([0, 2]), 2) | L.nn.functional.one_hot(i([-1])) | L.gather(x, 0, i([[0]]), out=L.zeros(0))
L.index_select(x, 0, i([0]), out=L.zeros(1, 4).long()) | L.gather(x, 0, i([[0]]), out=x)
""".replace("\n", "|").split("|")


def names(lib):
    return {
        "L": lib, "np": np, "i": lib.tensor, "x": lib.arange(12.0).reshape(3, 4), "y": lib.arange(120).reshape(2, 3, 4, 5),
        "z": lib.tensor(3.0), "e": lib.zeros(0, 3),
    }


@pytest.mark.parametrize("text", [t.strip() for t in GET + CALLS if t.strip()])
def test_expression(text):
    same(lambda lib: eval(text, names(lib)))


@pytest.mark.parametrize("text", [t.strip() for t in SET if t.strip()])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_assignment(text, dtype):
    def run(lib):
        scope = names(lib)
        scope["x"] = scope["x"].to(getattr(lib, dtype))
        exec(text, scope)
        return scope["x"]

    if dtype != "float32" and "- " in text + " ":
        pytest.skip("arithmetic of bool")
    same(run)


def random_index(rnd, shape):
    """An index of any kind that fits `shape`, as Python and numpy objects."""
    out, common = [], [rnd.randint(1, 3) for _ in range(rnd.randint(0, 2))]
    for n in shape:
        if rnd.random() < 0.1:
            out.append(rnd.choice([None, True, False]))
        kind = rnd.choice("int slice slice array array mask stop".split())
        if kind == "stop":
            break
        if kind == "int":
            out.append(rnd.choice([int, np.int64])(rnd.randint(-n, n - 1)))
        elif kind == "slice":
            out.append(slice(*[rnd.choice([None, rnd.randint(-n - 2, n + 2)]) for _ in range(2)], rnd.choice([None, 1, 2])))
        elif kind == "mask":
            out.append(np.array([rnd.random() < 0.5 for _ in range(n)]))
        else:
            size = [s if rnd.random() < 0.7 else 1 for s in common]
            out.append(np.array(np.random.RandomState(rnd.randint(0, 999)).randint(-n, n, size), dtype=np.int64))
    return tuple(out)


def graph(node, depth=0):
    if node is None or depth > 6:
        return None
    return type(node).__name__, [graph(n, depth + 1) for n, _ in node.next_functions]


@pytest.mark.parametrize("seed", range(120))
def test_random_subscript(seed):
    rnd = random.Random(seed)
    shape = [rnd.randint(1, 4) for _ in range(rnd.randint(1, 4))]
    index = random_index(rnd, shape)
    data = np.random.RandomState(seed).randn(*shape).astype(np.float32)

    def run(lib):
        x = lib.tensor(data).requires_grad_()
        base = x * 1
        key = tuple(lib.from_numpy(k) if isinstance(k, np.ndarray) else k for k in index)
        y = base[key]
        (y * y).backward(lib.ones_like(y))
        found = [y.detach(), x.grad.clone(), graph(y.grad_fn), y._is_view()]
        x.grad = None
        v = lib.tensor(np.random.RandomState(1).randn(*y.shape).astype(np.float32)).requires_grad_()
        base[key] = v
        (base * base).backward(lib.ones_like(base))
        return [*found, base.detach(), x.grad, v.grad, graph(base.grad_fn)]

    same(run)


def test_index_out_of_range_writes_nothing():
    x = tensotron.zeros(4, 3)
    with pytest.raises(IndexError):
        x[tensotron.tensor([0, 1, 9])] = 1.0
    with pytest.raises(RuntimeError):
        x.scatter_add_(0, tensotron.tensor([[0, 1, 9]]), tensotron.ones(1, 3))
    assert (x == 0).all() and x._version == 0


def test_int32_indices_and_many_dimensions():
    data = np.arange(2**10, dtype=np.float32).reshape((2,) * 10)
    index = np.array([1, 0, 1], dtype=np.int32)
    for lib in (torch, tensotron):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picked = lib.tensor(data)[:, :, :, lib.tensor(index)]
        assert np.array_equal(picked.numpy(), data[:, :, :, index])


def test_second_derivative_of_unbind():
    x = tensotron.arange(6.0).reshape(3, 2).requires_grad_()
    first = tensotron.autograd.grad(sum((row**3).sum() for row in x.unbind()), x, create_graph=True)[0]
    assert tensotron.autograd.grad(first.sum(), x)[0].tolist() == (6 * x).tolist()
