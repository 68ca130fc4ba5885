// How long a launch takes one thread, roughly: enough to tell where releasing the GIL costs more than it gives.
#pragma once
#include "record.h"

namespace tensotron {

constexpr double LONG_NS = 50000;

inline double record_ns(const Record& r) {
  const int64_t* n = r.ints;
  const auto product = [](const int64_t* v, int count) {
    double p = 1;
    for (int i = 0; i < count; ++i) p *= double(v[i]);
    return p;
  };
  switch (r.kernel) {
    case K_elementwise: return product(r.size, r.ndim) / 2;
    case K_copy: case K_reduce: return product(r.size, r.ndim) / 4;
    case K_fill: return product(r.size, r.ndim) / 8;
    case K_gemm: return product(n, 4) / 25;
    case K_conv_forward: case K_conv_backward_input: case K_conv_backward_weight:  // N, O, OH, OW, C / G, KH, KW
      return double(n[0]) * double(n[4]) * product(n + 14, 2) * double(n[1] / n[13]) * product(n + 5, 2) / 25;
    case K_conv_backward_bias: return double(n[0]) * double(n[4]) * product(n + 14, 2) / 8;
    case K_max_pool2d: case K_max_pool2d_backward: case K_avg_pool2d: case K_avg_pool2d_backward: return product(n, 3) / 2;
    case K_softmax: case K_softmax_backward: return product(n, 3);
    case K_layer_norm: case K_layer_norm_backward: return product(n, 2);
    case K_group_norm: case K_group_norm_backward: case K_batch_norm: case K_batch_norm_backward: return product(n, 3);
    case K_optim: case K_list_norm: case K_list_scale: {
      double total = 0;
      for (uint32_t i = 0; i < r.nlist; ++i) total += double(r.list[i].stride[0]);
      return total / 4;
    }
    default: return 0;  // short, or rare
  }
}

// Whether the GIL is released while it runs. Not for random numbers: the GIL guards the generators.
inline bool is_long(const Record& r) {
  if (r.ndim == 1 && (r.kernel <= K_fill || r.kernel == K_reduce)) {
    const int per_ns = r.kernel == K_elementwise ? 2 : r.kernel == K_fill ? 8 : 4;
    return r.size[0] > int64_t(per_ns * LONG_NS);
  }
  return record_ns(r) > LONG_NS;
}

}  // namespace tensotron
