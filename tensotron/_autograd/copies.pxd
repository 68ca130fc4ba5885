from tensotron._core.tensor cimport FnNode, Node, Tensor

# A copy in another dtype, differentiable; x itself if nothing changes and no copy is asked for.
cdef Tensor convert(Tensor x, int dt, bint copy, object memory_format)
# Node of an op that overwrote x, for rebase(); None where no gradient flows. inputs[0] is x.
cdef FnNode inplace_node(str name, object backward, tuple inputs, object ctx, Tensor x)
