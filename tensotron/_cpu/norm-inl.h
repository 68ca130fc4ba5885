// Layer, group and batch normalisation, forward and backward. All arguments contiguous, of dtype r.compute
// (F32 or F64); reals[0] = eps. An argument marked ? may be absent (data null): weights, biases, and
// outputs that nobody needs.
//
//   k_layer_norm            ints: M, N        arg: y, mean[M]?, rstd[M]? | x[M,N], weight[N]?, bias[N]?
//   k_layer_norm_backward   ints: M, N        arg: gx?, gweight?, gbias? | g, x, mean, rstd, weight?
//   k_group_norm            ints: N, C, S, G  arg: y, mean[N,G]?, rstd[N,G]? | x[N,C,S], weight[C]?, bias[C]?
//   k_group_norm_backward   ints: N, C, S, G  arg: gx?, gweight?, gbias? | g, x, mean, rstd, weight?
//   k_batch_norm            ints: N, C, S
//     op 0 (batch statistics)   arg: y, mean[C], invstd[C], running_mean[C]?, running_var[C]? | x, weight?, bias?
//                               reals[1] = momentum; the running statistics are updated in place (running_var
//                               with the unbiased variance), in double, rounded once, as torch does
//     op 1 (running statistics) arg: y | x, weight?, bias?, running_mean, running_var
//   k_batch_norm_backward   ints: N, C, S
//     op 0                      arg: gx?, gweight?, gbias? | g, x, weight?, mean, invstd (saved by the forward)
//     op 1                      arg: gx?, gweight?, gbias? | g, x, weight?, running_mean, running_var
//
// Statistics take two passes, the second corrected for the rounding of the mean.
#pragma once
#include "fold-inl.h"
#include "scratch.h"

