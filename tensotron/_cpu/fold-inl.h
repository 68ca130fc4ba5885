// Building blocks of every kernel that reduces: fold operations (expanded from reduce.def), int64
// lanes, casting tiles, pairwise cascades, folds of contiguous runs.
#pragma once
#include "../_ops/reduce_ops.h"
#include "int_lanes.h"
#include "math.h"
#include "record.h"
#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

// ---- lanes ----------------------------------------------------------------------------------

// Lanes<T>: the vector of T. Single<T>: the scalar a fold expression is expanded for.
template <class T> struct LanesOf { typedef Vec<T> Vector; typedef T Scalar; typedef typename Vec<T>::Int Index; };
template <class T> struct IntLanesOf {
  typedef IntLanes<T> Vector;
  typedef IntOne<T> Scalar;
  typedef typename IntLanes<T>::Raw Index;
};
template <> struct LanesOf<int64_t> : IntLanesOf<int64_t> {};
template <> struct LanesOf<int32_t> : IntLanesOf<int32_t> {};
template <> struct LanesOf<uint8_t> : IntLanesOf<uint8_t> {};
template <class T> using Lanes = typename LanesOf<T>::Vector;
template <class T> using Single = typename LanesOf<T>::Scalar;

// ---- extrema that let NaN through -----------------------------------------------------------

// max and min return b when either is NaN; what joins puts the accumulator there, off the test's path.
template <class T> TENSOTRON_INLINE Vec<T> larger(Vec<T> a, Vec<T> b) { return select(isnan(a), a, max(a, b)); }
template <class T> TENSOTRON_INLINE Vec<T> smaller(Vec<T> a, Vec<T> b) { return select(isnan(a), a, min(a, b)); }
TENSOTRON_INLINE float larger(float a, float b) { return a > b || a != a ? a : b; }
TENSOTRON_INLINE float smaller(float a, float b) { return a < b || a != a ? a : b; }
TENSOTRON_INLINE double larger(double a, double b) { return a > b || a != a ? a : b; }
TENSOTRON_INLINE double smaller(double a, double b) { return a < b || a != a ? a : b; }

template <class V> struct Limits { static TENSOTRON_MEMBER V high() { return V(__builtin_inff()); }
                                   static TENSOTRON_MEMBER V low() { return V(-__builtin_inff()); } };
template <class V, class T> struct IntLimits {
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr T most = is_signed ? T((uint64_t(1) << (8 * sizeof(T) - 1)) - 1) : T(-1);
  static TENSOTRON_MEMBER V high() { return V(most); }
  static TENSOTRON_MEMBER V low() { return V(is_signed ? T(-most - 1) : T(0)); }
};
template <class T> struct Limits<IntOne<T>> : IntLimits<IntOne<T>, T> {};
template <class T> struct Limits<IntLanes<T>> : IntLimits<IntLanes<T>, T> {};
template <class V> TENSOTRON_INLINE V highest() { return Limits<V>::high(); }
template <class V> TENSOTRON_INLINE V lowest() { return Limits<V>::low(); }

// ---- fold operations ------------------------------------------------------------------------

#define FOLD(name, IDENTITY, MAP, JOIN)                                                 \
  struct Fold_##name {                                                                  \
    typedef Fold_##name Core;                                                           \
    template <class V> static TENSOTRON_MEMBER V identity() { return IDENTITY; }        \
    template <class V> TENSOTRON_MEMBER V map(V x) const { return MAP; }                \
    template <class V> static TENSOTRON_MEMBER V join(V a, V b) { return JOIN; }        \
    template <class V> static TENSOTRON_MEMBER V finish(V a, V) { return a; }           \
  };
#define FLOAT_FOLD FOLD
#define TRUTH FOLD
#define FINISHED(name, fold, FINISH)                                                    \
  struct Fold_##name : Fold_##fold {                                                    \
    template <class V> static TENSOTRON_MEMBER V finish(V a, V n) { return (void)n, FINISH; } \
  };
#include "../_ops/reduce.def"

// Folds with a parameter of their own.
template <class V> struct Fold_sum_exp : Fold_sum {  // sum of exp(x - shift)
  V shift;
  TENSOTRON_MEMBER V map(V x) const { return exp(x - shift); }
};
template <class V> struct Fold_sum_difference : Fold_sum {  // sum of x - shift
  V shift;
  TENSOTRON_MEMBER V map(V x) const { return x - shift; }
};
template <class V> struct Fold_sum_squared_difference : Fold_sum {  // sum of (x - shift)^2
  V shift;
  TENSOTRON_MEMBER V map(V x) const { V d = x - shift; return d * d; }
};

