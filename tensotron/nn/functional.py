"""torch.nn.functional's functions: those of the op families, and compositions of them."""

import tensotron as _t

for _module in _t._family_modules:
    globals().update(getattr(_module, "NN_FUNCTIONS", {}))

from tensotron.nn._functional import activations, layers, losses, padding  # noqa: E402  (they call the former)

for _module in (activations, layers, losses, padding):
    for _name in _module.__all__:
        globals().setdefault(_name, getattr(_module, _name))  # an operator of that name goes before
del activations, layers, losses, padding
