// FOLD and FINISHED rows of reduce.def with V = float: a block per output element. REDUCE(row) makes one kernel.
#pragma once
#include "operands.cuh"

namespace tensotron {
namespace cuda {
namespace folds {

#define FOLD(name, IDENTITY, MAP, JOIN)                                 \
  struct name {                                                         \
    template <class V> TENSOTRON_DEVICE V identity() { return IDENTITY; } \
    template <class V> TENSOTRON_DEVICE V map(V x) { return MAP; }      \
    template <class V> TENSOTRON_DEVICE V join(V a, V b) { return JOIN; } \
    template <class V> TENSOTRON_DEVICE V finish(V a, V) { return a; }  \
  };
#define FLOAT_FOLD FOLD
#define FINISHED(name, fold, FINISH)                                    \
  struct name : fold {                                                  \
    template <class V> TENSOTRON_DEVICE V finish(V a, V n) { return FINISH; } \
  };
#include "../../_ops/reduce.def"

}  // namespace folds

constexpr int WARP = 32;

template <class F> TENSOTRON_DEVICE float join_warp(float v) {
  for (int step = WARP / 2; step > 0; step /= 2)
    v = F::template join<float>(v, __shfl_xor_sync(0xffffffffu, v, step));
  return v;
}

// blockDim.x is a multiple of the warp size, and at most its square.
template <class F> TENSOTRON_DEVICE void reduce(const Record& r) {
  __shared__ float partial[WARP];
  const int kept = r.ndim - int(r.ints[0]), lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int64_t outputs = count(r, 0, kept), n = count(r, kept, r.ndim);
  const Arg &out = r.arg[0], &in = r.arg[r.nout];
  for (int64_t o = blockIdx.x; o < outputs; o += gridDim.x) {
    const int64_t start = offset(r, in, o, 0, kept);
    float v = F::template identity<float>();
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const float x = load(r, in, start + offset(r, in, i, kept, r.ndim));
      v = F::template join<float>(v, F::template map<float>(x));
    }
    v = join_warp<F>(v);
    if (lane == 0) partial[warp] = v;
    __syncthreads();
    if (warp == 0) {
      v = lane < int(blockDim.x) / WARP ? partial[lane] : F::template identity<float>();
      v = join_warp<F>(v);
      if (lane == 0) store(out, offset(r, out, o, 0, kept), F::template finish<float>(v, float(n)));
    }
    __syncthreads();  // partial is free again
  }
}

}  // namespace cuda
}  // namespace tensotron

#define REDUCE(row)                                                                         \
  extern "C" __global__ void reduce_##row(const __grid_constant__ tensotron::Record r) {   \
    tensotron::cuda::reduce<tensotron::cuda::folds::row>(r);                                \
  }
