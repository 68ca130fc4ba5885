"""Functions of torch.nn.functional: collected from the op families."""

import tensotron as _t

for _module in _t._family_modules:
    globals().update(getattr(_module, "NN_FUNCTIONS", {}))