// ---- elements of any dtype ------------------------------------------------------------------

template <class T> struct DTypeOf;
template <> struct DTypeOf<float> { static constexpr int value = F32; };
template <> struct DTypeOf<double> { static constexpr int value = F64; };
template <> struct DTypeOf<int64_t> { static constexpr int value = I64; };
template <> struct DTypeOf<int32_t> { static constexpr int value = I32; };
template <> struct DTypeOf<uint8_t> { static constexpr int value = U8; };

// Narrow integers are read as what they are (a bool as its byte) and written as int32 or bytes; the others from and to any dtype.
template <class T> constexpr bool is_narrow = std::is_integral<T>::value && sizeof(T) < 8;

template <class S, class T> static inline void cast_strided(const char* p, int64_t stride, int64_t n, T* to) {
  const S* s = (const S*)p;
  if (stride == 1) for (int64_t i = 0; i < n; i++) to[i] = (T)s[i];
  else for (int64_t i = 0; i < n; i++) to[i] = (T)s[i * stride];
}
// Out of line, shared by all reductions of one compute type.
template <class T>
static __attribute__((noinline)) void cast_tile(const char* p, int dtype, int64_t stride, int64_t n, T* buf) {
  if constexpr (is_narrow<T>) return cast_strided<T>(p, stride, n, buf);
  switch (dtype) {
    case F32: cast_strided<float>(p, stride, n, buf); break;
    case F64: cast_strided<double>(p, stride, n, buf); break;
    case I64: cast_strided<int64_t>(p, stride, n, buf); break;
    case I32: cast_strided<int32_t>(p, stride, n, buf); break;
    default: cast_strided<uint8_t>(p, stride, n, buf); break;
  }
}
// How a reduction reads its input: n elements from p as contiguous T, through buf unless they are that already.
struct AsIs {
  static constexpr bool converts = false;  // in any case
  template <class T> static TENSOTRON_MEMBER bool direct(int dtype, int64_t stride) {
    return (dtype == DTypeOf<T>::value || (sizeof(T) == 1 && dtype == BOOL)) && stride == 1;
  }
  template <class T>
  static TENSOTRON_MEMBER const T* tile(const char* p, int dtype, int64_t stride, int64_t n, T* buf) {
    if (direct<T>(dtype, stride)) return (const T*)p;
    cast_tile(p, dtype, stride, n, buf);
    return buf;
  }
};
template <class D, class T> static inline void store_as(char* p, int64_t stride, const T* from, int64_t n) {
  for (int64_t i = 0; i < n; i++) ((D*)p)[i * stride] = (D)from[i];
}
template <class T>
static __attribute__((noinline)) void put_strided(char* p, int dtype, int64_t stride, const T* from, int64_t n) {
  if constexpr (is_narrow<T>)
    return dtype == I32 ? store_as<int32_t>(p, stride, from, n) : store_as<uint8_t>(p, stride, from, n);
  switch (dtype) {
    case F32: store_as<float>(p, stride, from, n); break;
    case F64: store_as<double>(p, stride, from, n); break;
    case I64: store_as<int64_t>(p, stride, from, n); break;
    case I32: store_as<int32_t>(p, stride, from, n); break;
    case U8: store_as<uint8_t>(p, stride, from, n); break;
    default: for (int64_t i = 0; i < n; i++) ((uint8_t*)p)[i * stride] = from[i] != 0;
  }
}
// n values to the elements at `offset`, `offset + stride`, ... of an output of any dtype.
template <class T> TENSOTRON_INLINE void put(const Arg& a, int64_t offset, int64_t stride, const T* from, int64_t n) {
  if (a.dtype == DTypeOf<T>::value && n == 1) ((T*)a.data)[offset] = *from;
  else put_strided(a.data + offset * item_size(a.dtype), a.dtype, stride, from, n);
}

// ---- folds of contiguous runs ---------------------------------------------------------------

constexpr int64_t TILE = 1024;  // elements cast at a time; the buffer lives on the stack

// 0, 1, 2, ... from memory: built in registers it costs a dozen instructions.
alignas(64) static const int32_t lane_numbers_32[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
alignas(64) static const int64_t lane_numbers_64[8] = {0, 1, 2, 3, 4, 5, 6, 7};
alignas(64) static const uint8_t lane_numbers_8[64] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
    48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
};
template <class Index> TENSOTRON_INLINE Index lane_numbers() {
  Index x;
  if constexpr (sizeof(x[0]) == 4) __builtin_memcpy(&x, lane_numbers_32, sizeof x);
  else if constexpr (sizeof(x[0]) == 1) __builtin_memcpy(&x, lane_numbers_8, sizeof x);
  else __builtin_memcpy(&x, lane_numbers_64, sizeof x);
  return x;
}

