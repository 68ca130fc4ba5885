// 2-d pooling over contiguous planes [planes][H][W] (1-d: H = KH = 1).
//
// Record of the four families, all arguments contiguous and of dtype `compute` except the indices:
//   ints[0..12] = planes, H, W, OH, OW, KH, KW, SH, SW, PH, PW, DH, DW   (average pooling has no dilation)
//     Adaptive pooling sets KH = 0: output i averages or searches inputs floor(i H / OH) to ceil((i + 1) H / OH).
//   max_pool2d           arg[0] = y, arg[1] = indices (I64: h * W + w), arg[2] = x  (F32, F64, I64, I32, U8)
//   max_pool2d_backward  arg[0] = gx, arg[1] = gy, arg[2] = indices                 (F32, F64)
//     with a fourth argument, the relu that was x: then what its backward makes of gx, zero where it is not positive
//   max_pool2d_gather    arg[0] = y, arg[1] = x, arg[2] = indices: y = x at the indices; the gradient
//                        of max_pool2d_backward                                     (F32, F64)
//   avg_pool2d           arg[0] = y, arg[1] = x                                     (F32, F64, I64)
//   avg_pool2d_backward  arg[0] = gx, arg[1] = gy                                   (F32, F64)
//     ints[13] = count_include_pad, ints[14] = divisor_override (0: none)
// The first of equal maxima wins; any NaN wins over every number, the last one found over the others.
#pragma once
#include <cstdint>
#include <cstring>

#include "parallel.h"
#include "record.h"
#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

struct PoolShape {
  int64_t planes, H, W, OH, OW, KH, KW, SH, SW, PH, PW, DH, DW;
};

static inline PoolShape pool_shape(const Record& r) {
  PoolShape s;
  static_assert(sizeof(s) == 13 * sizeof(int64_t), "the fields are the first ints of the record");
  memcpy(&s, r.ints, sizeof(s));
  return s;
}

// f(plane) for every plane; `work` inputs or outputs each.
template <class F>
static inline void pool_planes(const PoolShape& s, int64_t work, F f) {
  parallel(team_for(double(s.planes) * double(work) / 2), s.planes, 1, [=](int, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++) f(p);
    return int(OK);
  });
}

// ---------------------------------------------------------------- max
template <class T>
static inline T pool_lowest();
template <> inline float pool_lowest<float>() { return -__builtin_inff(); }
template <> inline double pool_lowest<double>() { return -__builtin_inf(); }
template <> inline int64_t pool_lowest<int64_t>() { return INT64_MIN; }
template <> inline int32_t pool_lowest<int32_t>() { return INT32_MIN; }
template <> inline uint8_t pool_lowest<uint8_t>() { return 0; }

template <class T>
static inline void max_pool_one(const PoolShape& s, const T* x, int64_t oh, int64_t ow, T* y, int64_t* index) {
  int64_t h0 = oh * s.SH - s.PH, w0 = ow * s.SW - s.PW;
  int64_t h1 = h0 + (s.KH - 1) * s.DH + 1 < s.H ? h0 + (s.KH - 1) * s.DH + 1 : s.H;
  int64_t w1 = w0 + (s.KW - 1) * s.DW + 1 < s.W ? w0 + (s.KW - 1) * s.DW + 1 : s.W;
  while (h0 < 0) h0 += s.DH;
  while (w0 < 0) w0 += s.DW;
  if (s.KH == 0) {
    h0 = oh * s.H / s.OH;
    h1 = ((oh + 1) * s.H + s.OH - 1) / s.OH;
    w0 = ow * s.W / s.OW;
    w1 = ((ow + 1) * s.W + s.OW - 1) / s.OW;
  }
  T best = pool_lowest<T>();
  int64_t at = h0 * s.W + w0;
  for (int64_t h = h0; h < h1; h += s.DH)
    for (int64_t w = w0; w < w1; w += s.DW) {
      T v = x[h * s.W + w];
      if (v > best || v != v) {
        best = v;
        at = h * s.W + w;
      }
    }
  *y = best;
  *index = at;
}

template <class T>
static inline void max_pool_plane(const PoolShape& s, const T* x, T* y, int64_t* index) {
  for (int64_t oh = 0; oh < s.OH; oh++)
    for (int64_t ow = 0; ow < s.OW; ow++, y++, index++) max_pool_one(s, x, oh, ow, y, index);
}

// The backward of relu, in place.
template <class T>
static inline void pool_mask(T* gx, const T* relu, int64_t n) {
  for (int64_t i = 0; i < n; i++) gx[i] = relu[i] <= T(0) ? T(0) : gx[i];
}

