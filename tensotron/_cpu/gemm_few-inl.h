// Products of few rows and a large B, which is read where it lies: packing B would cost as much as the product.
//
// C^T = B^T A^T: the small A is packed as the operand of registers, B^T is the one that is broadcast, and each tile is
// summed up over all of k before it is written, transposed. Sums are those of run_tiles, bit for bit.
#pragma once
#include "gemm_micro-inl.h"
#include "gemm_pack-inl.h"
#include "gemm_problem-inl.h"
#include "record.h"
#include "scratch.h"
#include "transpose.h"

namespace tensotron {
namespace TENSOTRON_ISA {
namespace gemm {

constexpr int FEW_STRIPS = 2;  // of two registers of rows

// Pays where run_tiles would pack B, which takes the time of some eight rows more, and few lanes stay idle.
template <class T> static inline bool is_few_rows(const Problem<T>& p) {
  constexpr int W = WIDTH<T>;
  if (p.k * p.n * int64_t(sizeof(T)) <= 256 * 1024 || p.m > FEW_STRIPS * 2 * W) return false;
  const int64_t padded = (p.m + W - 1) / W * W;
  if (p.m < W / 2 || padded >= p.m + 8 || p.n < 4 * MAX_MR || p.c.cs != 1) return false;
  if (p.b.rs != 1) {  // a column strip, taken up again by the next, must not collide in the second-level cache
    const int64_t step = p.b.rs * int64_t(sizeof(T));
    if (p.b.cs != 1 || p.m <= 2 * MAX_MR || p.k * (step & -step) > 1024 * 1024) return false;
  }
  return p.alpha == T(1) && (!p.d.data || p.beta == T(1)) && p.k * (padded + W) * int64_t(sizeof(T)) <= B_BYTES;
}

template <class T> __attribute__((noinline)) static int run_few_rows(const Problem<T>& p) {
  constexpr int W = WIDTH<T>, LINES = (MAX_MR + W - 1) / W * W;
  const int nv = p.m > W ? 2 : 1;
  const int64_t width = nv * W, strips = (p.m + width - 1) / width;
  T* const abuf = static_cast<T*>(scratch(SCRATCH_PACK_A, strips * width * p.k * sizeof(T)));
  if (!abuf) return OUT_OF_MEMORY;
  pack_b<T>({p.a.data, p.a.cs, p.a.rs}, p.k, p.m, width, abuf);
  const RowPanels panels(p.n, MAX_MR);
  alignas(64) T tiles[FEW_STRIPS][LINES * 2 * W] = {};
  for (int64_t i = 0; i < panels.count; ++i) {
    const int64_t col = panels.start(i), cols = panels.rows(i);
    const T* b = p.b.data + col * p.b.cs;
    if (p.d.data)
      for (int64_t s = 0; s < strips; ++s)
        for (int64_t c = 0; c < cols; ++c)
          for (int64_t r = 0; r < width && s * width + r < p.m; ++r)
            tiles[s][c * width + r] = p.d.data[(s * width + r) * p.d.rs + (col + c) * p.d.cs];
    for (int64_t kb = 0, kn; kb < p.k; kb += kn) {
      kn = next_block<T>(p.k - kb);
      for (int64_t s = 0; s < strips; ++s) {
        T* const tile = tiles[s];
        const bool add = kb > 0 || p.d.data;
        const int64_t ahead = p.b.cs == 1 ? 2 * cols - 1 : 0;  // the next panel lies beside this one
        const Micro<T> run = find_micro<T>(cols, p.m - s * width > W ? 2 : 1);
        run(kn, b + kb * p.b.rs, p.b.cs, p.b.rs, abuf + (s * p.k + kb) * width, width,
            {tile, width, add ? tile : nullptr, width, T(-__builtin_inf()), ahead}, W);
      }
    }
    for (int64_t s = 0; s < strips; ++s)
      for (int64_t r = 0; r < width && s * width + r < p.m; r += W) {
        const int64_t row = s * width + r, rows = p.m - row < W ? p.m - row : W;
        for (int64_t c = 0; c < cols; c += W) {
          Vec<T> v[W];
#pragma GCC unroll 16
          for (int l = 0; l < W; ++l) v[l] = Vec<T>(load(tiles[s] + (c + l) * width + r));
          lanes_transpose_block(v);
          const Tail<T> tail(cols - c < W ? cols - c : W);
          T* dst = p.c.data + row * p.c.rs + col + c;
          if (p.activation == GEMM_NONE && rows == W) {
#pragma GCC unroll 16
            for (int l = 0; l < W; ++l) store(dst + l * p.c.rs, v[l].v, tail);
          } else {
            for (int64_t l = 0; l < rows; ++l, dst += p.c.rs) {
              const Reg<T> y = p.activation > GEMM_SIGMOID ? load(p.beside(dst), tail) : Reg<T>{};
              store(dst, activate<T>(v[l].v, y, p.activation), tail);
            }
          }
        }
      }
  }
  return OK;
}

}  // namespace gemm
}  // namespace TENSOTRON_ISA
}  // namespace tensotron
