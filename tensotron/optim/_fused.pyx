# distutils: language = c++
"""Optimiser steps and gradient clipping over lists of tensors, in one launch."""
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, realloc

from tensotron._core cimport dtype as dt_
from tensotron._core.program cimport Held
from tensotron._core.tensor cimport Tensor, begin, empty, empty_like, fill_with, is_dense, same_shape, set_arg
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport F32, F64, Arg, Record, Watch

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    #include "tensotron/_cpu/optim.h"
    """
    enum: K_optim "tensotron::K_optim"
    enum: K_list_norm "tensotron::K_list_norm"
    enum: K_list_scale "tensotron::K_list_scale"
    enum: SGD "tensotron::OPTIM_SGD"
    enum: ADAM "tensotron::OPTIM_ADAM"
    enum: RMSPROP "tensotron::OPTIM_RMSPROP"
    enum: MAXIMIZE "tensotron::OPTIM_MAXIMIZE"
    enum: MOMENTUM "tensotron::OPTIM_MOMENTUM"
    enum: NESTEROV "tensotron::OPTIM_NESTEROV"
    enum: AMSGRAD "tensotron::OPTIM_AMSGRAD"
    enum: DECOUPLED "tensotron::OPTIM_DECOUPLED"
    enum: CENTERED "tensotron::OPTIM_CENTERED"
    enum: LR "tensotron::OPTIM_LR"
    enum: WEIGHT_DECAY "tensotron::OPTIM_WEIGHT_DECAY"
    enum: EPS "tensotron::OPTIM_EPS"
    enum: BETA1 "tensotron::OPTIM_BETA1"
    enum: BETA2 "tensotron::OPTIM_BETA2"

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object d, object key) except? NULL
    bint PyDict_Next(object d, Py_ssize_t* position, PyObject** key, PyObject** value)
    PyObject* PyList_GET_ITEM(list x, Py_ssize_t i)
    bint PyFloat_CheckExact(object x)
    double PyFloat_AS_DOUBLE(object x)

cdef Watch* watch = backend.watch_state()
ALGORITHMS = {"SGD": SGD, "Adam": ADAM, "RMSprop": RMSPROP}


# ==== reading a parameter group =================================================================
cdef object entry(object group, str key):
    cdef PyObject* value = PyDict_GetItemWithError(group, key)
    if value == NULL:
        raise KeyError(key)
    return <object>value


cdef object entry_at(object group, str key, Py_ssize_t place):
    """entry(), of a dict that mostly has it in this place."""
    cdef PyObject* found
    cdef PyObject* value
    if PyDict_Next(group, &place, &found, &value) and found == <PyObject*>key:
        return <object>value
    return entry(group, key)


cdef bint as_number(object value, double* out) except -1:
    """Whether value is a number of Python's, whose arithmetic is that of C's double."""
    if PyFloat_CheckExact(value):
        out[0] = PyFloat_AS_DOUBLE(value)
        return True
    if isinstance(value, (float, int)):
        out[0] = value
        return True
    return False


cdef bint is_fixed(object value) except -1:
    """Whether a value can only change by being another object."""
    cdef type kind = type(value)
    if kind is tuple:
        for x in <tuple>value:
            if not is_fixed(x):
                return False
        return True
    return kind is float or kind is int or kind is bool or kind is str or value is None


# ==== operands ==================================================================================
cdef bint alike(Tensor a, Tensor b) noexcept:
    """Whether the n-th element in memory of one belongs to that of the other."""
    cdef int d
    if a.dt != b.dt or not same_shape(a, b):
        return False
    if a.contiguous and b.contiguous:
        return True
    for d in range(a.nd):
        if a.sizes[d] > 1 and a.strides[d] != b.strides[d]:
            return False
    return is_dense(a)


cdef void put(Arg* a, Tensor t) noexcept:
    a.data = t.ptr
    a.buffer = <void*>t.storage
    a.dtype = t.dt
    a.is_const = 0
    a.stride[0] = t.n
    a.stride[1] = 0


# ==== the step of a group =======================================================================
cdef class FusedStep(Held):
    """One optimiser's step of one parameter group, as one launch for each dtype.

    The kernel reads the numbers (learning rate, ...) from a block that this object owns; `refresh` brings it up
    to date, before every launch and before every replay of a captured one. `guard` is what a captured launch
    takes for granted: with another value it has to be captured anew.
    """

    def __cinit__(self, str algorithm):
        self.algorithm = ALGORITHMS[algorithm]

    def __dealloc__(self):
        free(self.operands)

    def bind(self, object group):
        """Makes `group` the one to read from."""
        self.group = group

    def refresh(self):
        """Reads numbers and flags from the group again; False if the kernel cannot serve what it finds."""
        return self.read()

    def guard(self):
        """(flags, whether the kernel serves the group), as the group is now."""
        cdef bint served = self.read()
        return self.flags, served

    cdef bint as_before(self, object before) except -1:
        cdef bint served = self.read()
        return self.flags == <int64_t>(<tuple>before)[0] and served == <bint>(<tuple>before)[1]

    def numbers_now(self):
        """The block of numbers, for tests."""
        return [self.numbers[k] for k in range(5)]

    cdef bint unchanged(self) noexcept:
        """Whether the group holds the objects that the last `read` saw."""
        cdef Py_ssize_t position = 0, k = 0, n
        cdef PyObject* key
        cdef PyObject* value
        if self.seen is None:
            return False
        n = len(self.seen)
        while PyDict_Next(self.group, &position, &key, &value):
            if k == n or PyList_GET_ITEM(self.seen, k) != key or PyList_GET_ITEM(self.seen, k + 1) != value:
                return False
            k += 2
        return k == n

    cdef int remember(self, list seen) except -1:
        """Notes the keys and values of the group for `unchanged`, if each can only change by being another object."""
        cdef Py_ssize_t k = 0
        if seen is None:
            seen = []
        for key, value in (<dict>self.group).items():
            if k == len(seen):
                seen += (None, None)
            if seen[k] is not key or seen[k + 1] is not value:
                if not (is_fixed(key) and (is_fixed(value) or key == "params")):  # the list is not read here
                    return 0
                seen[k], seen[k + 1] = key, value
            k += 2
        del seen[k:]
        self.seen = seen
        return 0

    cdef bint read(self) except -1:
        cdef list seen
        if not self.unchanged():
            seen, self.seen = self.seen, None  # an exception leaves the numbers half read
            self.served = self.read_numbers()
            self.remember(seen)
        return self.served

    cdef bint read_numbers(self) except -1:
        cdef object group = self.group
        cdef double* to = self.numbers
        cdef int64_t flags = 0
        if not (as_number(entry(group, "lr"), to + LR) and as_number(entry(group, "weight_decay"), to + WEIGHT_DECAY)):
            return False
        if entry(group, "differentiable"):
            return False
        if entry(group, "maximize"):
            flags |= MAXIMIZE
        if self.algorithm == SGD:
            if not (as_number(entry(group, "dampening"), to + BETA1) and as_number(entry(group, "momentum"), to + BETA2)):
                return False
            if to[BETA2] != 0:
                flags |= MOMENTUM
            if entry(group, "nesterov"):
                flags |= NESTEROV
        else:
            if entry(group, "capturable") or not as_number(entry(group, "eps"), to + EPS):
                return False
            if self.algorithm == ADAM:
                beta1, beta2 = entry(group, "betas")
                if not (as_number(beta1, to + BETA1) and as_number(beta2, to + BETA2)):
                    return False
                if entry(group, "amsgrad"):
                    flags |= AMSGRAD
                if entry(group, "decoupled_weight_decay"):
                    flags |= DECOUPLED
            else:
                if not (as_number(entry(group, "alpha"), to + BETA1) and as_number(entry(group, "momentum"), to + BETA2)):
                    return False
                if to[BETA2] > 0:
                    flags |= MOMENTUM
                if entry(group, "centered"):
                    flags |= CENTERED
        if flags != self.flags or self.names is None:
            self.set_flags(flags)
        return True

    cdef int set_flags(self, int64_t flags) except -1:
        cdef tuple names = ()
        if self.algorithm == ADAM:
            names = ("exp_avg", "exp_avg_sq") + (("max_exp_avg_sq",) if flags & AMSGRAD else ())
        else:
            if self.algorithm == RMSPROP:
                names = ("square_avg",) + (("grad_avg",) if flags & CENTERED else ())
            if flags & MOMENTUM:
                names += ("momentum_buffer",)
        self.flags = flags
        self.names = names
        return 0

    cdef object step(self, object group, object state):
        """Steps the parameters that have a gradient. Returns those left to the composed step, or None."""
        cdef object params
        cdef list rest = None
        cdef Tensor p
        cdef int first = -1, second = -1, dt
        self.group = group
        params = entry(group, "params")
        if watch.capturing:
            for x in params:
                backend.note_leaf(x)
        if not self.read():
            return params
        for x in params:
            p = <Tensor>x
            if p.grad_ is None or p.dt == first:
                continue
            if first < 0 and p.dt in (F32, F64):
                first = p.dt
            elif p.dt == F32 or p.dt == F64:
                second = p.dt
            else:
                rest = appended(rest, p)
        for dt in (first, second):
            if dt < 0:
                break
            self.used = 0
            for x in params:
                p = <Tensor>x
                if p.grad_ is not None and p.dt == dt and not self.add(p, state):
                    rest = appended(rest, p)
            if self.used:
                self.launch(dt)
        return rest

    cdef bint add(self, Tensor p, object state) except -1:
        """Appends the operands of a parameter. False, and nothing done, if the kernel cannot take them."""
        cdef PyObject* found = PyDict_GetItemWithError(state, p)
        cdef Tensor t
        cdef object own = <object>found if found != NULL else None
        cdef Arg* a
        cdef PyObject* written[3]
        cdef int k = 0
        cdef bint fresh = False
        if p.inference or not alike(p, p.grad_):
            return False
        if self.used + 6 > self.room:
            self.room = 2 * self.room + 48
            self.operands = <Arg*>realloc(self.operands, self.room * sizeof(Arg))
            if self.operands == NULL:
                self.room = 0
                raise MemoryError()
        a = self.operands + self.used
        put(a, p)
        put(a + 1, p.grad_)
        a += 2
        if self.names:
            if self.algorithm == SGD:
                fresh = own is None or own.get("momentum_buffer") is None
            else:
                fresh = not own
            if fresh:
                own = self.new_state(p, own, state)
        for name in self.names:
            value = entry_at(own, name, k + (self.algorithm != SGD))
            if not isinstance(value, Tensor):
                return False
            t = <Tensor>value
            if t.inference or not alike(p, t):
                return False
            put(a, t)
            written[k] = <PyObject*>t  # the state keeps it
            k += 1
            a += 1
        if self.algorithm == SGD:
            if fresh:
                (a - 1).stride[1] = 1
        else:
            value = entry_at(own, "step", 0)
            if not isinstance(value, Tensor):
                return False
            t = <Tensor>value
            if t.nd != 0 or t.inference or (t.dt != F32 and t.dt != F64):
                return False
            put(a, t)
            t.bump()
            a += 1
        while k:
            k -= 1
            (<Tensor>written[k]).bump()
        p.bump()
        self.used = a - self.operands
        return True

    cdef object new_state(self, Tensor p, object own, object state):
        """The state of a parameter at its first step, which is not like the others: no capture of it."""
        cdef Tensor step
        if watch.capturing:
            backend.uncapturable("an optimizer makes the state of a parameter at its first step", True)
        if own is None:
            own = state[p] = {}
        if self.algorithm != SGD:
            step = empty(0, NULL, F64 if dt_.default_float() == F64 else F32)
            fill_with(step, 0)
            own["step"] = step
            for name in (RMSPROP_ORDER if self.algorithm == RMSPROP else self.names):
                if name in self.names:
                    own[name] = empty_like(p, p.dt)
                    fill_with(own[name], 0)
        else:
            own["momentum_buffer"] = empty_like(p.grad_, p.dt)
        return own

    cdef int launch(self, int dt) except -1:
        """The record's `state` points into this object: a capture keeps it, refreshes it before each replay and
        compares its guard."""
        cdef Record r
        if watch.capturing:
            backend.note_held(self)
        begin(&r, K_optim, self.algorithm, 0, 0, dt)
        r.ndim = 0
        r.list = self.operands
        r.nlist = self.used
        r.state = self.numbers
        r.ints[0] = self.flags
        r.ints[1] = 2 + len(self.names) + (self.algorithm != SGD)
        return backend.launch(&r)


cdef tuple RMSPROP_ORDER = ("square_avg", "momentum_buffer", "grad_avg")  # of a state dict


cdef list appended(list to, object x):
    if to is None:
        return [x]
    to.append(x)
    return to


def step_groups(list groups not None, list steps not None, str algorithm, object state):
    """One step of every group. `steps` holds the FusedStep of each, made here where there is none.

    Returns a list of (group, parameters) left to the composed step, or None.
    """
    cdef Py_ssize_t k
    cdef list left = None
    cdef object rest
    while len(steps) < len(groups):
        steps.append(FusedStep(algorithm))
    for k in range(len(groups)):
        rest = (<FusedStep>steps[k]).step(groups[k], state)
        if rest is not None:
            left = appended(left, (groups[k], rest))
    return left


cdef class GroupNumbers(Held):
    """What a captured step of public operations takes from its group: with other numbers it is captured anew."""
    cdef dict group

    def __init__(self, group):
        self.group = group

    def guard(self):
        return [(key, value) for key, value in self.group.items() if key != "params"]


def hold_numbers(dict group not None):
    """Notes, in a capture, that the step depends on the numbers of a group."""
    if watch.capturing:
        backend.note_held(GroupNumbers(group))


def clear_grads(list groups not None):
    """Sets .grad of every parameter to None."""
    for group in groups:
        for p in group["params"]:
            if watch.capturing:
                backend.note_leaf(p)
            (<Tensor?>p).grad_ = None


# ==== clipping ==================================================================================
cdef class Operands:
    """Dense tensors of one dtype as the list of a record."""
    cdef Arg* items
    cdef Py_ssize_t count
    cdef int dt

    def __dealloc__(self):
        free(self.items)

    cdef bint take(self, list tensors) except -1:
        """False if a kernel cannot take them."""
        cdef Tensor t
        cdef Py_ssize_t k
        self.count = len(tensors)
        if self.count == 0:
            return False
        self.items = <Arg*>realloc(self.items, self.count * sizeof(Arg))
        if self.items == NULL:
            raise MemoryError()
        self.dt = (<Tensor?>tensors[0]).dt
        if self.dt != F32 and self.dt != F64:
            return False
        for k in range(self.count):
            t = <Tensor?>tensors[k]
            if t.dt != self.dt or t.inference or not (t.contiguous or is_dense(t)):
                return False
            put(self.items + k, t)
        return True


def total_norm(list tensors not None):
    """2-norm of the 2-norms of tensors (0-dim), in one launch; None if they differ in dtype or are not dense."""
    cdef Operands operands = Operands.__new__(Operands)
    return norm_of(operands) if operands.take(tensors) else None


cdef Tensor norm_of(Operands operands):
    cdef Record r
    cdef Tensor out = empty(0, NULL, operands.dt)
    begin(&r, K_list_norm, 0, 1, 0, operands.dt)
    r.ndim = 0
    set_arg(&r, 0, out)
    r.list = operands.items
    r.nlist = operands.count
    backend.launch(&r)
    return out


cdef list plain_grads(object parameters):
    """The gradients of leaves in a list; None where it holds anything else."""
    cdef Tensor p
    cdef list grads = []
    if type(parameters) is not list:
        return None
    for x in <list>parameters:
        if not isinstance(x, Tensor) or (<Tensor>x).grad_fn_ is not None:
            return None
        p = <Tensor>x
        if watch.capturing:
            backend.note_leaf(p)
        if p.grad_ is not None:
            grads.append(p.grad_)
    return grads


def clip_to_norm(object parameters, double max_norm):
    """Scales the gradients of a list of leaves to a 2-norm of at most max_norm; the norm, or None where that is not so plain."""
    cdef Operands operands = Operands.__new__(Operands)
    cdef Tensor norm
    cdef list grads = plain_grads(parameters)
    if grads is None or not operands.take(grads):
        return None
    norm = norm_of(operands)
    scale_by(operands, grads, norm, max_norm)
    return norm


def scale_to_norm(list tensors not None, Tensor norm not None, double max_norm):
    """Multiplies tensors in place by min(1, max_norm / (norm + 1e-6)), in one launch; False where that cannot be."""
    cdef Operands operands = Operands.__new__(Operands)
    if norm.n != 1 or not operands.take(tensors) or norm.dt != operands.dt:
        return False
    scale_by(operands, tensors, norm, max_norm)
    return True


cdef int scale_by(Operands operands, list tensors, Tensor norm, double max_norm) except -1:
    cdef Record r
    begin(&r, K_list_scale, 0, 0, 1, operands.dt)
    r.ndim = 0
    set_arg(&r, 0, norm)
    r.list = operands.items
    r.nlist = operands.count
    r.reals[0] = max_norm
    backend.launch(&r)
    for t in tensors:
        (<Tensor>t).bump()
    return 0
