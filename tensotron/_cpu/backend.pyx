# cython: language_level=3, boundscheck=False, wraparound=False
"""The CPU backend: memory, choice of kernels, and the launch of records."""
import os
from contextlib import contextmanager

from cpython.bytes cimport PyBytes_FromStringAndSize

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
    """
    const char* tensotron_kernel_names[]
    int tensotron_run_over(Record& r, const Iteration& it, int (*launch)(Record*) noexcept)

cdef list recorder = None  # the records of `recording()`, or None


cdef bytes snapshot(const Record* r):
    """A copy to keep. Constants in the record are addressed from its start there, for it moves."""
    cdef Record copy = r[0]
    cdef int k
    for k in range(copy.nout + copy.nin):
        if copy.arg[k].is_const:
            copy.arg[k].data = <char*>(<size_t>copy.arg[k].data - <size_t>r)
    return PyBytes_FromStringAndSize(<char*>&copy, sizeof(Record))


cdef int launch_status(Record* r) noexcept:
    if recorder is not None:
        recorder.append(snapshot(r))
    return active_backend.launch(r[0])


cdef int launch(Record* r) except -1:
    cdef int status
    if recorder is not None:
        status = launch_status(r)
    else:
        status = active_backend.launch(r[0])
    if status != OK:
        raise_status(status, r)
    return 0


cdef int launch_over(Record* r, const Iteration& it) except -1:
    cdef int status
    if recorder is None and it.ndim <= MAX_DIMS:
        status = tensotron_run_over(r[0], it, <int (*)(Record*) noexcept>active_backend.launch)
    else:
        status = tensotron_run_over(r[0], it, launch_status)
    if status != OK:
        raise_status(status, r)
    return 0


cdef int raise_status(int status, const Record* r) except -1:
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


cdef void* alloc(size_t nbytes, size_t* capacity) except NULL:
    cdef void* p = active_backend.alloc(nbytes, capacity)
    if p == NULL:
        raise RuntimeError(
            f"[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to "
            f"allocate {nbytes} bytes.")
    return p


cdef void release(void* p, size_t capacity) noexcept:
    active_backend.release(p, capacity)


cdef void copy_bytes(void* dst, const void* src, size_t n) noexcept:
    active_backend.copy(dst, src, n)


cdef void expose(void* p) noexcept:
    active_backend.expose(p)


cdef void generator_seed(GeneratorState* g, uint64_t seed) noexcept:
    generator_seed_(g[0], seed)


cdef bytes generator_get_state(const GeneratorState* g):
    cdef bytes state = PyBytes_FromStringAndSize(NULL, GENERATOR_STATE_BYTES)
    generator_get_state_(g[0], <uint8_t*><char*>state)
    return state


cdef bint generator_set_state(GeneratorState* g, const uint8_t* state) noexcept:
    return generator_set_state_(g[0], state)


cdef void random_order(Record* r) noexcept:
    random_order_(r[0])


cdef dict kernel_ids = {tensotron_kernel_names[i].decode(): i for i in range(NUM_KERNELS)}


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


@contextmanager
def recording():
    """Yields a list that receives the bytes of every launch record (record.h) until the end."""
    global recorder
    before, recorder = recorder, []
    try:
        yield recorder
    finally:
        recorder = before


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
