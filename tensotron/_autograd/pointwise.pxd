# Activations without a Python call, for modules: see nn/modules/_dispatch.pyx.
cdef object relu_of(object input)
cdef object tanh_of(object input)
cdef object sigmoid_of(object input)
# leaky_relu_() with a node of another name
cdef object leaky_in_place(str node, object input, double slope)