template <class T> TENSOTRON_INLINE IntLanes<T> keep_first(IntLanes<T> x, IntLanes<T> other, int n) {
  typedef typename IntLanes<T>::Raw Raw;
  return IntLanes<T>(lane_numbers<Raw>() < (T)n - (Raw){} ? x.v : other.v);
}
template <class T> TENSOTRON_INLINE Vec<T> keep_first(Vec<T> x, Vec<T> other, int n) {
  return select(first<T>(n), x, other);
}

// Up to a few thousand elements, lane by lane, in eight accumulators.
template <class Op, class T> static __attribute__((noinline)) Lanes<T> fold_span(const Op& op, const T* p, int64_t n) {
  typedef Lanes<T> V;
  constexpr int W = V::size, U = 8;
  V total = Op::template identity<V>();
  int64_t i = 0;
  if (n >= U * W) {
    V acc[U];
    for (int u = 0; u < U; u++) acc[u] = op.map(V::load(p + u * W));
    for (i = U * W; i + U * W <= n; i += U * W)
      for (int u = 0; u < U; u++) acc[u] = Op::join(op.map(V::load(p + i + u * W)), acc[u]);
    for (int h = U / 2; h > 0; h /= 2)
      for (int u = 0; u < h; u++) acc[u] = Op::join(acc[u], acc[u + h]);
    total = acc[0];
  }
  for (; i + W <= n; i += W) total = Op::join(op.map(V::load(p + i)), total);
  if (i < n) {
    int rest = (int)(n - i);
    total = Op::join(total, keep_first(op.map(V::load(p + i, rest)), Op::template identity<V>(), rest));
  }
  return total;
}
// The run after which partial results are joined pairwise: 32 terms in each accumulator.
template <class T> constexpr int64_t span_length() { return 256 * (int64_t)Lanes<T>::size; }

