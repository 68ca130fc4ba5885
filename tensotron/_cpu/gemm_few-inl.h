// Products of few rows and a large B, which is read where it lies: packing B would cost as much as the product.
//
// C^T = B^T A^T: the small A is packed as the operand of registers, B^T is the one that is broadcast, and each tile is
// summed up over all of k before it is written, transposed. Sums are those of run_tiles, bit for bit.
#pragma once
#include "gemm_micro-inl.h"
#include "gemm_pack-inl.h"
#include "gemm_problem-inl.h"
#include "parallel.h"
#include "record.h"
#include "scratch.h"

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

template <class T> __attribute__((noinline)) static int run_few_rows(const Problem<T>& p, int team) {
  constexpr int W = WIDTH<T>;
  const int64_t width = p.m > W ? 2 * W : W, strips = (p.m + width - 1) / width;
  T* const abuf = static_cast<T*>(scratch(SCRATCH_PACK_A, strips * width * p.k * sizeof(T)));
  if (!abuf) return OUT_OF_MEMORY;
  pack_b<T>({p.a.data, p.a.cs, p.a.rs}, p.k, p.m, width, abuf);
  const RowPanels panels(p.n, MAX_MR);
  const int64_t grain = panels.count / (4 * team) + 1;  // neighbouring panels share lines of C, and fetch each other ahead
  return parallel(team, panels.count, grain, [=](int, int64_t begin, int64_t end) {
    alignas(64) T tiles[FEW_STRIPS][MAX_MR * 2 * W] = {};
    for (int64_t i = begin; i < end; ++i) {
      const int64_t col = panels.start(i), cols = panels.rows(i);
      const T* b = p.b.data + col * p.b.cs;
      if (p.d.data)
        for (int64_t c = 0; c < cols; ++c)
          for (int64_t r = 0; r < p.m; ++r)
            tiles[r / width][c * width + r % width] = p.d.data[r * p.d.rs + (col + c) * p.d.cs];
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
      for (int64_t r = 0; r < p.m; r += W)
        unpack_transposed(tiles[r / width] + r % width, width, p.m - r < W ? p.m - r : W, cols, p.c.data + r * p.c.rs + col,
                          p.c.rs);
      if (p.activation != GEMM_NONE) activate_block(p, 0, p.m, col, cols);
    }
    return int(OK);
  });
}

}  // namespace gemm
}  // namespace TENSOTRON_ISA
}  // namespace tensotron
