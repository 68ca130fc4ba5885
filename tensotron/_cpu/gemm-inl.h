// Matrix products: C[b] = act(alpha * A[b] @ B[b] + beta * D[b]), our own GEMM.
//
// Record: ints[0..3] = batch, M, N, K; arg[0] = C, arg[1] = A (MxK), arg[2] = B (KxN); with nin == 3
// arg[3] = D (MxN). stride[0], [1], [2] of each argument = batch, row and column stride in elements,
// arbitrary: transposes and broadcast batches (stride 0) need no copies, a bias row has row stride 0,
// a bias column has column stride 0. All arguments have dtype `compute`: F32, F64 (tuned), I64, I32,
// U8 (which wrap around). Scale factors: reals[0] = alpha, reals[1] = beta, for integers ints[4] = alpha,
// ints[5] = beta. op = GemmActivation (floating point only); where that is a gradient, arg[3] is Y instead of D, of C's strides.
// D may be C itself; otherwise C overlaps no input. With beta == 0, D is not read; with K == 0,
// C = act(beta * D).
//
// The order of every sum is a function of shape, strides and ISA only. Except on the dot-product path
// it does not even depend on M and N: chains of fma over blocks of at most KC of k, added in order (ADR 0033).
#pragma once
#include "gemm.h"
#include "gemm_dot-inl.h"
#include "gemm_few-inl.h"
#include "gemm_micro-inl.h"
#include "gemm_pack-inl.h"
#include "gemm_problem-inl.h"
#include "parallel.h"
#include "record.h"
#include "scratch.h"

