"""The older arguments of losses, size_average and reduce, as a reduction."""

import warnings


def legacy_get_string(size_average, reduce, emit_warning=True):
    """"mean", "sum" or "none"."""
    if reduce is not None and not reduce:
        reduction = "none"
    else:
        reduction = "mean" if size_average is None or size_average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.", stacklevel=2
        )
    return reduction
