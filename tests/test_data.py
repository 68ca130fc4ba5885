"""utils.data against PyTorch: the same batches in the same order, and the same random numbers after them."""

import collections
import os
import random
import signal
import time

import numpy as np
import pytest
import torch
from _both import outcome, same

import tensotron

forks = pytest.mark.unsanitized("the sanitizer's allocator may be locked by another thread when a worker is forked")
Point = collections.namedtuple("Point", "x y")


def tensors(L, n=25):
    return L.arange(2.0 * n).reshape(n, 2), L.arange(n)


def epochs(loader, n=2):
    return [list(batch.items()) if isinstance(batch, dict) else batch for _ in range(n) for batch in loader]


OPTIONS = {
    "plain": lambda L: {},
    "batches": lambda L: {"batch_size": 4},
    "drop_last": lambda L: {"batch_size": 4, "drop_last": True},
    "shuffle": lambda L: {"batch_size": 4, "shuffle": True},
    "generator": lambda L: {"batch_size": 7, "shuffle": True, "generator": L.Generator().manual_seed(9)},
    "no batches": lambda L: {"batch_size": None},
    "no batches, shuffled": lambda L: {"batch_size": None, "shuffle": True},
    "weighted": lambda L: {"sampler": L.utils.data.WeightedRandomSampler(np.arange(25) + 0.5, 30), "batch_size": 8},
    "weighted, no replacement": lambda L: {"sampler": L.utils.data.WeightedRandomSampler([1.0] * 25, 20, False), "batch_size": 8},
    "replacement": lambda L: {"sampler": L.utils.data.RandomSampler(range(25), True, 70), "batch_size": 8},
    "many": lambda L: {"sampler": L.utils.data.RandomSampler(range(25), num_samples=60), "batch_size": 8},
    "subset": lambda L: {"sampler": L.utils.data.SubsetRandomSampler([3, 1, 20]), "batch_size": 2},
    "batch_sampler": lambda L: {"batch_sampler": [[0, 1, 2], [-1, 5], [7]]},
    "distributed": lambda L: {"sampler": L.utils.data.DistributedSampler(range(25), 4, 1), "batch_size": 3},
    "distributed, drop_last": lambda L: {"sampler": L.utils.data.DistributedSampler(range(25), 4, 3, False, drop_last=True)},
    "collate_fn": lambda L: {"batch_size": 3, "collate_fn": lambda rows: sum(y for _, y in rows)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_batches(name):
    def fn(L):
        loader = L.utils.data.DataLoader(L.utils.data.TensorDataset(*tensors(L)), **OPTIONS[name](L))
        return [len(loader), epochs(loader), L.rand(3), len(iter(loader))]

    same(fn)


@pytest.mark.parametrize("seed", [0, 2**40 + 7])
def test_shuffle_of_other_datasets(seed):
    def fn(L):
        D = L.utils.data
        L.manual_seed(seed)
        x, y = tensors(L)
        base = D.TensorDataset(x, y)
        datasets = [
            [(float(i), i, str(i)) for i in range(10)], np.arange(12.0).reshape(6, 2), base + base, D.Subset(base, [5, 3, 4, 9]),
            D.Subset(D.Subset(base, range(10, 20)), [1, 0, 5]), D.StackDataset(base, range(25)),
            D.StackDataset(a=base, b=range(25)),
            x, D.TensorDataset(x.t().contiguous().t()), D.TensorDataset(x.clone().requires_grad_()), range(11),
        ]  # fmt: skip
        return [[epochs(D.DataLoader(d, 3, True), 1), L.rand(1)] for d in datasets]

    same(fn)


def test_gathered_batches_are_new_tensors():
    """The fast path of TensorDataset: neither views nor anything else than stacking."""
    for lib in (tensotron, torch):
        x, y = tensors(lib)
        for a, _ in lib.utils.data.DataLoader(lib.utils.data.TensorDataset(x, y), 5):
            assert a.is_contiguous() and a._base is None and not a.requires_grad and a.shape == (5, 2)
            a.zero_()
        assert x.sum() > 0
        x.requires_grad_()
        (a,) = next(iter(lib.utils.data.DataLoader(lib.utils.data.TensorDataset(x), 5)))
        assert type(a.grad_fn).__name__ == "StackBackward0"


def test_index_errors():
    same(lambda L: list(L.utils.data.DataLoader(L.utils.data.TensorDataset(*tensors(L)), batch_sampler=[[0, 99]])))
    same(lambda L: list(L.utils.data.DataLoader(L.utils.data.TensorDataset(*tensors(L)), batch_sampler=[[]])))


SAMPLES = {
    "ints": [1, 2, 3], "floats": [1.0, 2.5], "bools": [True, False], "texts": ["a", "b"], "bytes": [b"a", b"b"],
    "arrays": [np.arange(3), np.ones(3, int)], "float32": [np.float32(1), np.float32(2)], "int64": [np.int64(3), np.int64(4)],
    "tuples": [(1, 2.0), (3, 4.0)], "lists": [[1, "a"], [2, "b"]], "dicts": [{"a": 1, "b": [2]}, {"a": 3, "b": [4]}],
    "named": [Point(1, 2.0), Point(3, 4.0)], "ordered": [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
    "counter": [collections.Counter("aab"), collections.Counter("aab")], "uneven": [[1], [1, 2]], "none": [None, None],
    "objects": [object, object], "text arrays": [np.array(["a"]), np.array(["b"])], "ranges": [range(2), range(2)],
    "shapes": [np.zeros(2), np.zeros(3)], "deep": [((1, {"a": (2.0,)}),), ((3, {"a": (4.0,)}),)],
    "deque": [collections.deque([1, 2])] * 2, "nothing": [],
}  # fmt: skip


def structure(value):
    """Types of mappings, too, which describe() does not look into."""
    if isinstance(value, dict):
        return type(value).__name__, [(k, structure(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value).__name__, [structure(v) for v in value]
    return str(value), str(getattr(value, "dtype", "")).rpartition(".")[2]


@pytest.mark.parametrize("name", SAMPLES)
def test_collate_and_convert(name):
    def collated(L):
        return structure(L.utils.data.default_collate(SAMPLES[name]))

    def converted(L):
        return structure([L.utils.data.default_convert(s) for s in SAMPLES[name]])

    same(collated)
    same(converted)


def test_collate_map_can_be_extended():
    for lib in (tensotron, torch):
        collate = lib.utils.data._utils.collate
        table = {**collate.default_collate_fn_map, str: lambda batch, collate_fn_map=None: "".join(batch)}
        assert collate.collate([("a", 1), ("b", 2)], collate_fn_map=table)[0] == "ab"


def test_random_split():
    for lengths in ([7, 3], [0.5, 0.25, 0.25], [0.34, 0.33, 0.33], [1.0], [10]):
        same(lambda L: [list(s.indices) for s in L.utils.data.random_split(range(10), lengths)])
        same(lambda L: [list(s) for s in L.utils.data.random_split(range(10), lengths, L.Generator().manual_seed(4))])
    same(lambda L: L.utils.data.random_split(range(10), [5, 4]))
    same(lambda L: L.utils.data.random_split(range(10), [1.5, -0.5]))
    same(lambda L: [len(s) for s in L.utils.data.random_split(range(2), [0.5, 0.3, 0.2])])


def test_iterable_datasets():
    def fn(L):
        class Stream(L.utils.data.IterableDataset):
            def __init__(self, n):
                self.n = n

            def __iter__(self):
                return iter(range(self.n))

            def __len__(self):
                return self.n

        D = L.utils.data
        out = []
        for kwargs in ({}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}):
            for dataset in (Stream(7), Stream(6), Stream(0), Stream(2) + Stream(3), D.ChainDataset([Stream(1), Stream(4)])):
                loader = D.DataLoader(dataset, **kwargs)
                out += [len(loader), epochs(loader)]
        return out, L.rand(1)

    same(fn)


def test_datasets():
    same(lambda L: L.utils.data.Dataset()[0])
    same(lambda L: L.utils.data.TensorDataset(L.ones(2), L.ones(3)))
    same(lambda L: L.utils.data.StackDataset())
    same(lambda L: L.utils.data.StackDataset([1], a=[2]))
    same(lambda L: L.utils.data.StackDataset([1], [2, 3]))
    same(lambda L: L.utils.data.ConcatDataset([]))
    same(lambda L: L.utils.data.ConcatDataset([range(3), range(5)])[-9])
    same(lambda L: [L.utils.data.ConcatDataset([range(3), range(5)])[i] for i in (-8, -1, 2, 3, 7)])
    same(lambda L: L.utils.data.TensorDataset(*tensors(L))[2:4])
    same(lambda L: L.utils.data.Subset(L.utils.data.TensorDataset(*tensors(L)), [5, 6, 7])[[0, 2]])
    same(lambda L: L.utils.data.StackDataset(L.utils.data.TensorDataset(*tensors(L)), range(25)).__getitems__([1, 2]))


REFUSED = [
    {"num_workers": -1}, {"timeout": -1}, {"prefetch_factor": 2}, {"persistent_workers": True}, {"sampler": [1], "shuffle": True},
    {"batch_sampler": [[1]], "batch_size": 2}, {"batch_size": None, "drop_last": True}, {"batch_size": 0}, {"batch_size": 2.5},
    {"drop_last": 1}, {"multiprocessing_context": "fork"}, {"num_workers": 1, "multiprocessing_context": "forks"},
    {"num_workers": 1, "multiprocessing_context": 3}, {"num_workers": 1, "prefetch_factor": -1},
]  # fmt: skip


@pytest.mark.parametrize("kwargs", REFUSED, ids=str)
def test_refused_options(kwargs):
    same(lambda L: L.utils.data.DataLoader(range(5), **kwargs) and None)


def test_more_refusals():
    same(lambda L: L.utils.data.DataLoader([], shuffle=True))
    same(lambda L: setattr(L.utils.data.DataLoader(range(5)), "batch_size", 3))
    same(lambda L: L.utils.data.RandomSampler(range(3), replacement=1))
    same(lambda L: L.utils.data.RandomSampler(range(3), num_samples=0))
    same(lambda L: L.utils.data.WeightedRandomSampler([1], 0))
    same(lambda L: L.utils.data.WeightedRandomSampler([1], 1, 3))
    same(lambda L: L.utils.data.WeightedRandomSampler([[1]], 1))
    same(lambda L: L.utils.data.DistributedSampler(range(3), 2, 2))
    for option in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):

        def refuse(L):
            class Stream(L.utils.data.IterableDataset):
                def __iter__(self):
                    return iter(range(3))

            return L.utils.data.DataLoader(Stream(), **option)

        same(refuse)
    with pytest.raises(NotImplementedError, match="distributed"):
        tensotron.utils.data.DistributedSampler(range(3))


# ==== worker processes =================================================================================
class Rows:
    """Of module level, so that every start method can send it."""

    def __init__(self, lib, n=11, fail=None):
        self.lib, self.n, self.fail = lib, n, fail

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == self.fail:
            raise KeyError(f"no row {i}")
        info = self.lib.utils.data.get_worker_info()
        draws = self.lib.rand(2), random.random(), np.random.rand()
        return self.lib.full((3,), float(i)), info.id, info.num_workers, info.seed, *draws


@forks
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("kwargs", [{"num_workers": 1}, {"num_workers": 2, "batch_size": 3, "shuffle": True}], ids=str)
def test_workers(kwargs):
    def fn(L):
        L.manual_seed(1)
        return epochs(L.utils.data.DataLoader(Rows(L), **kwargs)), L.rand(1)

    same(fn)


@forks
def test_persistent_workers():
    def fn(L):
        loader = L.utils.data.DataLoader(range(9), 2, True, num_workers=2, persistent_workers=True, prefetch_factor=1)
        out = epochs(loader, 2)
        next(iter(loader))  # an epoch that is given up
        return out, epochs(loader, 1)

    same(fn)


class Stream(tensotron.utils.data.IterableDataset):
    def __iter__(self):
        info = tensotron.utils.data.get_worker_info()
        return iter(range(info.id, 10, info.num_workers))


@forks
def test_workers_of_an_iterable():
    loader = tensotron.utils.data.DataLoader(Stream(), batch_size=2, num_workers=2)
    assert [b.tolist() for b in loader] == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]
    loader = tensotron.utils.data.DataLoader(Stream(), batch_size=2, num_workers=2, in_order=False, persistent_workers=True)
    for _ in range(2):
        assert sorted(i for b in loader for i in b.tolist()) == list(range(10))


@forks
def test_errors_of_workers():
    def fail(L):
        list(L.utils.data.DataLoader(Rows(L, fail=4), num_workers=1))

    assert outcome(fail, tensotron)[1:] == outcome(fail, torch)[1:]
    with pytest.raises(KeyError, match="Caught KeyError in DataLoader worker process 0.\nOriginal Traceback") as info:
        fail(tensotron)
    assert "no row 4" in str(info.value)

    def unpicklable(rows):
        return lambda: 0

    with pytest.raises(Exception, match="DataLoader worker process"):
        list(tensotron.utils.data.DataLoader(range(3), num_workers=1, collate_fn=unpicklable))


class Deadly:
    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return i


class Slow(Deadly):
    def __getitem__(self, i):
        time.sleep(60)


@forks
def test_workers_that_die_or_sleep():
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(tensotron.utils.data.DataLoader(Deadly(), num_workers=1))
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="timed out after 0.2 seconds"):
        list(tensotron.utils.data.DataLoader(Slow(), num_workers=1, timeout=0.2))
    assert time.monotonic() - start < 30


def init(worker):
    info = tensotron.utils.data.get_worker_info()
    info.dataset[0] = 100 + worker


@forks
def test_worker_init_fn_and_large_batches():
    loader = tensotron.utils.data.DataLoader([0, 1], num_workers=1, worker_init_fn=init)
    assert [b.item() for b in loader] == [100, 1]
    big = tensotron.utils.data.TensorDataset(tensotron.arange(300_000.0).reshape(30_000, 10))
    got = list(tensotron.utils.data.DataLoader(big, 10_000, num_workers=1))
    assert (tensotron.cat([b[0] for b in got]) == big.tensors[0]).all()
    it = iter(tensotron.utils.data.DataLoader(big, 1000, num_workers=2))
    next(it)
    del it  # workers that are sending let go


def test_pin_memory_says_that_it_does_nothing():
    with pytest.warns(UserWarning, match="pin_memory"):
        assert len(list(tensotron.utils.data.DataLoader(range(2), pin_memory=True))) == 2
