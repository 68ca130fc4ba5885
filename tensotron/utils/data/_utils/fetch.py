"""Reads the samples of a batch and puts them together."""

import tensotron as _t
from tensotron.utils.data._utils import collate as _collate
from tensotron.utils.data.dataset import Subset, TensorDataset


class Fetcher:
    """Base: fetch(index or list of indices) gives a batch."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation, self.collate_fn, self.drop_last = dataset, auto_collation, collate_fn, drop_last


class MapFetcher(Fetcher):
    """Of a dataset with __getitem__."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self._several = getattr(dataset, "__getitems__", None) or None
        plain = auto_collation and collate_fn is _collate.default_collate
        self._tensors, self._subset = rows_of(dataset) if plain else (None, None)

    def fetch(self, index):
        """The batch of a list of indices; without collation the sample of one."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        if self._tensors is not None:
            batch = self._gather(index)
            if batch is not None:
                return batch
        if self._several is not None:
            return self.collate_fn(self._several(index))
        dataset = self.dataset
        return self.collate_fn([dataset[i] for i in index])

    def _gather(self, indices):
        """Rows of the tensors by one indexing each, which is what stacking them gives; None where it might not be."""
        if _collate.default_collate_fn_map.get(_t.Tensor) is not _collate.collate_tensor_fn:
            return None
        for subset in self._subset:
            try:
                indices = [subset[i] for i in indices]
            except (IndexError, TypeError):
                return None
        if not indices or not all(type(i) is int for i in indices):
            return None
        tensors = self._tensors
        n = len(tensors[0])
        if min(indices) < 0 or max(indices) >= n:
            return None
        grad = _t.is_grad_enabled()
        for t in tensors:
            if len(t) != n or not t.is_contiguous() or (grad and t.requires_grad):
                return None
        where = _t.tensor(indices)
        return [t.index_select(0, where) for t in tensors]


def rows_of(dataset):
    """(tensors, subsets on top of them, outermost first) of a TensorDataset; (None, None) of any other, or of tensors whose
    rows might stack differently."""
    chain = []
    while type(dataset) is Subset:
        chain.append(dataset.indices)
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset or not dataset.tensors:
        return None, None
    if not all(type(t) is _t.Tensor and t.dim() > 0 for t in dataset.tensors):
        return None, None
    return dataset.tensors, chain


class IterableFetcher(Fetcher):
    """Of a dataset with __iter__."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self._samples = iter(dataset)
        self._ended = False

    def fetch(self, index):
        """The next batch, as long as `index`, which says nothing else; without collation the next sample.

        Raises:
            StopIteration: no more.
        """
        if self._ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self._samples))
        batch = []
        for _ in index:
            try:
                batch.append(next(self._samples))
            except StopIteration:
                self._ended = True
                break
        if not batch or (self.drop_last and len(batch) < len(index)):
            raise StopIteration
        return self.collate_fn(batch)
