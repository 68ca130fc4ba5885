"""The sampler of data-parallel training: each of several processes reads its share."""

import math

import tensotron as _t
from tensotron.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Every num_replicas-th index, from `rank` on, of the order that seed + epoch gives.

    Raises:
        ValueError: rank is outside of [0, num_replicas).
        NotImplementedError: num_replicas or rank is left to a process group.
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None or rank is None:
            raise NotImplementedError("process groups (torch.distributed) are not supported by tensotron: give num_replicas "
                                      "and rank")
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch = 0
        self.drop_last, self.shuffle, self.seed = drop_last, shuffle, seed
        n = len(dataset)
        self.num_samples = math.ceil((n - num_replicas if drop_last and n % num_replicas else n) / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        n = len(self.dataset)
        if self.shuffle:
            indices = _t.randperm(n, generator=_t.Generator().manual_seed(self.seed + self.epoch)).tolist()
        else:
            indices = list(range(n))
        if not self.drop_last:  # repeats from the start, until every process has as many
            indices = (indices * math.ceil(self.total_size / n))[: self.total_size]
        return iter(indices[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Gives the next iterations another order."""
        self.epoch = epoch
