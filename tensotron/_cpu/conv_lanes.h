// Convolution with vector lanes over the channels of the result.
//
// The three passes are one product, in which the left factor is read in place by broadcasting:
//   out[j][lane] = sum_r X[row[r] + d[j]] * B[r][lane]
//   forward          j = neighbouring outputs of a row   r = taps              B = weights
//   input gradient   j = neighbouring inputs of a row    r = outputs' taps     B = weights
//   weight gradient  j = taps                            r = outputs           B = gy, transposed
// Results have the channels innermost and are transposed into place. X is the image itself if no tap
// leaves it, otherwise a padded copy split by stride phase as in conv_flat.h.
#pragma once
#include <cstdint>
#include <cstring>

#include "conv_common.h"
#include "conv_spread.h"
#include "transpose.h"
#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

constexpr int LANES_SCATTERED = 10;  // most positions with an offset each: they live in registers

template <class T>
struct LanesCall {
  int64_t R;
  const T *B, *X;
  const int64_t *row, *d;
  const T* bias;  // one value per lane; null: the sums are added to what out holds
  T* out;
  int64_t ldo;
};

template <class T, int P, int V, bool Unit>
static inline void lanes_tile(const LanesCall<T>& c) {
  constexpr int L = Vec<T>::size;
  Vec<T> acc[P][V];
  int64_t d[P];
#pragma GCC unroll 14
  for (int j = 0; j < P; j++) {
    d[j] = Unit ? j : c.d[j];
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) acc[j][v] = Vec<T>(T(0));
  }
  const T* b = c.B;
  const int64_t *row = c.row, *end = c.row + c.R;
  for (; row != end; row++, b += V * L) {
    const T* x = c.X + *row;
    Vec<T> w[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) w[v] = Vec<T>::load(b + v * L);
#pragma GCC unroll 14
    for (int j = 0; j < P; j++) {
      const Vec<T> a(x[d[j]]);
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) acc[j][v] = fma(a, w[v], acc[j][v]);
    }
  }
#pragma GCC unroll 14
  for (int j = 0; j < P; j++)
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
      T* o = c.out + j * c.ldo + v * L;
      (acc[j][v] + Vec<T>::load(c.bias ? c.bias + v * L : o)).store(o);
    }
}

constexpr bool lanes_has(int P, int V, bool unit) {
  return P * V <= LANES_ACCUMULATORS && (unit || P <= LANES_SCATTERED) && P <= 14 && P != 11 && P != 13;
}

template <class T, int P, int V, bool Unit>
static inline void lanes_tile_if(const LanesCall<T>& c) {
  if constexpr (lanes_has(P, V, Unit)) lanes_tile<T, P, V, Unit>(c);
}

template <class T, int V, bool Unit>
static void lanes_product(int P, const LanesCall<T>& c) {
  switch (P) {
    case 1: return lanes_tile_if<T, 1, V, Unit>(c);
    case 2: return lanes_tile_if<T, 2, V, Unit>(c);
    case 3: return lanes_tile_if<T, 3, V, Unit>(c);
    case 4: return lanes_tile_if<T, 4, V, Unit>(c);
    case 5: return lanes_tile_if<T, 5, V, Unit>(c);
    case 6: return lanes_tile_if<T, 6, V, Unit>(c);
    case 7: return lanes_tile_if<T, 7, V, Unit>(c);
    case 8: return lanes_tile_if<T, 8, V, Unit>(c);
    case 9: return lanes_tile_if<T, 9, V, Unit>(c);
    case 10: return lanes_tile_if<T, 10, V, Unit>(c);
    case 12: return lanes_tile_if<T, 12, V, Unit>(c);
    case 14: return lanes_tile_if<T, 14, V, Unit>(c);
  }
}

struct LanesPlan {
  int P, V;
  bool unit;
  int64_t blocks;
};

