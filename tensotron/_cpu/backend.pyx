# cython: language_level=3, boundscheck=False, wraparound=False
"""The CPU backend: memory, choice of kernels, and the launch of records."""
import os
from contextlib import contextmanager

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_INCREF

cdef extern from "tensotron/_cpu/dispatch.h" namespace "tensotron" nogil:
    bint select_isa(const char* name)
    const char* active_isa()
    bint isa_available(const char* name)

cdef extern from "tensotron/_cpu/allocator.h" namespace "tensotron" nogil:
    void cpu_empty_cache()
    size_t cpu_bytes_in_use()
    size_t cpu_bytes_cached()

cdef extern from "tensotron/_cpu/backend.h" namespace "tensotron" nogil:
    const Backend cpu_backend
    const Backend guard_backend
    const Backend* active_backend
    size_t guard_launches()
    size_t guard_copies()

cdef extern from "tensotron/_cpu/work.h" namespace "tensotron" nogil:
    double LONG_NS
    double record_ns(const Record& r)
    bint is_long(const Record& r)

cdef extern from "tensotron/_cpu/pool.h" namespace "tensotron" nogil:
    int get_pool_size "tensotron::pool_size.load"()
    void pool_set_size(int threads)
    int pool_available_cpus()
    int forks_ "tensotron::forks"

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident()

cdef extern from "tensotron/_cpu/random.h" namespace "tensotron" nogil:
    void generator_seed_ "tensotron::generator_seed"(GeneratorState& g, uint64_t seed)
    void generator_get_state_ "tensotron::generator_get_state"(const GeneratorState& g, uint8_t* state)
    bint generator_set_state_ "tensotron::generator_set_state"(GeneratorState& g, const uint8_t* state)
    void random_order_ "tensotron::random_order"(Record& r)

cdef extern from *:
    """
    #include "tensotron/_cpu/iterate.h"
    static const char* const tensotron_kernel_names[] = {
    #define KERNEL(name) #name,
    #include "tensotron/_cpu/kernels.def"
    #undef KERNEL
    };
    static int tensotron_run_over(tensotron::Record& r, const tensotron::Iteration& it,
                                  int (*launch)(tensotron::Record*)) {
      return it.run(r, [launch](tensotron::Record& rec) { return launch(&rec); });
    }
    static int tensotron_run_simply(tensotron::Record& r, const tensotron::Iteration& it,
                                    int (*launch_long)(tensotron::Record*)) {
      return it.run(r, [launch_long](tensotron::Record& rec) {
        return tensotron::is_long(rec) ? launch_long(&rec) : tensotron::active_backend->launch(rec);
      });
    }
    """
    const char* tensotron_kernel_names[]
    int tensotron_run_over(Record& r, const Iteration& it, int (*launch)(Record*) noexcept)
    int tensotron_run_simply(Record& r, const Iteration& it, int (*launch_long)(Record*) noexcept)

cdef Recorder recorder = None
cdef Watch watch


cdef Watch* watch_state() noexcept:
    return &watch


cdef bytes snapshot(const Record* r):
    """A copy to keep; the operand list follows the record. Constants in the record are addressed from its
    start there, for it moves."""
    cdef Record copy = r[0]
    cdef int k
    for k in range(copy.nout + copy.nin):
        if copy.arg[k].is_const:
            copy.arg[k].data = <char*>(<size_t>copy.arg[k].data - <size_t>r)
    cdef bytes head = PyBytes_FromStringAndSize(<char*>&copy, sizeof(Record))
    if r.nlist:
        return head + PyBytes_FromStringAndSize(<char*>r.list, r.nlist * sizeof(Arg))
    return head


cdef class Recorder:
    """Keeps copies of the launch records of one thread, and for a capture what else it has to know."""

    def __init__(self, bint capture=True, bint dry=False):
        self.capture, self.dry = capture, dry
        self.records, self.created, self.leaves, self.held = [], [], [], []
        self.buffers = {}

    def start(self):
        """Makes this the recorder of the calling thread."""
        global recorder
        self.thread = PyThread_get_thread_ident()
        self.outer = recorder
        recorder = self
        watch.capturing = self.capture

    def stop(self):
        global recorder
        recorder = self.outer
        watch.capturing = recorder is not None and recorder.capture
        self.outer = None

    def refuse(self, str reason, bint later=False):
        """Gives the capture up; the call itself goes on. `later`: another call of the kind may do."""
        if self.reason is None:
            self.reason, self.later = reason, later

    cdef int add(self, const Record* r) except -1:
        cdef int k
        cdef uint32_t i
        if self.capture:
            if self.reason is not None and not self.dry:
                return 0
            for k in range(r.nout + r.nin):
                self.keep(&r.arg[k])
            for i in range(r.nlist):
                self.keep(&r.list[i])
        self.records.append(snapshot(r))
        return 0

    cdef int keep(self, const Arg* a) except -1:
        if a.buffer != NULL and not a.is_const:
            self.buffers[<size_t>a.buffer] = <object>a.buffer
        return 0


