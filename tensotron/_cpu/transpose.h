// Transposes of matrices, by blocks of as many rows as a register has lanes.
#pragma once
#include <cstdint>

#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

// Eklundh's: blocks of 1, 2, 4, ... lanes change places.
template <class T>
static inline __attribute__((always_inline)) void lanes_transpose_block(Vec<T>* r) {
  constexpr int L = Vec<T>::size;
  typedef typename Vec<T>::Int Int;
#pragma GCC unroll 5
  for (int d = 1; d < L; d *= 2) {
    Int low, high;
    for (int l = 0; l < L; l++) {
      low[l] = l & d ? L + l - d : l;
      high[l] = l & d ? L + l : l + d;
    }
#pragma GCC unroll 16
    for (int i = 0; i < L; i++) {
      if (i & d) continue;
      const auto a = r[i].v, b = r[i + d].v;
      r[i] = Vec<T>(__builtin_shuffle(a, b, low));
      r[i + d] = Vec<T>(__builtin_shuffle(a, b, high));
    }
  }
}

// dst[c][r] = src[r][c]. With pad, rows of dst are filled up with zeros to a multiple of the vector.
template <class T>
static inline void lanes_transpose(const T* src, int64_t lds, int64_t rows, int64_t cols, T* dst, int64_t ldd, bool pad) {
  constexpr int L = Vec<T>::size;
  for (int64_t r = 0; r < rows; r += L)
    for (int64_t c = 0; c < cols; c += L) {
      const int nr = int(rows - r < L ? rows - r : L), nc = int(cols - c < L ? cols - c : L);
      Vec<T> v[L];
      if (nr == L && nc == L) {
#pragma GCC unroll 16
        for (int i = 0; i < L; i++) v[i] = Vec<T>::load(src + (r + i) * lds + c);
        lanes_transpose_block(v);
#pragma GCC unroll 16
        for (int i = 0; i < L; i++) v[i].store(dst + (c + i) * ldd + r);
        continue;
      }
      for (int i = 0; i < L; i++) v[i] = i < nr ? Vec<T>::load(src + (r + i) * lds + c, nc) : Vec<T>(T(0));
      lanes_transpose_block(v);
      for (int i = 0; i < nc; i++) {
        if (pad) v[i].store(dst + (c + i) * ldd + r);
        else v[i].store(dst + (c + i) * ldd + r, nr);
      }
    }
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
