"""The unpickler of weights_only=True: it makes tensors, containers and numbers, and calls nothing that is not listed here.

It reads the instructions that PyTorch's own reads, those of pickle protocol 2. Nothing is imported, and no memory is
taken that the file does not back.
"""

import _codecs
import struct
from collections import Counter, OrderedDict
from pickle import UnpicklingError

from tensotron import _utils
from tensotron._core import dtype as _dtype
from tensotron._core import geometry
from tensotron._core.tensor import Tensor
from tensotron.storage import STORAGE_DTYPES

try:  # names of Python 2's modules
    from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
except ImportError:
    IMPORT_MAPPING, NAME_MAPPING = {}, {}

BLOCKED_MODULES = frozenset(["sys", "os", "posix", "nt", "subprocess"])

_user_globals = {}  # (object, path or None) -> None: a set that keeps its order


class StorageType:
    """Stands for a storage class of a file: its name and dtype."""

    __module__ = "tensotron.serialization._storage_names"  # where instances are found by name

    def __init__(self, name):
        self.name = name

    @property
    def dtype(self):
        """NotImplementedError for dtypes that tensotron has not."""
        found = STORAGE_DTYPES[self.name]
        if found is None:
            raise NotImplementedError(f"{self.name}: tensors of this dtype are not supported by tensotron")
        return found

    def __reduce__(self):
        return self.name

    def __repr__(self):
        return f"torch.{self.name}"


# ==== calls that are allowed, each with a check of its arguments ======================================
# They get the unpickler first: what they copy is counted, so that a small file cannot ask for much memory.
def _damaged(call):
    return UnpicklingError(f"damaged pickle: unexpected arguments of {call}")


def check_key(key):
    """Refuses keys whose hash would recurse deeply or take forever: nests of tuples."""
    todo, seen = [key], 0
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            seen += len(item) + 1
            if seen > 10_000:
                raise UnpicklingError("damaged pickle: a key that is a huge nest of tuples")
            todo.extend(item)


def _latin1(encoding):
    return type(encoding) is str and encoding in ("latin1", "latin-1")


def _encode(reader, *args):
    # how protocol 2 writes bytes; other codecs could run what is registered for them
    if len(args) != 2 or type(args[0]) is not str or not _latin1(args[1]):
        raise _damaged("_codecs.encode")
    reader.spend(len(args[0]))
    return args[0].encode("latin1")


def _bytearray(reader, *args):
    if args:
        text = type(args[0]) is str and len(args) == 2 and _latin1(args[1])
        if not text and not (type(args[0]) is bytes and len(args) == 1):
            raise _damaged("bytearray")
        reader.spend(len(args[0]))
    return bytearray(*args)


def _container(cls, *kinds):
    def make(reader, *args):
        if not args:
            return cls()
        if len(args) > 1 or type(args[0]) not in kinds:
            raise _damaged(cls.__name__)
        reader.spend(len(args[0]))
        if cls is OrderedDict and type(args[0]) is list:  # Python 2's: [[key, value], ...]
            for pair in args[0]:
                check_key(pair[0])
        elif cls is set:
            for item in args[0]:
                check_key(item)
        return cls(args[0])

    return make


def _complex(reader, *args):
    if not all(type(a) in (int, float) for a in args):
        raise _damaged("complex")
    return complex(*args)


def _own(function):
    return lambda reader, *args: function(*args)


def _parameter_class():
    from tensotron import nn

    return getattr(nn, "Parameter", None)


class _Lazy:
    """nn.Parameter, which is imported later than this module."""


