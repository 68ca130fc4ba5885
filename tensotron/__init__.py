"""tensotron: tensors and automatic differentiation that behave as PyTorch's, without the overhead."""

from importlib import import_module as _import_module

from tensotron._cpu import backend as _backend
from tensotron._cpu.backend import get_num_interop_threads, get_num_threads, set_num_interop_threads, set_num_threads
from tensotron._core.dtype import (
    ALIASES as _ALIASES,
    bool_ as _bool,
    can_cast_types as _can_cast,
    dtype,
    finfo,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
)
from tensotron._core.geometry import (
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    get_default_device,
    layout,
    memory_format,
    preserve_format,
    set_default_device,
    strided,
)
from tensotron._core.tensor import Tensor, is_inference_mode_enabled
from tensotron._autograd.engine import is_grad_enabled
from tensotron._tensor_str import set_printoptions
from tensotron._typename import typename

__version__ = "0.1.0"

float, double, long, int, bool = (_ALIASES[_n] for _n in ("float", "double", "long", "int", "bool"))

# modules of op families: their FUNCTIONS are names of this package, their NN_FUNCTIONS of nn.functional
FAMILIES = (
    "_core.creation",
    "_core.dlpack",
    "_core.data",
    "_core.pickling",
    "_core.generator",
    "_autograd.pointwise",
    "_autograd.views",
    "_autograd.copies",
    "_autograd.random",
    "_autograd.dropout",
    "_autograd.matmul",
    "_autograd.index",
    "_autograd.subscript",
    "_autograd.join",
    "_autograd.conv",
    "_autograd.pool",
    "_autograd.reduce",
    "_autograd.scan",
    "_autograd.vector_norm",
    "_autograd.softmax",
    "_autograd.norm",
    "_autograd.loss",
)
_family_modules = [_import_module("tensotron." + _f) for _f in FAMILIES]
for _module in _family_modules:
    globals().update(getattr(_module, "FUNCTIONS", {}))

from tensotron import autograd, backends, linalg, nn, optim, random, serialization, storage, utils  # noqa: E402
from tensotron.serialization import load, save  # noqa: E402
from tensotron import compiler, cpu  # noqa: E402
from tensotron.compiler import compile  # noqa: A004, E402
from tensotron.autograd import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402

globals().update(storage.CLASSES)


def __getattr__(name):
    # imported when first used
    if name == "distributions":
        return _import_module("tensotron.distributions")
    raise AttributeError(f"module 'torch' has no attribute '{name}'")


def can_cast(from_, to):
    """Whether a conversion between dtypes stays within or rises above the category."""
    return _can_cast(from_, to)