// Bytes as lanes of 64 bits, then within those.
template <class Op> static TENSOTRON_MEMBER uint8_t across_bytes(IntLanes<uint8_t> x) {
  typedef IntLanes<uint8_t> V;
  typedef IntLanes<int64_t>::Raw Wide;
  typedef IntLanes<int64_t>::Bits Bits;
  const Wide lane = lane_numbers<Wide>();
  for (int h = V::size / 16; h > 0; h /= 2) x = Op::join(x, V((V::Raw)__builtin_shuffle((Wide)x.v, lane ^ h)));
  for (int h = 32; h >= 8; h /= 2) x = Op::join(x, V((V::Raw)((Bits)x.v >> h)));
  return x.v[0];
}
// Lanes onto each other, halves first.
template <class Op, class T> static TENSOTRON_MEMBER T across(Lanes<T> x) {
  typedef Lanes<T> V;
  typedef typename LanesOf<T>::Index Index;
  if constexpr (sizeof(T) == 1) return across_bytes<Op>(x);
  else {
    const Index lane = lane_numbers<Index>();
    for (int h = V::size / 2; h > 0; h /= 2) x = Op::join(x, V(__builtin_shuffle(x.v, lane ^ h)));
    return x.v[0];
  }
}
// The lanes of two registers, of which each holds groups of 2 * H: the first (or second) halves of the groups of a, then
// of b; where a group lies within 16 bytes, so in each 16 bytes.
template <class T, int H, bool SECOND> constexpr int halves_index(int i) {
  constexpr int W = Lanes<T>::size, L = 16 / int(sizeof(T)), N = H >= L ? W : L;  // what is put together is N long
  const int at = i % N, from = at % (N / 2) / H * 2 * H + at % H + SECOND * H;
  return i - at + from + (at >= N / 2 ? W : 0);
}
template <int... I> struct LaneList {};
template <int N> using FirstLanes = LaneList<__integer_pack(N)...>;
template <class T, int H, bool SECOND, class V, int... I> TENSOTRON_INLINE V halves(V a, V b, LaneList<I...>) {
  return V(__builtin_shuffle(a.v, b.v, typename LanesOf<T>::Index{halves_index<T, H, SECOND>(I)...}));
}
template <class Op, class T, int H, int STEP> TENSOTRON_INLINE void fold_pairs(Lanes<T>* x, unsigned& done) {
  typedef FirstLanes<Lanes<T>::size> All;
  done |= STEP;
#pragma GCC unroll 16
  for (int i = 0; i < Lanes<T>::size; i++)
    if (!(i & done)) x[i] = Op::join(halves<T, H, false>(x[i], x[i + STEP], All()), halves<T, H, true>(x[i], x[i + STEP], All()));
}
// Lane i of the result is across(x[i]), in the same order: a transpose that folds as it goes.
template <class Op, class T> TENSOTRON_INLINE Lanes<T> across_each(Lanes<T> (&x)[Lanes<T>::size]) {
  constexpr int W = Lanes<T>::size, L = 16 / int(sizeof(T));
  unsigned done = 0;
  if constexpr (W >= 2 * L) fold_pairs<Op, T, W / 2, L>(x, done);
  if constexpr (W >= 4 * L) fold_pairs<Op, T, W / 4, 2 * L>(x, done);
  fold_pairs<Op, T, L / 2, 1>(x, done);
  if constexpr (L == 4) fold_pairs<Op, T, 1, 2>(x, done);
  return x[0];
}
// The folds of as many rows as a register has lanes, `step` apart, each as across(fold_span(row)); short ones side by side.
template <class Op, class T> static __attribute__((noinline)) Lanes<T> fold_rows(const T* p, int64_t step, int64_t n) {
  typedef Lanes<T> V;
  constexpr int W = V::size;
  const Op op;
  V x[W];
  if (n >= 8 * W) {
    for (int r = 0; r < W; r++) x[r] = fold_span(op, p + r * step, n);
    return across_each<Op, T>(x);
  }
#pragma GCC unroll 16
  for (int r = 0; r < W; r++) x[r] = Op::template identity<V>();
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    const T* q = p + i;
#pragma GCC unroll 16
    for (int r = 0; r < W; r++, q += step) x[r] = Op::join(op.map(V::load(q)), x[r]);
  }
  if (i < n) {
    const int rest = (int)(n - i);
    const T* q = p + i;
#pragma GCC unroll 16
    for (int r = 0; r < W; r++, q += step)
      x[r] = Op::join(x[r], keep_first(op.map(V::load(q, rest)), Op::template identity<V>(), rest));
  }
  return across_each<Op, T>(x);
}
// Pairwise summation of a stream: a binary counter of partial results, so that the error of a sum of
// n spans grows with log n.
template <class Op, class V> struct Cascade {
  V level[48];
  int top = 0;
  uint64_t count = 0;
  TENSOTRON_MEMBER void push(V x) {
    for (uint64_t c = count++; c & 1; c >>= 1) x = Op::join(level[--top], x);
    level[top++] = x;
  }
  TENSOTRON_MEMBER V result() {
    if (top == 0) return Op::template identity<V>();
    V x = level[--top];
    while (top > 0) x = Op::join(level[--top], x);
    return x;
  }
};

// Adds n elements from p to the cascade.
template <class Op, class Load, class T>
static inline void fold_run(Cascade<Op, Lanes<T>>& to, const Op& op, const char* p, int dtype, int64_t stride, int64_t n) {
  if (Load::template direct<T>(dtype, stride)) {
    const int64_t step = span_length<T>();
    for (int64_t i = 0; i < n; i += step) to.push(fold_span(op, (const T*)p + i, n - i < step ? n - i : step));
    return;
  }
  alignas(64) T buf[TILE];
  const int64_t width = stride * item_size(dtype);
  for (int64_t i = 0; i < n; i += TILE) {
    int64_t m = n - i < TILE ? n - i : TILE;
    to.push(fold_span(op, Load::template tile<T>(p + i * width, dtype, stride, m, buf), m));
  }
}

// A contiguous row of T, folded to one value.
template <class Op, class T> static inline T fold_row(const Op& op, const T* p, int64_t n) {
  if (n <= span_length<T>()) return across<Op, T>(fold_span(op, p, n));
  Cascade<Op, Lanes<T>> c;
  fold_run<Op, AsIs, T>(c, op, (const char*)p, DTypeOf<T>::value, 1, n);
  return across<Op, T>(c.result());
}

// ---- sweeps over several arrays -------------------------------------------------------------

// What a sweep's body loads and stores with: a whole vector, or its first n lanes.
template <class T> struct WholeVector {
  static TENSOTRON_MEMBER Vec<T> load(const T* p) { return Vec<T>::load(p); }
  static TENSOTRON_MEMBER void store(Vec<T> v, T* p) { v.store(p); }
};
template <class T> struct PartVector {
  int n;
  TENSOTRON_MEMBER Vec<T> load(const T* p) const { return Vec<T>::load(p, n); }
  TENSOTRON_MEMBER void store(Vec<T> v, T* p) const { v.store(p, n); }
};

