// What the convolution methods share: the shape, scratch memory, stride phases, copies.
#pragma once
#include <cstdint>
#include <cstring>

#include "parallel.h"
#include "pool-inl.h"
#include "record.h"
#include "scratch.h"
#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

// Registers of a tile's sums, of lanes over channels; four more are left.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int LANES_ACCUMULATORS = 28;
#elif defined(__AVX2__)
constexpr int LANES_ACCUMULATORS = 12;
#else
constexpr int LANES_ACCUMULATORS = 10;
#endif

struct ConvShape {
  int64_t N, C, H, W, O, KH, KW, SH, SW, PH, PW, DH, DW, G, OH, OW;
  int64_t Cg() const { return C / G; }
  int64_t Og() const { return O / G; }
};

static inline ConvShape conv_shape(const Record& r) {
  ConvShape s;
  static_assert(sizeof(s) == 16 * sizeof(int64_t), "the fields are the first ints of the record");
  memcpy(&s, r.ints, sizeof(s));
  return s;
}

// Threads for a pass.
static inline int conv_team(const ConvShape& s) {
  return team_for(double(s.N) * double(s.O) * double(s.OH * s.OW) * double(s.Cg() * s.KH * s.KW) / 25);
}

// What is done to the planes of the result while they are in the first-level cache: relu, then perhaps the maxima of
// 2 x 2 windows, bit for bit as the relu row and max_pool2d do it.
template <class T>
struct ConvAfter {
  bool relu;
  T* maxima;  // null: none
  int64_t* index;
  PoolShape shape;
  Pool2x2<T> two;

  ConvAfter(const ConvShape& s, const Record& r)
      : relu(r.op == 1), maxima(r.nout == 3 ? (T*)r.arg[1].data : nullptr), index(r.nout == 3 ? (int64_t*)r.arg[2].data : nullptr),
        shape{s.N * s.O, s.OH, s.OW, s.OH / 2, s.OW / 2, 2, 2, 2, 2, 0, 0, 1, 1}, two(shape) {}

  void operator()(T* y, int64_t first, int64_t count) const {
    if (!relu) return;
    constexpr int L = Vec<T>::size;
    const int64_t area = shape.H * shape.W, out = shape.OH * shape.OW, n = count * area;
    const Vec<T> zero(T(0));
    T* p = y + first * area;
    int64_t i = 0;
    for (; i + L <= n; i += L) {
      const Vec<T> v = Vec<T>::load(p + i);
      select(lt(v, zero), zero, v).store(p + i);
    }
    for (; i < n; i++) p[i] = p[i] < T(0) ? T(0) : p[i];
    if (maxima)
      for (int64_t k = first; k < first + count; k++, p += area) two.forward(shape, p, maxima + k * out, index + k * out);
  }
};

static inline int64_t conv_round(int64_t n, int64_t m) { return (n + m - 1) / m * m; }
static inline int64_t conv_ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
static inline int64_t conv_floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
static inline int64_t conv_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t conv_max(int64_t a, int64_t b) { return a > b ? a : b; }

// Carves arrays out of one scratch allocation; with base null it only counts.
struct ConvArena {
  char* base;
  size_t used;
  template <class U>
  U* take(int64_t n) {
    U* p = reinterpret_cast<U*>(base + used);
    used += conv_round(n * int64_t(sizeof(U)), 64);
    return base ? p : nullptr;
  }
  // One array of n for each of a team: n is rounded up to whole cache lines.
  template <class U>
  U* take_each(int team, int64_t& n) {
    n = conv_round(n, 64 / int64_t(sizeof(U)));
    return take<U>(n * team);
  }
  // After the counting pass; the second pass takes the same arrays again.
  bool allocate() {
    base = static_cast<char*>(scratch(used));
    used = 0;
    return base != nullptr;
  }
};

