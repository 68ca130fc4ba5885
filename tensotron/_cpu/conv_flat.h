// Convolution with vector lanes over neighbouring outputs.
//
// An image is copied into scratch, padded and split by stride phase ("flat" planes), so that for every
// filter tap the values that neighbouring outputs need are adjacent: the input of output
// p = oh * Wq + ow under tap k is X[off[k] + p]. Every pass is then a register-blocked product with
// vector lanes over p. The Wq - OW outputs between rows are computed and dropped.
#pragma once
#include <cstdint>
#include <cstring>

#include "conv_common.h"
#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

// Register tile: rows (broadcast operand) x vectors. One vector is needed for the broadcast value.
template <class T>
struct ConvTile {
#if defined(__AVX512F__) || defined(__aarch64__)
  static constexpr int rows = 8, vecs = 3, wrows = 4, wcols = 6;
#elif defined(__AVX2__)
  static constexpr int rows = 4, vecs = 3, wrows = 2, wcols = 6;
#else
  static constexpr int rows = 4, vecs = 2, wrows = 2, wcols = 4;
#endif
};

// y[m][p] = bias[m] + sum_k A[k][m] * X[off[k] + p] for R rows and V vectors of p.
template <class T, int R, int V>
static inline __attribute__((always_inline)) void conv_tile(int64_t K, const T* A, const T* X, const int64_t* off,
                                                            const T* bias, T* y, int64_t ldy) {
  constexpr int L = Vec<T>::size;
  Vec<T> acc[R][V];
#pragma GCC unroll 8
  for (int i = 0; i < R; i++)
#pragma GCC unroll 3
    for (int j = 0; j < V; j++) acc[i][j] = Vec<T>(bias[i]);
  for (int64_t k = 0; k < K; k++, A += R) {
    const T* x = X + off[k];
    Vec<T> b[V];
#pragma GCC unroll 3
    for (int j = 0; j < V; j++) b[j] = Vec<T>::load(x + j * L);
#pragma GCC unroll 8
    for (int i = 0; i < R; i++) {
      Vec<T> a(A[i]);
#pragma GCC unroll 3
      for (int j = 0; j < V; j++) acc[i][j] = fma(a, b[j], acc[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; i++)
#pragma GCC unroll 3
    for (int j = 0; j < V; j++) acc[i][j].store(y + i * ldy + j * L);
}

template <class T, int R>
static inline void conv_rows(int64_t K, const T* A, const T* X, const int64_t* off, const T* bias, T* y, int64_t ldy,
                             int64_t nvec) {
  constexpr int L = Vec<T>::size, MV = ConvTile<T>::vecs;
  int64_t v = 0;
  for (; nvec - v > MV + 1 || nvec - v == MV; v += MV) conv_tile<T, R, MV>(K, A, X + v * L, off, bias, y + v * L, ldy);
  for (; nvec - v >= 2; v += 2) conv_tile<T, R, 2>(K, A, X + v * L, off, bias, y + v * L, ldy);
  if (nvec - v == 1) conv_tile<T, R, 1>(K, A, X + v * L, off, bias, y + v * L, ldy);
}

static inline int conv_pick_rows(int64_t left, int most) {
  if (left >= most) return most;
  return left > 4 ? 8 : left > 2 ? 4 : left > 1 ? 2 : 1;
}

template <class T>
static inline void conv_product(int rows, int64_t K, const T* A, const T* X, const int64_t* off, const T* bias, T* y,
                                int64_t ldy, int64_t nvec) {
  if (rows == 8) {
    if (ConvTile<T>::rows == 8) conv_rows<T, ConvTile<T>::rows>(K, A, X, off, bias, y, ldy, nvec);
  } else if (rows == 4) {
    conv_rows<T, 4>(K, A, X, off, bias, y, ldy, nvec);
  } else if (rows == 2) {
    conv_rows<T, 2>(K, A, X, off, bias, y, ldy, nvec);
  } else {
    conv_rows<T, 1>(K, A, X, off, bias, y, ldy, nvec);
  }
}

// Elements of the packed operand of M rows and K columns.
template <class T>
static inline int64_t conv_packed(int64_t M, int64_t K) {
  int64_t n = 0;
  for (int64_t m = 0; m < M;) {
    int rows = conv_pick_rows(M - m, ConvTile<T>::rows);
    n += rows * K;
    m += rows;
  }
  return n;
}

template <class T>
static inline bool conv_all_finite(const T* p, int64_t n) {
  constexpr int L = Vec<T>::size;
  Vec<T> zero(T(0)), s0 = zero, s1 = zero;
  int64_t i = 0;
  for (; i + 2 * L <= n; i += 2 * L) {
    s0 = s0 + Vec<T>::load(p + i) * zero;
    s1 = s1 + Vec<T>::load(p + i + L) * zero;
  }
  T s = reduce_add(s0 + s1);
  for (; i < n; i++) s += p[i] * T(0);
  return s == T(0);
}

// ---------------------------------------------------------------- forward
template <class T>
static inline int conv_forward_flat(const ConvShape& s, T* y, const T* x, const T* w, const T* bias, const ConvAfter<T>& after) {
  constexpr int L = Vec<T>::size;
  const int64_t Cg = s.Cg(), Og = s.Og(), K = Cg * s.KH * s.KW, packed = conv_packed<T>(Og, K);
  ConvAxis ah, aw;
  ConvArena a{nullptr, 0};
  const int team = conv_team(s);
  int64_t *off = nullptr, Hq = 0, Wq = 0, plane = 0, nb = 1, P = 0, nvec = 0, xsize = 0, ysize = 0, bsize = ConvTile<T>::rows;
  T *A = nullptr, *X = nullptr, *Y = nullptr, *B = nullptr;
  for (int pass = 0; pass < 2; pass++) {
    ah.take(a, s.KH);
    aw.take(a, s.KW);
    off = a.take<int64_t>(K);
    B = a.take_each<T>(team, bsize);
    if (pass == 0) {  // the axes need memory first; their extent bounds the rest
      Hq = s.OH + (s.KH - 1) * s.DH / s.SH;
      Wq = s.OW + (s.KW - 1) * s.DW / s.SW;
      // Small images share a product so that the lanes are used.
      while (nb < s.N && nb * Hq * Wq < 4 * L) nb++;
      plane = nb * Hq * Wq;
      P = (nb - 1) * Hq * Wq + (s.OH - 1) * Wq + s.OW;
      nvec = (P + L - 1) / L;
      xsize = Cg * conv_min(s.SH, s.KH) * conv_min(s.SW, s.KW) * plane + L;
      ysize = ConvTile<T>::rows * nvec * L;
    }
    A = a.take<T>(packed * s.G);
    X = a.take_each<T>(team, xsize);
    Y = a.take_each<T>(team, ysize);
    if (pass == 0 && !a.allocate()) return OUT_OF_MEMORY;
  }
  ah.fill(s.KH, s.SH, s.DH);
  aw.fill(s.KW, s.SW, s.DW);
  conv_tap_offsets(off, s, ah, aw, plane, Wq);
  T* Ap = A;
  for (int64_t g = 0; g < s.G; g++)
    for (int64_t m = 0; m < Og;) {
      int rows = conv_pick_rows(Og - m, ConvTile<T>::rows);
      const T* wm = w + (g * Og + m) * K;
      for (int64_t k = 0; k < K; k++)
        for (int i = 0; i < rows; i++) *Ap++ = m + i < Og ? wm[i * K + k] : T(0);
      m += rows;
    }
  memset(X, 0, team * xsize * sizeof(T));
  return parallel(team, (s.N + nb - 1) / nb, 1, [=](int worker, int64_t begin, int64_t end) {
    T *const image = X + worker * xsize, *const out = Y + worker * ysize, *const first = B + worker * bsize;
    for (int64_t n = begin * nb; n < conv_min(end * nb, s.N); n += nb) {
      const int64_t images = conv_min(nb, s.N - n);
      for (int64_t g = 0; g < s.G; g++) {
        T* d = image;
        for (int64_t c = 0; c < Cg; c++)
          for (int64_t i = 0; i < ah.phases; i++)
            for (int64_t j = 0; j < aw.phases; j++)
              for (int64_t b = 0; b < nb; b++, d += Hq * Wq)
                if (b < images)
                  conv_flatten(d, x + ((n + b) * s.C + g * Cg + c) * s.H * s.W, Hq, Wq, s.H, s.W, s.SH, s.SW,
                               ah.phase[i] - s.PH, aw.phase[j] - s.PW);
        const T* Am = A + g * packed;
        for (int64_t m = 0; m < Og;) {
          int rows = conv_pick_rows(Og - m, ConvTile<T>::rows);
          for (int i = 0; i < rows; i++) first[i] = bias && m + i < Og ? bias[g * Og + m + i] : T(0);
          conv_product(rows, K, Am, image, off, first, out, nvec * L, nvec);
          for (int64_t b = 0; b < images; b++)
            for (int64_t i = 0; i < rows && m + i < Og; i++) {
              T* o = y + ((n + b) * s.O + g * Og + m + i) * s.OH * s.OW;
              const T* v = out + i * nvec * L + b * Hq * Wq;
              for (int64_t h = 0; h < s.OH; h++, o += s.OW, v += Wq) conv_copy_row(o, v, s.OW);
            }
          Am += rows * K;
          m += rows;
        }
      }
      after(y, n * s.O, images * s.O);
    }
    return int(OK);
  });
}

// ---------------------------------------------------------------- gradient of the input
// Padded input position ip = ih + PH collects tap i from output row oh with oh * SH + i * DH = ip: positions of
// one stride phase form a stride-1 correlation of gy with the taps of that phase.
template <class T>
static inline int conv_backward_input_flat(const ConvShape& s, T* gx, const T* gy, const T* w, const T* bias) {
  constexpr int L = Vec<T>::size;
  const int64_t Cg = s.Cg(), Og = s.Og(), taps = s.KH * s.KW;
  const ConvGradient from(s);
  const int64_t nvec_max = (from.plane + L - 1) / L, tile = ConvTile<T>::rows;
  const int64_t max_phases = conv_min(s.SH, s.KH) * conv_min(s.SW, s.KW);
  const int team = conv_team(s);
  int64_t xsize = Og * from.plane + L, ysize = tile * nvec_max * L, bsize = tile;
  ConvAxis ah, aw;
  ConvArena a{nullptr, 0};
  int64_t *off = nullptr, *count = nullptr;
  T *A = nullptr, *X = nullptr, *Y = nullptr, *B = nullptr;
  for (int pass = 0; pass < 2; pass++) {
    ah.take(a, s.KH);
    aw.take(a, s.KW);
    off = a.take<int64_t>(Og * taps);
    count = a.take<int64_t>(max_phases);
    A = a.take<T>(s.G * Og * taps * conv_packed<T>(Cg, 1));
    X = a.take_each<T>(team, xsize);
    Y = a.take_each<T>(team, ysize);
    B = a.take_each<T>(team, bsize);
    if (pass == 0 && !a.allocate()) return OUT_OF_MEMORY;
  }
  ah.fill(s.KH, s.SH, s.DH);
  aw.fill(s.KW, s.SW, s.DW);
  const int64_t phases = ah.phases * aw.phases;
  if (phases < s.SH * s.SW) conv_fill_bias(s, gx, bias);  // positions between the taps
  int64_t* fill = off;
  for (int64_t q = 0; q < phases; q++) {
    const int64_t* start = fill;
    for (int64_t o = 0; o < Og; o++)
      for (int64_t i = 0; i < s.KH; i++)
        for (int64_t j = 0; j < s.KW; j++)
          if (ah.slot[i] == q / aw.phases && aw.slot[j] == q % aw.phases)
            *fill++ = from.offset(ah, aw, o, i, j);
    count[q] = fill - start;
  }
  T* Ap = A;
  for (int64_t g = 0; g < s.G; g++)
    for (int64_t q = 0; q < phases; q++)
      for (int64_t m = 0; m < Cg;) {
        int rows = conv_pick_rows(Cg - m, tile);
        for (int64_t o = 0; o < Og; o++)
          for (int64_t t = 0; t < taps; t++) {
            if (ah.slot[t / s.KW] != q / aw.phases || aw.slot[t % s.KW] != q % aw.phases) continue;
            for (int i = 0; i < rows; i++)
              *Ap++ = m + i < Cg ? w[((g * Og + o) * Cg + m + i) * taps + t] : T(0);
          }
        m += rows;
      }
  memset(X, 0, team * xsize * sizeof(T));
  return parallel(team, s.N, 1, [=](int worker, int64_t begin, int64_t end) {
    T *const image = X + worker * xsize, *const out = Y + worker * ysize, *const first = B + worker * bsize;
    for (int64_t n = begin; n < end; n++) {
      const T* Am = A;
      for (int64_t g = 0; g < s.G; g++) {
        from.load(s, image, gy, n, g);
        const int64_t* po = off;
        for (int64_t q = 0; q < phases; q++) {
          const ConvPhase to(s, ah, aw, q);
          const bool any = to.h1 >= to.h0 && to.w1 >= to.w0;
          const int64_t width = to.w1 - to.w0 + 1, P = (to.h1 - to.h0) * from.W + width, nvec = (P + L - 1) / L;
          for (int64_t m = 0; m < Cg;) {
            int rows = conv_pick_rows(Cg - m, tile);
            if (any) {
              for (int i = 0; i < rows; i++) first[i] = bias && m + i < Cg ? bias[g * Cg + m + i] : T(0);
              conv_product(rows, count[q], Am, image + to.h0 * from.W + to.w0, po, first, out, nvec * L, nvec);
              for (int64_t i = 0; i < rows && m + i < Cg; i++)
                for (int64_t h = to.h0; h <= to.h1; h++) {
                  T* d = gx + (n * s.C + g * Cg + m + i) * s.H * s.W + to.index(s, h);
                  const T* v = out + i * nvec * L + (h - to.h0) * from.W;
                  if (s.SW == 1) conv_copy_row(d, v, width);
                  else for (int64_t c = 0; c < width; c++) d[c * s.SW] = v[c];
                }
            }
            Am += rows * count[q];
            m += rows;
          }
          po += count[q];
        }
      }
    }
    return int(OK);
  });
}

// ---------------------------------------------------------------- gradient of the weight
// out[i][j] = sum over images and p of g_i[p] * X[off[j] + p].
template <class T, int R, int C>
static inline __attribute__((always_inline)) void conv_weight_tile(int64_t images, int64_t xs, int64_t gs,
                                                                   int64_t nvec, const T* const* g, const T* X,
                                                                   const int64_t* off, T* out) {
  constexpr int L = Vec<T>::size;
  Vec<T> acc[R][C];
#pragma GCC unroll 4
  for (int i = 0; i < R; i++)
#pragma GCC unroll 6
    for (int j = 0; j < C; j++) acc[i][j] = Vec<T>(T(0));
  for (int64_t n = 0; n < images; n++) {
    const T *gp[R], *xp[C];
#pragma GCC unroll 4
    for (int i = 0; i < R; i++) gp[i] = g[i] + n * gs;
#pragma GCC unroll 6
    for (int j = 0; j < C; j++) xp[j] = X + off[j] + n * xs;
    for (int64_t p = 0; p < nvec * L; p += L) {
      Vec<T> gv[R];
#pragma GCC unroll 4
      for (int i = 0; i < R; i++) gv[i] = Vec<T>::load(gp[i] + p);
#pragma GCC unroll 6
      for (int j = 0; j < C; j++) {
        Vec<T> xv = Vec<T>::load(xp[j] + p);
#pragma GCC unroll 4
        for (int i = 0; i < R; i++) acc[i][j] = fma(gv[i], xv, acc[i][j]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < R; i++)
#pragma GCC unroll 6
    for (int j = 0; j < C; j++) out[i * C + j] = reduce_add(acc[i][j]);
}

template <class T>
static inline int conv_backward_weight_flat(const ConvShape& s, T* gw, const T* gy, const T* x) {
  constexpr int L = Vec<T>::size, R = ConvTile<T>::wrows, C = ConvTile<T>::wcols;
  const int64_t Cg = s.Cg(), Og = s.Og(), taps = s.KH * s.KW, K = Cg * taps;
  const int64_t Hq = s.OH + (s.KH - 1) * s.DH / s.SH, Wq = s.OW + (s.KW - 1) * s.DW / s.SW, plane = Hq * Wq;
  const int64_t P = (s.OH - 1) * Wq + s.OW, nvec = (P + L - 1) / L;
  const int64_t xmax = Cg * conv_min(s.SH, s.KH) * conv_min(s.SW, s.KW) * plane;
  const int64_t budget = 512 * 1024 / int64_t(sizeof(T));  // images at a time: a fraction of a second-level cache
  const int64_t nb = conv_min(conv_max(budget / (xmax + Og * nvec * L), 1), s.N);
  const int64_t tiles = (Og + R - 1) / R;
  const int team = conv_team(s);
  int64_t xsize = nb * xmax + L, ysize = nb * Og * nvec * L;
  ConvAxis ah, aw;
  ConvArena a{nullptr, 0};
  int64_t* off = nullptr;
  T *X = nullptr, *Y = nullptr;
  for (int pass = 0; pass < 2; pass++) {
    ah.take(a, s.KH);
    aw.take(a, s.KW);
    off = a.take<int64_t>(K + C);
    X = a.take_each<T>(team, xsize);
    Y = a.take_each<T>(team, ysize);
    if (pass == 0 && !a.allocate()) return OUT_OF_MEMORY;
  }
  ah.fill(s.KH, s.SH, s.DH);
  aw.fill(s.KW, s.SW, s.DW);
  const int64_t per_image = Cg * ah.phases * aw.phases * plane;
  conv_tap_offsets(off, s, ah, aw, plane, Wq);
  memset(X, 0, team * xsize * sizeof(T));
  memset(Y, 0, team * ysize * sizeof(T));  // zeros between the rows of gy stay
  for (int64_t k = K; k < K + C; k++) off[k] = off[K - 1];  // a last tile computes them again
  // A unit is a tile of channels: few pieces, for each needs a copy of x.
  const int64_t units = s.G * tiles;
  return parallel(team, units, (units + team - 1) / team, [=](int worker, int64_t begin, int64_t end) {
    T *const image = X + worker * xsize, *const grads = Y + worker * ysize;
    for (int64_t n = 0; n < s.N; n += nb) {
      const int64_t images = conv_min(nb, s.N - n);
      for (int64_t u = begin, next; u < end; u = next) {
        const int64_t g = u / tiles, first = u % tiles * R, last = conv_min((conv_min(end, (g + 1) * tiles) - g * tiles) * R, Og);
        next = conv_min(end, (g + 1) * tiles);
        T* d = image;
        for (int64_t b = 0; b < images; b++) {
          d = conv_load_group(d, x + ((n + b) * s.C + g * Cg) * s.H * s.W, s, ah, aw, Hq, Wq);
          for (int64_t o = first; o < last; o++) {
            T* e = grads + (b * Og + o) * nvec * L;
            const T* v = gy + ((n + b) * s.O + g * Og + o) * s.OH * s.OW;
            for (int64_t h = 0; h < s.OH; h++) conv_copy_row(e + h * Wq, v + h * s.OW, s.OW);
          }
        }
        for (int64_t o = first; o < last; o += R)
          for (int64_t k = 0; k < K; k += C) {
            const T* rows[R];
            for (int i = 0; i < R; i++) rows[i] = grads + conv_min(o + i, Og - 1) * nvec * L;
            T sum[R * C];
            conv_weight_tile<T, R, C>(images, per_image, Og * nvec * L, nvec, rows, image, off + k, sum);
            for (int64_t i = 0; i < R && o + i < Og; i++)
              for (int64_t j = 0; j < C && k + j < K; j++) {
                T* t = gw + (g * Og + o + i) * K + k + j;
                *t = n == 0 ? sum[i * C + j] : *t + sum[i * C + j];
              }
          }
      }
    }
    return int(OK);
  });
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