// The 2 x 2 window, stride 2, that every small network uses: lanes are neighbouring outputs, of one row or, where
// two fit in a vector, of two rows.
static inline bool pool_is_2x2(const PoolShape& s) {
  return s.KH == 2 && s.KW == 2 && s.SH == 2 && s.SW == 2 && s.PH == 0 && s.PW == 0 && s.DH == 1 && s.DW == 1 &&
         s.H * s.W < (int64_t(1) << 31);
}

template <class T>
struct Pool2x2 {
  static constexpr int L = Vec<T>::size;
  typedef typename Vec<T>::Int Int;
  typedef typename Lane<T>::Scalar At;

  int64_t rows, cols;  // outputs whose window is whole
  int per;             // rows in a vector
  Int even, where;     // lane -> its first element in two vectors of a row; its offset from the first window's
  Int low, high;       // the interleaving that undoes `even`

  explicit Pool2x2(const PoolShape& s) {
    rows = s.H / 2;
    cols = s.W / 2;
    per = cols == s.OW && 2 * cols <= L ? 2 : 1;
    const int second = per == 2 ? int(cols) : L / 2;
    for (int i = 0; i < L; i++) {
      const bool next = per == 2 && i >= cols;
      even[i] = next ? At(L + 2 * (i - cols)) : At(2 * i);
      where[i] = next ? At(2 * s.W + 2 * (i - cols)) : At(2 * i);
      low[i] = At(i / 2 + i % 2 * L);
      high[i] = At((second + i / 2) % L + i % 2 * L);
    }
  }

  // f(output, input, lanes, elements in the first vector, in the second, distance of the two), vector by vector.
  template <class F>
  TENSOTRON_MEMBER void each(const PoolShape& s, F f) const {
    int64_t oh = 0;
    if (per == 2)
      for (; oh + 2 <= rows; oh += 2) f(oh * s.OW, 2 * oh * s.W, int(2 * cols), int(2 * cols), int(2 * cols), 2 * s.W);
    for (; oh < rows; oh++)
      for (int64_t ow = 0; ow < cols; ow += L) {
        const int n = cols - ow < L ? int(cols - ow) : L, n0 = 2 * n < L ? 2 * n : L;
        f(oh * s.OW + ow, 2 * (oh * s.W + ow), n, n0, 2 * n - n0, int64_t(L));
      }
  }

  // f(oh, ow) for every output whose window is not whole.
  template <class F>
  TENSOTRON_MEMBER void rest(const PoolShape& s, F f) const {
    for (int64_t oh = 0; oh < s.OH; oh++)
      for (int64_t ow = oh < rows ? cols : 0; ow < s.OW; ow++) f(oh, ow);
  }

  // n lanes as int64 and back. Numbers of a plane fit in half of that: the other half is zero.
  static TENSOTRON_MEMBER void store(int64_t* p, Int at, int n) {
    if constexpr (sizeof(At) == 8) {
      as_float(at).store((T*)p, n);
    } else {
      Int lower, upper;
      for (int i = 0; i < L; i++) {
        lower[i] = i % 2 ? L : i / 2;
        upper[i] = i % 2 ? L : L / 2 + i / 2;
      }
      as_float(__builtin_shuffle(at, Int{}, lower)).store((T*)p, 2 * n < L ? 2 * n : L);
      as_float(__builtin_shuffle(at, Int{}, upper)).store((T*)p + L, 2 * n < L ? 0 : 2 * n - L);
    }
  }
  static TENSOTRON_MEMBER Int load(const int64_t* p, int n) {
    if constexpr (sizeof(At) == 8) {
      return as_int(Vec<T>::load((const T*)p, n));
    } else {
      Int halves;
      for (int i = 0; i < L; i++) halves[i] = 2 * i;
      const Int a = as_int(Vec<T>::load((const T*)p, 2 * n < L ? 2 * n : L));
      return __builtin_shuffle(a, as_int(Vec<T>::load((const T*)p + L, 2 * n < L ? 0 : 2 * n - L)), halves);
    }
  }

