"""DataLoader: batches of a dataset, read here or by worker processes."""

import math
import os
import warnings

from tensotron.utils.data._utils.collate import default_collate, default_convert
from tensotron.utils.data._utils.fetch import IterableFetcher, MapFetcher
from tensotron.utils.data._utils.worker import get_worker_info
from tensotron.utils.data.dataset import IterableDataset
from tensotron.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]


class _DatasetKind:
    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        """What reads batches of a dataset of that kind."""
        cls = MapFetcher if kind == _DatasetKind.Map else IterableFetcher
        return cls(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler):
    """None for ever: the order of an iterable dataset is its own."""

    def __iter__(self):
        while True:
            yield None


class DataLoader:
    """Iterates over batches of a dataset, as torch.utils.data.DataLoader does and with the same random numbers.

    num_workers=0 reads in this process. Otherwise that many processes do, and send the batches over pipes; their tensors are
    copied, not shared. pin_memory has no effect on the CPU and says so.

    Raises:
        ValueError: options that exclude each other, or a negative one.
    """

    __initialized = False

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
                 pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None,
                 *, prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 "
                             "to enable multiprocessing, otherwise set prefetch_factor to None.")
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        elif prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        if isinstance(dataset, IterableDataset):
            self._dataset_kind = _DatasetKind.Iterable
            begin = "DataLoader with IterableDataset: expected unspecified"
            if shuffle:
                raise ValueError(f"{begin} shuffle option, but got shuffle={shuffle}")
            if sampler is not None:
                raise ValueError(f"{begin} sampler option, but got sampler={sampler}")
            if batch_sampler is not None:
                raise ValueError(f"{begin} batch_sampler option, but got batch_sampler={batch_sampler}")
        else:
            self._dataset_kind = _DatasetKind.Map
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if self._dataset_kind == _DatasetKind.Iterable:
                sampler = _InfiniteConstantSampler()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called = None
        self._iterator = None
        self.check_worker_number_rationality()

    def __setattr__(self, name, value):
        fixed = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
        if self.__initialized and name in fixed:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self):
        return self.__context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None:
            import multiprocessing

            if self.num_workers == 0:
                raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), but "
                                 f"got num_workers={self.num_workers}")
            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueError(f"multiprocessing_context option should specify a valid start method in {methods!r}, "
                                     f"but got multiprocessing_context={context!r}")
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError("multiprocessing_context option should be a valid context object or a string specifying the "
                                f"start method, but got multiprocessing_context={context}")
        self.__context = context

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _get_iterator(self):
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        from tensotron.utils.data._utils.processes import MultiProcessIterator

        return MultiProcessIterator(self)

    def __iter__(self):
        if not self.persistent_workers:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator.restart(self)
        return self._iterator

    def __len__(self):
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        n = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else math.ceil(n / self.batch_size)

    def check_worker_number_rationality(self):
        """Warns if there are to be more workers than processors."""
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if self.num_workers > (cpus or 0):
            warnings.warn(f"This DataLoader will create {self.num_workers} worker processes in total, but this process may use "
                          f"{cpus} processors: loading may be slow, or freeze. Fewer workers are better.", stacklevel=3)


class BaseIterator:
    """What iterators of a loader share: the sampler's place, and the seed that PyTorch draws for each of them."""

    def __init__(self, loader):
        if loader.pin_memory:
            warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                          "used.", stacklevel=4)
        self._dataset = loader.dataset
        self._kind = loader._dataset_kind
        self._indices = iter(loader._index_sampler)
        self._length = len_of(loader)
        self._base_seed = draw_seed(loader.generator)
        self._yielded = 0
        self._announced = loader._IterableDataset_len_called

    def __iter__(self):
        return self

    def __len__(self):
        return self._length()

    def __next__(self):
        data = self._next_data()
        if self._announced is not None:
            self._yielded += 1
            if self._kind == _DatasetKind.Iterable and self._yielded > self._announced:
                warnings.warn(f"Length of IterableDataset {self._dataset} was reported to be {self._announced}(when accessing "
                              f"len(dataloader)), but {self._yielded} samples have been fetched. ", stacklevel=2)
        return data

    def __getstate__(self):
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


def len_of(loader):
    """len() of the loader's index sampler, when asked for."""
    sampler = loader._index_sampler
    return lambda: len(sampler)


class _SingleProcessDataLoaderIter(BaseIterator):
    def __init__(self, loader):
        super().__init__(loader)
        self._fetch = _DatasetKind.create_fetcher(
            self._kind, self._dataset, loader._auto_collation, loader.collate_fn, loader.drop_last).fetch

    def _next_data(self):
        return self._fetch(next(self._indices))