// The tile that covers `width` positions and `nvec` vectors of channels in the least time, in half cycles: a
// cycle does two multiply-adds or two loads, sums have a latency of four, and B comes from the second-level cache.
static inline LanesPlan lanes_plan(int64_t nvec, int64_t width, bool unit) {
  LanesPlan best{1, 1, unit, nvec};
  double least = 1e300;
  for (int V = 4; V >= 1; V /= 2)
    for (int P = 14; P >= 1; P--) {
      if (nvec % V || !lanes_has(P, V, unit) || (P > width && P > 1)) continue;
      double cycles = conv_max(conv_max(P * V, P + V + 2), conv_max(8, 6 * V)) + 0.5;
      cycles *= double((width + P - 1) / P * (nvec / V));
      if (cycles < least) {
        least = cycles;
        best = {P, V, unit, nvec / V};
      }
    }
  return best;
}

template <class T>
static inline void lanes_dispatch(const LanesPlan& t, int P, const LanesCall<T>& c) {
  if (t.unit) {
    if (t.V == 4) lanes_product<T, 4, true>(P, c);
    else if (t.V == 2) lanes_product<T, 2, true>(P, c);
    else lanes_product<T, 1, true>(P, c);
  } else {
    if (t.V == 4) lanes_product<T, 4, false>(P, c);
    else if (t.V == 2) lanes_product<T, 2, false>(P, c);
    else lanes_product<T, 1, false>(P, c);
  }
}

// One row of `width` positions, `step` elements of X apart, in sums of `block` r. The last tile moves back to
// stay inside the row.
template <class T>
static inline void lanes_row(const LanesPlan& t, const LanesCall<T>& row, int64_t width, int64_t step,
                             int64_t block) {
  LanesCall<T> c = row;
  for (int64_t at = 0; at < width;) {
    int P = t.P;
    if (width < P) {
      P = int(width - at);
      while (!lanes_has(P, t.V, t.unit)) P--;
    } else if (at + P > width) {
      at = width - P;
    }
    c.X = row.X + at * step;
    c.out = row.out + at * c.ldo;
    for (int64_t r = 0; r == 0 || r < row.R; r += block) {
      c.R = conv_min(block, row.R - r);
      c.B = row.B + r * t.V * Vec<T>::size;
      c.row = row.row + r;
      c.bias = r ? nullptr : row.bias;
      lanes_dispatch(t, P, c);
    }
    at += P;
  }
}

// Is a channel count worth giving the lanes to?
template <class T>
static inline bool lanes_fit(int64_t channels) {
  constexpr int L = Vec<T>::size;
  return channels * 4 >= conv_round(channels, L) * 3;
}

// ---------------------------------------------------------------- the left factor
// Where the image of one group is read: itself, or its padded copy.
template <class T>
struct LanesImage {
  ConvAxis h, w;
  bool direct;
  int64_t Hq, Wq, size;  // of the copy; there is one for each of a team
  int64_t row_step, step;  // from output row to row, output to output
  T* copy;