namespace tensotron { namespace TENSOTRON_ISA {

template <class T> TENSOTRON_INLINE T* data(const Record& r, int i) { return (T*)r.arg[i].data; }

template <class T> struct Stats {
  T mean, var;  // of the population: divided by n
};

template <class T> static Stats<T> row_stats(const T* x, int64_t n) {
  typedef Vec<T> V;
  const T count = (T)n;
  const T mean = sum_sweep<T, 1>(n, [&](int64_t i, auto lanes) { return Sums<T, 1>{{lanes.load(x + i)}}; }).total(0) / count;
  const V shift(mean);
  auto s = sum_sweep<T, 2>(n, [&](int64_t i, auto lanes) {
    const V d = lanes.load(x + i) - shift;
    return Sums<T, 2>{{d, d * d}};
  });
  const T d = s.total(0);
  const T var = (s.total(1) - d * d / count) / count;
  return {mean + d / count, var < 0 ? 0 : var};
}

// y = (x - mean) * rstd * w + b; w and b per element, or null.
template <class T> static void normalise_row(T* y, const T* x, int64_t n, T mean, T rstd, const T* w, const T* b) {
  typedef Vec<T> V;
  const V m(mean), s(rstd);
  sweep<T>(n, [&](int64_t i, auto lanes) {
    V v = (lanes.load(x + i) - m) * s;
    if (w) v = v * lanes.load(w + i);
    if (b) v = v + lanes.load(b + i);
    lanes.store(v, y + i);
  });
}
// y = (x - mean) * scale + shift, all scalars.
template <class T> static void affine_row(T* y, const T* x, int64_t n, T mean, T scale, T shift) {
  typedef Vec<T> V;
  const V m(mean), s(scale), b(shift);
  sweep<T>(n, [&](int64_t i, auto lanes) { lanes.store((lanes.load(x + i) - m) * s + b, y + i); });
}

// One row's gradient; adds g * xhat to gw and g to gb where they are wanted.
template <class T>
static void normalise_backward_row(T* gx, T* gw, T* gb, const T* g, const T* x, int64_t n, T mean, T rstd, const T* w) {
  typedef Vec<T> V;
  const V m(mean), s(rstd);
  V c1(0), c2(0);
  if (gx) {
    auto sums = sum_sweep<T, 2>(n, [&](int64_t i, auto lanes) {
      V v = lanes.load(g + i);
      if (w) v = v * lanes.load(w + i);
      return Sums<T, 2>{{v, v * ((lanes.load(x + i) - m) * s)}};
    });
    c1 = V(sums.total(0) / (T)n);
    c2 = V(sums.total(1) / (T)n);
  }
  sweep<T>(n, [&](int64_t i, auto lanes) {
    const V v = lanes.load(g + i), xhat = (lanes.load(x + i) - m) * s;
    if (gx) lanes.store(((w ? v * lanes.load(w + i) : v) - c1 - xhat * c2) * s, gx + i);
    if (gw) lanes.store(lanes.load(gw + i) + v * xhat, gw + i);
    if (gb) lanes.store(lanes.load(gb + i) + v, gb + i);
  });
}

template <class T> static void add_into(T* to, T* from, int64_t n) {  // and clears from
  sweep<T>(n, [&](int64_t i, auto lanes) {
    lanes.store(lanes.load(to + i) + lanes.load(from + i), to + i);
    lanes.store(Vec<T>(0), from + i);
  });
}
template <class T> static void clear(T* p, int64_t n) {
  for (int64_t i = 0; i < n; i++) p[i] = 0;
}

// ---- rows: layer norm, and group norm of single pixels --------------------------------------

// rows * groups runs of n elements; weights and biases of group k start at k * n.
template <class T> static int rows_forward(const Record& r, int64_t rows, int64_t groups, int64_t n) {
  T *y = data<T>(r, 0), *mean = data<T>(r, 1), *rstd = data<T>(r, 2);
  const T *x = data<T>(r, 3), *w = data<T>(r, 4), *b = data<T>(r, 5);
  for (int64_t i = 0; i < rows * groups; i++) {
    const int64_t k = i % groups * n;
    const Stats<T> s = row_stats(x + i * n, n);
    const T scale = 1 / sqrt(s.var + (T)r.reals[0]);
    if (mean) mean[i] = s.mean;
    if (rstd) rstd[i] = scale;
    normalise_row(y + i * n, x + i * n, n, s.mean, scale, w ? w + k : w, b ? b + k : b);
  }
  return OK;
}

template <class T> static int rows_backward(const Record& r, int64_t rows, int64_t groups, int64_t n) {
  constexpr int64_t BLOCK = 64;  // rows summed before they are added to the totals
  T *gx = data<T>(r, 0), *gw = data<T>(r, 1), *gb = data<T>(r, 2);
  const T *g = data<T>(r, 3), *x = data<T>(r, 4), *mean = data<T>(r, 5), *rstd = data<T>(r, 6), *w = data<T>(r, 7);
  const int64_t width = groups * n;
  T *pw = gw, *pb = gb;
  if (gw) clear(gw, width);
  if (gb) clear(gb, width);
  if (rows > BLOCK && (gw || gb)) {
    T* block = (T*)scratch(2 * width * sizeof(T));
    if (!block) return OUT_OF_MEMORY;
    clear(block, 2 * width);
    if (gw) pw = block;
    if (gb) pb = block + width;
  }
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t k = 0; k < groups; k++) {
      const int64_t at = i * width + k * n, c = k * n;
      normalise_backward_row(gx ? gx + at : gx, pw ? pw + c : pw, pb ? pb + c : pb, g + at, x + at, n,
                             mean[i * groups + k], rstd[i * groups + k], w ? w + c : w);
    }
    if (rows > BLOCK && (i % BLOCK == BLOCK - 1 || i == rows - 1)) {
      if (gw) add_into(gw, pw, width);
      if (gb) add_into(gb, pb, width);
    }
  }
  return OK;
}

// ---- group norm -----------------------------------------------------------------------------

template <class T> static int group_norm_run(const Record& r) {
  const int64_t N = r.ints[0], C = r.ints[1], S = r.ints[2], G = r.ints[3], D = C / G;
  if (S == 1) return rows_forward<T>(r, N, G, D);
  T *y = data<T>(r, 0), *mean = data<T>(r, 1), *rstd = data<T>(r, 2);
  const T *x = data<T>(r, 3), *w = data<T>(r, 4), *b = data<T>(r, 5);
  for (int64_t i = 0; i < N * G; i++) {
    const int64_t c0 = i % G * D;
    const Stats<T> s = row_stats(x + i * D * S, D * S);
    const T scale = 1 / sqrt(s.var + (T)r.reals[0]);
    if (mean) mean[i] = s.mean;
    if (rstd) rstd[i] = scale;
    for (int64_t d = 0; d < D; d++) {
      const int64_t at = (i * D + d) * S;
      affine_row(y + at, x + at, S, s.mean, w ? scale * w[c0 + d] : scale, b ? b[c0 + d] : 0);
    }
  }
  return OK;
}

