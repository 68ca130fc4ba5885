"""torch.nn.functional's functions: those of the op families, and compositions of them."""

import tensotron as _t

for _module in _t._family_modules:
    globals().update(getattr(_module, "NN_FUNCTIONS", {}))

from tensotron.nn import _compositions  # noqa: E402  (they call the former)

for _name in _compositions.__all__:
    globals().setdefault(_name, getattr(_compositions, _name))  # an operator of that name goes before
