# For modules: see nn/modules/_dispatch.pyx.
cdef object conv2d_relu(object input, object weight, object bias, object stride, object padding, object dilation, object groups,
                        bint pool)
