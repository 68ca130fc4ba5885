// Softmax and log-softmax along one dimension, forward and backward. All arguments contiguous, of dtype
// r.compute (F32 or F64), seen as [outer, dim, inner].
//
//   k_softmax           op: 0 softmax, 1 log_softmax     ints: outer, dim, inner
//                       arg: y | x
//   k_softmax_backward  the same op and ints             arg: gx | g, y
//                       softmax: y (g - sum g y)         log_softmax: g - exp(y) sum g
//
// y may be x, and gx may be g. As in torch, a row with NaN or +inf, or of -inf only, gives NaN.
// Long rows (inner 1) run along the row; otherwise vectors lie across rows, which are transposed where inner is 1 and
// they are short.
#pragma once
#include "fold-inl.h"
#include "gemm_pack-inl.h"
#include "parallel.h"

namespace tensotron { namespace TENSOTRON_ISA {

template <class T> constexpr int64_t SHORT_DIM = 2 * Vec<T>::size;  // elements

enum SoftmaxOp : uint16_t { SOFTMAX = 0, LOG_SOFTMAX = 1 };

// ---- along a row ----------------------------------------------------------------------------

// Distance of the row after this one, to be fetched while this one is worked on; 0: too short to matter, or so long that
// it would push this one, of so many operands, out of the cache.
template <class T> static inline int64_t ahead_of(int64_t n, int operands) {
  const int64_t bytes = n * int64_t(sizeof(T));
  return bytes >= 1024 && bytes * operands <= 32768 ? n : 0;
}

template <class T, bool LOG> static void softmax_row(T* y, const T* x, int64_t n) {
  typedef Vec<T> V;
  const int64_t ahead = ahead_of<T>(n, 2);
  const V largest(fold_row(Fold_amax(), x, n));
  const T sum = sum_sweep<T, 1>(n, [&](int64_t i, auto lanes) {
    if (ahead) {
      __builtin_prefetch(x + ahead + i);
      __builtin_prefetch(y + (LOG ? 0 : ahead) + i, 1);
    }
    const V e = exp(lanes.load(x + i) - largest);
    if (!LOG) lanes.store(e, y + i);
    return Sums<T, 1>{{e}};
  }).total(0);
  if (LOG) {
    const V log_sum(log(sum));
    sweep<T>(n, [&](int64_t i, auto lanes) { lanes.store(lanes.load(x + i) - largest - log_sum, y + i); });
  } else {
    const V scale(1 / sum);
    sweep<T>(n, [&](int64_t i, auto lanes) { lanes.store(lanes.load(y + i) * scale, y + i); });
  }
}

template <class T, bool LOG> static void softmax_backward_row(T* gx, const T* g, const T* y, int64_t n) {
  typedef Vec<T> V;
  const int64_t ahead = ahead_of<T>(n, 3);
  const V sum(sum_sweep<T, 1>(n, [&](int64_t i, auto lanes) {
    if (ahead) __builtin_prefetch(gx + i, 1);
    const V a = lanes.load(g + i);
    return Sums<T, 1>{{LOG ? a : a * lanes.load(y + i)}};
  }).total(0));
  sweep<T>(n, [&](int64_t i, auto lanes) {
    if (ahead) {
      __builtin_prefetch(g + ahead + i);
      __builtin_prefetch(y + ahead + i);
    }
    const V a = lanes.load(g + i), b = lanes.load(y + i);
    lanes.store(LOG ? a - exp(b) * sum : b * (a - sum), gx + i);
  });
}

// ---- across rows ----------------------------------------------------------------------------

// The first n lanes of a vector.
template <class T> struct Across {
  int n;
  TENSOTRON_MEMBER Vec<T> load(const T* p) const { return n == Vec<T>::size ? Vec<T>::load(p) : Vec<T>::load(p, n); }
  TENSOTRON_MEMBER void store(Vec<T> v, T* p) const { n == Vec<T>::size ? v.store(p) : v.store(p, n); }
};

template <class T, bool LOG> static void softmax_columns(T* y, const T* x, int64_t dim, int64_t step, Across<T> lanes) {
  typedef Vec<T> V;
  V largest = lanes.load(x);
  for (int64_t d = 1; d < dim; d++) largest = larger(lanes.load(x + d * step), largest);
  const V sum = sum_rows<T, 1>(dim, [&](int64_t d) {
    const V e = exp(lanes.load(x + d * step) - largest);
    if (!LOG) lanes.store(e, y + d * step);
    return Sums<T, 1>{{e}};
  }).v[0];
  const V last = LOG ? log(sum) : V(1) / sum;
  for (int64_t d = 0; d < dim; d++)
    lanes.store(LOG ? lanes.load(x + d * step) - largest - last : lanes.load(y + d * step) * last, y + d * step);
}

template <class T, bool LOG>
static void softmax_backward_columns(T* gx, const T* g, const T* y, int64_t dim, int64_t step, Across<T> lanes) {
  typedef Vec<T> V;
  const V sum = sum_rows<T, 1>(dim, [&](int64_t d) {
    const V a = lanes.load(g + d * step);
    return Sums<T, 1>{{LOG ? a : a * lanes.load(y + d * step)}};
  }).v[0];
  for (int64_t d = 0; d < dim; d++) {
    const V a = lanes.load(g + d * step), b = lanes.load(y + d * step);
    lanes.store(LOG ? a - exp(b) * sum : b * (a - sum), gx + d * step);
  }
}

// ---- both -----------------------------------------------------------------------------------

// row(offset) for every row, columns(offset, step, lanes) for every vector of rows, or short_rows(offset, rows) for as many
// neighbouring rows of at most SHORT_DIM.
template <class T, class Row, class Columns, class ShortRows>
static inline void softmax_drive(const Record& r, Row row, Columns columns, ShortRows short_rows) {
  const int64_t outer = r.ints[0], dim = r.ints[1], inner = r.ints[2];
  constexpr int64_t W = Vec<T>::size;
  if (outer == 0 || dim == 0 || inner == 0) return;
  const int team = team_for(double(outer) * double(dim) * double(inner));
  const auto share = [&](int64_t units, auto f) {
    parallel(team, units, 1, [&](int, int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; u++) f(u);
      return int(OK);
    });
  };
  if (inner > 1) {
    const int64_t strips = (inner + W - 1) / W;
    share(outer * strips, [&](int64_t u) {
      const int64_t c = u % strips * W;
      columns(u / strips * dim * inner + c, inner, Across<T>{(int)(inner - c < W ? inner - c : W)});
    });
  } else if (dim <= SHORT_DIM<T> && outer > 1) {
    share((outer + W - 1) / W, [&](int64_t u) { short_rows(u * W * dim, outer - u * W < W ? outer - u * W : W); });
  } else {
    share(outer, [&](int64_t o) { row(o * dim); });
  }
}

template <class T, bool LOG> static int softmax_run(const Record& r) {
  constexpr int64_t W = Vec<T>::size;
  T* y = (T*)r.arg[0].data;
  const T* x = (const T*)r.arg[1].data;
  const int64_t dim = r.ints[1];
  softmax_drive<T>(
      r, [=](int64_t at) { softmax_row<T, LOG>(y + at, x + at, dim); },
      [=](int64_t at, int64_t step, Across<T> lanes) { softmax_columns<T, LOG>(y + at, x + at, dim, step, lanes); },
      [=](int64_t at, int64_t rows) {
        alignas(64) T t[SHORT_DIM<T> * W];
        gemm::pack_transposed(x + at, dim, rows, dim, t, W);
        softmax_columns<T, LOG>(t, t, dim, W, Across<T>{int(W)});
        gemm::unpack_transposed(t, W, rows, dim, y + at, dim);
      });
  return OK;
}
template <class T, bool LOG> static int softmax_backward_run(const Record& r) {
  constexpr int64_t W = Vec<T>::size;
  T* gx = (T*)r.arg[0].data;
  const T *g = (const T*)r.arg[1].data, *y = (const T*)r.arg[2].data;
  const int64_t dim = r.ints[1];
  softmax_drive<T>(
      r, [=](int64_t at) { softmax_backward_row<T, LOG>(gx + at, g + at, y + at, dim); },
      [=](int64_t at, int64_t step, Across<T> lanes) {
        softmax_backward_columns<T, LOG>(gx + at, g + at, y + at, dim, step, lanes);
      },
      [=](int64_t at, int64_t rows) {
        alignas(64) T gt[SHORT_DIM<T> * W], yt[SHORT_DIM<T> * W];
        gemm::pack_transposed(g + at, dim, rows, dim, gt, W);
        gemm::pack_transposed(y + at, dim, rows, dim, yt, W);
        softmax_backward_columns<T, LOG>(gt, gt, yt, dim, W, Across<T>{int(W)});
        gemm::unpack_transposed(gt, W, rows, dim, gx + at, dim);
      });
  return OK;
}

int k_softmax(const Record& r) {
  if (r.compute == F32) return r.op == LOG_SOFTMAX ? softmax_run<float, true>(r) : softmax_run<float, false>(r);
  if (r.compute == F64) return r.op == LOG_SOFTMAX ? softmax_run<double, true>(r) : softmax_run<double, false>(r);
  return UNSUPPORTED;
}
int k_softmax_backward(const Record& r) {
  if (r.compute == F32)
    return r.op == LOG_SOFTMAX ? softmax_backward_run<float, true>(r) : softmax_backward_run<float, false>(r);
  if (r.compute == F64)
    return r.op == LOG_SOFTMAX ? softmax_backward_run<double, true>(r) : softmax_backward_run<double, false>(r);
  return UNSUPPORTED;
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