  LanesImage(const ConvShape& s) {
    direct = s.PH == 0 && s.PW == 0 && (s.OH - 1) * s.SH + (s.KH - 1) * s.DH < s.H &&
             (s.OW - 1) * s.SW + (s.KW - 1) * s.DW < s.W;
    Hq = s.OH + (s.KH - 1) * s.DH / s.SH;
    Wq = s.OW + (s.KW - 1) * s.DW / s.SW;
    size = direct ? 0 : s.Cg() * conv_min(s.SH, s.KH) * conv_min(s.SW, s.KW) * Hq * Wq;
    row_step = direct ? s.SH * s.W : Wq;
    step = direct ? s.SW : 1;
  }
  void take(ConvArena& a, const ConvShape& s, int team) {
    h.take(a, s.KH);
    w.take(a, s.KW);
    copy = a.take_each<T>(team, size);
  }
  // Offset of every tap, in the order of w, from the first element that an output reads.
  void taps(const ConvShape& s, int team, int64_t* off) {
    if (size) memset(copy, 0, team * size * sizeof(T));
    h.fill(s.KH, s.SH, s.DH);
    w.fill(s.KW, s.SW, s.DW);
    for (int64_t c = 0; c < s.Cg(); c++)
      for (int64_t i = 0; i < s.KH; i++)
        for (int64_t j = 0; j < s.KW; j++)
          *off++ = direct ? (c * s.H + i * s.DH) * s.W + j * s.DW
                          : (((c * h.phases + h.slot[i]) * w.phases + w.slot[j]) * Hq + h.shift[i]) * Wq + w.shift[j];
  }
  const T* load(const ConvShape& s, const T* x, int worker) const {
    if (direct) return x;
    T* const mine = copy + worker * size;
    conv_load_group(mine, x, s, h, w, Hq, Wq);
    return mine;
  }
};

// ---------------------------------------------------------------- forward
// Channels are summed in blocks, each a chain over filter rows, columns and the block's channels that starts
// from zero: shorter chains round less (ADR 0033). The blocks are added in order, the first one to the bias.
template <class T>
constexpr int64_t CHANNEL_BLOCK = Vec<T>::size > 8 ? Vec<T>::size : 8;

template <class T>
static inline int conv_forward_lanes(const ConvShape& s, T* y, const T* x, const T* w, const T* bias, const ConvAfter<T>& after) {
  constexpr int L = Vec<T>::size;
  const int64_t Cg = s.Cg(), Og = s.Og(), taps = s.KH * s.KW, K = Cg * taps, area = s.OH * s.OW,
                nvec = (Og + L - 1) / L, block_taps = CHANNEL_BLOCK<T> * taps;
  LanesImage<T> image(s);
  const LanesPlan plan = lanes_plan(nvec, s.OW, image.step == 1);
  const int64_t lanes = plan.V * L;
  const int team = conv_team(s);
  int64_t tile = area * lanes;
  ConvArena a{nullptr, 0};
  int64_t *off = nullptr, *row = nullptr, *d = nullptr;
  T *B = nullptr, *W = nullptr, *Y = nullptr, *start = nullptr;
  for (int pass = 0; pass < 2; pass++) {
    image.take(a, s, team);
    off = a.take<int64_t>(K);
    row = a.take<int64_t>(K);
    d = a.take<int64_t>(plan.P);
    B = a.take<T>(s.G * nvec * L * K);
    W = a.take<T>(lanes * K);
    Y = a.take_each<T>(team, tile);
    start = a.take<T>(s.G * nvec * L);
    if (pass == 0 && !a.allocate()) return OUT_OF_MEMORY;
  }
  image.taps(s, team, off);
  for (int j = 0; j < plan.P; j++) d[j] = j * image.step;
  for (int64_t g = 0; g < s.G; g++)
    for (int64_t b = 0; b < plan.blocks; b++) {
      const int64_t first = b * lanes, n = conv_min(lanes, Og - first);
      lanes_transpose(w + (g * Og + first) * K, K, n, K, W, lanes, true);
      T* to = B + (g * plan.blocks + b) * lanes * K;
      int64_t r = 0;
      for (int64_t c = 0; c < Cg; c += CHANNEL_BLOCK<T>)
        for (int64_t t = 0; t < taps; t++)
          for (int64_t i = c; i < conv_min(c + CHANNEL_BLOCK<T>, Cg); i++, r++, to += lanes) {
            row[r] = off[i * taps + t];
            memcpy(to, W + (i * taps + t) * lanes, lanes * sizeof(T));
          }
      for (int64_t l = 0; l < lanes; l++)
        start[(g * plan.blocks + b) * lanes + l] = bias && l < n ? bias[g * Og + first + l] : T(0);
    }
  const int64_t pixels = Cg * s.H * s.W;
  return parallel(team, s.N * s.G, 1, [=](int worker, int64_t begin, int64_t end) {
    T* const mine = Y + worker * tile;
    for (int64_t u = begin; u < end; u++) {
      const int64_t n = u / s.G, g = u % s.G;
      const T* X = image.load(s, x + (n * s.C + g * Cg) * s.H * s.W, worker);
      for (int64_t b = 0; b < plan.blocks; b++) {
        const int64_t block = g * plan.blocks + b, channels = conv_min(lanes, Og - b * lanes);
        T* const out = y + (u * Og + b * lanes) * area;
        for (int64_t oh = 0; oh < s.OH; oh++) {
          conv_prefetch<true>(out, channels * area, oh, s.OH);
          if (u + 1 < end) conv_prefetch<false>(x + (u + 1) * pixels, pixels, b * s.OH + oh, plan.blocks * s.OH);
          LanesCall<T> call{K, B + block * lanes * K, X + oh * image.row_step, row, d, start + block * lanes,
                            mine + oh * s.OW * lanes, lanes};
          lanes_row(plan, call, s.OW, image.step, block_taps);
        }
        lanes_transpose(mine, lanes, area, channels, out, area, false);
      }
      after(y, n * s.O + g * Og, Og);
    }
    return int(OK);
  });
}

