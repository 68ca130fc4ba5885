// k_optim: one step of an optimiser for a list of parameters.
//
//   op        OptimAlgorithm
//   compute   F32 or F64: dtype of parameters, gradients and buffers
//   list      per parameter ints[1] operands, each contiguous (or all in the same dense order):
//               SGD      parameter, gradient, [momentum buffer]
//               Adam     parameter, gradient, mean, mean of squares, [largest mean of squares], step
//               RMSprop  parameter, gradient, mean of squares, [mean], [momentum buffer], step
//             All but the gradient are read and written. The step is one F32 or F64 number.
//             stride[0]: elements; stride[1]: 1 for a momentum buffer (SGD) that has no value yet
//   state     double[OPTIM_NUMBERS], read at every launch
//   ints[0]   OptimFlags
//
// k_list_norm: arg[0] (0-dim) = the 2-norm of the norms of the operands of `list`, of dtype compute.
// k_list_scale: every operand of `list` times min(1, reals[0] / (arg[0] + 1e-6)), arg[0] an input.
//
// The sequence of rounded operations is that of PyTorch's composed step on the CPU, whose add, addcmul and
// lerp are fused multiply-adds and whose addcdiv is not. Its square root alone is not correctly rounded
// (MKL's is not for 7 values of 1000); here it is.
#pragma once
#include "dispatch.h"
#include "optim.h"
#include "parallel.h"
#include "record.h"
#include "scratch.h"
#include "subnormal.h"
#include "vec.h"

