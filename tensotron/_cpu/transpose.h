// Transposes of matrices, by blocks of as many rows as a register has lanes.
#pragma once
#include <cstdint>

#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

// Where blocks of D lanes change places: the lower (or upper) of two registers that lie D rows apart. The indices are
// constants of the instruction; computed in a loop they would be put together lane by lane, every time.
template <int... I>
struct TransposeLanes {};
template <class T, int D, bool UPPER, int... I>
TENSOTRON_INLINE Vec<T> transpose_step(Vec<T> a, Vec<T> b, TransposeLanes<I...>) {
  constexpr int L = Vec<T>::size;
  typedef typename Vec<T>::Int Int;
  return Vec<T>(__builtin_shuffle(a.v, b.v, UPPER ? Int{(I & D ? L + I : I + D)...} : Int{(I & D ? L + I - D : I)...}));
}

// Eklundh's: blocks of D, 2 D, 4 D, ... lanes change places.
template <class T, int D = 1>
static inline __attribute__((always_inline)) void lanes_transpose_block(Vec<T>* r) {
  constexpr int L = Vec<T>::size;
  if constexpr (D < L) {
    constexpr TransposeLanes<__integer_pack(L)...> all;
#pragma GCC unroll 16
    for (int i = 0; i < L; i++) {
      if (i & D) continue;
      const Vec<T> a = r[i], b = r[i + D];
      r[i] = transpose_step<T, D, false>(a, b, all);
      r[i + D] = transpose_step<T, D, true>(a, b, all);
    }
    lanes_transpose_block<T, 2 * D>(r);
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
