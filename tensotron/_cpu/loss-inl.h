// Losses, forward and backward, with their reduction in the same pass. Floating arguments are contiguous, of
// dtype r.compute (F32 or F64); targets that name classes are contiguous I64. ? marks an argument that may
// be absent (data null). Reductions: LossReduction in _ops/loss.h. out and g have one element, or with
// LOSS_NONE one per loss term.
//
//   k_loss                   op: LOSS_<row> of _ops/loss.def   ints: n, reduction   reals[0]: beta or delta
//                            arg: out | x[n], t[n]
//   k_loss_backward          the same op, ints, reals          arg: gx?, gt? | g, x, t
//
//   k_nll_loss               ints: N, C, S, reduction, ignore_index   (S: product of the spatial dimensions)
//                            arg: out, total_weight[1] | x[N,C,S] log-probabilities, target[N,S], weight[C]?
//   k_nll_loss_backward      the same ints    arg: gx[N,C,S] | g, target, weight?, total_weight
//   k_cross_entropy          the same ints    arg: out, total_weight[1], stats[2,N,S] | x[N,C,S] logits, target, weight?
//                            stats: maximum of the logits, and log of the sum of exp(x - maximum)
//   k_cross_entropy_backward the same ints    arg: gx[N,C,S] | g, x, target, weight?, total_weight, stats
//
// A class outside [0, C) that is not ignore_index gives TARGET_OUT_OF_RANGE with error[0] = the class, before
// anything is written. The mean divides by the total weight of the targets that are not ignored (nan if none).
#pragma once
#include "../_ops/loss.h"
#include "softmax-inl.h"

