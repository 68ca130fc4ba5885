// Strided copy with conversion, through float. COPY() makes the kernel.
#pragma once
#include "operands.cuh"

#define COPY()                                                                          \
  extern "C" __global__ void copy(const __grid_constant__ tensotron::Record r) {        \
    using namespace tensotron::cuda;                                                    \
    const tensotron::Arg &out = r.arg[0], &in = r.arg[1];                               \
    const int64_t n = count(r, 0, r.ndim), step = int64_t(gridDim.x) * blockDim.x;      \
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)  \
      store(out, offset(r, out, i, 0, r.ndim),                                          \
            load(r, in, offset(r, in, i, 0, r.ndim)));                                  \
  }
