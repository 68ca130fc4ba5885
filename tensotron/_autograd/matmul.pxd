# linear() without a Python call, for modules: see nn/modules/_dispatch.pyx.
cdef object linear_call(object input, object weight, object bias)