cdef bint recording_here() noexcept:
    return recorder is not None and recorder.thread == PyThread_get_thread_ident()


cdef inline bint capturing_here() noexcept:
    return recording_here() and recorder.capture


cdef Py_ssize_t references_to(object storage) noexcept:
    cdef Py_ssize_t n = 0
    if capturing_here():
        n += <size_t><void*>storage in recorder.buffers
        for s in recorder.created:
            n += s is storage
    return n


cdef int note_storage(object storage) except -1:
    if capturing_here():
        recorder.created.append(storage)
    return 0


cdef int note_leaf(object tensor) except -1:
    if capturing_here():
        for entry in recorder.leaves:
            if entry[0] is tensor:
                return 0
        entry = [tensor, None, len(recorder.records)]
        recorder.leaves.append(entry)  # first: the next line comes here again
        entry[1] = tensor.grad
    return 0


cdef int note_change_of(object storage) except -1:
    if capturing_here():
        for s in recorder.created:
            if s is storage:
                return 0
        recorder.refuse("a tensor from outside changes its shape, memory or requires_grad")
    return 0


cdef int note_held(object owner) except -1:
    if capturing_here():
        recorder.held.append(owner)
    return 0


cdef int uncapturable(str reason, bint later=False) except -1:
    if capturing_here():
        recorder.refuse(reason, later)
    return 0


cdef int launch_status(Record* r) noexcept:
    if recording_here():
        recorder.add(r)
        if recorder.dry:
            return OK
    return active_backend.launch(r[0])


cdef int gil_keepers = 0


cdef int keep_gil(bint on) noexcept:
    global gil_keepers
    gil_keepers += 1 if on else -1
    return 0


cdef bint may_let_go() noexcept:
    """The guarded backend is for one thread at a time."""
    return gil_keepers == 0 and active_backend == &cpu_backend


cdef int hold(const Arg* a, int n, bint on) noexcept:
    """Takes or gives back references to the storages of operands, which another thread might drop meanwhile."""
    cdef int k
    for k in range(n):
        if a[k].buffer != NULL and not a[k].is_const:
            if on:
                Py_INCREF(<object>a[k].buffer)
            else:
                Py_DECREF(<object>a[k].buffer)
    return 0


cdef int launch_long(Record* r) noexcept:
    cdef int status
    if not may_let_go():
        return active_backend.launch(r[0])
    hold(r.arg, r.nout + r.nin, True)
    hold(r.list, <int>r.nlist, True)
    with nogil:
        status = active_backend.launch(r[0])
    hold(r.arg, r.nout + r.nin, False)
    hold(r.list, <int>r.nlist, False)
    return status


cdef int launch(Record* r) except -1:
    cdef int status
    if recorder is not None:
        status = launch_status(r)
    elif is_long(r[0]):
        status = launch_long(r)
    else:
        status = active_backend.launch(r[0])
    if status != OK:
        raise_status(status, r)
    return 0


cdef int launch_over(Record* r, const Iteration& it) except -1:
    cdef int status
    if recorder is None and it.ndim <= MAX_DIMS:
        status = tensotron_run_simply(r[0], it, launch_long)
    else:
        status = tensotron_run_over(r[0], it, launch_status)
    if status != OK:
        raise_status(status, r)
    return 0


cdef int run_records(const Record* r, Py_ssize_t n, Py_ssize_t* failed, bint let_go) noexcept nogil:
    cdef Py_ssize_t i
    cdef int status
    for i in range(n):
        if let_go and r[i].kernel == RANDOM:  # the GIL guards the generators
            with gil:
                status = active_backend.launch(r[i])
        else:
            status = active_backend.launch(r[i])
        if status != OK:
            failed[0] = i
            return status
    return OK


