// Gradient of the weight with vector lanes over the outputs of a row.
//
// gy is read where it lies; x is copied, padded and split by stride phase as in conv_flat.h, so that the values that the
// outputs of a row multiply are adjacent. The last vector of a row is loaded in part: lanes beyond the row add 0 * 0.
#pragma once
#include <cstdint>
#include <cstring>

#include "conv_common.h"
#include "conv_flat.h"
#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

// What all tiles of one batch of images have in common.
template <class T>
struct RowsBatch {
  int64_t images, OH, OW;
  int64_t x_image, x_row;           // distances in the copy of x
  int64_t g_image, g_plane;         // and in gy
};

// sum[i * ld + j], a vector each: adds gy's plane i times x under tap j.
template <class T, int R, int C>
static inline void rows_tile(const RowsBatch<T>& t, const T* g, const T* X, const int64_t* off, T* sum, int64_t ld) {
  constexpr int L = Vec<T>::size;
  Vec<T> acc[R][C];
  int64_t tap[C];
#pragma GCC unroll 4
  for (int i = 0; i < R; i++)
#pragma GCC unroll 6
    for (int j = 0; j < C; j++) acc[i][j] = Vec<T>(T(0));
#pragma GCC unroll 6
  for (int j = 0; j < C; j++) tap[j] = off[j];
  const int64_t plane = t.g_plane, full = t.OW / L * L;
  const int rest = int(t.OW - full);
  auto step = [&](const T* gp, const T* xp, auto load) __attribute__((always_inline)) {
    Vec<T> gv[R];
#pragma GCC unroll 4
    for (int i = 0; i < R; i++) gv[i] = load(gp + i * plane);
#pragma GCC unroll 6
    for (int j = 0; j < C; j++) {
      const Vec<T> xv = load(xp + tap[j]);
#pragma GCC unroll 4
      for (int i = 0; i < R; i++) acc[i][j] = fma(gv[i], xv, acc[i][j]);
    }
  };
  for (int64_t n = 0; n < t.images; n++) {
    const T *gp = g + n * t.g_image, *xp = X + n * t.x_image;
    for (int64_t h = 0; h < t.OH; h++, gp += t.OW, xp += t.x_row) {
      for (int64_t p = 0; p < full; p += L)
        step(gp + p, xp + p, [](const T* from) __attribute__((always_inline)) { return Vec<T>::load(from); });
      if (rest)
        step(gp + full, xp + full, [=](const T* from) __attribute__((always_inline)) { return Vec<T>::load(from, rest); });
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < R; i++)
#pragma GCC unroll 6
    for (int j = 0; j < C; j++) {
      T* to = sum + i * ld + j * L;
      (Vec<T>::load(to) + acc[i][j]).store(to);
    }
}

template <class T, int R>
static inline void rows_taps(int C, const RowsBatch<T>& t, const T* g, const T* X, const int64_t* off, T* sum, int64_t ld) {
  switch (C) {
    case 1: return rows_tile<T, R, 1>(t, g, X, off, sum, ld);
    case 2: return rows_tile<T, R, 2>(t, g, X, off, sum, ld);
    case 3: return rows_tile<T, R, 3>(t, g, X, off, sum, ld);
    case 4: return rows_tile<T, R, 4>(t, g, X, off, sum, ld);
    case 5: if constexpr (ConvTile<T>::wcols > 4) return rows_tile<T, R, 5>(t, g, X, off, sum, ld); break;
    case 6: if constexpr (ConvTile<T>::wcols > 4) return rows_tile<T, R, 6>(t, g, X, off, sum, ld); break;
  }
}

// Whether rows fill the vectors as well as the other methods do, and the sums fit in a second-level cache.
template <class T>
static inline bool rows_fit(const ConvShape& s, bool lanes) {
  constexpr int L = Vec<T>::size;
  const int64_t vectors = s.OH * ((s.OW + L - 1) / L), Wq = s.OW + (s.KW - 1) * s.DW / s.SW;
  if (s.O * s.Cg() * s.KH * s.KW * L * int64_t(sizeof(T)) > 1 << 19) return false;
  return lanes ? s.Og() <= L && vectors * L * 4 <= s.OH * s.OW * 5 : vectors * L * 4 <= ((s.OH - 1) * Wq + s.OW + L - 1) * 5;
}

// gb, the gradient of the bias, is added up on the way where it is wanted.
template <class T>
static inline int conv_backward_weight_rows(const ConvShape& s, T* gw, T* gb, const T* gy, const T* x) {
  constexpr int L = Vec<T>::size, R = ConvTile<T>::wrows, C = ConvTile<T>::wcols;
  const int64_t Cg = s.Cg(), Og = s.Og(), taps = s.KH * s.KW, K = Cg * taps, area = s.OH * s.OW;
  const int64_t Hq = s.OH + (s.KH - 1) * s.DH / s.SH, Wq = s.OW + (s.KW - 1) * s.DW / s.SW, plane = Hq * Wq;
  const int64_t nb = conv_min(conv_max(24 * 1024 / (R * area * int64_t(sizeof(T))), 1), s.N);  // planes of gy: half of L1
  const int64_t tiles = (Og + R - 1) / R, parts = (K + C - 1) / C;
  const int team = conv_team(s);
  int64_t xsize = nb * Cg * conv_min(s.SH, s.KH) * conv_min(s.SW, s.KW) * plane + L;
  ConvAxis ah, aw;
  ConvArena a{nullptr, 0};
  int64_t* off = nullptr;
  T *X = nullptr, *sum = nullptr;
  for (int pass = 0; pass < 2; pass++) {
    ah.take(a, s.KH);
    aw.take(a, s.KW);
    off = a.take<int64_t>(K);
    X = a.take_each<T>(team, xsize);
    sum = a.take<T>(s.O * K * L);
    if (pass == 0 && !a.allocate()) return OUT_OF_MEMORY;
  }
  ah.fill(s.KH, s.SH, s.DH);
  aw.fill(s.KW, s.SW, s.DW);
  const int64_t per_image = Cg * ah.phases * aw.phases * plane;
  conv_tap_offsets(off, s, ah, aw, plane, Wq);
  memset(X, 0, team * xsize * sizeof(T));
  memset(sum, 0, s.O * K * L * sizeof(T));
  if (gb) memset(gb, 0, s.O * sizeof(T));
  // A unit is a tile of channels: few pieces, for each needs a copy of x.
  const int64_t units = s.G * tiles;
  return parallel(team, units, (units + team - 1) / team, [=](int worker, int64_t begin, int64_t end) {
    T* const image = X + worker * xsize;
    for (int64_t n = 0; n < s.N; n += nb) {
      const RowsBatch<T> t{conv_min(nb, s.N - n), s.OH, s.OW, per_image, Wq, s.O * area, area};
      for (int64_t u = begin, loaded = -1; u < end; u++) {
        const int64_t g = u / tiles, o = g * Og + u % tiles * R, rows = conv_min(R, (g + 1) * Og - o);
        T* d = image;
        for (int64_t b = 0; b < t.images && g != loaded; b++)
          d = conv_load_group(d, x + ((n + b) * s.C + g * Cg) * s.H * s.W, s, ah, aw, Hq, Wq);
        loaded = g;
        if (gb)
          for (int64_t i = 0; i < rows; i++)
            for (int64_t b = 0; b < t.images; b++) gb[o + i] += conv_plane_sum(gy + ((n + b) * s.O + o + i) * area, area);
        for (int64_t part = 0, k = 0; part < parts; part++) {
          const int64_t next = (part + 1) * K / parts;
          for (int64_t i = 0; i < rows;) {
            const T* from = gy + (n * s.O + o + i) * area;
            T* to = sum + ((o + i) * K + k) * L;
            if (rows - i >= R) {
              rows_taps<T, R>(int(next - k), t, from, image, off + k, to, K * L);
              i += R;
            } else {
              rows_taps<T, 1>(int(next - k), t, from, image, off + k, to, K * L);
              i++;
            }
          }
          k = next;
        }
      }
    }
    for (int64_t u = begin; u < end; u++) {
      const int64_t g = u / tiles, o = g * Og + u % tiles * R, last = conv_min(o + R, (g + 1) * Og);
      for (int64_t k = o * K; k < last * K; k++) gw[k] = reduce_add(Vec<T>::load(sum + k * L));
    }
    return int(OK);
  });
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
