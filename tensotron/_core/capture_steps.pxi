# Many captured calls in one. Included by capture.pyx.

cdef class CompiledSteps:
    """A compiled function called for each element of its arguments' first dimension. Made by compile(steps=N)."""
    cdef readonly Compiled _compiled
    cdef readonly Py_ssize_t steps
    cdef object __weakref__

    def __init__(self, Compiled compiled, Py_ssize_t steps):
        if steps < 1:
            raise ValueError(f"compile(steps={steps}): expected at least one step")
        self._compiled, self.steps = compiled, steps

    def reset(self):
        """Forgets all captures."""
        self._compiled.reset()

    def __call__(self, *args):
        cdef Py_ssize_t i = 0
        cdef list outs = []
        cdef Tensor t
        cdef object form = None
        for k, x in enumerate(args):
            if not isinstance(x, Tensor):
                continue
            t = <Tensor>x
            if t.nd == 0 or t.sizes[0] != self.steps:
                raise RuntimeError(f"compile(steps={self.steps}): argument {k} has to have {self.steps} elements in its first "
                                   f"dimension, one for each step, but its shape is {list(x.shape)}")
            if t.requires():
                raise RuntimeError(f"compile(steps={self.steps}): argument {k} requires grad; pass x.detach()")
        while i < self.steps:
            if i > 0 and self.sweep(args, i, form, outs):
                break
            result = self._compiled(*[x[i] if isinstance(x, Tensor) else x for x in args])
            if i == 0:
                form = self.form(result, outs)
            self.keep(result, form, outs, i)
            i += 1
        return self.filled(form, outs)

    cdef object form(self, object x, list outs):
        """The structure of the results: tensors become numbers of `outs`, in a list of one."""
        cdef Tensor t, out
        if isinstance(x, Tensor):
            t = <Tensor>x
            out = empty_of((self.steps, *x.shape), t.dt)
            outs.append(out)
            return Stacked(len(outs) - 1)
        if type(x) is tuple or type(x) is list:
            return type(x)([self.form(item, outs) for item in x])
        if type(x) is dict:
            return {key: self.form(item, outs) for key, item in x.items()}
        if x is None or isinstance(x, (bool, int, float, str)):
            return x
        raise TypeError(f"compile(steps={self.steps}): a result is of type {type(x).__name__}; expected tensors, numbers, None, "
                        "and tuples, lists and dicts of them")

    cdef int keep(self, object x, object form, list outs, Py_ssize_t i) except -1:
        """Copies the results of step i to their places."""
        cdef Tensor out, place
        cdef Tensor t
        if type(form) is Stacked:
            out = <Tensor>outs[form.number]
            if not isinstance(x, Tensor):
                raise RuntimeError(f"compile(steps={self.steps}): the results of the steps differ in kind")
            t = <Tensor>x
            place = as_view(out, out.nd - 1, out.sizes + 1, out.strides + 1, i * out.strides[0])
            if not same_shape(place, t) or t.dt != out.dt:
                raise RuntimeError(f"compile(steps={self.steps}): the results of the steps differ in shape or dtype")
            copy_into(place, t)
        elif type(form) is tuple or type(form) is list:
            if type(x) is not type(form) or len(x) != len(form):
                raise RuntimeError(f"compile(steps={self.steps}): the results of the steps differ in kind")
            for item, inner in zip(x, form):
                self.keep(item, inner, outs, i)
        elif type(form) is dict:
            if type(x) is not dict or list(x) != list(form):
                raise RuntimeError(f"compile(steps={self.steps}): the results of the steps differ in kind")
            for key in form:
                self.keep(x[key], form[key], outs, i)
        elif not same_value(x, form):
            raise RuntimeError(f"compile(steps={self.steps}): a number among the results changes from step to step; return a tensor")
        return 0

    cdef object filled(self, object form, list outs):
        if type(form) is Stacked:
            return outs[form.number]
        if type(form) is tuple or type(form) is list:
            return type(form)([self.filled(item, outs) for item in form])
        if type(form) is dict:
            return {key: self.filled(item, outs) for key, item in form.items()}
        return form

    cdef bint places(self, object x, object form, list outs, Sweep sweep) except -1:
        """Finds the places of results; False if those of the captured call (x) are of another kind than the first ones."""
        cdef Result r
        cdef Tensor t
        if type(x) is Result:
            r = <Result>x
            if type(form) is not Stacked or sweep.outs[r.made] is not None:
                return False
            t = <Tensor>outs[form.number]
            sweep.outs[r.made] = t
            return t.dt == r.like.dt and t.nd == r.like.nd + 1 and all([t.sizes[d + 1] == r.like.sizes[d] for d in range(r.like.nd)])
        if type(x) is not type(form):
            return False
        if type(x) is tuple or type(x) is list:
            return len(x) == len(form) and all([self.places(a, b, outs, sweep) for a, b in zip(x, form)])
        if type(x) is dict:
            return list(x) == list(form) and all([self.places(x[key], form[key], outs, sweep) for key in x])
        return same_value(x, form)

    cdef bint sweep(self, tuple args, Py_ssize_t first, object form, list outs) except -1:
        """Runs all steps from `first` on in one go, if there is a captured call that can be repeated like that."""
        cdef Compiled f = self._compiled
        cdef Captured c
        cdef Sweep sweep
        cdef Tensor t
        cdef list tensors, given = [x[first] if isinstance(x, Tensor) else x for x in args]
        cdef int64_t stride
        cdef vector[PyObject*] now
        if watch.capturing:
            return False
        for x in given:
            now.push_back(<PyObject*>x)
        for c in f.captured:
            if c.plain != len(given) or not c.repeats():
                continue
            if c.program.running:
                c.program.wait()
            tensors = c.take_plain(now.data(), len(given), f.cells, f.names)
            if tensors is None or not c.holds(tensors):
                continue
            sweep = Sweep.__new__(Sweep)
            sweep.first, sweep.count = first, self.steps - first
            for x in args:
                if isinstance(x, Tensor):
                    t = <Tensor>x
                    stride = t.strides[0] * backend.item_size(t.dt)
                    sweep.strides.push_back(stride)
            while <Py_ssize_t>sweep.strides.size() < len(tensors):  # from closure and globals
                sweep.strides.push_back(0)
            if not moves_together(c, sweep):
                continue
            sweep.outs = [None] * <Py_ssize_t>c.fresh_slots.size()
            if not self.places(c.output, form, outs, sweep) or None in sweep.outs:
                continue
            f.replays += sweep.count
            c.replay(tensors, sweep)
            return True
        return False


cdef bint moves_together(Captured c, Sweep sweep) except -1:
    """Whether arguments that share memory keep their distance, and none depends on its place in a storage."""
    cdef Py_ssize_t i
    cdef Input g
    for i in range(len(c.inputs)):
        g = <Input>c.inputs[i]
        if (g.placed and sweep.strides[i]) or (g.shares >= 0 and sweep.strides[i] != sweep.strides[g.shares]):
            return False
    return True


class Stacked:
    """Stands for a tensor in the form of the results."""

    def __init__(self, number):
        self.number = number