cdef bint are_long(const Record* r, Py_ssize_t n) noexcept:
    cdef Py_ssize_t i
    cdef double ns = 0
    for i in range(n):
        ns += record_ns(r[i])
        if ns > LONG_NS:
            return True
    return False


cdef int forks() noexcept:
    return forks_


def bump_epoch():
    """Notes a change that captured calls have to see and that no tensor shows."""
    watch.epoch += 1


def epoch():
    """Number of changes noted so far."""
    return watch.epoch


def flip_mode(module):
    """Notes that a module has changed between training and evaluation."""
    cdef uint64_t h = <size_t><void*>module
    h = (h ^ h >> 29) * <uint64_t>0xbf58476d1ce4e5b9
    watch.modes ^= (h ^ h >> 32) * <uint64_t>0x94d049bb133111eb


cdef int raise_index_error(const Record* r) except -1:
    """error[3]: how the operation words it, 4 * (dimension + 1) added; -1 for the dimension that the kernel tells."""
    cdef int64_t kind = r.error[3] % 4, dim = r.error[3] // 4 - 1
    if kind == 2:
        raise IndexError("index out of range in self")
    if kind == 3:
        raise IndexError(f"out of range: tried to access index {r.error[0]} on a tensor of {r.error[1]} elements.")
    text = f"index {r.error[0]} is out of bounds for dimension {r.error[2] if dim < 0 else dim} with size {r.error[1]}"
    raise (RuntimeError if kind == 1 else IndexError)(text)


cdef int raise_status(int status, const Record* r) except -1:
    if status == INDEX_OUT_OF_RANGE and (r.kernel == INDEX_GET or r.kernel == INDEX_PUT):
        raise_index_error(r)
    if status == INDEX_OUT_OF_RANGE:
        raise IndexError(f"index {r.error[0]} is out of bounds for dimension with size {r.error[1]}")
    if status == TARGET_OUT_OF_RANGE:
        raise IndexError(f"Target {r.error[0]} is out of bounds.")
    if status == DIVISION_BY_ZERO:
        raise RuntimeError("ZeroDivisionError")
    if status == OUT_OF_MEMORY:
        raise MemoryError("out of memory in a kernel's scratch space")
    if status == PROBABILITY_OUT_OF_RANGE:
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be "
                           "improved?  If so, please report an enhancement request to PyTorch.)")
    if status == NEGATIVE_POWER:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    raise NotImplementedError(
        f"kernel {tensotron_kernel_names[r.kernel].decode()}, op {r.op}: no code for compute dtype {r.compute}")


cdef const Backend** active() noexcept:
    return &active_backend


cdef int refuse_memory(size_t nbytes) except -1:
    raise RuntimeError(
        f"[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to "
        f"allocate {nbytes} bytes.")


cdef void* alloc(size_t nbytes, size_t* capacity) except NULL:
    cdef void* p = active_backend.alloc(nbytes, capacity)
    if p == NULL:
        refuse_memory(nbytes)
    return p


cdef void copy_bytes(void* dst, const void* src, size_t n) noexcept:
    if recorder is not None:
        uncapturable("values pass between a tensor and Python (item, tolist, tensor(data), a condition on a tensor)")
    active_backend.copy(dst, src, n)


cdef void expose(void* p) noexcept:
    if recorder is not None:
        uncapturable("a tensor's memory is handed to numpy or another library")
    active_backend.expose(p)


cdef void generator_seed(GeneratorState* g, uint64_t seed) noexcept:
    if recorder is not None:
        uncapturable("a generator is seeded")
    generator_seed_(g[0], seed)


cdef bytes generator_get_state(const GeneratorState* g):
    cdef bytes state = PyBytes_FromStringAndSize(NULL, GENERATOR_STATE_BYTES)
    generator_get_state_(g[0], <uint8_t*><char*>state)
    return state


cdef bint generator_set_state(GeneratorState* g, const uint8_t* state) noexcept:
    if recorder is not None:
        uncapturable("a generator's state is set")
    return generator_set_state_(g[0], state)


cdef void random_order(Record* r) noexcept:
    random_order_(r[0])


cdef dict kernel_ids = {tensotron_kernel_names[i].decode(): i for i in range(NUM_KERNELS)}


cdef int INDEX_GET = kernel_ids["index_get"], INDEX_PUT = kernel_ids["index_put"], RANDOM = kernel_ids["random"]