namespace tensotron { namespace TENSOTRON_ISA {

// Whether an update counts subnormal averages (subnormal.h).
template <bool VALUE> struct Counting { static constexpr bool value = VALUE; };

// update(x, Counting) on vectors x[0..N) of N operands, loaded and stored by functions of the operand; those in the mask
// WRITTEN are stored back. It counts where an operand of the mask PROBED is subnormal.
template <class T, int N, unsigned WRITTEN, unsigned PROBED, class F, class Load, class Store>
TENSOTRON_INLINE void update_vectors(const F& update, const Load& load, const Store& store) {
  Vec<T> x[N];
  for (int k = 0; k < N; k++) x[k] = load(k);
  Mask<T> tiny = first<T>(0);
  for (int k = 0; k < N; k++)
    if (PROBED >> k & 1) tiny = tiny | subnormal(x[k]);
  if (PROBED && any(tiny)) update(x, Counting<true>{});
  else update(x, Counting<false>{});
  for (int k = 0; k < N; k++)
    if (WRITTEN >> k & 1) store(k, x[k]);
}

// The same for elements [i, n). A function of its own, with a copy of what it is given: what neither other code nor a store
// can change stays in registers, and no caller copies it for each parameter.
template <class T, int N, unsigned WRITTEN, unsigned PROBED, class F>
__attribute__((noinline)) static void sweep_range(T* const* operands, int64_t i, int64_t n, const F& shared) {
  typedef Vec<T> V;
  const F update = shared;
  T* p[N];
  for (int k = 0; k < N; k++) p[k] = operands[k];
  const int64_t whole = n - (n - i) % V::size;
  for (; i < whole; i += V::size)
    update_vectors<T, N, WRITTEN, PROBED>(
        update, [&](int k) __attribute__((always_inline)) { return V::load(p[k] + i); },
        [&](int k, V x) __attribute__((always_inline)) { x.store(p[k] + i); });
  const int rest = int(n - whole);
  if (rest == 0) return;
  update_vectors<T, N, WRITTEN, PROBED>(
      update, [&](int k) __attribute__((always_inline)) { return V::load(p[k] + i, rest); },
      [&](int k, V x) __attribute__((always_inline)) { x.store(p[k] + i, rest); });
}

constexpr int64_t SWEEP = 4096;

// The same for the first N operands of a list.
template <class T, int N, unsigned WRITTEN, unsigned PROBED, class F>
TENSOTRON_INLINE void sweep(const Arg* operands, const F& update) {
  T* p[N];
  for (int k = 0; k < N; k++) p[k] = (T*)operands[k].data;
  const int64_t n = operands[0].stride[0];
  const int team = team_for(double(n) * N / 4);
  if (team == 1) return sweep_range<T, N, WRITTEN, PROBED>(p, 0, n, update);
  parallel(team, (n + SWEEP - 1) / SWEEP, 1, [&](int, int64_t begin, int64_t end) {
    sweep_range<T, N, WRITTEN, PROBED>(p, begin * SWEEP, end * SWEEP < n ? end * SWEEP : n, update);
    return int(OK);
  });
}

// The step counter, advanced; in its own precision.
static inline double advance_step(const Arg& a) {
  if (a.dtype == F64) return *(double*)a.data += 1;
  return *(float*)a.data += 1;
}

// a moved towards b by the fraction w: two forms, so that w = 1 gives b.
template <class V> TENSOTRON_INLINE V lerp(V a, V b, V w, bool low) {
  const V d = b - a;
  return low ? fma(w, d, a) : fma(-d, V(1) - w, b);
}

// The same on the N operands of a parameter, all but the gradient written; it counts if `countable` and a sample of the
// operands PROBED shows a subnormal number.
template <class T, int N, unsigned PROBED, class F>
TENSOTRON_INLINE void sweep_counting(const Arg* operands, bool countable, int64_t step, const F& update) {
  constexpr unsigned WRITTEN = (1u << N) - 1 - 2;
  bool found = false;
  for (int k = 0; k < N && countable && !found; k++)
    if (PROBED >> k & 1) found = probe<T>(operands[k], step);
  found ? sweep<T, N, WRITTEN, PROBED>(operands, update) : sweep<T, N, WRITTEN, 0>(operands, update);
}

template <class T> static void sgd_step(const Record& r, const double* h) {
  typedef Vec<T> V;
  const int64_t flags = r.ints[0], width = r.ints[1];
  const bool maximize = flags & OPTIM_MAXIMIZE, nesterov = flags & OPTIM_NESTEROV, decay = h[OPTIM_WEIGHT_DECAY] != 0;
  const V rate = V(T(-h[OPTIM_LR])), wd = V(T(h[OPTIM_WEIGHT_DECAY]));
  const V momentum = V(T(h[OPTIM_BETA2])), fresh_part = V(T(1 - h[OPTIM_BETA1]));
  const double keep = T(h[OPTIM_BETA2]);
  const bool countable = keep > 0.5 && keep <= 2 && abs(h[OPTIM_LR]) <= 0x1p40;
  const auto gradient = [=](V p, V g) __attribute__((always_inline)) {
    if (maximize) g = -g;
    return decay ? fma(wd, p, g) : g;
  };
  for (const Arg *a = r.list, *end = a + r.nlist; a < end; a += width) {
    if (!(flags & OPTIM_MOMENTUM)) {
      sweep<T, 2, 1, 0>(a, [=](V* x, auto) __attribute__((always_inline)) { x[0] = fma(rate, gradient(x[0], x[1]), x[0]); });
      continue;
    }
    const bool fresh = a[2].stride[1];
    const auto update = [=](V* x, auto counting) __attribute__((always_inline)) {
      const V g = gradient(x[0], x[1]);
      Counted<T> buffer;
      if (counting.value) buffer.take(x[2], idle_lanes(x[0], g), keep);
      V b = fresh ? g : fma(fresh_part, g, x[2] * momentum);
      x[0] = fma(rate, nesterov ? fma(momentum, b, g) : b, x[0]);
      x[2] = counting.value ? buffer.put(b) : b;
    };
    sweep_counting<T, 3, 4>(a, countable && !fresh, 0, update);
  }
}

// x / d, correctly rounded, by the correctly rounded inverse of d: a division takes as long as a dozen
// multiplications. Markstein's correction, twice: the first leaves less than one unit in the last place, from where
// the second is exact. No step may leave the normal numbers.
template <class V> TENSOTRON_INLINE V refined(V x, V d, V inverse) {
  V q = x * inverse;
  q = fma(fma(-q, d, x), inverse, q);
  return fma(fma(-q, d, x), inverse, q);
}
// The same for any x >= 0: where that is not a number, x * inverse is what x / d is (inf, nan).
template <class V> TENSOTRON_INLINE V divide(V x, V d, V inverse) {
  const V q = refined(x, d, inverse);
  return select(isnan(q), x * inverse, q);
}

template <class T, bool AMSGRAD> struct AdamUpdate {
  typedef Vec<T> V;
  V w1, w2, b2, eps, shrink, wd;
  V rate, root2, inverse2;                      // of the step: learning rate and root of the correction of squares
  double keep1, keep2;                          // what is taken of an average that is counted: exact in double
  bool maximize, decoupled, added, low, quick;  // quick: no step of refined(quick_root, root2) leaves the normal numbers

  template <class C> TENSOTRON_MEMBER void operator()(V* x, C) const {
    V p = x[0], g = x[1];
    if (maximize) g = -g;
    if (decoupled) p = p * shrink;
    if (added) g = fma(wd, p, g);
    Counted<T> mean, squares;
    if (C::value) {
      const V zero = V(T(0));
      const Mask<T> idle = idle_lanes(p, g);
      mean.take(x[2], idle, keep1);
      squares.take(x[3], idle & eq(x[2], zero) & gt(x[3], zero), keep2);
    }
    const V m = lerp(x[2], g, w1, low);
    V v = fma(w2 * g, g, x[3] * b2), scale = v;
    if (C::value) v = squares.put(v);
    if constexpr (AMSGRAD) x[4] = scale = select(isnan(x[4]), x[4], max(x[4], v));
    const V root = quick && has_quick_root(scale) ? refined(quick_root(scale), root2, inverse2)
                                                  : divide(sqrt(scale), root2, inverse2);
    x[0] = p + rate * m / (root + eps);
    x[2] = C::value ? mean.put(m) : m;
    x[3] = v;
  }
};

template <class T, bool AMSGRAD> static void adam_step(const Record& r, const double* h) {
  typedef Vec<T> V;
  constexpr int N = AMSGRAD ? 5 : 4;
  const int64_t flags = r.ints[0], width = r.ints[1];
  const double beta1 = h[OPTIM_BETA1], beta2 = h[OPTIM_BETA2];
  const T w1 = T(1 - beta1);
  AdamUpdate<T, AMSGRAD> u;
  const bool decay = h[OPTIM_WEIGHT_DECAY] != 0;
  u.maximize = flags & OPTIM_MAXIMIZE, u.decoupled = decay && (flags & OPTIM_DECOUPLED), u.added = decay && !u.decoupled;
  u.shrink = V(T(1 - h[OPTIM_LR] * h[OPTIM_WEIGHT_DECAY])), u.wd = V(T(h[OPTIM_WEIGHT_DECAY]));
  u.w1 = V(w1), u.b2 = V(T(beta2)), u.w2 = V(T(1 - beta2)), u.eps = V(T(h[OPTIM_EPS]));
  u.low = abs(w1) < T(0.5), u.keep1 = 1 - double(w1), u.keep2 = T(beta2);
  const bool countable = u.low && w1 >= T(0x1p-7) && u.keep2 >= 0 && u.keep2 <= 2 && h[OPTIM_EPS] >= 0x1p-40;
  bool count = false;
  double last = __builtin_nan("");
  for (const Arg *a = r.list, *end = a + r.nlist; a < end; a += width) {
    const double step = advance_step(a[N]);
    if (step != last) {  // mostly the same for all parameters
      last = step;
      const double adjusted = h[OPTIM_LR] / (1 - __builtin_pow(beta1, step));
      const T correction = T(__builtin_pow(1 - __builtin_pow(beta2, step), 0.5));
      u.rate = V(T(-adjusted)), u.root2 = V(correction), u.inverse2 = V(1 / correction);
      u.quick = slow_roots && correction >= T(0x1p-30) && correction <= 1;
      count = countable && abs(adjusted) <= 0x1p10;
    }
    sweep_counting<T, N, 4>(a, count, int64_t(step), u);
  }
}

template <class T, bool CENTERED, bool MOMENTUM> static void rmsprop_step(const Record& r, const double* h) {
  typedef Vec<T> V;
  constexpr int N = 3 + CENTERED + MOMENTUM;
  const int64_t flags = r.ints[0], width = r.ints[1];
  const bool maximize = flags & OPTIM_MAXIMIZE, decay = h[OPTIM_WEIGHT_DECAY] != 0;
  const double alpha = h[OPTIM_BETA1];
  const V keep = V(T(alpha)), w = V(T(1 - alpha)), wd = V(T(h[OPTIM_WEIGHT_DECAY])), eps = V(T(h[OPTIM_EPS]));
  const V rate = V(T(-h[OPTIM_LR])), momentum = V(T(h[OPTIM_BETA2])), zero = V(T(0));
  const bool low = abs(T(1 - alpha)) < T(0.5);
  const bool countable = low && T(1 - alpha) >= T(0x1p-7) && (!MOMENTUM || (h[OPTIM_BETA2] > 0.5 && h[OPTIM_BETA2] <= 2)) &&
                         abs(h[OPTIM_LR]) <= 0x1p40 && h[OPTIM_EPS] >= 0x1p-40;
  const double keep_buffer = T(h[OPTIM_BETA2]);
  const auto update = [=](V* x, auto counting) __attribute__((always_inline)) {
    V g = x[1];
    if (maximize) g = -g;
    if (decay) g = fma(wd, x[0], g);
    Counted<T> squares, mean, buffer;
    if (counting.value) {
      const Mask<T> idle = idle_lanes(x[0], g);
      Mask<T> alone = idle & gt(x[2], zero);
      if constexpr (CENTERED) {
        mean.take(x[3], idle, 1 - double(T(1 - alpha)));
        alone = alone & eq(x[3], zero);
      }
      if constexpr (MOMENTUM) buffer.take(x[N - 1], idle, keep_buffer);
      squares.take(x[2], alone, T(alpha));
    }
    V s = x[2] = fma(w * g, g, x[2] * keep);
    if constexpr (CENTERED) {
      const V m = x[3] = lerp(x[3], g, w, low);
      s = fma(-m, m, s);
    }
    const V scale = root(s) + eps;
    if constexpr (MOMENTUM) {
      V& b = x[N - 1];
      b = b * momentum + g / scale;
      x[0] = fma(rate, b, x[0]);
    } else {
      x[0] = x[0] + (rate * g) / scale;
    }
    if (counting.value) {
      x[2] = squares.put(x[2]);
      if constexpr (CENTERED) x[3] = mean.put(x[3]);
      if constexpr (MOMENTUM) x[N - 1] = buffer.put(x[N - 1]);
    }
  };
  for (const Arg *a = r.list, *end = a + r.nlist; a < end; a += width) {
    const int64_t step = int64_t(advance_step(a[N]));
    sweep_counting<T, N, (1u << N) - 4>(a, countable, step, update);
  }
}

template <class T> static int optim_step(const Record& r) {
  const double* h = (const double*)r.state;
  const bool momentum = r.ints[0] & OPTIM_MOMENTUM;
  switch (r.op) {
    case OPTIM_SGD: sgd_step<T>(r, h); return OK;
    case OPTIM_ADAM: (r.ints[0] & OPTIM_AMSGRAD ? adam_step<T, true> : adam_step<T, false>)(r, h); return OK;
    case OPTIM_RMSPROP:
      if (r.ints[0] & OPTIM_CENTERED)
        (momentum ? rmsprop_step<T, true, true> : rmsprop_step<T, true, false>)(r, h);
      else
        (momentum ? rmsprop_step<T, false, true> : rmsprop_step<T, false, false>)(r, h);
      return OK;
  }
  return UNSUPPORTED;
}

int k_optim(const Record& r) {
  return r.compute == F32 ? optim_step<float>(r) : r.compute == F64 ? optim_step<double>(r) : int(UNSUPPORTED);
}

// ---- clipping ---------------------------------------------------------------------------------

// Sum of squares: four vectors of partial sums over blocks of at most BLOCK elements, blocks added in double.
template <class T> static double block_of_squares(const T* p, int64_t n) {
  typedef Vec<T> V;
  V s[4] = {V(T(0)), V(T(0)), V(T(0)), V(T(0))};
  int64_t i = 0;
  for (; i + 4 * V::size <= n; i += 4 * V::size)
    for (int k = 0; k < 4; k++) {
      const V x = V::load(p + i + k * V::size);
      s[k] = fma(x, x, s[k]);
    }
  for (int k = 0; i < n; i += V::size, k++) {
    const int64_t left = n - i;
    const V x = V::load(p + i, int(left < V::size ? left : V::size));
    s[k] = fma(x, x, s[k]);
  }
  return double(reduce_add((s[0] + s[1]) + (s[2] + s[3])));
}
template <class T> static double sum_of_squares(const T* p, int64_t n) {
  constexpr int64_t BLOCK = 4096;
  const int64_t blocks = (n + BLOCK - 1) / BLOCK;
  const auto block = [=](int64_t i) { return block_of_squares(p + i * BLOCK, i < blocks - 1 ? BLOCK : n - i * BLOCK); };
  double total = 0;
  const int team = team_for(double(n) / 4);
  double* const sums = team == 1 ? nullptr : (double*)scratch(size_t(blocks) * sizeof(double));
  if (sums)
    parallel(team, blocks, 1, [&](int, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) sums[i] = block(i);
      return int(OK);
    });
  for (int64_t i = 0; i < blocks; i++) total += sums ? sums[i] : block(i);
  return total;
}

// Norms of operands and of their list are rounded to T, and overflow in it, as norms of tensors do.
template <class T> static int list_norm(const Record& r) {
  T total = 0;
  for (uint32_t k = 0; k < r.nlist; k++) {
    const T norm = sqrt(T(sum_of_squares((const T*)r.list[k].data, r.list[k].stride[0])));
    total += norm * norm;
  }
  *(T*)r.arg[0].data = sqrt(total);
  return OK;
}

int k_list_norm(const Record& r) {
  return r.compute == F32 ? list_norm<float>(r) : r.compute == F64 ? list_norm<double>(r) : int(UNSUPPORTED);
}

template <class T> static int list_scale(const Record& r) {
  typedef Vec<T> V;
  const T norm = *(const T*)r.arg[0].data, wanted = T(1) / (norm + T(1e-6)) * T(r.reals[0]);
  const V by = V(wanted > 1 ? T(1) : wanted);  // a NaN stays
  const auto scale = [=](V* x, auto) __attribute__((always_inline)) { x[0] = x[0] * by; };
  for (uint32_t k = 0; k < r.nlist; k++) sweep<T, 1, 1, 0>(r.list + k, scale);
  return OK;
}

int k_list_scale(const Record& r) {
  return r.compute == F32 ? list_scale<float>(r) : r.compute == F64 ? list_scale<double>(r) : int(UNSUPPORTED);
}

} }  // namespace tensotron::TENSOTRON_ISA
