"""Generators of random numbers and their state."""
import os
import threading
from contextlib import contextmanager

from libc.stdint cimport uint64_t, uint8_t

from tensotron._core.tensor cimport Tensor, contiguous, empty
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport GENERATOR_STATE_BYTES, U8, int64_t

from tensotron._core import geometry

cdef extern from *:
    """
    #include "tensotron/_cpu/random.h"
    """
    uint64_t DEFAULT_SEED "tensotron::DEFAULT_SEED"


cdef uint64_t seed_of(object value) except? 0:
    """A seed as torch takes it: negative numbers wrap."""
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("Overflow when unpacking long long")
    return <uint64_t>(value & 0xffffffffffffffff)


cdef class Generator:
    """Source of random numbers: torch's mt19937. A new one starts from a fixed seed.

    Raises:
        RuntimeError: the device is not the CPU.
    """

    def __cinit__(self, device=None):
        if device is not None:
            kind = geometry.device(device).type
            if isinstance(device, int):
                raise RuntimeError("Cannot access accelerator device when none is available.")
            if kind == "cuda":
                raise RuntimeError(
                    "Cannot get CUDA generator without ATen_cuda library. PyTorch splits its backend into two shared libraries: "
                    "a CPU library and a CUDA library; this error has occurred because you are trying to use some CUDA "
                    "functionality, but the CUDA library has not been loaded by the dynamic linker for some reason.  The CUDA "
                    "library MUST be loaded, EVEN IF you don't directly use any symbols from the CUDA library! One common "
                    "culprit is a lack of -Wl,--no-as-needed in your link arguments; many dynamic linkers will delete dynamic "
                    "library dependencies if you don't depend on any of their symbols.  You can check if this has occurred by "
                    "using ldd on your binary to see if there is a dependency on *_cuda.so library.")
            if kind != "cpu":
                raise RuntimeError(f"{kind.upper()} device type not an accelerator.")
        backend.generator_seed(&self.state, DEFAULT_SEED)

    @property
    def device(self):
        return geometry.CPU

    def manual_seed(self, seed):
        """Starts the stream of `seed`, an integer; returns the generator."""
        if type(seed) is not int:
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        backend.generator_seed(&self.state, seed_of(seed))
        return self

    def seed(self):
        """Starts the stream of a seed from the system's entropy; returns that seed."""
        cdef uint64_t seed = int.from_bytes(os.urandom(8), "little")
        backend.generator_seed(&self.state, seed)
        return seed

    def initial_seed(self):
        """The seed the stream was started from."""
        return self.state.seed

    def get_state(self):
        """The state as a uint8 tensor, in torch's layout."""
        cdef int64_t n = GENERATOR_STATE_BYTES
        cdef Tensor t = empty(1, &n, U8)
        cdef bytes state = backend.generator_get_state(&self.state)
        backend.copy_bytes(t.ptr, <char*>state, n)
        return t

    def set_state(self, new_state):
        """Continues from a state that get_state() returned.

        Raises:
            TypeError: no uint8 tensor.
            RuntimeError: the bytes are no state.
        """
        cdef Tensor t
        cdef uint8_t state[GENERATOR_STATE_BYTES]
        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        t = <Tensor>new_state
        if t.dt != U8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if t.n != GENERATOR_STATE_BYTES:
            raise RuntimeError(f"Expected a CPUGeneratorImplState of size {GENERATOR_STATE_BYTES} but found the input RNG state size "
                               f"to be {t.n}")
        t = contiguous(t)
        backend.copy_bytes(state, t.ptr, t.n)
        if not backend.generator_set_state(&self.state, state):
            raise RuntimeError("Invalid mt19937 state")
        return self

    def clone_state(self):
        """Another generator that continues from this one's state."""
        cdef Generator g = Generator.__new__(Generator)
        g.state = self.state
        return g

    def graphsafe_get_state(self):
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state):
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def get_offset(self):
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset):
        raise RuntimeError("CPU Generator does not use offset")

    def __reduce__(self):
        return Generator, (geometry.CPU,), (self.state.seed, None, self.get_state())

    def __setstate__(self, state):
        self.set_state(state[2])

    def __repr__(self):
        return f"<torch._C.Generator object at {id(self):#x}>"


cdef Generator the_default = Generator()
the_default.seed()  # programs that do not seed differ from run to run
default_generator = the_default


cdef Generator generator_of(object g, str op):
    if g is None:
        return the_default
    if not isinstance(g, Generator):
        raise TypeError(f"{op}(): argument 'generator' must be torch.Generator, not {type(g).__name__}")
    return <Generator>g


# ==== the default generator ===========================================================================
def manual_seed(seed):
    """Starts the stream of `seed` in the default generator, which is returned. Negative seeds wrap.

    Raises:
        ValueError: the seed lies outside [-2**63, 2**64).
    """
    return the_default.manual_seed(int(seed))


def seed():
    """Starts the default generator from a seed of the system's entropy; returns it."""
    return the_default.seed()


def initial_seed():
    """The seed of the default generator."""
    return the_default.initial_seed()


def get_rng_state():
    """State of the default generator, a uint8 tensor."""
    return the_default.get_state()


def set_rng_state(new_state):
    """Sets the state of the default generator."""
    the_default.set_state(new_state)


@contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type=None):
    """Restores the state of the default generator at the end of the block."""
    if not enabled:
        yield
        return
    if devices:
        geometry.require_cpu("cuda")
    state = the_default.get_state()
    try:
        yield
    finally:
        the_default.set_state(state)


def thread_safe_generator():
    """The generator of a worker thread of a data loader; None elsewhere."""
    return getattr(_local, "generator", None)

_local = threading.local()


FUNCTIONS = {"Generator": Generator, "default_generator": default_generator, "manual_seed": manual_seed, "seed": seed,
             "initial_seed": initial_seed, "get_rng_state": get_rng_state, "set_rng_state": set_rng_state}
for fn in (manual_seed, seed, initial_seed, get_rng_state, set_rng_state):
    fn.__module__ = "tensotron.random"