namespace tensotron {

namespace TENSOTRON_ISA {
namespace gemm {

// The general end of a tile of raw sums (rows of `ld`): scale, add D (first block of k) or C (later
// blocks), activate after the last.
template <class T>
static void finish(const Problem<T>& p, const T* sums, int64_t ld, int64_t i0, int64_t rows, int64_t j0,
                   int64_t cols, bool first, bool last) {
  constexpr int W = WIDTH<T>;
  const bool add = !first || p.d.data;
  const Mat<const T> d = first ? p.d : Mat<const T>{p.c.data, p.c.rs, p.c.cs};
  const Reg<T> alpha = broadcast(p.alpha), beta = broadcast(first ? p.beta : T(1));
  for (int64_t i = i0; i < i0 + rows; ++i, sums += ld)
    for (int64_t j = 0; j < cols; j += W) {
      const int64_t n = cols - j < W ? cols - j : W;
      const Tail<T> tail(n);
      Reg<T> v = alpha * load(sums + j, tail);
      if (add) {
        const T* src = d.data + i * d.rs + (j0 + j) * d.cs;
        Reg<T> dv = {};
        if (d.cs == 1)
          dv = load(src, tail);
        else if (d.cs == 0)
          dv = broadcast(*src);
        else
          for (int64_t l = 0; l < n; ++l) dv[l] = src[l * d.cs];
        v = v + beta * dv;
      }
      T* dst = p.c.data + i * p.c.rs + (j0 + j) * p.c.cs;
      if (last) {
        const T* y = p.activation > GEMM_SIGMOID ? p.beside(dst) : nullptr;
        Reg<T> yv = {};
        for (int64_t l = 0; y && l < n; ++l) yv[l] = y[l * p.c.cs];
        v = activate<T>(v, yv, p.activation);
      }
      if (p.c.cs == 1)
        store(dst, v, tail);
      else
        for (int64_t l = 0; l < n; ++l) dst[l * p.c.cs] = v[l];
    }
}

template <class T> static inline bool is_unscaled(const Problem<T>& p) {
  return p.c.cs == 1 && p.alpha == T(1) && (!p.d.data || (p.beta == T(1) && p.d.cs == 1));
}

// Both operands adjacent along k, MI rows at a time.
template <class T, int MI> static void run_dots(const Problem<T>& p) {
  constexpr int W = WIDTH<T>, NJ = W / MI;
  constexpr bool BY_LANES = NJ == LANE<T> && MI > 1;  // a lane of the sums is a row's, and goes where it belongs
  const bool by_lanes = BY_LANES && is_unscaled(p) && p.activation <= GEMM_RELU && p.n % NJ == 0;
  const Reg<T> floor = broadcast(p.activation == GEMM_RELU ? T(0) : T(-__builtin_inf()));
  T sums[W * MI];
  for (int64_t i = 0; i < p.m; i += MI) {
    const T* a = p.a.data + i * p.a.rs;
    const int64_t rows = p.m - i < MI ? p.m - i : MI;
    if constexpr (BY_LANES) {
      for (int64_t j = 0; by_lanes && j < p.n; j += NJ) {
        Reg<T> v = dot_block<T, MI>(p.k, a, p.a.rs, rows, p.b.data + j * p.b.cs, p.b.cs, NJ);
        if (p.d.data) v = v + load_lanes<T>([&](int l) { return p.d.data + (i + (l < rows ? l : 0)) * p.d.rs + j; });
        T block[W];
        store(block, max_or_second<T>(floor, v));
        for (int64_t l = 0; l < rows; ++l) __builtin_memcpy(p.c.data + (i + l) * p.c.rs + j, block + l * NJ, NJ * sizeof(T));
      }
      if (by_lanes) continue;
    }
    for (int64_t j0 = 0; j0 < p.n; j0 += W) {
      const int64_t cols = p.n - j0 < W ? p.n - j0 : W;
      for (int64_t j = 0; j < cols; j += NJ) {
        T block[W];
        store(block, dot_block<T, MI>(p.k, a, p.a.rs, rows, p.b.data + (j0 + j) * p.b.cs, p.b.cs,
                                      cols - j < NJ ? cols - j : NJ));
        for (int r = 0; r < MI; ++r) __builtin_memcpy(sums + r * W + j, block + r * NJ, NJ * sizeof(T));
      }
      finish(p, sums, W, i, rows, j0, cols, true, true);
    }
  }
}

// WIDTH columns of one row, and those that remain.
template <class T>
__attribute__((noinline)) static int64_t row_blocks(int64_t n, int64_t k, const T* a, const T* b, int64_t ldb, const T* d, T* c,
                                                    bool relu) {
  constexpr int W = WIDTH<T>;
  const Reg<T> floor = broadcast(relu ? T(0) : T(-__builtin_inf()));
  const auto put = [&](int64_t j, Reg<T> v) {
    if (d) v = v + load(d + j);
    store(c + j, max_or_second<T>(floor, v));
  };
  int64_t j = 0;
  if (ldb == k && k == LANE<T> && W > LANE<T>) {
    const Reg<T> x = spread_lane(a);
    for (; j + W <= n; j += W) put(j, dot_lanes<T>(x, b + j * k));
  }
  for (; j + W <= n; j += W) put(j, dot_whole<T, 1>(k, a, 0, b + j * ldb, ldb));
  return j;
}
template <class T> static void row_rest(const Problem<T>& p, int64_t j) {
  const Tail<T> tail(p.n - j);
  const T* const b = p.b.data + j * p.b.cs;
  Reg<T> v = p.n - j <= LANE<T> ? dot_few<T>(p.k, p.a.data, b, p.b.cs, p.n - j)
                                : dot_block<T, 1>(p.k, p.a.data, 0, 1, b, p.b.cs, p.n - j);
  if (p.d.data) v = v + load(p.d.data + j, tail);
  store(p.c.data + j, p.activation == GEMM_RELU ? activate<T>(v, GEMM_RELU) : v, tail);
}

// One row, written as it is summed up.
template <class T> static void run_row(const Problem<T>& p) {
  const bool relu = p.activation == GEMM_RELU;
  const int64_t j = p.n < WIDTH<T> ? 0 : row_blocks<T>(p.n, p.k, p.a.data, p.b.data, p.b.cs, p.d.data, p.c.data, relu);
  if (j < p.n) row_rest(p, j);
  if (p.activation > GEMM_RELU) activate_block(p, 0, 1, 0, p.n);
}

template <class T> static int run_dot(const Problem<T>& p) {
  constexpr int W = WIDTH<T>, QUARTER = W >= 8 ? W / 4 : 1;
  if (p.m == 1 && p.n == 1) {
    T sums[W] = {dot_one<T>(p.k, p.a.data, p.b.data)};
    finish(p, sums, 1, 0, 1, 0, 1, true, true);
  } else if (p.m == 1) {
    is_unscaled(p) ? run_row(p) : run_dots<T, 1>(p);
  } else if (W >= 8 && p.n <= 2 && p.m > W / 4) {
    run_dots<T, W / 2>(p);
  } else if (p.m == 2 || W < 16) {
    run_dots<T, 2>(p);
  } else {
    run_dots<T, QUARTER>(p);
  }
  return OK;
}

template <class T>
static inline Target<T> plain_target(const Problem<T>& p, int64_t i, int64_t j, bool first, bool last) {
  T* const c = p.c.data + i * p.c.rs + j;
  Target<T> out = {c, p.c.rs, c, p.c.rs, T(-__builtin_inf())};
  if (first) {
    out.d = p.d.data ? p.d.data + i * p.d.rs + j : nullptr;
    out.ldd = p.d.rs;
  }
  if (last && p.activation == GEMM_RELU) {
    out.floor = T(0);
    if (!out.d) {
      out.d = negative_zeros<T>();
      out.ldd = 0;
    }
  }
  return out;
}

// Registers of the next micro-kernel when `left` columns remain: 1, 2 or 4.
template <class T> static inline int next_width(int64_t left, int nv) {
  return left > 3 * WIDTH<T> && nv == 4 ? 4 : left > WIDTH<T> ? 2 : 1;
}

// k = 1, nothing added: every row a multiple of one, written whole.
template <class T> static void run_multiples(const Problem<T>& p) {
  constexpr int64_t W = WIDTH<T>, U = 4;
  const T *const a = p.a.data, *const b = p.b.data;
  const int64_t m = p.m, n = p.n, step = p.a.rs, ldc = p.c.rs;
  int64_t j = 0;
  for (; j + U * W <= n; j += U * W) {
    Reg<T> bv[U];
#pragma GCC unroll 4
    for (int u = 0; u < U; ++u) bv[u] = load(b + j + u * W);
    T* c = p.c.data + j;
    for (int64_t i = 0; i < m; ++i, c += ldc) {
      const Reg<T> av = broadcast(a[i * step]);
#pragma GCC unroll 4
      for (int u = 0; u < U; ++u) store(c + u * W, fma<T>(av, bv[u], Reg<T>{}));
    }
  }
  for (; j < n; j += W) {
    const Tail<T> tail(n - j < W ? n - j : W);
    const Reg<T> bv = load(b + j, tail);
    T* c = p.c.data + j;
    for (int64_t i = 0; i < m; ++i, c += ldc) store(c, fma<T>(broadcast(a[i * step]), bv, Reg<T>{}), tail);
  }
}

// Outer products by register tiles, small and plain: no packing, one block of k.
template <class T> static void run_small(const Problem<T>& p) {
  if (p.k == 1 && !p.d.data && p.activation == GEMM_NONE) return run_multiples(p);
  constexpr int W = WIDTH<T>;
  const int nv = p.m <= MAX_MR_WIDE ? 4 : 2;
  const RowPanels panels(p.m, nv == 4 ? MAX_MR_WIDE : MAX_MR);
  for (int64_t j = 0; j < p.n;) {
    const int64_t left = p.n - j;
    const int v = next_width<T>(left, nv);
    const int64_t cols = left < v * W ? left : v * W;
    Micro<T> run = find_micro<T>(panels.rows(0), v);
    for (int64_t i = 0; i < panels.count; ++i) {
      if (i == panels.extra && i) run = find_micro<T>(panels.base, v);
      const int64_t row = panels.start(i);
      run(p.k, p.a.data + row * p.a.rs, p.a.rs, p.a.cs, p.b.data + j, p.b.rs, plain_target(p, row, j, true, true),
          cols - (v - 1) * W);
    }
    j += cols;
  }
}

// Outer products by register tiles, packed where it pays.
template <class T> static int run_tiles(const Problem<T>& p) {
  constexpr int W = WIDTH<T>;
  constexpr int PADDED_ROWS = (MAX_MR + W - 1) / W * W;
  constexpr int WIDEST = 2 * MAX_MR > 4 * MAX_MR_WIDE ? 2 * MAX_MR : 4 * MAX_MR_WIDE;
  const bool plain = is_unscaled(p);  // micro-kernels write C themselves
  const bool big = p.k * p.n * int64_t(sizeof(T)) > 64 * 1024;
  const bool pack_tail = !Tail<T>::cheap && p.n % W != 0;
  if (plain && !big && p.b.cs == 1 && !pack_tail && p.k <= KC<T>) {
    run_small(p);
    if (p.activation > GEMM_RELU) activate_block(p, 0, p.m, 0, p.n);
    return OK;
  }

  const int nv = p.m <= MAX_MR_WIDE ? 4 : 2;
  const int64_t width = nv * W;
  const RowPanels panels(p.m, nv == 4 ? MAX_MR_WIDE : MAX_MR);
  const int64_t kc = p.k < KC<T> ? p.k : KC<T>;

  int64_t nc = p.n;
  T* bbuf = nullptr;
  T* abuf = nullptr;
  const bool pack_bs = p.b.cs != 1 || pack_tail || (big && panels.count >= 3);
  if (pack_bs && p.k) {
    constexpr int64_t most = B_BYTES / sizeof(T) / KC<T> / (4 * W) * (4 * W);
    nc = (p.n + width - 1) & -width;
    if (nc > most) {
      const int64_t parts = (p.n + most - 1) / most;
      nc = ((p.n + parts - 1) / parts + width - 1) & -width;
    }
    bbuf = static_cast<T*>(scratch(SCRATCH_PACK_B, nc * kc * sizeof(T)));
    if (!bbuf) return OUT_OF_MEMORY;
  }
  // A is packed where the micro-kernel would keep missing the cache: too large, or rows that fall into
  // the same cache sets.
  const int64_t a_step = (p.a.cs == 1 ? p.a.rs : p.a.cs) * int64_t(sizeof(T));
  const bool pack_as = big && p.n >= 4 * width && panels.count > 1 &&
                       (p.m * p.k * int64_t(sizeof(T)) >= 1024 * 1024 || a_step >= 4096 || a_step <= -4096 ||
                        (p.a.cs != 1 && p.a.rs != 1));
  if (pack_as) {
    abuf = static_cast<T*>(scratch(SCRATCH_PACK_A, PADDED_ROWS * kc * sizeof(T)));
    if (!abuf) return OUT_OF_MEMORY;
  }
  const bool bare = p.c.rs == 1 && p.alpha == T(1) && !p.d.data && p.activation == GEMM_NONE;  // of which C holds the transpose
  const bool prefetch_c = p.m * p.n * int64_t(sizeof(T)) >= 1024 * 1024;
  T tile[WIDEST * W];

  for (int64_t jc = 0; jc < p.n; jc += nc) {
    const int64_t nb = p.n - jc < nc ? p.n - jc : nc;
    for (int64_t kb = 0, kn; kb == 0 || kb < p.k; kb += kn) {
      kn = next_block<T>(p.k - kb);
      const bool first = kb == 0, last = kb + kn >= p.k;
      const T* bsrc = p.b.data + kb * p.b.rs + jc * p.b.cs;
      if (bbuf) pack_b<T>({bsrc, p.b.rs, p.b.cs}, kn, nb, width, bbuf);
      for (int64_t i = 0; i < panels.count; ++i) {
        const int64_t row = panels.start(i), rows = panels.rows(i);
        const T* a = p.a.data + row * p.a.rs + kb * p.a.cs;
        int64_t rs = p.a.rs, cs = p.a.cs;
        if (abuf) {
          pack_a<T>({a, rs, cs}, rows, kn, PADDED_ROWS, abuf);
          a = abuf, rs = 1, cs = PADDED_ROWS;
        }
        for (int64_t j = 0; j < nb;) {
          const int64_t left = nb - j;
          const int v = next_width<T>(left, nv);
          const int64_t cols = left < v * W ? left : v * W, lanes = cols - (v - 1) * W;
          const Micro<T> run = find_micro<T>(rows, v);
          const T* b = bbuf ? bbuf + (j & -width) * kn + (j & (width - 1)) : bsrc + j;
          const int64_t ldb = bbuf ? width : p.b.rs;
          if (plain) {
            const Target<T> out = plain_target(p, row, jc + j, first, last);
            if (prefetch_c)
              for (int64_t r = 0; r < rows; ++r)
                for (int64_t l = 0; l < cols; l += 64 / sizeof(T)) __builtin_prefetch(out.c + r * out.ldc + l, 1);
            run(kn, a, rs, cs, b, ldb, out, lanes);
          } else {
            run(kn, a, rs, cs, b, ldb, {tile, width, nullptr, 0, T(0)}, lanes);
            if (bare && first && last)
              for (int64_t l = 0; l < cols; l += W)
                unpack_transposed(tile + l, width, cols - l < W ? cols - l : W, rows, p.c.data + row + (jc + j + l) * p.c.cs, p.c.cs);
            else
              finish(p, tile, width, row, rows, jc + j, cols, first, last);
          }
          j += cols;
        }
        if (plain && last && p.activation > GEMM_RELU) activate_block(p, row, rows, jc, nb);
      }
      if (p.k == 0) break;
    }
  }
  return OK;
}

template <class T> static inline bool dots_pay(const Problem<T>& p) {
  constexpr int64_t W = WIDTH<T>;
  if (p.a.cs != 1 || p.b.rs != 1 || p.k < 2) return false;
  if (p.m == 1) return true;
  if ((p.m > 64 || p.n > 64) && p.m >= 8 && p.n >= 8) return false;  // one order of sums for all of these
  // Issue slots of both ways, from measurements: dots load more and end in a tree of adds, tiles
  // must transpose B first and waste what N lacks to whole registers.
  const int64_t registers_k = (p.k + W - 1) / W, registers_n = (p.n + W - 1) / W;
  const int64_t dots = p.m * p.n * (registers_k * 5 / 4 + 5);
  const int64_t tiles = registers_n * p.k * (p.m + 8);
  return dots < tiles;
}

// Into how many parts threads cut a product: tiles between packed blocks of B, and between rows, where neighbouring parts
// that one thread takes are one product, so that it packs B once. No part is so small that it could be a dot_one.
struct Cuts {
  int64_t rows, columns;
};
template <class T> static Cuts cut(const Problem<T>& p, bool dots, int64_t batch, int team) {
  constexpr int64_t BLOCK = B_BYTES / sizeof(T) / KC<T> / (4 * WIDTH<T>) * (4 * WIDTH<T>), LEAST = 128;
  const int64_t wanted = (8 * team + batch - 1) / batch;
  const auto most = [](int64_t n) { return n < 2 * LEAST ? int64_t(1) : n / LEAST; };
  const auto smaller = [](int64_t a, int64_t b) { return a < b ? a : b; };
  if (wanted <= 1) return {1, 1};
  if (dots) return p.n >= p.m ? Cuts{1, smaller(wanted, most(p.n))} : Cuts{smaller(wanted, most(p.m)), 1};
  Cuts c = {1, (p.n + BLOCK - 1) / BLOCK};
  c.rows = smaller((wanted + c.columns - 1) / c.columns, most(p.m));
  if (c.rows * c.columns < wanted && c.columns < most(p.n)) c.columns = smaller((wanted + c.rows - 1) / c.rows, most(p.n));
  return c;
}

// Rows [first, last) of the cuts, column j, of a product; columns are cut at multiples of `unit`.
template <class T>
static inline void take_part(Problem<T>& p, const Cuts& cuts, int64_t first, int64_t last, int64_t j, int64_t unit) {
  if (cuts.rows > 1) {
    const int64_t from = p.m * first / cuts.rows;
    p.m = p.m * last / cuts.rows - from;
    p.c.data += from * p.c.rs;
    p.a.data += from * p.a.rs;
    if (p.d.data) p.d.data += from * p.d.rs;
  }
  if (cuts.columns > 1) {
    const int64_t units = (p.n + unit - 1) / unit, from = units * j / cuts.columns * unit;
    const int64_t to = units * (j + 1) / cuts.columns * unit;
    p.n = (to < p.n ? to : p.n) - from;
    p.c.data += from * p.c.cs;
    p.b.data += from * p.b.cs;
    if (p.d.data) p.d.data += from * p.d.cs;
  }
}

// How the products of a batch lie: steps between them, in elements.
struct Batch {
  int64_t count, c, a, b, d;
};
template <class T>
__attribute__((noinline)) static int run_shared(const Problem<T>& p, bool dots, bool few, const Batch& batch, int team) {
  const Cuts cuts = cut<T>(p, dots, batch.count, team);
  return parallel(team, batch.count * cuts.columns * cuts.rows, 1, [=, &p](int, int64_t begin, int64_t end) {
    for (int64_t u = begin, next; u < end; u = next) {
      const int64_t block = u / cuts.rows, i = block / cuts.columns, j = block % cuts.columns;
      next = (block + 1) * cuts.rows < end ? (block + 1) * cuts.rows : end;
      Problem<T> q = p;
      q.c.data += i * batch.c;
      q.a.data += i * batch.a;
      q.b.data += i * batch.b;
      q.d.data += i * batch.d;
      take_part(q, cuts, u - block * cuts.rows, next - block * cuts.rows, j, dots ? 1 : 4 * WIDTH<T>);
      const int status = dots ? run_dot(q) : few ? run_few_rows(q, 1) : run_tiles(q);
      if (status != OK) return status;
    }
    return int(OK);
  });
}

constexpr int64_t SHORT_ROW = 16384;  // products of one row that threads do not share

template <class T> static int run_real(const Record& r) {
  Problem<T> p;
  int64_t batch = r.ints[0];
  p.m = r.ints[1], p.n = r.ints[2], p.k = r.ints[3];
  if (batch == 0 || p.m == 0 || p.n == 0) return OK;
  p.alpha = T(r.reals[0]), p.beta = T(r.reals[1]), p.activation = r.op;
  const Arg &c = r.arg[0], &a = r.arg[1], &b = r.arg[2], &d = r.arg[3];
  p.c = {reinterpret_cast<T*>(c.data), c.stride[1], c.stride[2]};
  p.a = {reinterpret_cast<const T*>(a.data), a.stride[1], a.stride[2]};
  p.b = {reinterpret_cast<const T*>(b.data), b.stride[1], b.stride[2]};
  p.d = {nullptr, 0, 0};
  int64_t step_a = a.stride[0], step_b = b.stride[0], step_d = 0;
  const bool grad = r.op > GEMM_SIGMOID;
  p.y = grad ? d.data - c.data : 0;
  if (r.nin == 3 && !grad && p.beta != T(0)) {
    p.d = {reinterpret_cast<const T*>(d.data), d.stride[1], d.stride[2]};
    step_d = d.stride[0];
  }
  if (batch == 1 && p.m == 1 && p.n > 1 && p.k > 1 && p.n * p.k <= SHORT_ROW && p.a.cs == 1 && p.b.rs == 1 && is_unscaled(p)) {
    run_row(p);  // as below, without its questions
    return OK;
  }
  // A batch that shares B and continues the rows is one taller product.
  if (batch > 1 && step_b == 0 && step_a == p.m * p.a.rs && c.stride[0] == p.m * p.c.rs &&
      step_d == p.m * p.d.rs) {
    p.m *= batch;
    batch = 1;
  }
  // C^T = B^T A^T where C is adjacent along M, and where a narrow C would waste most of each register
  // and A^T needs no transposing (few of k do not pay for writing C by columns).
  if (p.m > 1 && (p.n == 1 || (p.c.cs != 1 && p.c.rs == 1) ||
                  (p.n <= WIDTH<T> / 2 && p.m >= WIDTH<T> && p.a.rs == 1 && p.k >= (p.n <= WIDTH<T> / 4 ? 8 : 4 * p.n)))) {
    const Problem<T> q = p;
    p.m = q.n;
    p.n = q.m;
    p.c = {q.c.data, q.c.cs, q.c.rs};
    p.a = {q.b.data, q.b.cs, q.b.rs};
    p.b = {q.a.data, q.a.cs, q.a.rs};
    p.d = {q.d.data, q.d.cs, q.d.rs};
    step_a = b.stride[0];
    step_b = a.stride[0];
  }
  if (p.n == 1) p.c.cs = p.b.cs = p.d.cs = 1;
  if (p.k == 1) p.a.cs = p.b.rs = 1;
  const bool dots = dots_pay(p);
  const int team = team_for(double(batch) * double(p.m) * double(p.n) * double(p.k + 16) / 25);
  const bool few = !dots && is_few_rows(p);  // whose threads share what is packed
  if (team > 1 && (!few || batch > 1)) return run_shared(p, dots, few, {batch, c.stride[0], step_a, step_b, step_d}, team);
  for (int64_t i = 0; i < batch; ++i) {
    const int status = dots ? run_dot(p) : few ? run_few_rows(p, team) : run_tiles(p);
    if (status != OK) return status;
    p.c.data += c.stride[0];
    p.a.data += step_a;
    p.b.data += step_b;
    p.d.data += step_d;
  }
  return OK;
}

// Integers: U is the unsigned type, so that overflow wraps around.
template <class U> static int run_integer(const Record& r) {
  constexpr int64_t BLOCK = 64;
  const int64_t batch = r.ints[0], m = r.ints[1], n = r.ints[2], k = r.ints[3];
  const U alpha = U(r.ints[4]), beta = U(r.ints[5]);
  const bool has_d = r.nin == 3 && beta != 0;
  const Arg &c = r.arg[0], &a = r.arg[1], &b = r.arg[2], &d = r.arg[3];
  U* const cp = reinterpret_cast<U*>(c.data);
  const U* const ap = reinterpret_cast<const U*>(a.data);
  const U* const bp = reinterpret_cast<const U*>(b.data);
  const U* const dp = has_d ? reinterpret_cast<const U*>(d.data) : nullptr;
  return parallel(team_for(double(batch) * double(m) * double(n) * double(k)), batch * m, 1, [&](int, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t t = row / m, i = row % m;
      for (int64_t j0 = 0; j0 < n; j0 += BLOCK) {
        const int64_t cols = n - j0 < BLOCK ? n - j0 : BLOCK;
        U sums[BLOCK] = {};
        for (int64_t l = 0; l < k; ++l) {
          const U av = ap[t * a.stride[0] + i * a.stride[1] + l * a.stride[2]];
          const U* bv = bp + t * b.stride[0] + l * b.stride[1] + j0 * b.stride[2];
          for (int64_t j = 0; j < cols; ++j) sums[j] = U(sums[j] + av * bv[j * b.stride[2]]);
        }
        for (int64_t j = 0; j < cols; ++j) {
          U v = U(alpha * sums[j]);
          if (has_d) v = U(v + beta * dp[t * d.stride[0] + i * d.stride[1] + (j0 + j) * d.stride[2]]);
          cp[t * c.stride[0] + i * c.stride[1] + (j0 + j) * c.stride[2]] = v;
        }
      }
    }
    return int(OK);
  });
}

}  // namespace gemm

int k_gemm(const Record& r) {
  if (r.compute >= I64 && r.op != GEMM_NONE) return UNSUPPORTED;
  switch (r.compute) {
    case F32: return gemm::run_real<float>(r);
    case F64: return gemm::run_real<double>(r);
    case I64: return gemm::run_integer<uint64_t>(r);
    case I32: return gemm::run_integer<uint32_t>(r);
    case U8: return gemm::run_integer<uint8_t>(r);
    default: return UNSUPPORTED;
  }
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