_PARAMETER = _Lazy()
SAFE = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "torch.nn.parameter.Parameter": _PARAMETER,
    "torch.serialization._get_layout": _utils._get_layout,
    "torch.Size": geometry.Size,
    "torch.Tensor": Tensor,
    "torch.device": geometry.device,
    "_codecs.encode": _codecs.encode,
    "builtins.bytearray": bytearray,
    "builtins.set": set,
    "builtins.complex": complex,
    "torch._tensor._rebuild_from_type_v2": _utils._rebuild_from_type_v2,
    **{f"torch._utils.{n}": f for n, f in _utils.REBUILD.items()},
    **{f"torch.{n}": StorageType(n) for n in STORAGE_DTYPES},
    **{repr(d): d for d in (_dtype.float32, _dtype.float64, _dtype.int64, _dtype.int32, _dtype.uint8, _dtype.bool_)},
}
SAFE["torch.storage.UntypedStorage"] = SAFE["torch.UntypedStorage"]
# globals that PyTorch allows and that name something tensotron lacks
UNSUPPORTED = frozenset(
    [f"torch.{n}" for n in (
        "float16", "bfloat16", "int8", "int16", "uint16", "uint32", "uint64", "complex32", "complex64", "complex128",
        "float8_e5m2", "float8_e4m3fn",
        "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "quint8", "qint8", "qint32",
        "quint4x2", "quint2x4", "bits8", "bits16", "bits1x8", "bits2x4", "bits4x2",
        "FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "ByteTensor", "BoolTensor", "HalfTensor", "BFloat16Tensor",
        "ShortTensor", "CharTensor", "per_tensor_affine", "per_tensor_symmetric", "per_channel_affine",
        "per_channel_symmetric", "per_channel_affine_float_qparams")]
    + [f"torch._utils.{n}" for n in (
        "_rebuild_qtensor", "_rebuild_sparse_tensor", "_rebuild_meta_tensor_no_storage", "_rebuild_nested_tensor",
        "_rebuild_wrapper_subclass", "_rebuild_device_tensor_from_numpy", "_rebuild_device_tensor_from_cpu_tensor")]
)
# what may be called, by identity, and how; the values of SAFE that are not here are only handed on
OWN = (*_utils.REBUILD.values(), _utils._rebuild_from_type_v2, _utils._get_layout, geometry.device)
CALLS = {id(f): _own(f) for f in OWN}
CALLS.update({
    id(OrderedDict): _container(OrderedDict, dict, OrderedDict, list), id(Counter): _container(Counter, dict),
    id(geometry.Size): _container(geometry.Size, tuple, list), id(set): _container(set, list, tuple, set),
    id(_codecs.encode): _encode, id(bytearray): _bytearray, id(complex): _complex})
SETTABLE = (dict, OrderedDict, Counter)


def path_of(entry):
    """The full path under which an entry of the list of safe globals is found."""
    if isinstance(entry, tuple):
        if len(entry) != 2:
            raise ValueError("Expected tuple of length 2 (global, str of callable full path), but got tuple of length: "
                         f"{len(entry)}")
        if type(entry[1]) is not str:
            raise TypeError(f"Expected second item in tuple to be str of callable full path, but got: {type(entry[1])}")
        return entry[1]
    return f"{entry.__module__}.{entry.__qualname__}"


def user_globals():
    """Full path -> object, of the globals that the user trusts. tensotron's own go by torch's names, too."""
    out = {}
    for entry in _user_globals:
        path, obj = path_of(entry), entry[0] if isinstance(entry, tuple) else entry
        out[path] = obj
        if path.startswith("tensotron."):
            out["torch" + path[len("tensotron"):]] = obj
    return out


