// Running sums and products along one dimension.
//
//   k_scan   op = ScanOp   ints: outer, dim, inner   arg: y | x, contiguous [outer, dim, inner] of dtype
//            r.compute (F32, F64, I64). y may be x.
//
// float32 accumulates in float64 and rounds each element once, as torch does; int64 wraps.
#pragma once
#include <cstdint>

#include "record.h"

namespace tensotron {
namespace TENSOTRON_ISA {

enum ScanOp : uint16_t { SCAN_SUM = 0, SCAN_PRODUCT = 1 };

template <class A, bool PRODUCT>
static inline A scan_join(A a, A b) {
  return PRODUCT ? a * b : a + b;
}

// T: element, A: accumulator.
template <class T, class A, bool PRODUCT>
static int scan_run(const Record& r) {
  T* out = reinterpret_cast<T*>(r.arg[0].data);
  const T* in = reinterpret_cast<const T*>(r.arg[1].data);
  const int64_t outer = r.ints[0], dim = r.ints[1], inner = r.ints[2];
  constexpr int64_t BLOCK = 64;  // columns walked together: a whole number of vectors of every width
  int64_t o = 0;
  // Floating sums wait for each other: those of four rows, not so long that they would meet in the cache, take turns.
  if constexpr (!(T(-1) > T(0)))
    for (; inner == 1 && dim <= 512 && o + 4 <= outer; o += 4, out += 4 * dim, in += 4 * dim) {
      A total[4] = {A(PRODUCT), A(PRODUCT), A(PRODUCT), A(PRODUCT)};
      for (int64_t d = 0; d < dim; ++d)
        for (int k = 0; k < 4; ++k)
          out[k * dim + d] = static_cast<T>(total[k] = scan_join<A, PRODUCT>(total[k], static_cast<A>(in[k * dim + d])));
    }
  for (; o < outer; ++o, out += dim * inner, in += dim * inner) {
    if (inner == 1) {
      A total = A(PRODUCT);
      int64_t d = 0;
      if constexpr (T(-1) > T(0))  // integers may be joined in any order: four to a step
        for (; d + 4 <= dim; d += 4) {
          const A a = in[d], b = scan_join<A, PRODUCT>(a, in[d + 1]), c = scan_join<A, PRODUCT>(b, in[d + 2]),
                  e = scan_join<A, PRODUCT>(b, scan_join<A, PRODUCT>(in[d + 2], in[d + 3]));
          out[d] = scan_join<A, PRODUCT>(total, a), out[d + 1] = scan_join<A, PRODUCT>(total, b);
          out[d + 2] = scan_join<A, PRODUCT>(total, c), out[d + 3] = total = scan_join<A, PRODUCT>(total, e);
        }
      for (; d < dim; ++d) out[d] = static_cast<T>(total = scan_join<A, PRODUCT>(total, static_cast<A>(in[d])));
      continue;
    }
    for (int64_t first = 0; first < inner; first += BLOCK) {
      const int64_t n = inner - first < BLOCK ? inner - first : BLOCK;
      A total[BLOCK];
      for (int64_t k = 0; k < n; ++k) total[k] = A(PRODUCT);
      for (int64_t d = 0; d < dim; ++d) {
        const T* x = in + d * inner + first;
        T* y = out + d * inner + first;
        for (int64_t k = 0; k < n; ++k) y[k] = static_cast<T>(total[k] = scan_join<A, PRODUCT>(total[k], static_cast<A>(x[k])));
      }
    }
  }
  return OK;
}

int k_scan(const Record& r) {
  const bool product = r.op == SCAN_PRODUCT;
  switch (r.compute) {
    case F32: return product ? scan_run<float, double, true>(r) : scan_run<float, double, false>(r);
    case F64: return product ? scan_run<double, double, true>(r) : scan_run<double, double, false>(r);
    case I64: return product ? scan_run<uint64_t, uint64_t, true>(r) : scan_run<uint64_t, uint64_t, false>(r);
    default: return UNSUPPORTED;
  }
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
