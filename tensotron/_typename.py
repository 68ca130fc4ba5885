"""Names of types as error messages spell them."""

from tensotron._core.tensor import Tensor


def typename(obj):
    """`torch.FloatTensor` and the like for a tensor, else the qualified name of the type (or of obj, a type)."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    module = kind.__module__
    prefix = "" if module in ("builtins", "__builtin__") else f"{module}."
    return prefix + kind.__qualname__
