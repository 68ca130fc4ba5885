"""Nodes of custom functions (autograd.Function)."""
cimport cython
import functools

from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    Node, Tensor, ViewedNode, add_edge, alias, as_view, grad_enabled, make_size, make_view, next_seq, raise_freed_graph, rebase,
    save_input, save_output, set_grad, shape_of, unpack_saved, node_view, check_inplace)


@cython.trashcan(True)  # a long chain is freed without recursion
cdef class CustomNode(ViewedNode):
    """Context of a custom function's call, and its node in the graph."""
    cdef dict __dict__
    cdef tuple to_save
    cdef list kept, kept_versions
    cdef set dirty, non_differentiable
    cdef bint materialize, freed
    cdef list output_info          # (shape, dtype) per output
    cdef list input_info           # (shape, dtype) per tensor input, None for others
    cdef object function

    def __cinit__(self, *args, **kwargs):
        self.materialize = True
        self.dirty = set()
        self.non_differentiable = set()

    # ---- for forward ---------------------------------------------------------------------
    def save_for_backward(self, *tensors):
        """Keeps tensors for backward; they are checked there for modification in place."""
        for x in tensors:
            if x is not None and not isinstance(x, Tensor):
                raise TypeError(f"save_for_backward can only save variables, but argument {tensors.index(x)} is of type "
                                f"{type(x).__name__}")
        self.to_save = tensors

    def mark_dirty(self, *args):
        """Says which inputs were modified in place."""
        self.dirty = {id(a) for a in args}

    def mark_non_differentiable(self, *args):
        """Says which outputs have no gradient."""
        self.non_differentiable = {id(a) for a in args}

    def set_materialize_grads(self, bint value):
        """Whether backward gets zeros (the default) or None for outputs without a gradient."""
        self.materialize = value

    @property
    def saved_tensors(self):
        if self.freed:
            raise_freed_graph()
        if self.kept is None:
            return tuple(self.to_save) if self.to_save is not None else ()
        out = []
        for i in range(len(self.kept)):
            x = self.kept[i]
            out.append(None if x is None else unpack_saved(self, <Tensor>x, self.kept_versions[2 * i], self.kept_versions[2 * i + 1]))
        return tuple(out)

    @property
    def needs_input_grad(self):
        return tuple([self.next_node(i) is not None for i in range(self.n_next)])

    # ---- as a node ------------------------------------------------------------------------
    def name(self):
        """Name of the node's kind."""
        return self.node_name

    @property
    def next_functions(self):
        return tuple([(node_view(self.next_node(i)), self.next_nr(i)) for i in range(self.n_next) if self.input_info[i] is not None])

    @property
    def metadata(self):
        if (<Node>self).metadata is None:
            (<Node>self).metadata = {}
        return (<Node>self).metadata

    def register_hook(self, fn):
        """Calls fn(grad_inputs, grad_outputs) after backward."""
        from tensotron._core.tensor import HookHandle
        if self.post_hooks is None:
            self.post_hooks = []
        return HookHandle(self.post_hooks, fn)

    cdef int release_saved(self) except -1:
        if self.kept is not None and len(self.kept):
            self.freed = True
            self.kept = None
        self.to_save = None
        return 0

    cdef object apply(self, object grads):
        many = [grads] if self.n_out == 1 else list(grads)
        if self.materialize:
            for i in range(len(many)):
                if many[i] is None:
                    import tensotron._core.creation as creation
                    many[i] = creation.zeros(self.output_info[i][0], dtype=self.output_info[i][1])
        out = self.function.backward(self, *many)
        if not isinstance(out, tuple):
            out = tuple(out) if isinstance(out, list) else (out,)
        name = self.node_name
        given = len(out)
        while given > self.n_next and out[given - 1] is None:
            given -= 1
        if given > self.n_next or len(out) < self.n_next:
            raise RuntimeError(f"function {name} returned an incorrect number of gradients (expected {self.n_next}, got {len(out)})")
        result = []
        for i in range(self.n_next):
            result.append(self.checked(i, out[i], name))
        return result

    cdef object checked(self, int i, object g, str name):
        cdef Tensor t
        if g is None or self.next_node(i) is None:
            return None
        if not isinstance(g, Tensor):
            raise TypeError(f"expected Variable or None (got {type(g).__name__})")
        t = <Tensor>g
        shape, dtype = self.input_info[i]
        if tuple(t.shape) != tuple(shape):
            fits = len(shape) <= t.nd and all([s == 1 or s == n for s, n in zip(reversed(shape), reversed(t.shape))])
            if not fits:
                raise RuntimeError(f"Function {name} returned an invalid gradient at index {i} - got {list(t.shape)} but expected shape "
                                   f"compatible with {list(shape)}")
            t = t.sum_to_size(shape)
        return t if t.dtype == dtype else t.to(dtype)