  void forward(const PoolShape& s, const T* x, T* y, int64_t* index) const {
    const Int even = this->even, where = this->where;
    each(s, [=](int64_t to, int64_t from, int n, int n0, int n1, int64_t apart) __attribute__((always_inline)) {
      const T *p = x + from, *q = p + s.W;
      const auto a = Vec<T>::load(p, n0).v, b = Vec<T>::load(p + apart, n1).v;
      const auto c = Vec<T>::load(q, n0).v, d = Vec<T>::load(q + apart, n1).v;
      const Vec<T> v[4] = {Vec<T>(__builtin_shuffle(a, b, even)), Vec<T>(__builtin_shuffle(a, b, even + 1)),
                           Vec<T>(__builtin_shuffle(c, d, even)), Vec<T>(__builtin_shuffle(c, d, even + 1))};
      Vec<T> best(pool_lowest<T>());
      Int at = where;
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        const Mask<T> take = gt(v[k], best) | isnan(v[k]);
        best = select(take, v[k], best);
        at = as_int(select(take, as_float(where + At(k / 2 * s.W + k % 2)), as_float(at)));
      }
      best.store(y + to, n);
      store(index + to, at + At(from), n);
    });
    rest(s, [=](int64_t oh, int64_t ow) { max_pool_one(s, x, oh, ow, y + oh * s.OW + ow, index + oh * s.OW + ow); });
  }

  // relu: null if not Relu
  template <bool Relu>
  void backward(const PoolShape& s, T* gx, const T* gy, const int64_t* index, const T* relu) const {
    const Int low = this->low, high = this->high, where = this->where;
    each(s, [=](int64_t to, int64_t from, int n, int n0, int n1, int64_t apart) __attribute__((always_inline)) {
      const Vec<T> g = Vec<T>::load(gy + to, n) + Vec<T>(T(0));  // as added to zero
      const Int at = load(index + to, n) - (where + At(from));
      T *p = gx + from, *q = p + s.W;
      const Vec<T> zero(T(0));
      const auto a = (at == 0 ? g.v : zero.v), b = (at == 1 ? g.v : zero.v);
      const auto c = (at == At(s.W) ? g.v : zero.v), d = (at == At(s.W + 1) ? g.v : zero.v);
      const auto put = [&](Vec<T> v, T* to, int n) __attribute__((always_inline)) {
        if (Relu) v = select(le(Vec<T>::load(relu + (to - gx), n), zero), zero, v);
        v.store(to, n);
      };
      put(__builtin_shuffle(a, b, low), p, n0);
      put(__builtin_shuffle(a, b, high), p + apart, n1);
      put(__builtin_shuffle(c, d, low), q, n0);
      put(__builtin_shuffle(c, d, high), q + apart, n1);
    });
    if (s.W % 2)
      for (int64_t h = 0; h < 2 * rows; h++) gx[h * s.W + s.W - 1] = T(0);
    if (s.H % 2) memset(gx + 2 * rows * s.W, 0, s.W * sizeof(T));
    rest(s, [=](int64_t oh, int64_t ow) { gx[index[oh * s.OW + ow]] += gy[oh * s.OW + ow]; });
    if (Relu && (rows < s.OH || cols < s.OW)) pool_mask(gx, relu, s.H * s.W);  // ceil_mode
  }
};

template <class T, bool Vectors>
static inline void max_pool(const Record& r) {
  const PoolShape s = pool_shape(r);
  T* y = (T*)r.arg[0].data;
  int64_t* index = (int64_t*)r.arg[1].data;
  const T* x = (const T*)r.arg[2].data;
  const int64_t in = s.H * s.W, out = s.OH * s.OW;
  if constexpr (Vectors)
    if (pool_is_2x2(s)) {
      const Pool2x2<T> two(s);
      return pool_planes(s, in, [=](int64_t p) { two.forward(s, x + p * in, y + p * out, index + p * out); });
    }
  pool_planes(s, in, [=](int64_t p) { max_pool_plane(s, x + p * in, y + p * out, index + p * out); });
}

int k_max_pool2d(const Record& r) {
  switch (r.compute) {
    case F32: max_pool<float, true>(r); return OK;
    case F64: max_pool<double, true>(r); return OK;
    case I64: max_pool<int64_t, false>(r); return OK;
    case I32: max_pool<int32_t, false>(r); return OK;
    case U8: max_pool<uint8_t, false>(r); return OK;
  }
  return UNSUPPORTED;
}

template <class T>
static inline void max_pool_backward(const Record& r) {
  const PoolShape s = pool_shape(r);
  T* gx = (T*)r.arg[0].data;
  const T* gy = (const T*)r.arg[1].data;
  const int64_t* index = (const int64_t*)r.arg[2].data;
  const T* relu = r.nin == 3 ? (const T*)r.arg[3].data : nullptr;
  const int64_t in = s.H * s.W, out = s.OH * s.OW;
  if (pool_is_2x2(s)) {
    const Pool2x2<T> two(s);
    return pool_planes(s, in, [=](int64_t p) {
      if (relu) two.template backward<true>(s, gx + p * in, gy + p * out, index + p * out, relu + p * in);
      else two.template backward<false>(s, gx + p * in, gy + p * out, index + p * out, nullptr);
    });
  }
  pool_planes(s, in, [=](int64_t p) {
    T* to = gx + p * in;
    memset(to, 0, in * sizeof(T));
    for (int64_t i = p * out; i < (p + 1) * out; i++) to[index[i]] += gy[i];
    if (relu) pool_mask(to, relu + p * in, in);
  });
}