// ---------------------------------------------------------------- gradient of the weight
template <class T>
static inline int conv_backward_weight_lanes(const ConvShape& s, T* gw, const T* gy, const T* x) {
  constexpr int L = Vec<T>::size;
  const int64_t Cg = s.Cg(), Og = s.Og(), K = Cg * s.KH * s.KW, area = s.OH * s.OW, nvec = (Og + L - 1) / L;
  LanesImage<T> image(s);
  const LanesPlan plan = lanes_plan(nvec, K, false);
  const int64_t lanes = plan.V * L, Kp = conv_round(K, plan.P), tiles = Kp / plan.P;
  const int team = conv_team(s);
  int64_t transposed = area * lanes;
  ConvArena a{nullptr, 0};
  int64_t *off = nullptr, *row = nullptr;
  T *B = nullptr, *sum = nullptr;
  for (int pass = 0; pass < 2; pass++) {
    image.take(a, s, team);
    off = a.take<int64_t>(Kp);
    row = a.take<int64_t>(area);
    B = a.take_each<T>(team, transposed);
    sum = a.take<T>(s.G * nvec * L * Kp);
    if (pass == 0 && !a.allocate()) return OUT_OF_MEMORY;
  }
  image.taps(s, team, off);
  for (int64_t k = K; k < Kp; k++) off[k] = off[K - 1];  // computed and dropped
  for (int64_t p = 0; p < area; p++) row[p] = p / s.OW * image.row_step + p % s.OW * image.step;
  memset(sum, 0, s.G * nvec * L * Kp * sizeof(T));
  // A unit is a tile of taps of one block of channels: few pieces, for each transposes what it needs of gy.
  const int64_t units = s.G * plan.blocks * tiles;
  parallel(team, units, (units + team - 1) / team, [=](int worker, int64_t begin, int64_t end) {
    T* const mine = B + worker * transposed;
    for (int64_t n = 0; n < s.N; n++) {
      const T* X = nullptr;
      for (int64_t u = begin, loaded = -1; u < end;) {
        const int64_t block = u / tiles, g = block / plan.blocks, b = block % plan.blocks;
        if (g != loaded) X = image.load(s, x + (n * s.C + g * Cg) * s.H * s.W, worker);
        loaded = g;
        lanes_transpose(gy + (n * s.O + g * Og + b * lanes) * area, area, conv_min(lanes, Og - b * lanes), area, mine, lanes,
                        true);
        for (const int64_t last = conv_min(end, (block + 1) * tiles); u < last; u++) {
          const int64_t k = u % tiles * plan.P;
          if (n + 1 < s.N) {
            conv_prefetch<false>(x + (n + 1) * s.C * s.H * s.W, s.C * s.H * s.W, u, units);
            conv_prefetch<false>(gy + (n + 1) * s.O * area, s.O * area, u, units);
          }
          LanesCall<T> call{area, mine, X, row, off + k, nullptr, sum + (block * Kp + k) * lanes, lanes};
          lanes_dispatch(plan, plan.P, call);
        }
      }
    }
    return int(OK);
  });
  for (int64_t g = 0; g < s.G; g++)
    for (int64_t b = 0; b < plan.blocks; b++)
      lanes_transpose(sum + (g * plan.blocks + b) * Kp * lanes, lanes, K, conv_min(lanes, Og - b * lanes),
                      gw + (g * Og + b * lanes) * K, K, false);
  return OK;
}

