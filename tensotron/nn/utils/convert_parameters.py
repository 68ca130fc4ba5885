"""Parameters as one vector."""

import tensotron as _t
from tensotron._core.tensor import Tensor
from tensotron._typename import typename


def parameters_to_vector(parameters):
    """All parameters, flattened, one after the other."""
    return _t.cat([p.view(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Makes the parameters views of successive parts of a vector."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    start = 0
    for p in parameters:
        end = start + p.numel()
        p.data = vec[start:end].view_as(p).data
        start = end
