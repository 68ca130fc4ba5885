"""tensotron: tensors and automatic differentiation that behave as PyTorch's, without the overhead."""

from tensotron._cpu import backend as _backend
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
from tensotron._autograd import copies as _copies, elementwise as _elementwise, engine as _engine, pointwise as _pointwise
from tensotron._autograd import views as _views
from tensotron._core import creation as _creation
from tensotron._autograd.engine import is_grad_enabled

__version__ = "0.1.0"

float, double, long, int, bool = (_ALIASES[_n] for _n in ("float", "double", "long", "int", "bool"))

for _module in (_creation, _pointwise, _views, _copies):
    globals().update(_module.FUNCTIONS)


def can_cast(from_, to):
    """Whether a conversion between dtypes stays within or rises above the category."""
    return _can_cast(from_, to)