// ---------------------------------------------------------------- gradient of the input
// As in conv_flat.h, one stride phase of the input at a time; whole rows of zeros around gy are left out, and where
// conv_spread.h has a tile for the rows of gy, the zeros beside it.
template <class T>
static inline int conv_backward_input_lanes(const ConvShape& s, T* gx, const T* gy, const T* w, const T* bias) {
  constexpr int L = Vec<T>::size;
  const int64_t Cg = s.Cg(), Og = s.Og(), taps = s.KH * s.KW, area = s.H * s.W, nvec = (Cg + L - 1) / L;
  const ConvGradient from(s);
  LanesPlan plan = lanes_plan(nvec, conv_max(s.W / s.SW, 1), true);
  SpreadTile<T> spread = nvec % 2 == 0 ? find_spread<T>(s, 2) : nullptr;
  if (spread) {
    plan = {1, 2, true, nvec / 2};
  } else if ((spread = find_spread<T>(s, 1))) {
    plan = {1, 1, true, nvec};
  }
  const int64_t lanes = plan.V * L, block_B = Og * taps * lanes;
  const int team = conv_team(s);
  int64_t planes = spread ? 0 : Og * from.plane, tile = area * lanes;
  ConvAxis ah, aw;
  ConvArena a{nullptr, 0};
  int64_t* off = nullptr;
  T *B = nullptr, *W = nullptr, *X = nullptr, *Y = nullptr, *start = nullptr;
  for (int pass = 0; pass < 2; pass++) {
    ah.take(a, s.KH);
    aw.take(a, s.KW);
    off = a.take<int64_t>(Og * taps);
    B = a.take<T>(s.G * plan.blocks * block_B);
    W = a.take<T>(taps * lanes);
    X = a.take_each<T>(team, planes);
    Y = a.take_each<T>(team, tile);
    start = a.take<T>(s.G * nvec * L);
    if (pass == 0 && !a.allocate()) return OUT_OF_MEMORY;
  }
  ah.fill(s.KH, s.SH, s.DH);
  aw.fill(s.KW, s.SW, s.DW);
  const int64_t phases = ah.phases * aw.phases;
  memset(X, 0, team * planes * sizeof(T));
  // Order of r in a phase: filter row, output channel, filter column.
  int64_t* fill_off = off;
  for (int64_t q = 0; q < phases; q++)
    for (int64_t i = 0; i < s.KH; i++)
      for (int64_t o = 0; o < Og && ah.slot[i] == q / aw.phases; o++)
        for (int64_t j = 0; j < s.KW; j++)
          if (aw.slot[j] == q % aw.phases)
            *fill_off++ = from.offset(ah, aw, o, i, j);
  for (int64_t g = 0; g < s.G; g++)
    for (int64_t l = 0; l < nvec * L; l++) start[g * nvec * L + l] = bias && l < Cg ? bias[g * Cg + l] : T(0);
  for (int64_t u = 0; u < s.G * plan.blocks; u++)
    for (int64_t o = 0; o < Og; o++) {
      const int64_t g = u / plan.blocks, first = u % plan.blocks * lanes;
      lanes_transpose(w + ((g * Og + o) * Cg + first) * taps, taps, conv_min(lanes, Cg - first), taps, W, lanes, true);
      T* phase = B + u * block_B;
      for (int64_t q = 0; q < phases; q++) {
        const int64_t nw = aw.count(q % aw.phases);
        T* to = phase + o * nw * lanes;
        for (int64_t i = 0; i < s.KH; i++) {
          if (ah.slot[i] != q / aw.phases) continue;
          T* tap = to;
          for (int64_t j = 0; j < s.KW; j++) {
            if (aw.slot[j] != q % aw.phases) continue;
            memcpy(tap, W + (i * s.KW + j) * lanes, lanes * sizeof(T));
            tap += lanes;
          }
          to += Og * nw * lanes;
        }
        phase += ah.count(q / aw.phases) * Og * nw * lanes;
      }
    }
  return parallel(team, s.N, 1, [=](int worker, int64_t begin, int64_t end) {
    T *const image = X + worker * planes, *const mine = Y + worker * tile;
    for (int64_t u = begin * s.G; u < end * s.G; u++) {
      const int64_t n = u / s.G, g = u % s.G;
      const T* grads = gy + u * Og * s.OH * s.OW;
      if (!spread) from.load(s, image, gy, n, g);
      for (int64_t b = 0; b < plan.blocks; b++) {
        const T *Bp = B + (g * plan.blocks + b) * block_B, *const first = start + (g * plan.blocks + b) * lanes;
        for (int64_t p = 0; p < area && phases < s.SH * s.SW; p++)  // positions between the taps
          memcpy(mine + p * lanes, first, lanes * sizeof(T));
        const int64_t* po = off;
        const int64_t channels = conv_min(lanes, Cg - b * lanes);
        T* const result = gx + (u * Cg + b * lanes) * area;
        int64_t done = 0;
        for (int64_t q = 0; q < phases; q++) {
          const ConvPhase to(s, ah, aw, q);
          const int64_t nh = ah.count(q / aw.phases), per_row = Og * aw.count(q % aw.phases), width = to.w1 - to.w0 + 1;
          for (int64_t h = to.h0; h <= to.h1 && width > 0; h++) {
            conv_prefetch<true>(result, channels * area, done, phases * (s.H / s.SH + 1));
            done++;
            int64_t lo = nh, hi = 0, t = 0, row = 0;  // filter rows that meet gy; gy's row for the first
            for (int64_t i = 0; i < s.KH; i++) {
              if (ah.slot[i] != q / aw.phases) continue;
              const int64_t oh = h - ah.shift[i];
              if (oh >= 0 && oh < s.OH) {
                if (hi == 0) row = oh;
                lo = conv_min(lo, t);
                hi = t + 1;
              }
              t++;
            }
            T* const out = mine + to.index(s, h) * lanes;
            const int64_t rows = conv_max(hi - lo, 0);
            if (spread) {
              SpreadCall<T> call{rows ? Og : 0, s.OH * s.OW, Bp + lo * per_row * lanes, grads + row * s.OW, first, out,
                                 s.SW * lanes, to.w0, to.w1 + 1};
              spread(call);
              call.bias = nullptr;
              for (int64_t i = 1; i < rows; i++) {
                call.X -= s.OW;
                call.B += per_row * lanes;
                spread(call);
              }
            } else {
              LanesCall<T> call{rows * per_row, Bp + lo * per_row * lanes, image + h * from.W + to.w0, po + lo * per_row,
                                nullptr, first, out, s.SW * lanes};
              lanes_row(plan, call, width, 1, per_row);
            }
          }
          Bp += nh * per_row * lanes;
          po += nh * per_row;
        }
        lanes_transpose(mine, lanes, area, channels, result, area, false);
      }
    }
    return int(OK);
  });
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