// Sums of g and of g * (x - mean) over a run.
template <class T> static Sums<T, 2> gradient_sums(const T* g, const T* x, int64_t n, T mean) {
  const Vec<T> m(mean);
  return sum_sweep<T, 2>(n, [&](int64_t i, auto lanes) {
    const Vec<T> v = lanes.load(g + i);
    return Sums<T, 2>{{v, v * (lanes.load(x + i) - m)}};
  });
}
// gx = g * a - c1 - (x - mean) * c2
template <class T> static void gradient_row(T* gx, const T* g, const T* x, int64_t n, T mean, T a, T c1, T c2) {
  typedef Vec<T> V;
  const V m(mean), va(a), v1(c1), v2(c2);
  sweep<T>(n, [&](int64_t i, auto lanes) {
    lanes.store(lanes.load(g + i) * va - v1 - (lanes.load(x + i) - m) * v2, gx + i);
  });
}

template <class T> static int group_norm_backward_run(const Record& r) {
  const int64_t N = r.ints[0], C = r.ints[1], S = r.ints[2], G = r.ints[3], D = C / G;
  if (S == 1) return rows_backward<T>(r, N, G, D);
  T *gx = data<T>(r, 0), *gw = data<T>(r, 1), *gb = data<T>(r, 2);
  const T *g = data<T>(r, 3), *x = data<T>(r, 4), *mean = data<T>(r, 5), *rstd = data<T>(r, 6), *w = data<T>(r, 7);
  double* total = (double*)scratch(2 * C * sizeof(double));
  if (!total) return OUT_OF_MEMORY;
  clear(total, 2 * C);
  for (int64_t i = 0; i < N * G; i++) {
    const int64_t c0 = i % G * D;
    const T m = mean[i], s = rstd[i];
    double group_g = 0, group_gx = 0;
    for (int64_t d = 0; d < D; d++) {
      const int64_t at = (i * D + d) * S, c = c0 + d;
      auto sums = gradient_sums(g + at, x + at, S, m);
      const double sg = sums.total(0), sgx = (double)sums.total(1) * s;
      total[c] += sgx;
      total[C + c] += sg;
      group_g += (w ? w[c] : 1) * sg;
      group_gx += (w ? w[c] : 1) * sgx;
    }
    if (!gx) continue;
    const T c1 = (T)(s * group_g / (double)(D * S)), c2 = (T)((double)s * s * group_gx / (double)(D * S));
    for (int64_t d = 0; d < D; d++) {
      const int64_t at = (i * D + d) * S;
      gradient_row(gx + at, g + at, x + at, S, m, w ? s * w[c0 + d] : s, c1, c2);
    }
  }
  for (int64_t c = 0; c < C; c++) {
    if (gw) gw[c] = (T)total[c];
    if (gb) gb[c] = (T)total[C + c];
  }
  return OK;
}

// ---- batch norm -----------------------------------------------------------------------------

// Calls f(c, lanes) for each vector of channels: the way through [N, C] data, one element a channel and sample.
template <class T, class F> static inline void channel_vectors(int64_t C, F f) { sweep<T>(C, f); }

template <class T> struct ChannelStats {
  double mean, var;
};
template <class T> static ChannelStats<T> channel_stats(const T* x, int64_t N, int64_t C, int64_t S) {
  const double count = (double)N * (double)S;
  double total = 0;
  for (int64_t n = 0; n < N; n++) {
    const T* p = x + n * C * S;
    total += sum_sweep<T, 1>(S, [&](int64_t i, auto lanes) { return Sums<T, 1>{{lanes.load(p + i)}}; }).total(0);
  }
  const T mean = (T)(total / count);
  const Vec<T> shift(mean);
  double d = 0, q = 0;
  for (int64_t n = 0; n < N; n++) {
    const T* p = x + n * C * S;
    auto s = sum_sweep<T, 2>(S, [&](int64_t i, auto lanes) {
      const Vec<T> e = lanes.load(p + i) - shift;
      return Sums<T, 2>{{e, e * e}};
    });
    d += s.total(0), q += s.total(1);
  }
  const double var = (q - d * d / count) / count;
  return {mean + d / count, var < 0 ? 0 : var};
}

