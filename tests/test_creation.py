"""Factories, conversion and copies against PyTorch."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from _both import same

import tensotron as tt

nan, inf = math.nan, math.inf


def cases(text):
    return [c.strip() for line in text.strip().splitlines() for c in line.split(" | ")]


def check(text):
    same(lambda lib: eval(text, {"lib": lib, "np": np, "nan": nan, "inf": inf}))


SIZES = """
lib.zeros(2.5) | lib.zeros() | lib.zeros(-1) | lib.zeros((2, -1)) | lib.zeros("a") | lib.zeros(2, 3.0) | lib.zeros(True)
lib.zeros(2, True)
lib.zeros(lib.tensor(2)) | lib.zeros([lib.tensor(2)]) | lib.zeros(size=(2, 3)) | lib.zeros(size=2) | lib.zeros(2, size=(2,))
lib.zeros((2,), (3,))
lib.zeros(2, out=lib.ones(3)) | lib.zeros(2, out=lib.ones(3, dtype=lib.int64))
lib.zeros(2, out=lib.ones(2).int(), dtype=lib.float32)
lib.zeros(2, device="cuda") | lib.zeros(2, device="xyz") | lib.zeros(2, device="cuda:1") | lib.zeros(2, device=0)
lib.zeros(2, device="cpu")
lib.zeros(2, dtype="x") | lib.zeros(2, dtype=int) | lib.zeros(2, pin_memory=True)
lib.zeros(2, dtype=lib.int64, requires_grad=True)
lib.zeros(2, requires_grad=True) | lib.zeros(2, memory_format=lib.contiguous_format) | lib.zeros(0) | lib.zeros(())
lib.zeros([])
lib.zeros(2**62) | lib.zeros(2**62, 8) | lib.zeros(np.int64(2), 3) | lib.zeros(np.array([2, 3])) | lib.zeros(np.array(2))
lib.zeros(np.float32(2))
lib.ones(-1) | lib.ones() | lib.ones(2, 3) | lib.empty(-1) | lib.empty(2, memory_format=lib.channels_last)
lib.empty((2, 3, 4, 5), memory_format=lib.channels_last).stride()
lib.empty((1, 2, 3, 4, 5), memory_format=lib.channels_last_3d).stride()
lib.full((2,), "a") | lib.full(2, 3) | lib.full((2,), None) | lib.full((2,), 1, dtype=lib.bool)
lib.full((2,), 1.7, dtype=lib.int64)
lib.full((2,), 300, dtype=lib.uint8) | lib.full((2,), -1, dtype=lib.uint8) | lib.full((2,), -1.5, dtype=lib.uint8)
lib.full((2,), 2**40, dtype=lib.int32)
lib.full((2,), 1e40) | lib.full((2,), inf, dtype=lib.int64) | lib.full((2,), nan, dtype=lib.bool) | lib.full((2,), 2**63)
lib.full((2,), 2**64)
lib.full((2,), True) | lib.full((2,), lib.tensor(3)) | lib.full((2,), lib.tensor([3])) | lib.full(size=(2,), fill_value=2)
lib.full((), 2)
lib.full((2,), 1.5, out=lib.zeros(3).long()) | lib.full((-1,), 2) | lib.full((2,), np.bool_(True)) | lib.full((2,), np.int32(3))
lib.full_like(lib.zeros(2), 1e40) | lib.full_like(lib.zeros(2).long(), 1.5) | lib.full_like(lib.zeros(2), 2, dtype=lib.int64)
lib.full_like(lib.zeros(2), "a")
lib.zeros_like(3) | lib.zeros_like(lib.zeros(2), dtype=lib.int64, requires_grad=True)
lib.zeros_like(lib.zeros(2), device="cuda")
lib.zeros_like(lib.zeros(2, 3, 4, 5), memory_format=lib.channels_last).stride() | lib.zeros_like(lib.zeros(2, 3).t()).stride()
lib.zeros_like(lib.zeros(2, 3).t(), memory_format=lib.contiguous_format).stride()
lib.zeros_like(lib.zeros(1).expand(3, 2)).stride()
lib.zeros(2).new_zeros((3,), dtype=lib.int64) | lib.zeros(2).new_ones() | lib.zeros(2).long().new_full((3,), 2.5)
lib.zeros(2).new_zeros(2, device="cuda")
lib.zeros(2).new_empty_strided((2, 3), (1, 2)).stride() | lib.empty_strided((2, 3), (1,)) | lib.empty_strided((2, 3), (-1, 2))
lib.empty_strided(2, 1)
lib.scalar_tensor(2) | lib.scalar_tensor(2, dtype=lib.int64) | lib.eye(3) | lib.eye(2, 3) | lib.eye(-1) | lib.eye(2, -1)
lib.eye(2.0) | lib.eye(2, dtype=lib.bool)
"""

RANGES = """
lib.arange(5) | lib.arange(1, 5) | lib.arange(1, 5, 2) | lib.arange(5, 1) | lib.arange(5, 1, -1) | lib.arange(0, 1, 0)
lib.arange(0) | lib.arange(-3)
lib.arange(1.5) | lib.arange(0, 1, 0.3) | lib.arange(0, 3, 0.5, dtype=lib.int64) | lib.arange(0.5, 3.5, dtype=lib.int64)
lib.arange(3, dtype=lib.bool)
lib.arange(300, dtype=lib.uint8) | lib.arange(True) | lib.arange(lib.tensor(3.0)) | lib.arange(lib.tensor([3, 4]))
lib.arange("a") | lib.arange(end=3)
lib.arange(start=1, end=3) | lib.arange(1, end=3) | lib.arange(start=1) | lib.arange() | lib.arange(1, 2, 3, 4) | lib.arange(nan)
lib.arange(0, inf)
lib.arange(0, 1e20, 1) | lib.arange(2**63) | lib.arange(2**62, 2**62 + 3) | lib.arange(3, out=lib.zeros(1))
lib.arange(4, out=lib.zeros(8)[::2])
lib.arange(3, requires_grad=True) | lib.arange(3.0, requires_grad=True) | lib.arange(1, 5, 2.0)
lib.arange(0.1, 10, 3, dtype=lib.int32)
lib.arange(2**24 + 5.0, 2**24 + 10, dtype=lib.float32) | lib.arange(-1000, 1000, 0.37) | lib.arange(0, 30, 0.1, dtype=lib.float64)
lib.range(1, 4, 0.5)
lib.linspace(0, 1, 5) | lib.linspace(0, 1, 1) | lib.linspace(0, 1, 0) | lib.linspace(0, 1, -1)
lib.linspace(0, 10, 4, dtype=lib.int64) | lib.linspace(0, 1, 2.0)
lib.linspace(lib.tensor(0.0), 1, 3) | lib.linspace(lib.tensor([0.0]), 1, 3) | lib.linspace(0, 1, 3, dtype=lib.bool)
lib.linspace(-3, 2, 7, dtype=lib.float64)
lib.logspace(0, 2, 3) | lib.logspace(0, 2, 3, base=2) | lib.logspace(0, 2, 3, dtype=lib.int64)
"""

DATA = """
lib.tensor([1, "a"]) | lib.tensor("abc") | lib.tensor(["a"]) | lib.tensor(None) | lib.tensor([1, None]) | lib.tensor([object()])
lib.tensor({1: 2})
lib.tensor([[1, 2], [3]]) | lib.tensor([[1, 2], 3]) | lib.tensor([1, [2, 3]]) | lib.tensor([[1], [2, 3]]) | lib.tensor([[], [1]])
lib.tensor([[1], []])
lib.tensor([]) | lib.tensor([[]]) | lib.tensor(()) | lib.tensor((1, 2.0)) | lib.tensor([True, 2]) | lib.tensor([True, 2.0])
lib.tensor([1, 2], dtype=lib.bool)
lib.tensor([1.5, 2], dtype=lib.int64) | lib.tensor(1.5, dtype=lib.bool) | lib.tensor([nan], dtype=lib.int64)
lib.tensor(inf, dtype=lib.int32)
lib.tensor(1e20, dtype=lib.int64) | lib.tensor(300, dtype=lib.uint8) | lib.tensor([-1], dtype=lib.uint8)
lib.tensor(-300, dtype=lib.uint8)
lib.tensor(-0.5, dtype=lib.uint8) | lib.tensor([2**31], dtype=lib.int32) | lib.tensor(2**63) | lib.tensor(-(2**63))
lib.tensor(-(2**63) - 1)
lib.tensor(2**70, dtype=lib.float32) | lib.tensor([1e40]) | lib.tensor(2**63, dtype=lib.bool) | lib.tensor([1.5, [2]])
lib.tensor([1, [2]], dtype=lib.bool)
lib.tensor(lib.tensor(3)) | lib.tensor(lib.ones(2, requires_grad=True)) | lib.tensor([lib.tensor(3), 4.5])
lib.tensor([lib.ones(2), lib.ones(2)])
lib.tensor([lib.ones(1), lib.ones(1)]) | lib.tensor([lib.tensor(3.5)], dtype=lib.int64) | lib.tensor([np.ones(2), np.ones(2)])
lib.tensor([np.ones(2, np.int64), np.zeros(2)]) | lib.tensor([np.ones((2, 2))] * 2) | lib.tensor([np.float32(1), np.float32(2)])
lib.tensor([np.float64(1), 2])
lib.tensor(np.float32(1)) | lib.tensor([np.bool_(1)]) | lib.tensor([np.float32(1.5)], dtype=lib.int64) | lib.tensor(np.array(5))
lib.tensor(np.arange(4)[::-1])
lib.tensor(np.array(["a"])) | lib.tensor(np.array([object()])) | lib.tensor(np.arange(4).astype(">i4"))
lib.tensor(np.array([1.5, 2]), dtype=lib.int64)
lib.tensor(range(3)) | lib.tensor(x for x in range(3)) | lib.tensor([range(2), range(2)]) | lib.tensor(b"ab")
lib.tensor(bytearray(b"ab")) | lib.tensor([np.array(3)])
lib.tensor([1], requires_grad=True) | lib.tensor([1.0], requires_grad=True) | lib.tensor([1], device="cuda")
lib.tensor([1.5], dtype="float32")
lib.as_tensor(np.float32(3)) | lib.as_tensor([1, 2]) | lib.as_tensor("a") | lib.as_tensor(np.ones(2), dtype=lib.float32)
lib.as_tensor(lib.ones(2), device="cuda")
lib.asarray([1, 2], copy=False) | lib.asarray(np.ones(2), dtype=lib.float32, copy=False)
lib.asarray(lib.ones(2), requires_grad=True) | lib.asarray(bytearray(8))
lib.asarray(lib.ones(2, requires_grad=True) * 2, requires_grad=False) | lib.asarray(3) | lib.asarray(np.float64(3))
lib.frombuffer(bytearray(8), dtype=lib.float32) | lib.frombuffer(bytearray(8), dtype=lib.float32, count=1, offset=4)
lib.frombuffer(bytearray(8), dtype=lib.float32, offset=3) | lib.frombuffer(bytearray(8), dtype=lib.float32, count=5)
lib.frombuffer(3, dtype=lib.float32)
lib.frombuffer(bytearray(0), dtype=lib.float32) | lib.frombuffer(bytearray(8), dtype=lib.float32, offset=8)
"""

LEGACY = """
lib.Tensor() | lib.Tensor(2, 3).shape | lib.Tensor([1, 2]) | lib.Tensor(lib.Size([2])).shape | lib.Tensor(2.5)
lib.Tensor(np.array([1, 2])) | lib.Tensor(np.float32(2))
lib.Tensor(lib.ones(2).long()) | lib.Tensor("a") | lib.Tensor(None) | lib.Tensor([1, "a"]) | lib.Tensor([1, 2], device="cpu")
lib.Tensor([1, 2], device="cuda")
lib.Tensor([1], dtype=lib.float32) | lib.Tensor(-1) | lib.Tensor(2, 2.0) | lib.Tensor((2, 3), (3,)) | lib.Tensor(range(3))
lib.Tensor([lib.tensor(1), lib.tensor(2)])
lib.FloatTensor([1, 2]) | lib.LongTensor([1.5]) | lib.LongTensor(lib.ones(2)) | lib.LongTensor(np.array([1.0, 2]))
lib.IntTensor([1]) | lib.ByteTensor([1, 300])
lib.BoolTensor([1, 0, True]) | lib.DoubleTensor([1, 2]) | lib.FloatTensor(2, 3).dtype | lib.FloatTensor([1], device="cuda")
repr(lib.FloatTensor)
isinstance(lib.ones(2), lib.FloatTensor) | isinstance(lib.ones(2), lib.LongTensor) | lib.zeros(2).new([1, 2])
lib.zeros(2).new(lib.ones(2).long()) | lib.zeros(2).new()
lib.is_nonzero(lib.tensor([2.0])) | lib.is_nonzero(lib.tensor([])) | lib.is_nonzero(3) | lib.numel(3) | lib.numel(lib.ones(2, 3))
lib.is_floating_point(3)
lib.result_type(1, 2.5) | lib.result_type(lib.ones(1).long(), 2.5) | lib.result_type("a", 1) | lib.is_tensor(3)
lib.set_default_dtype(lib.int64) | lib.set_default_dtype(3)
"""

COPIES = """
x.byte().fill_(-1.5) | x.byte().fill_(300) | x.fill_(1e40) | x.long().fill_(nan) | x.fill_(2**70) | x.fill_("a")
x.fill_(lib.ones(2)) | x.fill_(np.float32(3))
x.to("cuda") | x.cuda() | x.to(0) | x.to("xpu") | x.to("mps") | x.to() | x.to("x") | x.to(lib.float64)
x.to("cpu", lib.float64, True, True) | x.to(lib.ones(2).long())
x.to(dtype=lib.int64, copy=True) | x.to(other=x) | x.to(float) | x.to(None) | x.to(lib.int64, False, True) | x.type()
x.type(lib.int64) | x.type("torch.LongTensor")
x.type("x") | x.type(lib.LongTensor) | x.type_as(x.long()) | x.type_as(3) | x.copy_([1, 2]) | x.copy_(3) | x.copy_(lib.ones(3))
x.copy_(lib.ones(2, 2)) | x.copy_(lib.ones(1))
lib.zeros(2, 3).copy_(x) | lib.zeros(2).expand(3, 2).copy_(x) | lib.clone(3) | x.clone(memory_format=lib.channels_last)
m.t().contiguous(memory_format=lib.preserve_format)
x.resize_(3).shape | x.resize_(-1) | x.resize_((2, 2)).shape | lib.arange(4.0).resize_(2, 2) | x.requires_grad_().resize_(1)
lib.ones(4)[1:].resize_(2)
m.t().resize_(3, 2).stride() | lib.from_numpy(np.ones(2)).resize_(3) | lib.arange(4.0)[1:].resize_(2, 2).storage_offset()
lib.ones(4).resize_as_(lib.ones(2, 2))
x.resize_("a") | lib.ones(2, 3, 4, 5).resize_(1, 2, 3, 4, memory_format=lib.channels_last).stride() | x.repeat(2) | x.repeat(-1)
x.repeat() | m.repeat(2) | x.repeat(2, 3.0)
x.repeat(0) | lib.ones(0).repeat(3, 2) | lib.ones(()).repeat(3) | x.repeat([2, 3]) | x.repeat(repeats=(2,)) | lib.tile(x, (2,))
lib.tile(x, 2) | m.tile(2) | m.tile((2, 1, 2))
lib.tensor([nan, 1.5, -2]).int() | lib.tensor([300.0, -1.0]).byte() | lib.tensor([300, -1]).byte()
lib.tensor([0.0, -0.0, 1e-30, nan]).bool() | lib.ones(2).long().requires_grad_()
np.sin(x) | np.add(np.ones(2), x) | x + np.ones(2) | x.requires_grad_() + np.ones(2) | x == np.ones(2) | np.zeros(2) == x
x != np.ones(2) | np.ones(2) / (x + 1)
np.float64(2) * x | x + np.float32(2) | x.long() + np.bool_(1) | np.int64(2) + x.long() | np.isnan(x) | float(lib.ones(2))
int(lib.ones(0)) | x.__setitem__(0, np.float32(1))
"""


@pytest.mark.parametrize("text", cases(SIZES))
def test_sizes(text):
    check(text)


@pytest.mark.parametrize("text", cases(RANGES))
def test_ranges(text):
    check(text)


@pytest.mark.parametrize("text", cases(DATA))
def test_data(text):
    check(text)


@pytest.mark.parametrize("text", cases(LEGACY))
def test_legacy_constructors_and_queries(text):
    check(text)


@pytest.mark.parametrize("text", cases(COPIES))
def test_copies(text):
    def run(lib):
        return eval(text, {"lib": lib, "np": np, "nan": nan, "x": lib.zeros(2), "m": lib.arange(6.0).reshape(2, 3)})

    same(run)


def test_gradients_of_copies():
    def run(lib):
        out = []
        for fn in (
            lambda x: x.to(lib.float64), lambda x: x.clone(), lambda x: x.t().contiguous(), lambda x: x.repeat(2, 3, 1),
            lambda x: (x * 1).fill_(2), lambda x: (x * 1).zero_(), lambda x: lib.fill(x, 2), lambda x: x.tile(3),
            lambda x: (x * 1).copy_(x.sum(0)), lambda x: lib.zeros(2, 3).copy_(x), lambda x: lib.fill(lib.ones(3), x[0, 0]),
            lambda x: lib.zeros(4).fill_(x[1, 1]), lambda x: lib.zeros(2, 3, dtype=lib.float64).copy_(x),
            lambda x: lib.Tensor(x * 2),
        ):  # fmt: skip
            x = lib.arange(6.0).reshape(2, 3).requires_grad_(True)
            y = fn(x)
            y.backward(lib.arange(float(y.numel())).reshape(y.shape).to(y.dtype))
            out += [y, x.grad, type(y.grad_fn).__name__]
        return out

    same(run)


def test_strides_of_copies():
    def views(lib):
        t = lib.zeros(2, 3, 4)
        yield from (
            t,
            t.transpose(0, 2),
            t[:, ::2],
            t.expand(5, 2, 3, 4),
            lib.zeros(3, 1).t(),
            lib.zeros(1, 5).t(),
            t[:0].transpose(0, 2),
        )
        yield from (
            lib.zeros(4, 1).expand(4, 3),
            lib.as_strided(lib.zeros(12), (1, 3), (7, 1)),
            lib.as_strided(lib.zeros(12), (2, 3), (1, 4)),
        )
        yield lib.as_strided(lib.zeros(12), (3, 2, 1, 2), (4, 2, 1, 1))

    for fn in (
        lambda t: t.clone(),
        lambda t: t.long(),
        lambda t: t.contiguous(),
        lambda t: t.fill(1) if hasattr(t, "fill") else t,
    ):
        same(lambda lib, fn=fn: [fn(v).stride() for v in views(lib)])


def test_default_dtype():
    def run(lib):
        try:
            lib.set_default_dtype(lib.float64)
            out = [lib.tensor(1.5), lib.tensor([1, 2.5]), lib.zeros(2), lib.full((1,), 0.1), lib.arange(1.5), lib.linspace(0, 1,
                3), lib.eye(1),
                   lib.Tensor([1]), lib.ones(1).long() * 1.5, lib.get_default_dtype(), lib.tensor([]), lib.rand(0)]  # fmt: skip
            lib.set_default_tensor_type(lib.FloatTensor)
            return [*out, lib.zeros(1), lib.get_default_dtype()]
        finally:
            lib.set_default_dtype(lib.float32)

    same(run)


def test_memory_is_shared_or_not():
    array = np.arange(3.0)
    for make, shared in ((tt.as_tensor, True), (tt.asarray, True), (tt.from_numpy, True), (tt.tensor, False)):
        assert np.shares_memory(make(array).numpy(), array) == shared
    assert not np.shares_memory(tt.asarray(array, copy=True).numpy(), array)
    x = tt.ones(2)
    assert tt.as_tensor(x) is x
    assert tt.as_tensor(x, dtype=tt.float32) is x
    assert x.to(tt.float32) is x
    assert x.contiguous() is x
    buffer = bytearray(8)
    tt.frombuffer(buffer, dtype=tt.uint8).fill_(7)
    assert bytes(buffer) == b"\x07" * 8


def test_resize_keeps_views_of_the_storage():
    x = tt.arange(4.0)
    y = x[1:]
    x.resize_(1000)
    assert x[:4].tolist() == [0, 1, 2, 3]
    assert x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def test_views_follow_a_storage_that_grows():
    for lib in (torch, tt):
        x = lib.arange(4.0)
        view, alias = x[1:3], x.detach()
        product = lib.ones(4, requires_grad=True) * x  # keeps x for its backward
        distance = view.data_ptr() - x.data_ptr()
        x.resize_(100000)
        assert view.data_ptr() - x.data_ptr() == distance and alias.data_ptr() == x.data_ptr()
        x[1] = 7
        assert view.tolist() == [7, 2] and alias.tolist() == [0, 7, 2, 3]
        assert product.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("share", ["numpy", "__array__"])
def test_memory_that_numpy_holds_stays(share):
    for lib in (torch, tt):
        x = lib.arange(4.0)
        array = getattr(x, share)()
        with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
            x.resize_(1000)
        assert x.resize_(2).tolist() == array[:2].tolist()


def test_pickle_and_deepcopy():
    for x in (
        tt.arange(6.0).reshape(2, 3).t(),
        tt.tensor(3),
        tt.ones(2, requires_grad=True),
        tt.zeros(0, 2),
        tt.tensor([True, False]),
    ):
        for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
            assert y.dtype == x.dtype
            assert y.tolist() == x.tolist()
            assert y.requires_grad == x.requires_grad
            assert y.is_leaf
    x = tt.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    memo = {}
    y = copy.deepcopy([x, x], memo)
    assert y[0] is y[1]
    assert y[0].grad.tolist() == [2, 2]
    same(lambda lib: copy.deepcopy(lib.ones(2, requires_grad=True) * 2))


def test_dlpack_messages():
    for text in cases("""
        lib.from_dlpack(3) | lib.from_dlpack(np.arange(4.0)[::2]) | lib.from_dlpack(np.arange(4.0), device="cuda")
        lib.from_dlpack(np.array(3.0))
        lib.ones(2).__dlpack__(stream=1) | lib.ones(2).__dlpack__(stream="a") | lib.from_dlpack(lib.ones(2, requires_grad=True))
        lib.from_dlpack(lib.ones(2).__dlpack__(max_version=(1, 0))) | lib.from_dlpack(lib.ones(2).__dlpack__())
        lib.from_dlpack(np.zeros((0, 3)))
    """):
        check(text)
    assert '"dltensor_versioned"' in str(tt.ones(2).__dlpack__(max_version=(1, 1)))
    capsule = tt.ones(2).__dlpack__()
    tt.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="consumed only once"):
        tt.from_dlpack(capsule)
    assert torch.from_dlpack(tt.ones(2, 3).t()).stride() == (1, 3)


def test_integers_beyond_doubles_as_operands():
    big = 2**53 + 1
    same(lambda lib: [lib.tensor([1, -1]) + big, big - lib.tensor([1]), lib.tensor([big]) == big, lib.tensor([3]) * (2**62 + 3)])
