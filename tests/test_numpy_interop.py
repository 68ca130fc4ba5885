"""Exchange with numpy, DLPack and Python objects, against PyTorch."""

import gc
import warnings

import numpy as np
import pytest
import torch
from _both import same

import tensotron as tt

DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]
OTHERS = ["complex64", "uint16", "str", "object", "datetime64[s]"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_from_numpy_shares_memory(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    t = tt.from_numpy(array)
    same(lambda lib: lib.from_numpy(array))
    array[0, 1] = 0
    assert t[0, 1].item() == 0
    t[1, 2] = 1
    assert array[1, 2] == 1
    t.zero_()
    assert not array.any()
    back = t.numpy()
    assert back.dtype == array.dtype
    assert np.shares_memory(back, array)


@pytest.mark.parametrize("make", [
    lambda a: a.T, lambda a: a[::2], lambda a: a[:, 1:3], lambda a: a[1], lambda a: a[1, 2],
    lambda a: a[:, ::-1], lambda a: np.broadcast_to(a[0], (3, 4)), lambda a: a[:0],
    lambda a: a.reshape(2, 2, 1, 6), lambda a: a.astype(">f4"), lambda a: np.float32(3),
    lambda a: a[..., None, None], lambda a: np.asfortranarray(a),
])  # fmt: skip
def test_layouts(make):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    same(lambda lib: lib.from_numpy(make(array)))
    same(lambda lib: lib.from_numpy(make(array)).stride())
    same(lambda lib: lib.as_tensor(make(array)))
    same(lambda lib: lib.tensor(make(array)))


@pytest.mark.unsanitized("x86-64 and arm64 allow what the alignment check of UBSan refuses")
def test_odd_alignment():
    raw = np.zeros(4 * 10 + 1, dtype=np.uint8)
    array = raw[1:].view(np.float32)
    array[:] = np.arange(10)
    same(lambda lib: lib.from_numpy(array) * 2)
    t = tt.from_numpy(array)
    t.add_(1)
    assert array.tolist() == [float(i + 1) for i in range(10)]


@pytest.mark.parametrize("dtype", OTHERS)
def test_refused_dtypes(dtype):
    if dtype in ("complex64", "uint16"):  # PyTorch has these, tensotron does not
        for fn in (tt.from_numpy, tt.as_tensor, tt.tensor):
            with pytest.raises((TypeError, NotImplementedError)):
                fn(np.zeros(2).astype(dtype))
        return
    array = np.array(["a", "b"]) if dtype == "str" else np.array([None, 1]) if dtype == "object" else np.zeros(2, dtype)
    for name in ("from_numpy", "as_tensor", "tensor"):
        with pytest.raises(TypeError):
            getattr(torch, name)(array)
        with pytest.raises(TypeError):
            getattr(tt, name)(array)


def test_not_an_array():
    same(lambda lib: lib.from_numpy([1.0]))
    same(lambda lib: lib.from_numpy(3))


def test_read_only_arrays_warn():
    array = np.arange(3.0)
    array.setflags(write=False)

    def warned(lib):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lib.from_numpy(array)
        return [w.category.__name__ for w in caught]

    # PyTorch warns once for each process
    assert warned(tt) == ["UserWarning"]


def test_lifetimes():
    array = np.arange(1000.0)
    t = tt.from_numpy(array)[10:20]
    del array
    gc.collect()
    junk = [np.zeros(1000) for _ in range(50)]
    assert t.tolist() == [float(i) for i in range(10, 20)]
    del junk

    out = tt.arange(1000.0).numpy()[10:20]
    gc.collect()
    junk = [tt.zeros(1000) for _ in range(50)]
    assert out.tolist() == [float(i) for i in range(10, 20)]
    del junk


def test_the_array_is_released():
    import sys

    array = np.arange(5.0)
    before = sys.getrefcount(array)
    t = tt.from_numpy(array)
    view = t[1:]
    assert sys.getrefcount(array) > before
    del t
    assert view.tolist() == [1.0, 2.0, 3.0, 4.0]
    del view
    assert sys.getrefcount(array) == before


def test_as_tensor_and_tensor():
    array = np.arange(4, dtype=np.float32)
    assert np.shares_memory(tt.as_tensor(array).numpy(), array)
    assert not np.shares_memory(tt.tensor(array).numpy(), array)
    assert not np.shares_memory(tt.as_tensor(array, dtype=tt.float64).numpy(), array)
    t = tt.from_numpy(array)
    assert tt.as_tensor(t) is t
    for value in (
        1, 2.5, True, [1, 2], [1, 2.0], [True, 2], [[1, 2], [3, 4]], [], [[]], (1, (2)), np.float32(2), np.int64(3),
        np.float64(0.1), np.bool_(True), [np.float32(1), 2], [np.arange(3), np.arange(3)], range(4), 2**40, -1,
        float("nan"), [[1], [2, 3]], "text", None, [None], {}, [[1, 2], 3], np.array(5), 1 << 70,
    ):  # fmt: skip
        same(lambda lib: lib.tensor(value))
        same(lambda lib: lib.as_tensor(value))
    for dtype in DTYPES:
        for value in ([1, 0], [1.7, -0.0], [True, False], np.array([1.5, 200.0])):
            same(lambda lib: lib.tensor(value, dtype=getattr(lib, dtype)))
            same(lambda lib: lib.as_tensor(value, dtype=getattr(lib, dtype)))


def test_tensors_in_lists():
    same(lambda lib: lib.tensor([lib.tensor(1), lib.tensor(2)]))
    same(lambda lib: lib.tensor([lib.tensor(1.5), 2]))
    same(lambda lib: lib.tensor([[lib.tensor(1.5)], [lib.ones(1)]]))
    same(lambda lib: lib.tensor([lib.ones(2), lib.ones(2)]))


def test_default_dtype_decides_for_floats():
    for lib in (tt, torch):
        lib.set_default_dtype(lib.float64)
    same(lambda lib: lib.tensor([1.5, 2]))
    same(lambda lib: lib.tensor(np.float32(1.5)))
    same(lambda lib: lib.tensor(1))


def test_numpy_of_a_tensor():
    same(lambda lib: lib.ones(2, requires_grad=True).numpy())
    same(lambda lib: lib.ones(2, requires_grad=True).detach().numpy())
    same(lambda lib: lib.ones(2, requires_grad=True).numpy(force=True))
    same(lambda lib: lib.arange(6.0).reshape(2, 3).t().numpy())
    same(lambda lib: lib.arange(6.0).reshape(2, 3).t().numpy().strides)
    same(lambda lib: lib.zeros(2, 0, 3).numpy())
    same(lambda lib: lib.tensor(3).numpy())
    same(lambda lib: lib.ones(3).expand(2, 3).numpy().flags.writeable)


def test_array_protocol():
    def ones(lib):
        return lib.arange(3, dtype=lib.float32)

    same(lambda lib: np.asarray(ones(lib)))
    same(lambda lib: np.array(ones(lib)))
    same(lambda lib: np.asarray(ones(lib), dtype=np.int32))
    same(lambda lib: np.asarray(lib.ones(2, requires_grad=True)))
    same(lambda lib: np.sin(ones(lib)))
    same(lambda lib: np.add(ones(lib), 1))
    same(lambda lib: np.concatenate([ones(lib), ones(lib)]))
    same(lambda lib: np.mean(ones(lib).numpy()))
    same(lambda lib: np.stack([ones(lib), ones(lib)]))
    same(lambda lib: np.array([lib.tensor(1.0), lib.tensor(2.0)]))
    t = ones(tt)
    assert np.shares_memory(np.asarray(t), t.numpy())


SCALARS = [np.float32(2), np.float64(0.1), np.int64(3), np.int32(-2), np.uint8(7), np.bool_(True), np.array(1.5)]
BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("scalar", SCALARS, ids=lambda s: type(s).__name__)
def test_numpy_scalars_as_operands(name, scalar):
    for dtype in DTYPES:
        for shape in ((2,), ()):
            t = lambda lib: lib.ones(shape, dtype=getattr(lib, dtype))
            same(lambda lib: BINARY[name](t(lib), scalar))
            same(lambda lib: BINARY[name](scalar, t(lib)))


@pytest.mark.parametrize("name", BINARY)
def test_arrays_as_operands(name):
    array = np.array([1.0, 2.0, 3.0])
    same(lambda lib: BINARY[name](lib.arange(3.0) + 1, array))
    same(lambda lib: BINARY[name](array, lib.arange(3.0) + 1))


def test_numpy_as_arguments():
    def t(lib):
        return lib.arange(12.0).reshape(3, 4)

    same(lambda lib: lib.add(t(lib), np.float32(1), alpha=np.int64(2)))
    same(lambda lib: t(lib).sum(np.int64(1)))
    same(lambda lib: lib.zeros(np.int64(2), np.int64(3)))
    same(lambda lib: lib.zeros((np.int64(2), 3)))
    same(lambda lib: t(lib).view(np.int64(12)))
    same(lambda lib: lib.full((2,), np.float64(0.5)))
    same(lambda lib: lib.full((2,), np.int64(5)))
    same(lambda lib: t(lib).clamp(np.float32(1), np.float64(3)))
    same(lambda lib: t(lib).fill_(np.float32(1)))
    same(lambda lib: lib.arange(np.int64(5)))
    same(lambda lib: lib.arange(np.float32(2.5)))
    same(lambda lib: t(lib).masked_fill(t(lib) > 3, np.float64(9)))


@pytest.mark.parametrize("index", [
    np.int64(1), np.array([0, 2]), np.array([[0], [1]]), np.array([True, False, True]), np.bool_(True),
    (np.array([0, 1]), np.array([1, 2])), (slice(None), np.array([0, 3])), (np.int32(1), np.int64(2)),
    slice(np.int64(0), np.int64(2)), np.array([0, 2], dtype=np.int32), np.array([0, 1], dtype=np.uint8),
    (None, np.int64(0)), np.array(1), np.float32(1), np.array([5]),
], ids=str)  # fmt: skip
def test_numpy_as_indices(index):
    same(lambda lib: lib.arange(12.0).reshape(3, 4)[index])

    def assign(lib):
        t = lib.arange(12.0).reshape(3, 4)
        t[index] = np.float64(-1)
        return t

    same(assign)


def test_assigning_arrays():
    def assign(lib):
        t = lib.zeros(2, 3)
        t[0] = lib.from_numpy(np.arange(3.0))
        t[:, 1] = lib.as_tensor(np.float64(7))
        return t

    same(assign)
    same(lambda lib: lib.zeros(3).__setitem__(slice(None), np.arange(3.0)))
    for value in (np.float32(1), np.int64(1), np.bool_(True)):
        same(lambda lib: lib.zeros(3).__setitem__(0, value))


def test_python_values():
    def values(lib):
        a, b = lib.ones(1), lib.ones(1)
        return [
            lib.tensor(2.5).item(), lib.tensor(3).item(), lib.tensor(True).item(), lib.ones(1, 1).item(),
            lib.arange(6).reshape(2, 3).tolist(), lib.tensor(0.1).tolist(), lib.zeros(2, 0).tolist(),
            bool(lib.tensor([0.0])), bool(lib.tensor(2)), int(lib.tensor(2.9)), float(lib.tensor(3)),
            [5, 6, 7][lib.tensor(1)], list(range(lib.tensor(3))), len(lib.zeros(4, 2)), [t.tolist() for t in lib.eye(2)],
            round(lib.tensor(2.6).item()), hash(a) != hash(b), 2.0 in lib.arange(3.0), divmod(7, 2),
        ]  # fmt: skip

    same(values)
    for bad in (
        lambda lib: lib.ones(2).item(),
        lambda lib: bool(lib.ones(2)),
        lambda lib: bool(lib.zeros(0)),
        lambda lib: int(lib.ones(2)),
        lambda lib: len(lib.tensor(1)),
        lambda lib: list(lib.tensor(1)),
        lambda lib: [1, 2][lib.tensor(1.0)],
        lambda lib: int(lib.tensor(float("nan"))),
    ):
        same(bad)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    t = tt.from_numpy(array)
    # to numpy and PyTorch and back, sharing memory
    assert np.shares_memory(np.from_dlpack(t), array)
    u = torch.from_dlpack(t)
    assert u.tolist() == array.tolist() and str(u.dtype) == f"torch.{dtype}"
    u.zero_()
    assert not array.any()
    v = tt.from_dlpack(torch.ones(2, 2, dtype=getattr(torch, dtype)).t())
    assert v.tolist() == [[1, 1], [1, 1]] and str(v.dtype).endswith(dtype)
    w = tt.from_dlpack(array)
    w.fill_(1)
    assert array.all()
    assert tt.from_dlpack(t.t()).stride() == (1, 3)


def test_dlpack_lifetime_and_refusals():
    t = tt.from_dlpack(torch.arange(1000.0))
    gc.collect()
    junk = [torch.zeros(1000) for _ in range(50)]
    assert t[999].item() == 999.0
    del junk
    u = torch.from_dlpack(tt.arange(1000.0))
    gc.collect()
    junk = [tt.zeros(1000) for _ in range(50)]
    assert u[999].item() == 999.0
    del junk
    assert tt.arange(3.0).__dlpack_device__() == torch.arange(3.0).__dlpack_device__()
    same(lambda lib: lib.ones(2, requires_grad=True).__dlpack__())


def test_buffer_of_a_capsule_never_consumed():
    for _ in range(100):
        tt.zeros(10_000).__dlpack__()