// Fetches share `part` of `parts` of n elements that are needed later: the strides of lanes over channels hide from the
// processor what comes next.
template <bool Write, class T>
static inline void conv_prefetch(const T* p, int64_t n, int64_t part, int64_t parts) {
  constexpr int64_t LINE = 64 / sizeof(T);
  for (int64_t i = n * part / parts / LINE * LINE; i < n * (part + 1) / parts; i += LINE) __builtin_prefetch(p + i, Write, 2);
}

// How the taps of one dimension meet the stride: tap k reads phase slot[k] at shift[k].
struct ConvAxis {
  int64_t taps, phases, reach;  // phases in use; largest shift
  int64_t *slot, *shift, *phase;

  void take(ConvArena& a, int64_t k) {
    slot = a.take<int64_t>(k);
    shift = a.take<int64_t>(k);
    phase = a.take<int64_t>(k);
  }
  void fill(int64_t k, int64_t stride, int64_t dilation) {
    taps = k;
    phases = reach = 0;
    for (int64_t i = 0; i < k; i++) {
      int64_t q = i * dilation % stride, s = 0;
      while (s < phases && phase[s] != q) s++;
      if (s == phases) phase[phases++] = q;
      slot[i] = s;
      shift[i] = i * dilation / stride;
      reach = conv_max(reach, shift[i]);
    }
  }
  int64_t count(int64_t s) const {
    int64_t n = 0;
    for (int64_t i = 0; i < taps; i++) n += slot[i] == s;
    return n;
  }
};

template <class T>
static inline void conv_copy_row(T* dst, const T* src, int64_t n) {
  constexpr int L = Vec<T>::size;
  int64_t i = 0;
  for (; i + L <= n; i += L) Vec<T>::load(src + i).store(dst + i);
  if (i < n) Vec<T>::load(src + i, int(n - i)).store(dst + i, int(n - i));
}

template <class T, int S>
static inline void conv_copy_step(T* dst, const T* src, int64_t n, int64_t step) {
  const int64_t st = S ? S : step;
  for (int64_t i = 0; i < n; i++) dst[i] = src[i * st];
}

// One plane [H][W] -> [rows][cols] of dst: dst[r][c] = src[r * SH + oh][c * SW + ow] where that exists. The rest
// is padding: zeroed once per call, it stays zero from image to image.
template <class T>
static inline void conv_flatten(T* dst, const T* src, int64_t rows, int64_t cols, int64_t H, int64_t W,
                                int64_t SH, int64_t SW, int64_t oh, int64_t ow) {
  const int64_t lo = conv_max(conv_ceil_div(-ow, SW), 0), n = conv_min(conv_floor_div(W - 1 - ow, SW) + 1, cols) - lo;
  const int64_t top = conv_max(conv_ceil_div(-oh, SH), 0), end = conv_min(conv_floor_div(H - 1 - oh, SH) + 1, rows);
  if (n <= 0) return;
  dst += top * cols + lo;
  src += (top * SH + oh) * W + lo * SW + ow;
  for (int64_t r = top; r < end; r++, dst += cols, src += SH * W) {
    if (SW == 1) conv_copy_row(dst, src, n);
    else if (SW == 2) conv_copy_step<T, 2>(dst, src, n, 2);
    else if (SW == 4) conv_copy_step<T, 4>(dst, src, n, 4);
    else conv_copy_step<T, 0>(dst, src, n, SW);
  }
}

// The channels of one group of an image, padded and split by stride phase, [channel][phase][rows][cols]; x: the first of
// them. Returns the end of the copy.
template <class T>
static inline T* conv_load_group(T* dst, const T* x, const ConvShape& s, const ConvAxis& ah, const ConvAxis& aw, int64_t rows,
                                 int64_t cols) {
  for (int64_t c = 0; c < s.Cg(); c++, x += s.H * s.W)
    for (int64_t i = 0; i < ah.phases; i++)
      for (int64_t j = 0; j < aw.phases; j++, dst += rows * cols)
        conv_flatten(dst, x, rows, cols, s.H, s.W, s.SH, s.SW, ah.phase[i] - s.PH, aw.phase[j] - s.PW);
  return dst;
}

