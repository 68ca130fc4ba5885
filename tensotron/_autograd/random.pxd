from tensotron._core.generator cimport Generator
from tensotron._core.tensor cimport Tensor

# noise = 0 with probability p, else 1 / (1 - p)
cdef int draw_noise(Generator g, Tensor noise, double p) except -1
# the same, and out = x * noise
cdef int draw_dropout(Generator g, Tensor noise, Tensor out, Tensor x, double p) except -1
# noise = uniform in [lower, upper) where x <= 0, else 1; out = x * noise; all contiguous
cdef int draw_slopes(Generator g, Tensor noise, Tensor out, Tensor x, double lower, double upper) except -1
