# Interface of the CPU backend for the other Cython modules.
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "tensotron/_cpu/record.h" namespace "tensotron" nogil:
    cdef enum:
        F32, F64, I64, I32, U8, BOOL, NUM_DTYPES
        MAX_DIMS, MAX_ARGS, MAX_INTS, MAX_REALS
        OK, INDEX_OUT_OF_RANGE, TARGET_OUT_OF_RANGE, DIVISION_BY_ZERO, OUT_OF_MEMORY
        PROBABILITY_OUT_OF_RANGE, NEGATIVE_POWER, UNSUPPORTED
        NUM_KERNELS
    # kernel ids are used by name, K_xxx, in the module that launches them
    int64_t item_size(int dtype)

    cdef struct Arg:
        char* data
        void* buffer
        int64_t stride[8]
        uint8_t dtype
        uint8_t is_const

    cdef struct Record:
        uint16_t kernel
        uint16_t op
        uint8_t nout, nin, ndim
        uint8_t compute
        uint8_t device
        uint8_t flags
        uint32_t nlist
        int64_t size[8]
        Arg arg[8]
        Arg* list
        void* state
        int64_t ints[28]
        double reals[8]
        int64_t error[4]

cdef extern from "tensotron/_cpu/backend.h" namespace "tensotron" nogil:
    cdef cppclass Backend:
        int (*launch)(const Record&)
        void* (*alloc)(size_t nbytes, size_t* capacity)
        void (*release)(void* p, size_t capacity)
        void (*copy)(void* dst, const void* src, size_t nbytes)
        void (*expose)(void* p)

cdef extern from "tensotron/_cpu/iterate.h" namespace "tensotron" nogil:
    cdef cppclass Iteration:
        int ndim, nargs
        int64_t size[64]
        int64_t stride[8][64]
        void begin(int nd, const int64_t* sizes)
        void operand(int nd, const int64_t* sizes, const int64_t* strides)
        void constant()
        void simplify(bint reorder)

cdef extern from "tensotron/_cpu/random.h" namespace "tensotron" nogil:
    enum: GENERATOR_STATE_BYTES
    ctypedef struct GeneratorState "tensotron::Generator":
        uint64_t seed

cdef void generator_seed(GeneratorState* g, uint64_t seed) noexcept
cdef bytes generator_get_state(const GeneratorState* g)
cdef bint generator_set_state(GeneratorState* g, const uint8_t* state) noexcept
# Brings the dimensions of a record into the order in which torch draws.
cdef void random_order(Record* r) noexcept

# ---- capture: what the recorder of this thread hears of, beside the records ----------------
cdef struct Watch:
    bint capturing             # some thread captures
    uint64_t epoch             # changes that no tensor shows: members and hooks of modules, requires_grad, .data, ...
    uint64_t modes             # which modules train, hashed: the same again once all modes are as before
cdef Watch* watch_state() noexcept
cdef bint recording_here() noexcept
# Runs records in order until one fails; its status and place. `let_go`: the caller has let the GIL go.
cdef int run_records(const Record* r, Py_ssize_t n, Py_ssize_t* failed, bint let_go) noexcept nogil
cdef bint may_let_go() noexcept
cdef bint are_long(const Record* r, Py_ssize_t n) noexcept  # long enough for that
cdef int forks() noexcept                     # behind this process
# Launches between on and off keep the GIL: what they are part of must not be seen half done by other threads.
cdef int keep_gil(bint on) noexcept
# How many references to a storage a recording holds.
cdef Py_ssize_t references_to(object storage) noexcept
cdef int note_storage(object storage) except -1   # made now
cdef int note_leaf(object tensor) except -1       # its .grad is about to be read or written
cdef int note_change_of(object storage) except -1 # a tensor on it changes its shape, memory or requires_grad
cdef int note_held(object owner) except -1        # the records point into this object
# The call cannot be replayed; `later`: a later call of its kind perhaps can.
cdef int uncapturable(str reason, bint later=*) except -1

cdef class Recorder:
    cdef readonly list records
    cdef readonly bint dry             # nothing is run
    cdef readonly bint capture         # else the records alone
    cdef readonly list created         # storages made since the start
    cdef readonly dict buffers         # address of a storage -> the storage, for those in records
    cdef readonly list leaves          # tensors whose .grad is read or written, and what it was
    cdef readonly list held
    cdef readonly str reason           # why the call cannot be replayed, or None
    cdef readonly bint later
    cdef unsigned long thread
    cdef Recorder outer
    cdef int add(self, const Record* r) except -1
    cdef int keep(self, const Arg* a) except -1

# Runs one launch record; raises what its status says. The GIL is let go while a long one runs.
cdef int launch(Record* r) except -1
# The same without raising: the status.
cdef int launch_status(Record* r) noexcept
# Runs the record over an iteration of any number of dimensions.
cdef int launch_over(Record* r, const Iteration& it) except -1
cdef int raise_status(int status, const Record* r) except -1
cdef const Backend** active() noexcept        # where the backend in use stands
cdef int refuse_memory(size_t nbytes) except -1
cdef void* alloc(size_t nbytes, size_t* capacity) except NULL
cdef void copy_bytes(void* dst, const void* src, size_t n) noexcept
cdef void expose(void* p) noexcept
cdef int kernel_id(str name) except -1
