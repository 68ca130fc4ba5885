// Small products whose operands are both adjacent along k (x @ W^T of a few rows): dot products over
// whole registers, so that nothing needs transposing.
//
// An element is WIDTH chains of fma over k, added as a tree, once for every DOT_K of k.
#pragma once
#include "gemm_pack-inl.h"

namespace tensotron {
namespace TENSOTRON_ISA {
namespace gemm {

constexpr int64_t DOT_K = 4096;

// sums[i * NJ + j] = a row i . b column j, MI * NJ = WIDTH of them. Rows from `mi` and columns from
// `nj` on repeat the last real one.
template <class T, int MI>
static inline Reg<T> dot_block(int64_t k, const T* a, int64_t lda, int64_t mi, const T* b, int64_t ldb,
                               int64_t nj) {
  constexpr int W = WIDTH<T>, NJ = W / MI;
  const T* ap[MI];
  const T* bp[NJ];
  for (int i = 0; i < MI; ++i) ap[i] = a + (i < mi ? i : mi - 1) * lda;
  for (int j = 0; j < NJ; ++j) bp[j] = b + (j < nj ? j : nj - 1) * ldb;
  Reg<T> total = {};
  for (int64_t k0 = 0; k0 < k; k0 += DOT_K) {
    const int64_t end = k - k0 < DOT_K ? k : k0 + DOT_K;
    Reg<T> acc[W];
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) acc[i] = Reg<T>{};
    int64_t p = k0;
    for (; p + W <= end; p += W) {
      Reg<T> av[MI];
#pragma GCC unroll 16
      for (int i = 0; i < MI; ++i) av[i] = load(ap[i] + p);
#pragma GCC unroll 16
      for (int j = 0; j < NJ; ++j) {
        const Reg<T> bv = load(bp[j] + p);
#pragma GCC unroll 16
        for (int i = 0; i < MI; ++i) acc[i * NJ + j] = fma<T>(av[i], bv, acc[i * NJ + j]);
      }
    }
    if (p < end) {
      const Tail<T> tail(end - p);
      Reg<T> av[MI];
#pragma GCC unroll 16
      for (int i = 0; i < MI; ++i) av[i] = load(ap[i] + p, tail);
#pragma GCC unroll 16
      for (int j = 0; j < NJ; ++j) {
        const Reg<T> bv = load(bp[j] + p, tail);
#pragma GCC unroll 16
        for (int i = 0; i < MI; ++i) acc[i * NJ + j] = fma<T>(av[i], bv, acc[i * NJ + j]);
      }
    }
    total = total + sum_lanes<T>(acc);
  }
  return total;
}

// One dot product: eight registers of chains.
template <class T> static T dot_one(int64_t k, const T* a, const T* b) {
  constexpr int W = WIDTH<T>, U = 8;
  T total = 0;
  for (int64_t k0 = 0; k0 < k; k0 += DOT_K) {
    const int64_t end = k - k0 < DOT_K ? k : k0 + DOT_K;
    Reg<T> acc[U] = {};
    int64_t p = k0;
    for (; p + U * W <= end; p += U * W)
#pragma GCC unroll 8
      for (int u = 0; u < U; ++u) acc[u] = fma<T>(load(a + p + u * W), load(b + p + u * W), acc[u]);
    for (; p < end; p += W) {
      const Tail<T> tail(end - p < W ? end - p : W);
      acc[0] = fma<T>(load(a + p, tail), load(b + p, tail), acc[0]);
    }
#pragma GCC unroll 8
    for (int half = U / 2; half > 0; half /= 2)
#pragma GCC unroll 8
      for (int u = 0; u < half; ++u) acc[u] = acc[u] + acc[u + half];
    T lanes[W];
    store(lanes, acc[0]);
    for (int half = W / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    total += lanes[0];
  }
  return total;
}

}  // namespace gemm
}  // namespace TENSOTRON_ISA
}  // namespace tensotron