def apply_function(cls, tuple args):
    """Runs cls.forward without recording, and records one node for the call."""
    cdef CustomNode node
    cdef Tensor t
    cdef bint requires = False, before
    cdef dict views
    backed = backward_class(cls)
    node = backed.__new__(backed)
    node.function = cls
    node.node_name = backed.__name__
    node.input_info = []
    for a in args:
        if isinstance(a, Tensor):
            t = <Tensor>a
            requires = requires or t.requires()
    requires = requires and grad_enabled()
    for a in args:
        if isinstance(a, Tensor):
            t = <Tensor>a
            node.input_info.append((shape_of(t), t.dtype))
            add_edge(node, t if requires and dt_.is_float(t.dt) else None)
        else:
            node.input_info.append(None)
            add_edge(node, None)
    old_style = cls.setup_context is base_setup()
    before = set_grad(False)
    try:
        out = cls.forward(node, *args) if old_style else cls.forward(*args)
        if not old_style:
            cls.setup_context(node, args, out)
    finally:
        set_grad(before)
    single = not isinstance(out, (tuple, list))
    outputs = [out] if single else list(out)
    node.seq = next_seq()
    if requires:
        outputs = bind_outputs(node, args, outputs)
    node.to_save = None
    if single:
        return outputs[0]
    return tuple(outputs) if isinstance(out, tuple) else outputs


cdef list bind_outputs(CustomNode node, tuple args, list outputs):
    """Gives the outputs the node as their history; an input returned unchanged becomes a view of itself."""
    cdef Tensor t, v
    cdef int nr = 0
    result = []
    node.n_out = len(outputs)
    node.out_dtype = 255
    node.output_info = []
    inputs = {id(a) for a in args if isinstance(a, Tensor)}
    bound = []
    for x in outputs:
        if not isinstance(x, Tensor):
            node.output_info.append(((), None))
            result.append(x)
            bound.append(None)
            nr += 1
            continue
        t = <Tensor>x
        node.output_info.append((shape_of(t), t.dtype))
        differentiable = dt_.is_float(t.dt) and id(x) not in node.non_differentiable
        if id(x) in node.dirty:
            check_inplace(t, True)
            if differentiable:
                rebase(t, node)
                t.output_nr = nr
        else:
            if id(x) in inputs:
                v = alias(t)
                make_view(t, v, 1)
                t = v
            elif t.base_ is not None:
                t.base_ = None
            if differentiable:
                t.grad_fn_ = node
                t.output_nr = nr
                t.leaf_grad = False
        result.append(t)
        bound.append(t)
        nr += 1
    if node.to_save is not None:
        node.kept, node.kept_versions = [], []
        for x in node.to_save:
            if x is None:
                node.kept.append(None)
                node.kept_versions += [0, -1]
                continue
            at = -1
            for i in range(len(outputs)):
                if outputs[i] is x:
                    at = i
            t = <Tensor>x
            node.kept.append(save_output(<Tensor>bound[at]) if at >= 0 else save_input(t))
            node.kept_versions += [t.version(), at]
    return result


def base_setup():
    from tensotron.autograd.function import Function
    return Function.setup_context


@functools.lru_cache(maxsize=None)
def backward_class(cls):
    """The type of the nodes of a custom function, named <Function>Backward."""
    return type(cls.__name__ + "Backward", (cls,), {"__module__": cls.__module__, "_forward_cls": cls})


def once_differentiable(fn):
    """Decorates a backward that cannot itself be differentiated."""
    @functools.wraps(fn)
    def wrapper(ctx, *args):
        before = set_grad(False)
        try:
            out = fn(ctx, *args)
        finally:
            set_grad(before)
        if not before:
            return out
        results = out if isinstance(out, tuple) else (out,)
        if any([isinstance(a, Tensor) and a.requires_grad for a in args]):
            results = tuple([Refusal.apply(r) if isinstance(r, Tensor) else r for r in results])
        return results if isinstance(out, tuple) else results[0]
    return wrapper


def _refusal():
    from tensotron.autograd.function import Function

    class DelayedError(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
    return DelayedError


class Refusal:
    """Passes a gradient on; fails when differentiated."""

    @staticmethod
    def apply(x):
        cls = _refusal()
        return cls.apply(x.detach().requires_grad_())
