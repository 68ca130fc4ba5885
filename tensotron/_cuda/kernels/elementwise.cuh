// Rows of elementwise.def with V = float. ELEMENTWISE(row, expression) makes one kernel.
#pragma once
#include "operands.cuh"
// the qualifiers of the rows' functions come from scalar.cuh
#include "../../_ops/elementwise.h"

namespace tensotron {
namespace cuda {

#include "../../_ops/functors.inc"

template <class F, int NIN> TENSOTRON_DEVICE void elementwise(const Record& r) {
  const float p[4] = {float(r.reals[0]), float(r.reals[1]), float(r.reals[2]), float(r.reals[3])};
  const int64_t n = count(r, 0, r.ndim), step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    float x[NIN];
    for (int k = 0; k < NIN; ++k) {
      const Arg& a = r.arg[r.nout + k];
      x[k] = load(r, a, offset(r, a, i, 0, r.ndim));
    }
    store(r.arg[0], offset(r, r.arg[0], i, 0, r.ndim), F::template apply<float>(x, p));
  }
}

}  // namespace cuda
}  // namespace tensotron

#define ELEMENTWISE(row, expression)                                                         \
  static constexpr int nin_##row##_##expression =                                            \
      tensotron::expression_inputs(tensotron::ROW_##row, expression);                        \
  extern "C" __global__ void elementwise_##row##_##expression(                               \
      const __grid_constant__ tensotron::Record r) {                                         \
    tensotron::cuda::elementwise<tensotron::cuda::functors::row##_##expression,              \
                                 nin_##row##_##expression>(r);                               \
  }