// Saved and running statistics of one channel.
template <class T> static inline void keep_stats(const Record& r, int64_t c, double mean, double var, double count) {
  data<T>(r, 1)[c] = (T)mean;
  data<T>(r, 2)[c] = (T)(1 / sqrt(var + r.reals[0]));
  const double momentum = r.reals[1];
  if (T* running = data<T>(r, 3)) running[c] = (T)(momentum * (T)mean + (1 - momentum) * running[c]);
  if (T* running = data<T>(r, 4))
    running[c] = (T)(momentum * (var * count / (count - 1)) + (1 - momentum) * running[c]);
}

// y = (x - mean[c]) * invstd[c] * w[c] + b[c] for [N, C, S].
template <class T>
static void normalise_channels(const Record& r, T* y, const T* x, const T* mean, const T* invstd, const T* w, const T* b) {
  const int64_t N = r.ints[0], C = r.ints[1], S = r.ints[2];
  typedef Vec<T> V;
  if (S == 1) {
    for (int64_t n = 0; n < N; n++) {
      const int64_t at = n * C;
      channel_vectors<T>(C, [&](int64_t c, auto lanes) {
        const V scale = w ? lanes.load(invstd + c) * lanes.load(w + c) : lanes.load(invstd + c);
        const V v = (lanes.load(x + at + c) - lanes.load(mean + c)) * scale;
        lanes.store(b ? v + lanes.load(b + c) : v, y + at + c);
      });
    }
    return;
  }
  for (int64_t n = 0; n < N; n++)
    for (int64_t c = 0; c < C; c++) {
      const int64_t at = (n * C + c) * S;
      affine_row(y + at, x + at, S, mean[c], w ? invstd[c] * w[c] : invstd[c], b ? b[c] : 0);
    }
}

template <class T> static int batch_norm_run(const Record& r) {
  const int64_t N = r.ints[0], C = r.ints[1], S = r.ints[2];
  typedef Vec<T> V;
  if (r.op == 1) {
    T* invstd = (T*)scratch(C * sizeof(T));
    if (!invstd) return OUT_OF_MEMORY;
    const T *mean = data<T>(r, 4), *var = data<T>(r, 5);
    for (int64_t c = 0; c < C; c++) invstd[c] = 1 / sqrt(var[c] + (T)r.reals[0]);
    normalise_channels(r, data<T>(r, 0), data<T>(r, 1), mean, invstd, data<T>(r, 2), data<T>(r, 3));
    return OK;
  }
  const T* x = data<T>(r, 5);
  const double count = (double)N * (double)S;
  if (S == 1) {
    channel_vectors<T>(C, [&](int64_t c, auto lanes) {
      const V share((T)(1 / count));
      const V mean = sum_rows<T, 1>(N, [&](int64_t n) { return Sums<T, 1>{{lanes.load(x + n * C + c)}}; }).v[0] * share;
      auto s = sum_rows<T, 2>(N, [&](int64_t n) {
        const V d = lanes.load(x + n * C + c) - mean;
        return Sums<T, 2>{{d, d * d}};
      });
      alignas(64) T m[V::size], v[V::size];
      (mean + s.v[0] * share).store(m);
      ((s.v[1] - s.v[0] * s.v[0] * share) * share).store(v);
      for (int k = 0; k < V::size && c + k < C; k++) keep_stats<T>(r, c + k, m[k], v[k] < 0 ? 0 : v[k], count);
    });
  } else {
    for (int64_t c = 0; c < C; c++) {
      const ChannelStats<T> s = channel_stats(x + c * S, N, C, S);
      keep_stats<T>(r, c, s.mean, s.var, count);
    }
  }
  normalise_channels<T>(r, data<T>(r, 0), x, data<T>(r, 1), data<T>(r, 2), data<T>(r, 6), data<T>(r, 7));
  return OK;
}

