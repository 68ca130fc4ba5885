// Gradient of the input of narrow images, lanes over channels: each value of gy is read once, where it lies, and spread
// over the inputs that it reaches, so that neither zeros beside gy are multiplied nor a copy is needed.
#pragma once
#include <cstdint>

#include "conv_common.h"
#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

template <class T>
struct SpreadCall {
  int64_t R, plane;  // channels of gy, and the distance from one to the next
  const T *B, *X;    // B[r][tap][lane]; a row of gy's first channel
  const T* bias;     // one value per lane; null: the sums are added to what out holds
  T* out;            // where position `from` goes
  int64_t ldo, from, to;
};
template <class T>
using SpreadTile = void (*)(const SpreadCall<T>&);

// Position j + t collects X[j] * B[t], the taps of each channel in order: the sums of lanes_tile less the zeros.
template <class T, int OW, int TAPS, int V>
static void spread_tile(const SpreadCall<T>& c) {
  constexpr int L = Vec<T>::size, P = OW + TAPS - 1;
  Vec<T> acc[P][V];
#pragma GCC unroll 14
  for (int j = 0; j < P; j++)
#pragma GCC unroll 2
    for (int v = 0; v < V; v++) acc[j][v] = Vec<T>(T(0));
  const T *b = c.B, *x = c.X;
  for (int64_t r = 0; r < c.R; r++, b += TAPS * V * L, x += c.plane) {
    Vec<T> w[TAPS][V];
#pragma GCC unroll 3
    for (int t = 0; t < TAPS; t++)
#pragma GCC unroll 2
      for (int v = 0; v < V; v++) w[t][v] = Vec<T>::load(b + (t * V + v) * L);
#pragma GCC unroll 14
    for (int j = OW - 1; j >= 0; j--) {
      const Vec<T> a(x[j]);
#pragma GCC unroll 3
      for (int t = 0; t < TAPS; t++)
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) acc[j + t][v] = fma(a, w[t][v], acc[j + t][v]);
    }
  }
  T* o = c.out - c.from * c.ldo;
#pragma GCC unroll 14
  for (int j = 0; j < P; j++, o += c.ldo) {
    if (j < c.from || j >= c.to) continue;
#pragma GCC unroll 2
    for (int v = 0; v < V; v++) (acc[j][v] + Vec<T>::load((c.bias ? c.bias : o) + v * L)).store(o + v * L);
  }
}

template <class T, int OW, int TAPS, int V>
static inline SpreadTile<T> spread_if() {
  if constexpr ((OW + 2 * TAPS - 1) * V < LANES_ACCUMULATORS + 4) return spread_tile<T, OW, TAPS, V>;
  return nullptr;
}

template <class T, int TAPS, int V>
static inline SpreadTile<T> spread_of(int64_t OW) {
  switch (OW) {
    case 4: return spread_if<T, 4, TAPS, V>();
    case 5: return spread_if<T, 5, TAPS, V>();
    case 6: return spread_if<T, 6, TAPS, V>();
    case 7: return spread_if<T, 7, TAPS, V>();
    case 8: return spread_if<T, 8, TAPS, V>();
    case 9: return spread_if<T, 9, TAPS, V>();
    case 10: return spread_if<T, 10, TAPS, V>();
    case 11: return spread_if<T, 11, TAPS, V>();
  }
  return nullptr;
}

// The tile for rows of this shape with `vectors` of channels, null where there is none.
template <class T>
static inline SpreadTile<T> find_spread(const ConvShape& s, int vectors) {
  const int64_t taps = s.KW / s.SW;
  if (s.DH != 1 || s.DW != 1 || s.KW % s.SW != 0 || (s.PW + s.W - 1) / s.SW >= s.OW + taps - 1) return nullptr;
  if (taps == 2) return vectors == 2 ? spread_of<T, 2, 2>(s.OW) : spread_of<T, 2, 1>(s.OW);
  if (taps == 3) return vectors == 2 ? spread_of<T, 3, 2>(s.OW) : spread_of<T, 3, 1>(s.OW);
  return nullptr;
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
