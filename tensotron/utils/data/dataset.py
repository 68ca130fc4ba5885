"""Datasets: anything with __getitem__ and __len__ (map-style) or __iter__ (iterable)."""

import bisect
import itertools
import math
import warnings

from tensotron._core.generator import default_generator

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]


class Dataset:
    """Base of map-style datasets: __getitem__(index) gives a sample; __getitems__(indices), where it exists, a list of them."""

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])

    def __class_getitem__(cls, item):
        return cls


class IterableDataset(Dataset):
    """Base of datasets that are read in their own order, by __iter__. Each worker of a loader has a copy of it."""

    def __iter__(self):
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Sample i is the tuple of row i of each tensor.

    Raises:
        AssertionError: the tensors have different numbers of rows.
    """

    def __init__(self, *tensors):
        if any(tensors[0].size(0) != t.size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple([t[index] for t in self.tensors])

    def __len__(self):
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Sample i holds sample i of each dataset: a tuple, or a dict if they were given by keyword.

    Raises:
        ValueError: none, or both kinds, or datasets of different lengths.
    """

    def __init__(self, *args, **kwargs):
        if args and kwargs:
            raise ValueError("Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but "
                             "both types are given.")
        parts = args or tuple(kwargs.values())
        if not parts:
            raise ValueError("At least one dataset should be passed")
        self._length = len(parts[0])
        if any(len(p) != self._length for p in parts):
            raise ValueError("Size mismatch between datasets")
        self.datasets = args or kwargs

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple([d[index] for d in self.datasets])

    def __getitems__(self, indices):
        named = isinstance(self.datasets, dict)
        rows = zip(*(self._column(d, indices) for d in (self.datasets.values() if named else self.datasets)))
        if named:
            return [dict(zip(self.datasets, row)) for row in rows]
        return list(rows)

    @staticmethod
    def _column(dataset, indices):
        several = getattr(dataset, "__getitems__", None)
        if not callable(several):
            return [dataset[i] for i in indices]
        items = several(indices)
        if len(items) != len(indices):
            raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}")
        return items

    def __len__(self):
        return self._length


class ConcatDataset(Dataset):
    """Map-style datasets, one after the other."""

    @staticmethod
    def cumsum(sequence):
        """Running sums of the lengths."""
        return list(itertools.accumulate(map(len, sequence)))

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx):
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][idx - before]


class ChainDataset(IterableDataset):
    """Iterable datasets, one after the other."""

    def __init__(self, datasets):
        self.datasets = datasets

    def _checked(self):
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield d

    def __iter__(self):
        for d in self._checked():
            yield from d

    def __len__(self):
        return sum(len(d) for d in self._checked())


class Subset(Dataset):
    """Some samples of a dataset, by their indices."""

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(f"{kind.__name__} overrides __getitem__ but not __getitems__, which is what a DataLoader "
                                      "calls. Override it as well: return [self[i] for i in indices]")

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices):
        own = [self.indices[i] for i in indices]
        several = getattr(self.dataset, "__getitems__", None)
        return several(own) if callable(several) else [self.dataset[i] for i in own]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, generator=default_generator):
    """Subsets of the lengths given, or of fractions that sum up to 1, in random order.

    Raises:
        ValueError: the lengths do not add up to the dataset's, or a fraction lies outside [0, 1].
    """
    from tensotron import randperm

    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        lengths = [math.floor(total * fraction) for fraction in lengths]
        for i in range(total - sum(lengths)):
            lengths[i % len(lengths)] += 1
        for i, length in enumerate(lengths):
            if not length:
                warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2)
    if sum(lengths) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = randperm(total, generator=generator).tolist()
    return [Subset(dataset, indices[end - n : end]) for end, n in zip(itertools.accumulate(lengths), lengths)]