// K sums taken together.
template <class T, int K> struct Sums {
  Vec<T> v[K];
  TENSOTRON_MEMBER T total(int k) const { return across<Fold_sum, T>(v[k]); }
};
template <int K> struct SumsFold {
  template <class S> static TENSOTRON_MEMBER S identity() {
    S s;
    for (int k = 0; k < K; k++) s.v[k] = decltype(s.v[k] + s.v[k])(0);
    return s;
  }
  template <class S> static TENSOTRON_MEMBER S join(S a, S b) {
    for (int k = 0; k < K; k++) a.v[k] = a.v[k] + b.v[k];
    return a;
  }
};

// f(i, lanes) for every vector [i, i + size) of [0, n).
template <class T, class F> TENSOTRON_INLINE void sweep(int64_t n, F f) {
  constexpr int W = Vec<T>::size;
  int64_t i = 0;
  for (; i + W <= n; i += W) f(i, WholeVector<T>());
  if (i < n) f(i, PartVector<T>{(int)(n - i)});
}

// The same where f returns Sums<T, K>, summed over all lanes below n: four accumulators, spans of 32 terms
// each joined pairwise. The order of summation depends on n and the vector width only.
template <class T, int K, class F> TENSOTRON_INLINE Sums<T, K> sum_sweep(int64_t n, F f) {
  typedef Sums<T, K> S;
  typedef SumsFold<K> Op;
  constexpr int W = Vec<T>::size, U = 4;
  constexpr int64_t SPAN = 32 * U * W;
  Cascade<Op, S> cascade;
  for (int64_t from = 0; from < n; from += SPAN) {
    const int64_t to = from + SPAN < n ? from + SPAN : n;
    S acc[U];
    for (int u = 0; u < U; u++) acc[u] = Op::template identity<S>();
    int64_t i = from;
    for (; i + U * W <= to; i += U * W)
      for (int u = 0; u < U; u++) acc[u] = Op::join(acc[u], f(i + u * W, WholeVector<T>()));
    for (; i + W <= to; i += W) acc[0] = Op::join(acc[0], f(i, WholeVector<T>()));
    if (i < to) {
      const int rest = (int)(to - i);
      S s = f(i, PartVector<T>{rest});
      for (int k = 0; k < K; k++) s.v[k] = keep_first(s.v[k], Vec<T>(0), rest);
      acc[1] = Op::join(acc[1], s);
    }
    S sum = Op::join(Op::join(acc[0], acc[1]), Op::join(acc[2], acc[3]));
    if (n <= SPAN) return sum;
    cascade.push(sum);
  }
  return cascade.result();
}

// Sums over rows: f(i) for i in [0, n), 64 at a time, joined pairwise.
template <class T, int K, class F> TENSOTRON_INLINE Sums<T, K> sum_rows(int64_t n, F f) {
  typedef Sums<T, K> S;
  typedef SumsFold<K> Op;
  Cascade<Op, S> cascade;
  for (int64_t from = 0; from < n; from += 64) {
    S acc = Op::template identity<S>();
    for (int64_t i = from; i < from + 64 && i < n; i++) acc = Op::join(acc, f(i));
    cascade.push(acc);
  }
  return cascade.result();
}

// Calls f(a, b, c): the offsets of every index of an nd-dimensional space under three sets of strides,
// in row-major order.
template <class F>
static inline void each_index(int nd, const int64_t* size, const int64_t* sa, const int64_t* sb, const int64_t* sc, F f) {
  int64_t at[MAX_DIMS] = {}, a = 0, b = 0, c = 0;
  const int last = nd - 1;
  const int64_t n = nd > 0 ? size[last] : 1;
  const int64_t da = nd > 0 ? sa[last] : 0, db = nd > 0 ? sb[last] : 0, dc = nd > 0 ? sc[last] : 0;
  for (;;) {
    for (int64_t i = 0; i < n; i++) f(a + i * da, b + i * db, c + i * dc);
    int d = nd - 2;
    for (; d >= 0; d--) {
      a += sa[d], b += sb[d], c += sc[d];
      if (++at[d] < size[d]) break;
      at[d] = 0;
      a -= sa[d] * size[d], b -= sb[d] * size[d], c -= sc[d] * size[d];
    }
    if (d < 0) return;
  }
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