template <class T> static int batch_norm_backward_run(const Record& r) {
  const int64_t N = r.ints[0], C = r.ints[1], S = r.ints[2];
  typedef Vec<T> V;
  const bool batch = r.op == 0;
  T *gx = data<T>(r, 0), *gw = data<T>(r, 1), *gb = data<T>(r, 2);
  const T *g = data<T>(r, 3), *x = data<T>(r, 4), *w = data<T>(r, 5), *mean = data<T>(r, 6), *invstd = data<T>(r, 7);
  // Of each channel: the factor of g, what is subtracted, and the factor of x - mean.
  T* a = (T*)scratch(4 * C * sizeof(T));
  if (!a) return OUT_OF_MEMORY;
  T *c1 = a + C, *c2 = a + 2 * C;
  if (!batch) {
    T* computed = a + 3 * C;
    for (int64_t c = 0; c < C; c++) computed[c] = 1 / sqrt(invstd[c] + (T)r.reals[0]);
    invstd = computed;
  }
  const double count = (double)N * (double)S;
  auto channel = [&](int64_t c, double sg, double sgx) {
    const double s = invstd[c], scale = w ? s * w[c] : s;
    a[c] = (T)scale;
    c1[c] = batch ? (T)(scale * sg / count) : 0;
    c2[c] = batch ? (T)(scale * s * s * sgx / count) : 0;
    if (gw) gw[c] = (T)(sgx * s);
    if (gb) gb[c] = (T)sg;
  };
  if (S == 1) {
    channel_vectors<T>(C, [&](int64_t c, auto lanes) {
      const V m = lanes.load(mean + c);
      auto s = sum_rows<T, 2>(N, [&](int64_t n) {
        const V v = lanes.load(g + n * C + c);
        return Sums<T, 2>{{v, v * (lanes.load(x + n * C + c) - m)}};
      });
      for (int k = 0; k < V::size && c + k < C; k++) channel(c + k, s.v[0][k], s.v[1][k]);
    });
    if (gx)
      for (int64_t n = 0; n < N; n++) {
        const int64_t at = n * C;
        channel_vectors<T>(C, [&](int64_t c, auto lanes) {
          const V v = lanes.load(g + at + c) * lanes.load(a + c);
          lanes.store(batch ? v - lanes.load(c1 + c) - (lanes.load(x + at + c) - lanes.load(mean + c)) * lanes.load(c2 + c) : v,
                      gx + at + c);
        });
      }
    return OK;
  }
  for (int64_t c = 0; c < C; c++) {
    double sg = 0, sgx = 0;
    if (batch || gw || gb)
      for (int64_t n = 0; n < N; n++) {
        const int64_t at = (n * C + c) * S;
        auto s = gradient_sums(g + at, x + at, S, mean[c]);
        sg += s.total(0), sgx += s.total(1);
      }
    channel(c, sg, sgx);
  }
  if (gx)
    for (int64_t n = 0; n < N; n++)
      for (int64_t c = 0; c < C; c++) {
        const int64_t at = (n * C + c) * S;
        if (batch) gradient_row(gx + at, g + at, x + at, S, mean[c], a[c], c1[c], c2[c]);
        else affine_row<T>(gx + at, g + at, S, 0, a[c], 0);
      }
  return OK;
}

// ---- dispatch -------------------------------------------------------------------------------

#define FLOATING(f32, f64)          \
  if (r.compute == F32) return f32; \
  if (r.compute == F64) return f64; \
  return UNSUPPORTED;
int k_layer_norm(const Record& r) {
  FLOATING(rows_forward<float>(r, r.ints[0], 1, r.ints[1]), rows_forward<double>(r, r.ints[0], 1, r.ints[1]))
}
int k_layer_norm_backward(const Record& r) {
  FLOATING(rows_backward<float>(r, r.ints[0], 1, r.ints[1]), rows_backward<double>(r, r.ints[0], 1, r.ints[1]))
}
int k_group_norm(const Record& r) { FLOATING(group_norm_run<float>(r), group_norm_run<double>(r)) }
int k_group_norm_backward(const Record& r) {
  FLOATING(group_norm_backward_run<float>(r), group_norm_backward_run<double>(r))
}
int k_batch_norm(const Record& r) { FLOATING(batch_norm_run<float>(r), batch_norm_run<double>(r)) }
int k_batch_norm_backward(const Record& r) {
  FLOATING(batch_norm_backward_run<float>(r), batch_norm_backward_run<double>(r))
}
#undef FLOATING

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
