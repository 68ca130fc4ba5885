"""Size, device, layout and memory_format: the small value types of a tensor."""


class Size(tuple):
    """Shape of a tensor: a tuple of ints that prints as torch.Size([...])."""

    __slots__ = ()

    def __repr__(self):
        return f"torch.Size([{', '.join(map(repr, self))}])"

    __str__ = __repr__

    def numel(self):
        """Product of the sizes; 1 for a 0-dim shape."""
        n = 1
        for s in self:
            n *= s
        return n

    def __getitem__(self, index):
        out = tuple.__getitem__(self, index)
        return Size(out) if isinstance(index, slice) else out

    def __add__(self, other):
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(self, other))

    def __radd__(self, other):
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(other, self))

    def __mul__(self, n):
        return Size(tuple.__mul__(self, n))

    __rmul__ = __mul__

    def __reduce__(self):
        return Size, (tuple(self),)


_TYPES = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "
    "privateuseone"
)


class device:
    """Where a tensor lives: device("cpu"), device("cuda", 0), device("cuda:0").

    A context manager that makes it the default of factory functions.

    Raises:
        RuntimeError: the string names no device.
    """

    __slots__ = ("type", "index", "_before")

    def __new__(cls, type=None, index=None):
        if isinstance(type, device):
            return type
        if isinstance(type, int) and not isinstance(type, bool):
            raise RuntimeError("Cannot access accelerator device when none is available.")
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, not {type.__class__.__name__}")
        kind, colon, number = type.partition(":")
        if kind not in _TYPES.split(", "):
            raise RuntimeError(f"Expected one of {_TYPES} device type at start of device string: {kind}")
        if colon:
            if index is not None:
                raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
            if not number.isdigit() or (len(number) > 1 and number[0] == "0"):
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(number)
        self = object.__new__(cls)
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "_before", [])
        return self

    def __setattr__(self, name, value):
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __repr__(self):
        return f"device(type='{self.type}'" + (")" if self.index is None else f", index={self.index})")

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __reduce__(self):
        return device, (self.type,) if self.index is None else (self.type, self.index)

    def __enter__(self):
        self._before.append(get_default_device())
        set_default_device(self)
        return self

    def __exit__(self, *exc):
        set_default_device(self._before.pop())


CPU = device("cpu")
_default = CPU


def get_default_device():
    """Device of new tensors: cpu unless set otherwise."""
    return _default


def set_default_device(dev):
    """Sets the device of new tensors; None for cpu.

    Raises:
        RuntimeError: there is no such device.
    """
    global _default
    dev = CPU if dev is None else device(dev)
    require_cpu(dev)
    _default = dev


def require_cpu(dev):
    """Accepts cpu (a device, a string, None); raises what torch does without a GPU for the others."""
    if dev is None or dev is CPU:
        return
    dev = device(dev)
    if dev.type == "cpu":
        return
    if dev.type in ("cuda", "xpu"):
        raise AssertionError(f"Torch not compiled with {dev.type.upper()} enabled")
    if dev.type == "mps":
        raise RuntimeError("PyTorch is not linked with support for mps devices")
    raise NotImplementedError(f"device {dev.type!r} is not supported by tensotron")


class layout:
    """Memory layout of a tensor; only torch.strided exists."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"


class memory_format:
    """Order of a tensor's dimensions in memory."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return self._name


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")


class _TensorMeta(type):
    """Type of Tensor, whose C name has no module in it: so Python's own messages say 'Tensor'."""

    def __repr__(cls):
        return f"<class '{cls.__module__}.{cls.__qualname__}'>"


def _set_module(cls, name):
    _type_module.__set__(cls, name)


def _module_of(cls):
    found = _type_module.__get__(cls)
    return "tensotron" if found == "builtins" else found  # what a type without a dot in its C name gets


_type_module = type.__dict__["__module__"]
_TensorMeta.__module__ = property(_module_of, _set_module)
for _cls in (Size, device, layout, memory_format):
    _cls.__module__ = "tensotron"