namespace tensotron { namespace TENSOTRON_ISA {

// ---- elementwise ----------------------------------------------------------------------------

template <class V> TENSOTRON_INLINE V sign(V d) { return select(gt(d, V(0)), V(1), select(lt(d, V(0)), V(-1), V(0))); }

#define LOSS(name, VALUE, DX, DT)                                                                             \
  struct Loss_##name {                                                                                        \
    template <class V> static TENSOTRON_MEMBER V value(V x, V t, V p) { V d = x - t; return (void)d, (void)p, VALUE; } \
    template <class V> static TENSOTRON_MEMBER V dx(V x, V t, V p) { V d = x - t; return (void)d, (void)p, DX; }  \
    template <class V> static TENSOTRON_MEMBER V dt(V x, V t, V p) { V d = x - t; return (void)d, (void)p, DT; }  \
  };
#include "../_ops/loss.def"
#undef LOSS

template <class Op, class T> static int loss_run(const Record& r) {
  typedef Vec<T> V;
  const int64_t n = r.ints[0];
  T* out = (T*)r.arg[0].data;
  const T *x = (const T*)r.arg[1].data, *t = (const T*)r.arg[2].data;
  const V p((T)r.reals[0]);
  if (r.ints[1] == LOSS_NONE) {
    sweep<T>(n, [&](int64_t i, auto lanes) { lanes.store(Op::value(lanes.load(x + i), lanes.load(t + i), p), out + i); });
    return OK;
  }
  const T sum = sum_sweep<T, 1>(n, [&](int64_t i, auto lanes) {
    return Sums<T, 1>{{Op::value(lanes.load(x + i), lanes.load(t + i), p)}};
  }).total(0);
  *out = r.ints[1] == LOSS_MEAN ? sum / (T)n : sum;
  return OK;
}

template <class Op, class T> static int loss_backward_run(const Record& r) {
  typedef Vec<T> V;
  const int64_t n = r.ints[0];
  T *gx = (T*)r.arg[0].data, *gt = (T*)r.arg[1].data;
  const T *g = (const T*)r.arg[2].data, *x = (const T*)r.arg[3].data, *t = (const T*)r.arg[4].data;
  const V p((T)r.reals[0]);
  const bool each = r.ints[1] == LOSS_NONE;
  const V one(each ? 0 : r.ints[1] == LOSS_MEAN ? *g / (T)n : *g);
  sweep<T>(n, [&](int64_t i, auto lanes) {
    const V a = lanes.load(x + i), b = lanes.load(t + i), scale = each ? lanes.load(g + i) : one;
    if (gx) lanes.store(Op::dx(a, b, p) * scale, gx + i);
    if (gt) lanes.store(Op::dt(a, b, p) * scale, gt + i);
  });
  return OK;
}

int k_loss(const Record& r) {
  switch (r.op) {
#define LOSS(name, value, dx, dt)                                    \
  case LOSS_##name:                                                  \
    return r.compute == F32   ? loss_run<Loss_##name, float>(r)      \
           : r.compute == F64 ? loss_run<Loss_##name, double>(r)     \
                              : (int)UNSUPPORTED;
#include "../_ops/loss.def"
#undef LOSS
  }
  return UNSUPPORTED;
}
int k_loss_backward(const Record& r) {
  switch (r.op) {
#define LOSS(name, value, dx, dt)                                         \
  case LOSS_##name:                                                       \
    return r.compute == F32   ? loss_backward_run<Loss_##name, float>(r)  \
           : r.compute == F64 ? loss_backward_run<Loss_##name, double>(r) \
                              : (int)UNSUPPORTED;
#include "../_ops/loss.def"
#undef LOSS
  }
  return UNSUPPORTED;
}

// ---- classes --------------------------------------------------------------------------------

struct ClassShape {
  int64_t N, C, S, reduction, ignored;
  int64_t terms() const { return N * S; }
};
static inline ClassShape class_shape(const Record& r) { return {r.ints[0], r.ints[1], r.ints[2], r.ints[3], r.ints[4]}; }

static int check_targets(const Record& r, const ClassShape& s, const int64_t* target) {
  for (int64_t i = 0; i < s.terms(); i++)
    if (target[i] != s.ignored && (target[i] < 0 || target[i] >= s.C)) {
      r.error[0] = target[i];
      return TARGET_OUT_OF_RANGE;
    }
  return OK;
}

// A scalar sum in double: 64 terms at a time, joined pairwise.
struct LongSum {
  Cascade<Fold_sum, double> blocks;
  double here = 0;
  int terms = 0;
  TENSOTRON_MEMBER void add(double x) {
    here += x;
    if (++terms == 64) blocks.push(here), here = 0, terms = 0;
  }
  TENSOTRON_MEMBER double total() {
    blocks.push(here);
    return blocks.result();
  }
};

// Receives minus the log-probability of each term's target, and its weight; writes or reduces.
template <class T> struct ClassLoss {
  const ClassShape s;
  T* out;
  LongSum loss, weight;
  ClassLoss(const ClassShape& s, T* out) : s(s), out(out) {}
  TENSOTRON_MEMBER void term(int64_t i, T w, T minus_log) {
    if (s.reduction == LOSS_NONE) out[i] = w * minus_log;
    else loss.add(w * minus_log);
    weight.add(w);
  }
  TENSOTRON_MEMBER void ignored(int64_t i) {
    if (s.reduction == LOSS_NONE) out[i] = 0;
  }
  void finish(T* total_weight) {
    const double w = weight.total();
    *total_weight = (T)w;
    if (s.reduction != LOSS_NONE) *out = (T)(s.reduction == LOSS_MEAN ? loss.total() / w : loss.total());
  }
};

template <class T> static int nll_run(const Record& r) {
  const ClassShape s = class_shape(r);
  const T *x = (const T*)r.arg[2].data, *weight = (const T*)r.arg[4].data;
  const int64_t* target = (const int64_t*)r.arg[3].data;
  if (int status = check_targets(r, s, target)) return status;
  ClassLoss<T> loss(s, (T*)r.arg[0].data);
  for (int64_t n = 0; n < s.N; n++)
    for (int64_t k = 0; k < s.S; k++) {
      const int64_t i = n * s.S + k, c = target[i];
      if (c == s.ignored) loss.ignored(i);
      else loss.term(i, weight ? weight[c] : 1, -x[(n * s.C + c) * s.S + k]);
    }
  loss.finish((T*)r.arg[1].data);
  return OK;
}

// The factor of each term's gradient before its weight.
template <class T> TENSOTRON_INLINE T term_gradient(const ClassShape& s, const T* g, const T* total_weight, int64_t i) {
  return s.reduction == LOSS_NONE ? g[i] : s.reduction == LOSS_MEAN ? *g / *total_weight : *g;
}

template <class T> static int nll_backward_run(const Record& r) {
  const ClassShape s = class_shape(r);
  T* gx = (T*)r.arg[0].data;
  const T *g = (const T*)r.arg[1].data, *weight = (const T*)r.arg[3].data, *total = (const T*)r.arg[4].data;
  const int64_t* target = (const int64_t*)r.arg[2].data;
  if (int status = check_targets(r, s, target)) return status;
  sweep<T>(s.N * s.C * s.S, [&](int64_t i, auto lanes) { lanes.store(Vec<T>(0), gx + i); });
  for (int64_t n = 0; n < s.N; n++)
    for (int64_t k = 0; k < s.S; k++) {
      const int64_t i = n * s.S + k, c = target[i];
      if (c == s.ignored) continue;
      const T grad = -term_gradient(s, g, total, i);
      gx[(n * s.C + c) * s.S + k] = weight ? grad * weight[c] : grad;
    }
  return OK;
}

// Maximum and log of the sum of exp(x - maximum) of each column of lanes.
template <class T>
static void column_stats(const T* x, int64_t C, int64_t step, Across<T> lanes, T* maximum, T* log_sum) {
  typedef Vec<T> V;
  V largest = lanes.load(x);
  for (int64_t c = 1; c < C; c++) largest = larger(lanes.load(x + c * step), largest);
  const V sum = sum_rows<T, 1>(C, [&](int64_t c) { return Sums<T, 1>{{exp(lanes.load(x + c * step) - largest)}}; }).v[0];
  largest.store(maximum, lanes.n);
  log(sum).store(log_sum, lanes.n);
}
template <class T> static void row_class_stats(const T* x, int64_t C, T* maximum, T* log_sum) {
  const T largest = fold_row(Fold_amax(), x, C);
  const Vec<T> shift(largest);
  *maximum = largest;
  *log_sum = log(sum_sweep<T, 1>(C, [&](int64_t i, auto lanes) {
    return Sums<T, 1>{{exp(lanes.load(x + i) - shift)}};
  }).total(0));
}

template <class T> static int cross_entropy_run(const Record& r) {
  const ClassShape s = class_shape(r);
  T* stats = (T*)r.arg[2].data;
  T *maximum = stats, *log_sum = stats + s.terms();
  const T *x = (const T*)r.arg[3].data, *weight = (const T*)r.arg[5].data;
  const int64_t* target = (const int64_t*)r.arg[4].data;
  if (int status = check_targets(r, s, target)) return status;
  // An offset into x is (n * C + c) * S + k; of the first class, it names the term.
  auto term_of = [&](int64_t at) { return at / (s.C * s.S) * s.S + at % s.S; };
  softmax_drive<T>(r, [&](int64_t at) { row_class_stats(x + at, s.C, maximum + term_of(at), log_sum + term_of(at)); },
                   [&](int64_t at, int64_t step, Across<T> lanes) {
                     column_stats(x + at, s.C, step, lanes, maximum + term_of(at), log_sum + term_of(at));
                   },
                   [&](int64_t at, int64_t rows) {
                     constexpr int W = Vec<T>::size;
                     alignas(64) T t[SHORT_DIM<T> * W];
                     gemm::pack_transposed(x + at, s.C, rows, s.C, t, W);
                     column_stats(t, s.C, W, Across<T>{int(rows)}, maximum + term_of(at), log_sum + term_of(at));
                   });
  ClassLoss<T> loss(s, (T*)r.arg[0].data);
  for (int64_t n = 0; n < s.N; n++)
    for (int64_t k = 0; k < s.S; k++) {
      const int64_t i = n * s.S + k, c = target[i];
      if (c == s.ignored) loss.ignored(i);
      else loss.term(i, weight ? weight[c] : 1, -((x[(n * s.C + c) * s.S + k] - maximum[i]) - log_sum[i]));
    }
  loss.finish((T*)r.arg[1].data);
  return OK;
}

// gx = (softmax - [c == target]) * w[target] * gradient of the term. Where the term is ignored the factor
// is 0, and a row with NaN still has a NaN gradient, as in torch.
template <class T> static int cross_entropy_backward_run(const Record& r) {
  typedef Vec<T> V;
  const ClassShape s = class_shape(r);
  T* gx = (T*)r.arg[0].data;
  const T *g = (const T*)r.arg[1].data, *x = (const T*)r.arg[2].data, *weight = (const T*)r.arg[4].data;
  const T *total = (const T*)r.arg[5].data, *maximum = (const T*)r.arg[6].data, *log_sum = maximum + s.terms();
  const int64_t* target = (const int64_t*)r.arg[3].data;
  if (int status = check_targets(r, s, target)) return status;
  auto term_of = [&](int64_t at) { return at / (s.C * s.S) * s.S + at % s.S; };
  auto factor = [&](int64_t i) {
    const int64_t c = target[i];
    if (c == s.ignored) return (T)0;
    const T grad = term_gradient(s, g, total, i);
    return weight ? grad * weight[c] : grad;
  };
  const auto columns = [&](T* to, const T* from, int64_t step, Across<T> lanes, int64_t i) {
    alignas(64) T f[V::size] = {};
    for (int k = 0; k < lanes.n; k++) f[k] = factor(i + k);
    const V scale = V::load(f), m = V::load(maximum + i, lanes.n), l = V::load(log_sum + i, lanes.n);
    for (int64_t c = 0; c < s.C; c++) lanes.store(exp(lanes.load(from + c * step) - m - l) * scale, to + c * step);
    for (int k = 0; k < lanes.n; k++)
      if (target[i + k] != s.ignored) to[k + target[i + k] * step] -= f[k];
  };
  softmax_drive<T>(r,
    [&](int64_t at) {
      const int64_t i = term_of(at);
      const T f = factor(i);
      const V scale(f), m(maximum[i]), l(log_sum[i]);
      sweep<T>(s.C, [&](int64_t c, auto lanes) {
        lanes.store(exp(lanes.load(x + at + c) - m - l) * scale, gx + at + c);
      });
      if (target[i] != s.ignored) gx[at + target[i]] -= f;
    },
    [&](int64_t at, int64_t step, Across<T> lanes) { columns(gx + at, x + at, step, lanes, term_of(at)); },
    [&](int64_t at, int64_t rows) {
      alignas(64) T t[SHORT_DIM<T> * V::size];
      gemm::pack_transposed(x + at, s.C, rows, s.C, t, V::size);
      columns(t, t, V::size, Across<T>{int(rows)}, term_of(at));
      gemm::unpack_transposed(t, V::size, rows, s.C, gx + at, s.C);
    });
  return OK;
}

#define FLOATING(name, run)                     \
  int name(const Record& r) {                   \
    if (r.compute == F32) return run<float>(r); \
    if (r.compute == F64) return run<double>(r); \
    return UNSUPPORTED;                         \
  }
FLOATING(k_nll_loss, nll_run)
FLOATING(k_nll_loss_backward, nll_backward_run)
FLOATING(k_cross_entropy, cross_entropy_run)
FLOATING(k_cross_entropy_backward, cross_entropy_backward_run)
#undef FLOATING

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