class Unpickler:
    """Reads pickles from bytes, one after the other: `position` is where the next one starts."""

    def __init__(self, data, persistent_load=None, encoding="utf-8"):
        self.data, self.position, self.encoding = data, 0, encoding
        self.persistent_load = persistent_load

    def load(self):
        """The next object.

        Raises:
            UnpicklingError: a global that is not allowed, an instruction that is not read, or damaged data.
            EOFError: nothing is left.
        """
        self.memo, self.marks, self.stack = {}, [], []
        self.budget = 2 * len(self.data) + 1000
        self.trusted = user_globals()
        self.trusted_ids = {id(v) for v in self.trusted.values()}
        if self.position >= len(self.data):
            raise EOFError("Ran out of input")
        while True:
            at = self.position
            code = self._bytes(1)[0]
            method = OPCODES.get(code)
            if method is None:
                raise UnpicklingError(f"Unsupported operand {code}")
            if code in MAY_RAISE:  # errors of what is called are handed on
                if method(self):
                    return self._pop()
                continue
            try:
                method(self)
            except (IndexError, KeyError, TypeError, ValueError, struct.error, AttributeError, OverflowError) as exc:
                raise UnpicklingError(f"damaged pickle at byte {at}: {exc}") from None

    # ---- reading ---------------------------------------------------------------------------------
    def _bytes(self, n):
        start = self.position
        self.position = end = start + n
        if end > len(self.data):
            raise UnpicklingError("pickle data was truncated")
        return self.data[start:end]

    def _line(self):
        end = self.data.find(b"\n", self.position)
        if end < 0:
            raise UnpicklingError("pickle data was truncated")
        line = self.data[self.position:end]
        self.position = end + 1
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError:
            raise UnpicklingError("damaged pickle: the name of a global is not UTF-8") from None

    def _pop(self):
        if not self.stack:
            raise UnpicklingError("damaged pickle: nothing on the stack")
        return self.stack.pop()

    def _top(self):
        if not self.stack:
            raise UnpicklingError("damaged pickle: nothing on the stack")
        return self.stack[-1]

    def spend(self, n):
        """Counts n elements that are copied. In a file that pickle wrote each of them stands in the file."""
        self.budget -= n
        if self.budget < 0:
            raise UnpicklingError("damaged pickle: it copies more than it holds")

    def _global_name(self):
        module, name = self._line(), self._line()
        if (module, name) in NAME_MAPPING:
            return NAME_MAPPING[module, name]
        return IMPORT_MAPPING.get(module, module), name

    # ---- instructions that can do more than build containers -----------------------------------------
    def op_global(self):
        module, name = self._global_name()
        path = f"{module}.{name}"
        if module in BLOCKED_MODULES:
            raise UnpicklingError(f"Trying to load unsupported GLOBAL {path} whose module {module} is blocked.")
        found = SAFE.get(path)
        if found is None:
            if path not in self.trusted:
                if path in UNSUPPORTED:
                    raise NotImplementedError(f"{path}, which the file contains, is not supported by tensotron")
                shown = path.removeprefix("builtins.")
                raise UnpicklingError(
                    f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
                    f"`tensotron.serialization.add_safe_globals([{shown}])` or the context manager "
                    f"`tensotron.serialization.safe_globals([{shown}])` if you trust this class/function.")
            found = self.trusted[path]
        self.stack.append(_parameter_class() if found is _PARAMETER else found)

    def _call(self, function, args):
        """function(*args), if the list or the user allows it."""
        if not isinstance(args, tuple):
            raise UnpicklingError("damaged pickle: arguments are no tuple")
        call = CALLS.get(id(function))
        if call is None:
            if id(function) not in self.trusted_ids:
                raise UnpicklingError(f"Trying to call reduce for unrecognized function {_name(function)}")
            return function(*args)
        try:
            return call(self, *args)
        except (TypeError, ValueError, AttributeError, IndexError, KeyError, OverflowError) as exc:
            raise UnpicklingError(f"damaged pickle: {_name(function)}: {exc}") from None

    def op_newobj(self):
        args, cls = self._pop(), self._pop()
        if id(cls) in self.trusted_ids and isinstance(args, tuple):
            self.stack.append(cls.__new__(cls, *args))
        elif cls is not None and cls is _parameter_class():
            self.stack.append(self._parameter(args))
        elif isinstance(cls, type) and id(cls) in CALLS:
            self.stack.append(self._call(cls, args))
        else:
            raise UnpicklingError("Can only create new object for nn.Parameter or classes allowlisted via `add_safe_globals` "
                                  f"but got {_name(cls)}")

    @staticmethod
    def _parameter(args):
        if not isinstance(args, tuple) or not 1 <= len(args) <= 2 or not isinstance(args[0], Tensor):
            raise UnpicklingError("damaged pickle: a Parameter without its tensor")
        return _parameter_class()(*args)

    def op_reduce(self):
        args = self._pop()
        self.stack[-1] = self._call(self._top(), args)

    def op_build(self):
        state, inst = self._pop(), self._top()
        kind = type(inst)
        if kind is OrderedDict:
            if not isinstance(state, dict):
                raise UnpicklingError("damaged pickle: the attributes of an OrderedDict are no dict")
            vars(inst).update(state)
        elif id(kind) in self.trusted_ids:
            if hasattr(inst, "__setstate__"):
                inst.__setstate__(state)
            else:
                _utils._set_obj_state(inst, state)
        else:
            raise UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got "
                f"{kind.__name__}")

    def op_binpersid(self):
        pid = self._pop()
        if type(pid) is not tuple and type(pid) is not int:
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(pid)}")
        if type(pid) is tuple and (not pid or type(pid[0]) not in (str, bytes) or pid[0] not in ("storage", b"storage")):
            raise UnpicklingError("Only persistent_load of storage is allowed")
        if self.persistent_load is None:
            raise UnpicklingError("unsupported persistent id encountered")
        self.stack.append(self.persistent_load(pid))

    def op_stop(self):
        return True

    # ---- containers --------------------------------------------------------------------------------
    def _to_mark(self):
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def op_mark(self):
        self.marks.append(self.stack)
        self.stack = []

    def op_append(self):
        item = self.stack.pop()
        self._list().append(item)

    def op_appends(self):
        items = self._to_mark()
        self._list().extend(items)

    def _list(self):
        if type(self.stack[-1]) is not list:
            raise UnpicklingError(f"Can only append to lists, but got {type(self.stack[-1])}")
        return self.stack[-1]

    def op_setitem(self):
        value, key = self.stack.pop(), self.stack.pop()
        if type(key) is not str:
            check_key(key)
        self._dict()[key] = value

    def op_setitems(self):
        items = self._to_mark()
        target = self._dict()
        if len(items) % 2:
            raise UnpicklingError("damaged pickle: a key without value")
        for i in range(0, len(items), 2):
            key = items[i]
            if type(key) is not str:
                check_key(key)
            target[key] = items[i + 1]

    def _dict(self):
        if type(self.stack[-1]) not in SETTABLE:
            raise UnpicklingError(f"Can only set items of dict, collections.OrderedDict, collections.Counter, but got "
                                  f"{type(self.stack[-1])}")
        return self.stack[-1]

    def op_tuple(self):
        items = self._to_mark()
        self.stack.append(tuple(items))

    def _tuple_of(n):
        def op(self):
            if len(self.stack) < n:
                raise IndexError("nothing on the stack")
            self.stack[-n:] = [tuple(self.stack[-n:])]

        return op

    # ---- values --------------------------------------------------------------------------------------
    def _constant(make):
        return lambda self: self.stack.append(make())

    def _number(layout):
        layout = struct.Struct(layout)
        return lambda self: self.stack.append(layout.unpack(self._bytes(layout.size))[0])

    def op_binunicode(self):
        n = int.from_bytes(self._bytes(4), "little")
        self.stack.append(str(self._bytes(n), "utf-8", "surrogatepass"))

    def op_short_binstring(self):
        data = self._bytes(self._bytes(1)[0])
        self.stack.append(data if self.encoding == "bytes" else data.decode(self.encoding, "strict"))

    def op_long1(self):
        self.stack.append(int.from_bytes(self._bytes(self._bytes(1)[0]), "little", signed=True))

    def op_binget(self):
        self.stack.append(self.memo[self._bytes(1)[0]])

    def op_long_binget(self):
        self.stack.append(self.memo[int.from_bytes(self._bytes(4), "little")])

    def op_binput(self):
        self.memo[self._bytes(1)[0]] = self.stack[-1]

    def op_long_binput(self):
        self.memo[int.from_bytes(self._bytes(4), "little")] = self.stack[-1]

    def op_proto(self):
        self._bytes(1)

    TABLE = {
        b"c": op_global, b"\x81": op_newobj, b"R": op_reduce, b"b": op_build, b"Q": op_binpersid, b".": op_stop,
        b"(": op_mark, b"a": op_append, b"e": op_appends, b"s": op_setitem, b"u": op_setitems, b"t": op_tuple,
        b"\x85": _tuple_of(1), b"\x86": _tuple_of(2), b"\x87": _tuple_of(3),
        b"N": _constant(lambda: None), b"\x89": _constant(lambda: False), b"\x88": _constant(lambda: True),
        b")": _constant(tuple), b"]": _constant(list), b"}": _constant(dict), b"\x8f": _constant(set),
        b"J": _number("<i"), b"K": _number("<B"), b"M": _number("<H"), b"G": _number(">d"),
        b"X": op_binunicode, b"U": op_short_binstring, b"\x8a": op_long1,
        b"h": op_binget, b"j": op_long_binget, b"q": op_binput, b"r": op_long_binput, b"\x80": op_proto}


def _name(obj):
    """For messages: the repr of a hostile object could be endless."""
    return getattr(obj, "__qualname__", None) or f"an object of type {type(obj).__name__}"


OPCODES = {code[0]: method for code, method in Unpickler.TABLE.items()}
MAY_RAISE = frozenset(b"c\x81RbQ.")


def globals_in(data):
    """Full paths of all globals that a pickle names, found without making any object."""
    reader = Unpickler(data)
    found = set()

    skip = {b"U"[0]: lambda: reader._bytes(reader._bytes(1)[0]), b"\x8a"[0]: lambda: reader._bytes(reader._bytes(1)[0]),
            b"X"[0]: lambda: reader._bytes(int.from_bytes(reader._bytes(4), "little"))}
    widths = {**dict.fromkeys(b"Khq\x80", 1), b"M"[0]: 2, **dict.fromkeys(b"Jjr", 4), b"G"[0]: 8}
    while True:
        code = reader._bytes(1)[0]
        if code == b"."[0]:
            return found
        if code not in OPCODES:
            raise UnpicklingError(f"Unsupported operand {code}")
        if code == b"c"[0]:
            found.add(".".join(reader._global_name()))
        elif code in skip:
            skip[code]()
        else:
            reader._bytes(widths.get(code, 0))
