"""The iterator that lets worker processes read."""

import functools
import itertools
import multiprocessing
import time
import weakref
from multiprocessing.connection import wait

from tensotron.utils.data._utils import worker as _worker
from tensotron.utils.data.dataloader import BaseIterator, _DatasetKind


class _Worker:
    """A process, the queue of its jobs and the pipe of its batches."""

    def __init__(self, context, loader, number, base_seed):
        self.number = number
        self.jobs = context.Queue()
        self.jobs.cancel_join_thread()
        self.results, out = context.Pipe(duplex=False)
        make_fetcher = functools.partial(
            _make_fetcher, loader._dataset_kind, loader._auto_collation, loader.collate_fn, loader.drop_last)
        self.process = context.Process(target=_worker.run, daemon=True, args=(
            make_fetcher, loader.dataset, self.jobs, out, base_seed, loader.worker_init_fn, number, loader.num_workers))
        self.process.start()
        out.close()
        self.active = True


def _make_fetcher(kind, auto_collation, collate_fn, drop_last, dataset):
    return _DatasetKind.create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last)


def _stop(workers, patience=5.0):
    """Ends the processes: by request, then by force."""
    for w in workers:
        try:
            w.jobs.put(None)
        except (ValueError, OSError):
            pass
    until = time.monotonic() + patience
    running = {w.process.sentinel: w for w in workers}
    channels = {w.results for w in workers}
    while running and (rest := until - time.monotonic()) > 0:
        for ready in wait([*running, *channels], rest):
            if running.pop(ready, None) is None:
                try:  # a worker that is sending waits for somebody to read
                    ready.recv_bytes()
                except (EOFError, OSError):
                    channels.discard(ready)
    for w in workers:
        if w.process.is_alive():
            w.process.terminate()
        w.process.join()
        w.results.close()
        w.jobs.close()
        w.process.close()
    workers.clear()


class MultiProcessIterator(BaseIterator):
    """Deals out batches to workers in turn, ahead of the reader, and yields what comes back in that order."""

    def __init__(self, loader):
        super().__init__(loader)
        context = loader.multiprocessing_context or multiprocessing.get_context()
        self._ahead = loader.prefetch_factor * loader.num_workers
        self._timeout, self._in_order = loader.timeout, loader.in_order
        self._persistent = loader.persistent_workers
        self._workers = []
        self._finalizer = weakref.finalize(self, _stop, self._workers)
        for i in range(loader.num_workers):
            self._workers.append(_Worker(context, loader, i, self._base_seed))
        self._begin()

    def _begin(self):
        self._sent = self._next = 0
        self._owners = {}  # number of a job that is out -> its worker
        self._done = {}  # number -> batch that came before its turn
        self._turn = itertools.cycle(self._workers)
        for w in self._workers:
            w.active = True
        for _ in range(self._ahead):
            self._send()

    def restart(self, loader):
        """Another epoch with the same processes."""
        while self._owners:  # batches that nobody wanted
            self._receive()
        self._indices = iter(loader._index_sampler)
        self._yielded, self._announced = 0, loader._IterableDataset_len_called
        for w in self._workers:
            w.jobs.put(_worker.Restarted())
        self._begin()

    def _send(self):
        """Gives the next indices to the next worker; nothing if either has ended."""
        w = next((w for w in itertools.islice(self._turn, len(self._workers)) if w.active), None)
        if w is None:
            return
        indices = next(self._indices, _END)
        if indices is _END:
            return
        self._owners[self._sent] = w
        w.jobs.put((self._sent, indices))
        self._sent += 1

    def _receive(self):
        """Waits for one message of any worker and files it."""
        busy = {w.results: w for w in self._owners.values() if w.active}
        ends = {w.process.sentinel: w for w in busy.values()}
        ready = wait([*busy, *ends], self._timeout or None)
        if not ready:
            self._abort()
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        channel = next((r for r in ready if r in busy), None)
        try:
            if channel is None:
                raise EOFError
            number, answer = channel.recv()
        except (EOFError, ConnectionResetError):
            dead = busy[channel] if channel is not None else ends[ready[0]]
            dead.process.join()
            pid, status = dead.process.pid, dead.process.exitcode
            self._abort()
            raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly, with status {status}") from None
        owner = self._owners.pop(number)
        if isinstance(answer, _worker.Exhausted):
            owner.active = False
            for other in [n for n, w in self._owners.items() if w is owner]:  # it will not answer these
                del self._owners[other]
            self._send()
        else:
            self._done[number] = answer

    def _abort(self):
        self._finalizer.detach()
        _stop(self._workers, patience=0)
        self._owners.clear()

    def _next_data(self):
        while True:
            if self._in_order:
                # numbers that nobody has any more were those of workers whose data ended
                while self._next < self._sent and self._next not in self._done and self._next not in self._owners:
                    self._next += 1
                number = self._next
            else:
                number = next(iter(self._done), self._next)
            if number in self._done:
                answer = self._done.pop(number)
                self._next = max(self._next, number + 1) if self._in_order else self._next
                self._send()
                if isinstance(answer, _worker.Failure):
                    answer.reraise()
                return answer
            if not self._owners:
                if not self._persistent:
                    self._finalizer()
                raise StopIteration
            self._receive()


_END = object()