// off[k]: where in that copy, whose planes are `plane` elements apart, tap k of all channels' meets the first output.
static inline void conv_tap_offsets(int64_t* off, const ConvShape& s, const ConvAxis& ah, const ConvAxis& aw, int64_t plane,
                                    int64_t cols) {
  for (int64_t c = 0; c < s.Cg(); c++)
    for (int64_t i = 0; i < s.KH; i++)
      for (int64_t j = 0; j < s.KW; j++)
        *off++ = ((c * ah.phases + ah.slot[i]) * aw.phases + aw.slot[j]) * plane + ah.shift[i] * cols + aw.shift[j];
}

// One plane's part of the gradient of the bias.
template <class T>
static inline T conv_plane_sum(const T* p, int64_t area) {
  constexpr int L = Vec<T>::size;
  Vec<T> a0(T(0)), a1(T(0));
  int64_t i = 0;
  for (; i + 2 * L <= area; i += 2 * L) {
    a0 = a0 + Vec<T>::load(p + i);
    a1 = a1 + Vec<T>::load(p + i + L);
  }
  T sum = reduce_add(a0 + a1);
  for (; i < area; i++) sum += p[i];
  return sum;
}

// ---------------------------------------------------------------- gradient of the input, common to all methods
template <class T>
static inline void conv_fill_bias(const ConvShape& s, T* gx, const T* bias) {
  const int64_t area = s.H * s.W;
  for (int64_t i = 0; i < s.N * s.C; i++)
    for (int64_t j = 0; j < area; j++) gx[i * area + j] = bias ? bias[i % s.C] : T(0);
}

// The planes of gy of one group with the rows and columns around them that a position of the input can ask for.
struct ConvGradient {
  int64_t reach_h, reach_w, H, W, plane;

  explicit ConvGradient(const ConvShape& s)
      : reach_h((s.KH - 1) * s.DH / s.SH), reach_w((s.KW - 1) * s.DW / s.SW),
        H((s.PH + s.H - 1) / s.SH + 1 + reach_h), W((s.PW + s.W - 1) / s.SW + 1 + reach_w), plane(H * W) {}

  // Where tap (i, j) of output channel o begins.
  int64_t offset(const ConvAxis& ah, const ConvAxis& aw, int64_t o, int64_t i, int64_t j) const {
    return o * plane + (reach_h - ah.shift[i]) * W + reach_w - aw.shift[j];
  }
  template <class T>
  void load(const ConvShape& s, T* to, const T* gy, int64_t n, int64_t g) const {
    for (int64_t o = 0; o < s.Og(); o++)
      conv_flatten(to + o * plane, gy + (n * s.O + g * s.Og() + o) * s.OH * s.OW, H, W, s.OH, s.OW, 1, 1, -reach_h, -reach_w);
  }
};

// The positions of the input in stride phase q: rows h0 to h1 and columns w0 to w1, position (h, w) being row
// h * SH + qh - PH and column w * SW + qw - PW.
struct ConvPhase {
  int64_t qh, qw, h0, w0, h1, w1;

  ConvPhase(const ConvShape& s, const ConvAxis& ah, const ConvAxis& aw, int64_t q)
      : qh(ah.phase[q / aw.phases]), qw(aw.phase[q % aw.phases]),
        h0(conv_max(conv_ceil_div(s.PH - qh, s.SH), 0)), w0(conv_max(conv_ceil_div(s.PW - qw, s.SW), 0)),
        h1(conv_floor_div(s.PH + s.H - 1 - qh, s.SH)), w1(conv_floor_div(s.PW + s.W - 1 - qw, s.SW)) {}

  // Where in a plane of gx row h begins.
  int64_t index(const ConvShape& s, int64_t h) const { return (h * s.SH + qh - s.PH) * s.W + w0 * s.SW + qw - s.PW; }
};

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