int k_max_pool2d_backward(const Record& r) {
  if (r.compute == F32) max_pool_backward<float>(r);
  else if (r.compute == F64) max_pool_backward<double>(r);
  else return UNSUPPORTED;
  return OK;
}

template <class T>
static inline void max_pool_gather(const Record& r) {
  const PoolShape s = pool_shape(r);
  T* y = (T*)r.arg[0].data;
  const T* x = (const T*)r.arg[1].data;
  const int64_t* index = (const int64_t*)r.arg[2].data;
  const int64_t in = s.H * s.W, out = s.OH * s.OW;
  for (int64_t p = 0; p < s.planes; p++, x += in, y += out, index += out)
    for (int64_t i = 0; i < out; i++) y[i] = x[index[i]];
}

int k_max_pool2d_gather(const Record& r) {
  if (r.compute == F32) max_pool_gather<float>(r);
  else if (r.compute == F64) max_pool_gather<double>(r);
  else return UNSUPPORTED;
  return OK;
}

// ---------------------------------------------------------------- average
// The window of one output along one dimension; padded: its length with the padding it reaches into.
struct PoolSpan {
  int64_t lo, hi, padded;
};

static inline PoolSpan pool_span(int64_t o, int64_t n, int64_t k, int64_t stride, int64_t pad, int64_t outputs) {
  if (k == 0) {
    const int64_t lo = o * n / outputs, hi = ((o + 1) * n + outputs - 1) / outputs;
    return {lo, hi, hi - lo};
  }
  const int64_t lo = o * stride - pad, end = lo + k < n + pad ? lo + k : n + pad;
  return {lo < 0 ? 0 : lo, end > n ? n : end, end - lo};
}

// Calls f(output, rows, columns, divisor) for every output of a plane.
template <class F>
static inline __attribute__((always_inline)) void pool_windows(const PoolShape& s, bool include_pad, int64_t fixed, F f) {
  int64_t at = 0;
  for (int64_t oh = 0; oh < s.OH; oh++) {
    const PoolSpan h = pool_span(oh, s.H, s.KH, s.SH, s.PH, s.OH);
    for (int64_t ow = 0; ow < s.OW; ow++, at++) {
      const PoolSpan w = pool_span(ow, s.W, s.KW, s.SW, s.PW, s.OW);
      f(at, h, w, fixed ? fixed : include_pad ? h.padded * w.padded : (h.hi - h.lo) * (w.hi - w.lo));
    }
  }
}

template <class T>
static inline void avg_pool(const Record& r) {
  const PoolShape s = pool_shape(r);
  T* y = (T*)r.arg[0].data;
  const T* x = (const T*)r.arg[1].data;
  pool_planes(s, s.H * s.W, [&](int64_t p) {
    const T* from = x + p * s.H * s.W;
    T* to = y + p * s.OH * s.OW;
    pool_windows(s, r.ints[13], r.ints[14], [&](int64_t at, PoolSpan h, PoolSpan w, int64_t divisor) {
      if (h.lo >= h.hi || w.lo >= w.hi) {
        to[at] = T(0);
        return;
      }
      T sum = 0;
      for (int64_t i = h.lo; i < h.hi; i++)
        for (int64_t j = w.lo; j < w.hi; j++) sum += from[i * s.W + j];
      to[at] = T(sum / T(divisor));
    });
  });
}

int k_avg_pool2d(const Record& r) {
  switch (r.compute) {
    case F32: avg_pool<float>(r); return OK;
    case F64: avg_pool<double>(r); return OK;
    case I64: avg_pool<int64_t>(r); return OK;
  }
  return UNSUPPORTED;
}

template <class T>
static inline void avg_pool_backward(const Record& r) {
  const PoolShape s = pool_shape(r);
  T* gx = (T*)r.arg[0].data;
  const T* gy = (const T*)r.arg[1].data;
  pool_planes(s, s.H * s.W, [&](int64_t p) {
    const T* from = gy + p * s.OH * s.OW;
    T* to = gx + p * s.H * s.W;
    memset(to, 0, s.H * s.W * sizeof(T));
    pool_windows(s, r.ints[13], r.ints[14], [&](int64_t at, PoolSpan h, PoolSpan w, int64_t divisor) {
      const T g = from[at] / T(divisor);
      for (int64_t i = h.lo; i < h.hi; i++)
        for (int64_t j = w.lo; j < w.hi; j++) to[i * s.W + j] += g;
    });
  });
}

int k_avg_pool2d_backward(const Record& r) {
  if (r.compute == F32) avg_pool_backward<float>(r);
  else if (r.compute == F64) avg_pool_backward<double>(r);
  else return UNSUPPORTED;
  return OK;
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
