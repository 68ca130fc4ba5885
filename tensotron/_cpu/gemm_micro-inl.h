// The GEMM micro-kernel: a tile of MR rows by NV registers, kept in registers over all of k.
//
// Every element is one chain of fma over k, in order, whatever the tile shape, so that the result
// of an element does not depend on which tile it fell into.
#pragma once
#include "gemm_simd-inl.h"

namespace tensotron {
namespace TENSOTRON_ISA {
namespace gemm {

// Largest tiles: accumulators, the registers of B and one broadcast of A must fit the register file.
#if defined(__AVX512F__)
constexpr int MAX_MR = 14, MAX_MR_WIDE = 6;
constexpr int PREFETCH = 8;  // k ahead; narrower registers leave the caches the time
#elif defined(__AVX2__)
constexpr int MAX_MR = 6, MAX_MR_WIDE = 3;
#elif defined(__aarch64__)
constexpr int MAX_MR = 8, MAX_MR_WIDE = 5;
#else
constexpr int MAX_MR = 4, MAX_MR_WIDE = 3;
#endif
#if !defined(__AVX512F__)
constexpr int PREFETCH = 0;
#endif
constexpr int MAX_NV = 4;

// What a micro-kernel does with its sums: c = sum, or c = max(floor, sum + d). All columns of c and d are
// adjacent.
template <class T> struct Target {
  T* c;
  int64_t ldc;
  const T* d;  // null: none
  int64_t ldd;
  T floor;     // 0 is relu, -inf nothing
  int64_t ahead = 0;  // from the first row of A to what is prefetched of it, every k; 0: the row's own next k
};

// a: element (i, k) at a[i * rs + k * cs]; b: row k at b + k * ldb; `last`: lanes of the last register.
template <class T>
using Micro = void (*)(int64_t k, const T* a, int64_t rs, int64_t cs, const T* b, int64_t ldb,
                       const Target<T>& out, int64_t last);

template <class T, int MR, int NV>
static void micro(int64_t k, const T* a, int64_t rs, int64_t cs, const T* b, int64_t ldb,
                  const Target<T>& out, int64_t last) {
  constexpr int W = WIDTH<T>;
  const Tail<T> tail(last);
  Reg<T> acc[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j) acc[i][j] = Reg<T>{};
  // One pointer for every four rows keeps the addresses within base + {0, 1, 2, 3} * rs.
  constexpr int GROUPS = (MR + 3) / 4;
  const T* row[GROUPS];
#pragma GCC unroll 4
  for (int i = 0; i < GROUPS; ++i) row[i] = a + 4 * i * rs;
  const int64_t ahead = out.ahead ? out.ahead : PREFETCH * cs;
  for (; k > 0; --k) {
    Reg<T> bv[NV];
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j)
      bv[j] = Tail<T>::cheap && j == NV - 1 ? load(b + j * W, tail) : load(b + j * W);
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const Reg<T> av = broadcast(row[i / 4][(i % 4) * rs]);
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) acc[i][j] = fma<T>(av, bv[j], acc[i][j]);
    }
    if constexpr (PREFETCH && MR >= 8) {  // B passes through L1 and takes the panel of A along, row by row
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) __builtin_prefetch(b + PREFETCH * ldb + j * W);
      __builtin_prefetch(row[0] + ahead);
    }
    b += ldb;
#pragma GCC unroll 4
    for (int i = 0; i < GROUPS; ++i) row[i] += cs;
  }
  T* c = out.c;
  const T* d = out.d;
  const Reg<T> floor = broadcast(out.floor);
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    if (d) {
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) {
        const Reg<T> dv = j == NV - 1 ? load(d + j * W, tail) : load(d + j * W);
        acc[i][j] = max_or_second<T>(floor, acc[i][j] + dv);
      }
      d += out.ldd;
    }
#pragma GCC unroll 16
    for (int j = 0; j < NV - 1; ++j) store(c + j * W, acc[i][j]);
    store(c + (NV - 1) * W, acc[i][NV - 1], tail);
    c += out.ldc;
  }
}

template <class T, int NV, int... I> static inline Micro<T> find_rows(int64_t rows, Seq<I...>) {
  static constexpr Micro<T> table[] = {micro<T, I + 1, NV>...};
  return table[rows - 1];
}

// nv is 1, 2 or 4; rows at most MAX_MR, or MAX_MR_WIDE where nv is 4.
template <class T> static inline Micro<T> find_micro(int64_t rows, int nv) {
  if (nv == 1) return find_rows<T, 1>(rows, Seq<__integer_pack(MAX_MR)...>());
  if (nv == 2) return find_rows<T, 2>(rows, Seq<__integer_pack(MAX_MR)...>());
  return find_rows<T, 4>(rows, Seq<__integer_pack(MAX_MR_WIDE)...>());
}

}  // namespace gemm
}  // namespace TENSOTRON_ISA
}  // namespace tensotron
