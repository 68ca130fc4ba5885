// Packing: copies blocks of A and B into the order in which the micro-kernels read them.
#pragma once
#include "gemm_simd-inl.h"

namespace tensotron {
namespace TENSOTRON_ISA {
namespace gemm {

// A matrix operand: element (i, j) at data[i * rs + j * cs].
template <class T> struct Mat {
  T* data;
  int64_t rs, cs;
};

// dst[i * ld + j] = src[i + j * step] for i < k, j < WIDTH: lines adjacent along k become rows of WIDTH
// elements. Only n lines exist; the last one is read again for those that do not.
template <class T>
static void pack_transposed(const T* src, int64_t step, int64_t n, int64_t k, T* dst, int64_t ld) {
  constexpr int W = WIDTH<T>, L = LANE<T>;
  int64_t i = 0;
  const auto blocks = [&](const auto& line) {
    for (; i + L <= k; i += L) {
      Reg<T> r[L];
#pragma GCC unroll 4
      for (int j = 0; j < L; ++j) r[j] = load_lanes<T>([&](int l) { return src + i + line(j, l); });
      transpose_lanes<T>(r);
#pragma GCC unroll 4
      for (int j = 0; j < L; ++j) store(dst + (i + j) * ld, r[j]);
    }
  };
  if (n == W) {
    blocks([&](int j, int l) { return (j + l * L) * step; });
  } else {
    int64_t from[W];
    for (int j = 0; j < W; ++j) from[j] = (j < n ? j : n - 1) * step;
    blocks([&](int j, int l) { return from[j + l * L]; });
  }
  for (; i < k; ++i)
    for (int j = 0; j < W; ++j) dst[i * ld + j] = src[i + (j < n ? j : n - 1) * step];
}

// The reverse: dst[i + j * step] = src[i * ld + j] for i < k, j < n.
template <class T>
static void unpack_transposed(const T* src, int64_t ld, int64_t n, int64_t k, T* dst, int64_t step) {
  constexpr int W = WIDTH<T>, L = LANE<T>;
  int64_t i = 0;
  for (; i + L <= k; i += L) {
    Reg<T> r[L];
    T lines[L * W];
#pragma GCC unroll 4
    for (int j = 0; j < L; ++j) r[j] = load(src + (i + j) * ld);
    transpose_lanes<T>(r);
#pragma GCC unroll 4
    for (int j = 0; j < L; ++j) store(lines + j * W, r[j]);
    for (int64_t j = 0; j < n; ++j) __builtin_memcpy(dst + i + j * step, lines + j % L * W + j / L * L, L * sizeof(T));
  }
  for (; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) dst[i + j * step] = src[i * ld + j];
}

// Rows are cut into `count` panels that differ by at most one row.
struct RowPanels {
  int64_t count, base, extra;
  inline RowPanels(int64_t m, int64_t max_rows) : count(1), base(m), extra(0) {
    if (m > max_rows) {
      count = (m + max_rows - 1) / max_rows;
      base = m / count;
      extra = m % count;
    }
  }
  inline int64_t start(int64_t i) const { return i * base + (i < extra ? i : extra); }
  inline int64_t rows(int64_t i) const { return base + (i < extra); }
};

// A row of n adjacent elements, padded with zeros to whole registers.
template <class T> static inline void pack_row(const T* src, int64_t n, T* dst) {
  constexpr int W = WIDTH<T>;
  for (; n >= W; n -= W, src += W, dst += W) store(dst, load(src));
  if (n > 0) store(dst, load(src, Tail<T>(n)));
}

// Columns [0, n) of the k rows of B as panels of `width` columns: row i of panel p at
// dst + (p * k + i) * width; a last, narrower panel is padded to whole registers.
template <class T>
static void pack_b(Mat<const T> b, int64_t k, int64_t n, int64_t width, T* dst) {
  constexpr int W = WIDTH<T>;
  if (b.cs == 1) {  // along the rows, as they lie in memory
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; j += width)
        pack_row(b.data + i * b.rs + j, n - j < width ? n - j : width, dst + j * k + i * width);
    return;
  }
  for (int64_t j0 = 0; j0 < n; j0 += width, dst += k * width) {
    const int64_t cols = n - j0 < width ? n - j0 : width;
    const T* src = b.data + j0 * b.cs;
    if (b.rs == 1) {
      for (int64_t j = 0; j < cols; j += W)
        pack_transposed(src + j * b.cs, b.cs, cols - j < W ? cols - j : W, k, dst + j, width);
    } else {
      const int64_t padded = (cols + W - 1) / W * W;
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < cols; ++j) dst[i * width + j] = src[i * b.rs + j * b.cs];
        for (int64_t j = cols; j < padded; ++j) dst[i * width + j] = T(0);
      }
    }
  }
}

// `rows` rows of k columns of A, column after column: element (r, i) at dst[i * padded + r].
template <class T>
static void pack_a(Mat<const T> a, int64_t rows, int64_t k, int64_t padded, T* dst) {
  constexpr int W = WIDTH<T>;
  if (a.rs == 1) {
    for (int64_t i = 0; i < k; ++i) pack_row(a.data + i * a.cs, rows, dst + i * padded);
  } else if (a.cs == 1) {
    for (int64_t r = 0; r < rows; r += W)
      pack_transposed(a.data + r * a.rs, a.rs, rows - r < W ? rows - r : W, k, dst + r, padded);
  } else {
    for (int64_t i = 0; i < k; ++i)
      for (int64_t r = 0; r < rows; ++r) dst[i * padded + r] = a.data[r * a.rs + i * a.cs];
  }
}

}  // namespace gemm
}  // namespace TENSOTRON_ISA
}  // namespace tensotron
