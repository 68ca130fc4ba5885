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

// N rows of an operand, walked along k: one pointer for every four, whose addresses are base +
// {0, 1, 2, 3} * ld.
template <class T, int N> struct DotRows {
  const T* p[(N + 3) / 4];
  int64_t ld;
  inline DotRows(const T* first, int64_t step) : ld(step) {
    for (int i = 0; i < N; i += 4) p[i / 4] = first + i * step;
  }
  inline const T* operator[](int i) const { return p[i / 4] + i % 4 * ld; }
  inline void advance() {
    for (int i = 0; i < N; i += 4) p[i / 4] += WIDTH<T>;
  }
};

// At most LANE rows; those that do not exist are the first once more.
template <class T> struct FewRows {
  const T* p[LANE<T>];
  inline FewRows(const T* first, int64_t step, int64_t count) {
    for (int i = 0; i < LANE<T>; ++i) p[i] = first + (i < count ? i : 0) * step;
  }
  inline const T* operator[](int i) const { return p[i]; }
  inline void advance() {
    for (int i = 0; i < LANE<T>; ++i) p[i] += WIDTH<T>;
  }
};

// acc[i * NJ + j] += a row i . b column j, lane by lane, for at most DOT_K of k.
template <class T, int MI, int NJ, class Columns>
TENSOTRON_INLINE void dot_rows(int64_t k, DotRows<T, MI> a, Columns b, Reg<T>* acc) {
  constexpr int W = WIDTH<T>;
  for (; k >= W; k -= W) {
    Reg<T> av[MI];
#pragma GCC unroll 16
    for (int i = 0; i < MI; ++i) av[i] = load(a[i]);
#pragma GCC unroll 16
    for (int j = 0; j < NJ; ++j) {
      const Reg<T> bv = load(b[j]);
#pragma GCC unroll 16
      for (int i = 0; i < MI; ++i) acc[i * NJ + j] = fma<T>(av[i], bv, acc[i * NJ + j]);
    }
    a.advance();
    b.advance();
  }
  if (k == 0) return;
  const Tail<T> tail(k);
  Reg<T> av[MI];
#pragma GCC unroll 16
  for (int i = 0; i < MI; ++i) av[i] = load(a[i], tail);
#pragma GCC unroll 16
  for (int j = 0; j < NJ; ++j) {
    const Reg<T> bv = load(b[j], tail);
#pragma GCC unroll 16
    for (int i = 0; i < MI; ++i) acc[i * NJ + j] = fma<T>(av[i], bv, acc[i * NJ + j]);
  }
}

// The same for a block of fewer rows and columns.
template <class T, int MI>
static inline void dot_rows(int64_t k, const T* a, int64_t lda, int64_t mi, const T* b, int64_t ldb, int64_t nj,
                            Reg<T>* acc) {
  constexpr int W = WIDTH<T>, NJ = W / MI;
  const Tail<T> tail(k % W);
  for (int64_t i = 0; i < mi; ++i)
    for (int64_t j = 0; j < nj; ++j) {
      const T *x = a + i * lda, *y = b + j * ldb;
      Reg<T> sum = {};
      int64_t p = 0;
      for (; p + W <= k; p += W) sum = fma<T>(load(x + p), load(y + p), sum);
      acc[i * NJ + j] = p < k ? fma<T>(load(x + p, tail), load(y + p, tail), sum) : sum;
    }
}

// The sum of `block(k0, n)` over blocks of at most DOT_K of k.
template <class T, class Block> TENSOTRON_INLINE Reg<T> sum_blocks(int64_t k, Block block) {
  Reg<T> total = {};
  for (int64_t k0 = 0; k0 < k; k0 += DOT_K) total = total + block(k0, k - k0 < DOT_K ? k - k0 : DOT_K);
  return total;
}

// sums[i * NJ + j] = a row i . b column j, MI * NJ = WIDTH of them. All chains stay in registers.
template <class T, int MI> TENSOTRON_INLINE Reg<T> dot_whole(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb) {
  constexpr int W = WIDTH<T>, NJ = W / MI;
  return sum_blocks<T>(k, [&](int64_t k0, int64_t n) __attribute__((always_inline)) {
    Reg<T> acc[W];
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) acc[i] = Reg<T>{};
    dot_rows<T, MI, NJ>(n, DotRows<T, MI>(a + k0, lda), DotRows<T, NJ>(b + k0, ldb), acc);
    return sum_lanes<T>(acc);
  });
}

// The same where `mi` rows and `nj` columns exist.
template <class T, int MI>
static inline Reg<T> dot_block(int64_t k, const T* a, int64_t lda, int64_t mi, const T* b, int64_t ldb,
                               int64_t nj) {
  if (mi == MI && nj == WIDTH<T> / MI) return dot_whole<T, MI>(k, a, lda, b, ldb);
  return sum_blocks<T>(k, [&](int64_t k0, int64_t n) {
    Reg<T> acc[WIDTH<T>] = {};
    dot_rows<T, MI>(n, a + k0, lda, mi, b + k0, ldb, nj, acc);
    return sum_lanes<T>(acc);
  });
}

// The same for one row and at most LANE columns.
template <class T> static inline Reg<T> dot_few(int64_t k, const T* a, const T* b, int64_t ldb, int64_t columns) {
  constexpr int L = LANE<T>;
  return sum_blocks<T>(k, [&](int64_t k0, int64_t n) __attribute__((always_inline)) {
    Reg<T> acc[L];
#pragma GCC unroll 4
    for (int j = 0; j < L; ++j) acc[j] = Reg<T>{};
    dot_rows<T, 1, L>(n, DotRows<T, 1>(a + k0, 0), FewRows<T>(b + k0, ldb, columns), acc);
    return sum_few<T>(acc);
  });
}

// One row, k = LANE and columns one after the other: a register holds WIDTH / LANE of them. x: spread_lane of the row.
template <class T> TENSOTRON_INLINE Reg<T> dot_lanes(Reg<T> x, const T* b) {
  constexpr int W = WIDTH<T>, L = LANE<T>;
  Reg<T> r[L];
#pragma GCC unroll 4
  for (int i = 0; i < L; ++i) r[i] = fma<T>(x, load(b + i * W), Reg<T>{});
  return swap_lanes<T>(sum_within_lanes<T>(r), Lanes<T>{});
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
