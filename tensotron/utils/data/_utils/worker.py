"""What runs in a worker process."""

import random
import sys
import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensotron as _t

_worker_info = None
ORPHAN_CHECK = 5.0  # seconds after which an idle worker looks whether its parent lives


@dataclass(frozen=True)
class WorkerInfo:
    """Of the worker that asks: its number, how many there are, its seed and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info():
    """WorkerInfo in a worker process of a DataLoader; None elsewhere."""
    return _worker_info


class Failure:
    """An exception of a worker, to be raised again by the loader."""

    def __init__(self, where):
        self.kind, value, trace = sys.exc_info()
        self.text = "".join(traceback.format_exception(self.kind, value, trace))
        self.where = where

    def reraise(self):
        """Raises the same class with the worker's traceback as message; RuntimeError if it takes no message."""
        text = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        try:
            error = self.kind(_Verbatim(text) if self.kind is KeyError else text)
        except Exception:
            raise RuntimeError(text) from None
        raise error


class _Verbatim(str):
    """A message that KeyError does not quote."""

    def __repr__(self):
        return str(self)


class Exhausted:
    """The iterable dataset of a worker has ended."""


class Restarted:
    """A worker begins a new epoch."""


def seed_everything(base_seed, worker):
    """Seeds torch's, Python's and numpy's generators with what PyTorch gives them."""
    seed = base_seed + worker
    random.seed(seed)
    _t.manual_seed(seed)
    np.random.seed(np.random.SeedSequence([worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4))
    return seed


def run(make_fetcher, dataset, jobs, out, base_seed, init_fn, worker, num_workers):
    """Fetches what `jobs`, a queue of (number, indices), asks for and sends (number, batch or Failure) into the pipe `out`.

    None in the queue ends it, Restarted() makes a new fetcher.
    """
    global _worker_info
    where = f"in DataLoader worker process {worker}"
    try:
        _worker_info = WorkerInfo(worker, num_workers, seed_everything(base_seed, worker), dataset)
        fetcher = failure = None
        try:
            if init_fn is not None:
                init_fn(worker)
            fetcher = make_fetcher(dataset)
        except Exception:
            failure = Failure(where)
        ended = False
        while True:
            job = _next(jobs)
            if job is None:
                return
            if isinstance(job, Restarted):
                ended = False
                try:
                    fetcher = make_fetcher(dataset)
                except Exception:
                    failure = Failure(where)
                continue
            number, indices = job
            if ended:
                continue
            if failure is not None:
                answer, failure = failure, None
            else:
                try:
                    answer = fetcher.fetch(indices)
                except StopIteration:
                    if not hasattr(fetcher, "_samples"):
                        answer = Failure(where)
                    else:
                        answer, ended = Exhausted(), True
                except Exception:
                    answer = Failure(where)
            try:
                out.send((number, answer))
            except (BrokenPipeError, ConnectionResetError):
                return
            except Exception:  # the batch cannot be pickled
                out.send((number, Failure(where)))
    except (KeyboardInterrupt, BrokenPipeError, EOFError):
        pass  # the parent ends, or has ended: it reports
    finally:
        out.close()
        jobs.close()
        jobs.cancel_join_thread()


def _next(jobs):
    import multiprocessing
    import queue

    while True:
        try:
            return jobs.get(timeout=ORPHAN_CHECK)
        except queue.Empty:
            if not multiprocessing.parent_process().is_alive():
                return None
