"""Printing of tensors: ``repr``, ``format`` and the print options.

The data is rendered from ``Tensor.numpy()``, so printing never touches a kernel.
"""

import math
import sys
from contextlib import contextmanager

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]


class _PrintOptions:
    __slots__ = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")

    def __init__(self):
        self.precision = 4
        self.threshold = 1000
        self.edgeitems = 3
        self.linewidth = 80
        self.sci_mode = None


PRINT_OPTS = _PrintOptions()

# profile -> (precision, threshold, edgeitems, linewidth)
_PROFILES = {
    "default": (4, 1000, 3, 80),
    "short": (2, 1000, 2, 80),
    "full": (4, math.inf, 3, 80),
}


def set_printoptions(
    precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None
):
    """Choose how tensors are printed.

    ``precision``: digits after the point; ``threshold``: with more elements than this only the
    ``edgeitems`` first and last of each dimension are shown; ``linewidth``: columns of a line;
    ``profile``: ``"default"``, ``"short"`` or ``"full"``, applied before the other arguments;
    ``sci_mode``: True or False forces or forbids the scientific notation, None (also when the
    argument is left out) lets the values decide.
    """
    opts = PRINT_OPTS
    if profile in _PROFILES:
        opts.precision, opts.threshold, opts.edgeitems, opts.linewidth = _PROFILES[profile]
    if precision is not None:
        opts.precision = precision
    if threshold is not None:
        opts.threshold = threshold
    if edgeitems is not None:
        opts.edgeitems = edgeitems
    if linewidth is not None:
        opts.linewidth = linewidth
    opts.sci_mode = sci_mode


def get_printoptions():
    """The print options as keyword arguments of :func:`set_printoptions`."""
    return {name: getattr(PRINT_OPTS, name) for name in _PrintOptions.__slots__}


@contextmanager
def printoptions(**kwargs):
    """Print options for the length of a ``with`` block."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


def _cell_format(values, is_float):
    """``(width, render)`` that suits all of ``values`` (a flat list of Python numbers)."""
    if not is_float:
        width = max([1, *(len(str(v)) for v in values)])
        return width, lambda v: str(v).rjust(width)

    # Zeros and non-finite values take part neither in the choice of notation nor in the width.
    values = [v for v in values if v and math.isfinite(v)]
    if not values:
        return 1, _integral_cell(1)

    sizes = [abs(v) for v in values]
    low, high = min(sizes), max(sizes)
    scientific = PRINT_OPTS.sci_mode
    if scientific is None:
        # low may be so small that the quotient overflows, which Python's / reports as an inf
        scientific = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
    if scientific:
        spec = f".{PRINT_OPTS.precision}e"
    elif all(v == math.floor(v) for v in values):
        width = max(len(f"{v:.0f}") for v in values) + 1
        return width, _integral_cell(width)
    else:
        spec = f".{PRINT_OPTS.precision}f"
    width = max([1, *(len(format(v, spec)) for v in values)])
    return width, lambda v: format(v, spec).rjust(width)


def _integral_cell(width):
    """Floats without a fraction are printed as ``3.``."""
    return lambda v: (f"{v:.0f}." if math.isfinite(v) else str(v)).rjust(width)


def _edges(array, edge):
    """What a summary shows of ``array``; the widths of cells depend on nothing else."""
    if not edge:
        # A vector decides its notation by all elements even if none is shown.
        return array if array.ndim == 1 else array[:0]
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            array = array.take([*range(edge), *range(size - edge, size)], axis)
    return array


def _render(array, indent, summarize, width, cell):
    """Nested brackets; ``indent`` is the column of the opening one."""
    edge = PRINT_OPTS.edgeitems
    size = len(array)
    cut = summarize and size > 2 * edge
    if array.ndim > 1:
        rows = [*range(edge), None, *range(size - edge, size)] if cut else range(size)
        parts = [
            "..." if i is None else _render(array[i], indent + 1, summarize, width, cell)
            for i in rows
        ]
        return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"

    if not cut:
        cells = [cell(v) for v in array.tolist()]
    elif not edge:
        cells = ["..."]
    else:
        head, tail = array[:edge].tolist(), array[size - edge :].tolist()
        cells = [*map(cell, head), " ...", *map(cell, tail)]
    per_line = max(1, math.floor((PRINT_OPTS.linewidth - indent) / (width + 2)))
    lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _contents(tensor, indent):
    array = tensor.detach()
    if array.device.type != "cpu":
        array = array.cpu()
    array = array.numpy()
    summarize = array.size > PRINT_OPTS.threshold
    shown = _edges(array, PRINT_OPTS.edgeitems) if summarize else array
    width, cell = _cell_format(shown.ravel().tolist(), array.dtype.kind == "f")
    if not array.ndim:
        return cell(array.item())
    return _render(array, indent, summarize, width, cell)


def _suffixes(tensor, default_dtype):
    found = []
    if tensor.device.type != "cpu":
        found.append(f"device='{tensor.device}'")
    empty = tensor.numel() == 0
    if tensor.dim() != 1 if empty else not PRINT_OPTS.edgeitems:
        found.append(f"size={tuple(tensor.shape)}")
    dtype = tensor.dtype
    if dtype != default_dtype and (
        # int64 and bool elements tell their dtype
        empty or str(dtype).rpartition(".")[2] not in ("int64", "bool")
    ):
        found.append(f"dtype={dtype}")
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose history cannot be regenerated
        found.append("grad_fn=<Invalid>")
    else:
        if node is not None:
            found.append(f"grad_fn=<{type(node).__name__}>")
        elif tensor.requires_grad:
            found.append("requires_grad=True")
    return found


def _str(tensor):
    """``repr`` of a tensor."""
    lib = sys.modules[__package__]
    kind = type(tensor)
    parameter = getattr(getattr(lib, "nn", None), "Parameter", None)
    plain = kind is lib.Tensor or kind is parameter
    text = ("tensor" if plain else kind.__name__) + "("
    indent = len(text)
    text += _contents(tensor, indent) if tensor.numel() else "[]"

    column = len(text) - text.rfind("\n") + 1
    for suffix in _suffixes(tensor, lib.get_default_dtype()):
        if column + len(suffix) + 2 > PRINT_OPTS.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    text += ")"
    if not plain and parameter is not None and isinstance(tensor, parameter):
        return f"Parameter({text})"
    return text