cdef int kernel_id(str name) except -1:
    """Number of a kernel family of kernels.def."""
    return kernel_ids[name]


# ---- Python surface ----------------------------------------------------------------------
CAPABILITIES = {"baseline": "DEFAULT", "neon": "NEON", "avx2": "AVX2", "avx512": "AVX512"}


def get_cpu_capability():
    """The instruction set of the kernels in use: "DEFAULT", "NEON", "AVX2" or "AVX512"."""
    return CAPABILITIES[active_isa().decode()]


def available_isas():
    """Names that `select` and TENSOTRON_CPU_CAPABILITY accept on this machine."""
    return [n for n in CAPABILITIES if isa_available(n.encode())]


def select(str name):
    """Chooses the kernels by ISA name; None for the best that the machine has.

    Raises:
        ValueError: the name is unknown, or this machine or build lacks it.
    """
    cdef bytes b
    if name is None:
        select_isa(NULL)
        return
    b = name.lower().encode()
    if b == b"default":
        b = b"baseline"
    if not select_isa(b):
        raise ValueError(f"no CPU kernels for {name!r} here; available: {', '.join(available_isas())}")


def empty_cache():
    """Returns the allocator's unused memory to the system."""
    cpu_empty_cache()


def memory_stats():
    """Bytes in use by tensors, and bytes kept for reuse."""
    return {"in_use": cpu_bytes_in_use(), "cached": cpu_bytes_cached()}


cdef object thread_count(str name, object n):
    """A number of threads as torch takes it."""
    import numbers
    if isinstance(n, bool) or not isinstance(n, numbers.Integral):
        raise RuntimeError(f"{name} expects an int, but got {type(n).__name__}")
    if not -(1 << 31) <= n < 1 << 31:
        raise ValueError("Overflow when unpacking long")
    if n <= 0:
        raise RuntimeError(f"{name} expects a positive integer")
    return int(n)


def set_num_threads(n, /):
    """Sets how many threads share the work of a large operation on the CPU; 1 until it is called, unless
    TENSOTRON_CPU_THREADS (a number, or "auto": one for each CPU) is set. Results do not depend on it.

    Raises:
        RuntimeError: n is no positive integer.
    """
    cdef int threads = thread_count("set_num_threads", n)
    with nogil:  # waits for work under way
        pool_set_size(threads)


def get_num_threads():
    """How many threads share the work of a large operation on the CPU."""
    return get_pool_size()


cdef int set_from_environment(str value) except -1:
    if value.lower() == "auto":
        set_num_threads(pool_available_cpus())
    elif value.isdecimal() and 0 < int(value) < 1 << 31:
        set_num_threads(int(value))
    else:
        raise ValueError(f'TENSOTRON_CPU_THREADS is neither a positive number nor "auto": {value!r}')
    return 0


cdef object interop_threads = None


def set_num_interop_threads(n, /):
    """Accepted once, as in torch; nothing here runs several operations of one thread at a time.

    Raises:
        RuntimeError: n is no positive integer, or this is the second call.
    """
    global interop_threads
    threads = thread_count("set_num_interop_threads", n)
    if interop_threads is not None:
        raise RuntimeError("Error: cannot set number of interop threads after parallel work has started or "
                           "set_num_interop_threads called")
    interop_threads = threads


def get_num_interop_threads():
    """What set_num_interop_threads has been given, or the number of CPUs."""
    return pool_available_cpus() if interop_threads is None else interop_threads


@contextmanager
def recording():
    """Yields a list that receives the bytes of every launch record (record.h) until the end."""
    r = Recorder(False)
    r.start()
    try:
        yield r.records
    finally:
        r.stop()


@contextmanager
def guarded():
    """Runs with tensor memory that is inaccessible outside launches and backend copies.

    Yields a function returning (launches, copies) counted so far. For tests: slow.
    """
    global active_backend
    cdef const Backend* before = active_backend
    active_backend = &guard_backend
    try:
        yield lambda: (guard_launches(), guard_copies())
    finally:
        active_backend = before


if not select_isa(NULL):
    raise ImportError("no usable CPU kernels")
if os.environ.get("TENSOTRON_CPU_CAPABILITY"):
    select(os.environ["TENSOTRON_CPU_CAPABILITY"])
if os.environ.get("TENSOTRON_CPU_THREADS"):
    set_from_environment(os.environ["TENSOTRON_CPU_THREADS"])
