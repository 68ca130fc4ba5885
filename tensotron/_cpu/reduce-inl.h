// k_reduce: reductions over trailing dimensions of the iteration space. Rows: reduce.def.
//
//   op       REDUCE_<row> (_ops/reduce_ops.h)
//   size     the input's shape, kept dimensions first, reduced dimensions last (any number of each, 0 included)
//   ints[0]  number of reduced dimensions
//   compute  F32 or F64; I64 for every integer and bool input. Ignored by TRUTH rows (int64), the variance
//            family (always double) and, for the result type only, by SCAN rows
//   arg      outputs, then the input (arg[nout]); any dtype each, cast on load and store. Output strides
//            along the reduced dimensions are not read
//   outputs  FOLD, FLOAT_FOLD, FINISHED, TRUTH, LOGSUMEXP, var, std, argmax, argmin: one
//            max, min: value, index.  var_mean, std_mean: variance (deviation), mean
//   reals[0] var...: correction (torch's default is 1)
//
// Indices count the reduced dimensions as one, row-major in the order given. Nothing reduced (a dimension of
// size 0): sum 0, prod 1, mean nan, var nan, logsumexp -inf, amax -inf; SCAN returns UNSUPPORTED (the caller
// raises torch's error first).
//
// Two ways through the data. Rows: the innermost reduced dimension is folded lane by lane, casting or
// gathering tiles where it is not contiguous in the compute type. Columns: where a kept dimension is the
// contiguous one, or rows are very short, a strip of one or four vectors of it is carried over all reduced
// indices. Sums are pairwise
// above spans of 32 terms an accumulator (rows) or 64 rows (columns).
#pragma once
#include "fold-inl.h"
#include "parallel.h"

namespace tensotron { namespace TENSOTRON_ISA {

struct ReducePlan {
  int kept, reduced;  // dimensions after coalescing; kept ones first in the arrays
  int64_t size[MAX_DIMS], in[MAX_DIMS], out0[MAX_DIMS], out1[MAX_DIMS];
  int64_t count;      // elements reduced into one output
  int dtype;          // of the input
};

// Sorts dimensions by falling input stride (broadcast ones first) and merges neighbours that step as one.
static __attribute__((noinline)) int tidy_dims(int nd, int64_t* size, int64_t* in, int64_t* out0, int64_t* out1, bool may_sort) {
  if (may_sort)
    for (int i = 1; i < nd; i++)
      for (int j = i; j > 0 && in[j - 1] != 0 && (in[j] == 0 || in[j] > in[j - 1]); j--) {
        int64_t* all[4] = {size, in, out0, out1};
        for (int64_t* a : all) { int64_t t = a[j]; a[j] = a[j - 1]; a[j - 1] = t; }
      }
  int m = 0;
  for (int i = 0; i < nd; i++) {
    if (m > 0 && in[m - 1] == in[i] * size[i] && out0[m - 1] == out0[i] * size[i] && out1[m - 1] == out1[i] * size[i]) {
      size[m - 1] *= size[i];
      in[m - 1] = in[i], out0[m - 1] = out0[i], out1[m - 1] = out1[i];
    } else {
      size[m] = size[i], in[m] = in[i], out0[m] = out0[i], out1[m] = out1[i];
      m++;
    }
  }
  return m;
}

// False if there is no output element. ordered: indices matter, reduced dimensions stay in order.
static __attribute__((noinline)) bool plan_reduce(const Record& r, bool ordered, ReducePlan* p) {
  const int reduced = (int)r.ints[0], kept = r.ndim - reduced;
  const Arg &in = r.arg[r.nout], &o0 = r.arg[0], &o1 = r.arg[r.nout > 1 ? 1 : 0];
  int n = 0;
  for (int d = 0; d < kept; d++) {
    if (r.size[d] == 0) return false;
    if (r.size[d] == 1) continue;
    p->size[n] = r.size[d], p->in[n] = in.stride[d], p->out0[n] = o0.stride[d], p->out1[n] = o1.stride[d];
    n++;
  }
  p->kept = tidy_dims(n, p->size, p->in, p->out0, p->out1, true);
  n = 0;
  p->count = 1;
  const int k = p->kept;
  for (int d = kept; d < r.ndim; d++) {
    p->count *= r.size[d];
    if (r.size[d] == 1) continue;
    p->size[k + n] = r.size[d], p->in[k + n] = in.stride[d], p->out0[k + n] = p->out1[k + n] = 0;
    n++;
  }
  if (n == 0) {  // one element each: a row of length 1
    p->size[k] = 1, p->in[k] = 1, p->out0[k] = p->out1[k] = 0;
    n = 1;
  }
  p->reduced = tidy_dims(n, p->size + k, p->in + k, p->out0 + k, p->out1 + k, !ordered);
  p->dtype = in.dtype;
  return true;
}

// One value to every element of an output: the result of an empty reduction.
template <class T> static __attribute__((noinline)) void put_everywhere(const Record& r, int output, T value) {
  const Arg& a = r.arg[output];
  each_index(r.ndim - (int)r.ints[0], r.size, a.stride, a.stride, a.stride,
             [&](int64_t o, int64_t, int64_t) { put(a, o, 1, &value, 1); });
}

// Reads 1 for every element that is not zero (NaN included), else 0.
template <class S> static inline void truth_strided(const char* p, int64_t stride, int64_t n, int64_t* to) {
  const S* s = (const S*)p;
  for (int64_t i = 0; i < n; i++) to[i] = s[i * stride] != 0;
}

static __attribute__((noinline)) void truth_tile(const char* p, int dtype, int64_t stride, int64_t n, int64_t* buf) {
  switch (dtype) {
    case F32: truth_strided<float>(p, stride, n, buf); break;
    case F64: truth_strided<double>(p, stride, n, buf); break;
    case I64: truth_strided<int64_t>(p, stride, n, buf); break;
    case I32: truth_strided<int32_t>(p, stride, n, buf); break;
    default: truth_strided<uint8_t>(p, stride, n, buf); break;
  }
}

struct AsTruth {
  static constexpr bool converts = true;
  template <class T> static TENSOTRON_MEMBER bool direct(int, int64_t) { return false; }
  template <class T>
  static TENSOTRON_MEMBER const T* tile(const char* p, int dtype, int64_t stride, int64_t n, T* buf) {
    truth_tile(p, dtype, stride, n, buf);
    return buf;
  }
};

// ---- columns --------------------------------------------------------------------------------

// U vectors of neighbouring columns, row by row; a single vector may be partial (n columns).
template <class Load, class T, int U> struct Strip {
  int n, dtype;
  int64_t stride;  // between columns
  bool direct;
  alignas(64) T buf[U * Lanes<T>::size];
  TENSOTRON_MEMBER Strip(const ReducePlan& p, int columns)
      : n(columns), dtype(p.dtype), stride(p.in[p.kept - 1]), direct(Load::template direct<T>(dtype, stride)) {}
  TENSOTRON_MEMBER void load(const char* p, Lanes<T>* x) {
    const T* t = direct ? (const T*)p : Load::template tile<T>(p, dtype, stride, n, buf);
    constexpr int W = Lanes<T>::size;
    if constexpr (U == 1) x[0] = n == W ? Lanes<T>::load(t) : Lanes<T>::load(t, n);
    else
      for (int u = 0; u < U; u++) x[u] = Lanes<T>::load(t + u * W);
  }
};

template <class T, int U> struct Block {
  Lanes<T> v[U];
};
template <class Op, class T, int U> struct BlockFold {  // Op on blocks, for the cascade
  template <class B> static TENSOTRON_MEMBER B identity() {
    B b;
    for (int u = 0; u < U; u++) b.v[u] = Op::template identity<Lanes<T>>();
    return b;
  }
  template <class B> static TENSOTRON_MEMBER B join(B a, B b) {
    for (int u = 0; u < U; u++) a.v[u] = Op::join(a.v[u], b.v[u]);
    return a;
  }
};

template <class Op, class Load, class T, int U>
static __attribute__((noinline)) Block<T, U> fold_columns(const Op* op, const ReducePlan& p, const char* in, int columns) {
  typedef Block<T, U> B;
  typedef BlockFold<Op, T, U> BOp;
  constexpr int64_t ROWS = 64;
  Cascade<BOp, B> cascade;
  Strip<Load, T, U> strip(p, columns);
  const int64_t width = item_size(p.dtype);
  const int last = p.kept + p.reduced - 1;
  const int64_t n = p.size[last], step = p.in[last] * width;
  const int64_t* in_strides = p.in + p.kept;
  each_index(p.reduced - 1, p.size + p.kept, in_strides, in_strides, in_strides, [&](int64_t off, int64_t, int64_t) {
    const char* row = in + off * width;
    for (int64_t i = 0; i < n; i += ROWS) {
      B acc = BOp::template identity<B>();
      const int64_t end = i + ROWS < n ? i + ROWS : n;
      for (int64_t k = i; k < end; k++, row += step) {
        Lanes<T> x[U];
        strip.load(row, x);
        for (int u = 0; u < U; u++) acc.v[u] = Op::join(op[u].map(x[u]), acc.v[u]);
      }
      cascade.push(acc);
    }
  });
  return cascade.result();
}

// What computes one output (row) or `columns` neighbouring ones (strips of four vectors, or of at most one)
// from the input at `in`, and stores them at offsets o0, o1 of the outputs.
typedef void (*BodyFn)(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t o1, int columns);
struct BodyTable {
  BodyFn row, strip4, strip1;
  int lanes;
  BodyFn rows;        // `together` neighbouring rows of at most `most` elements, which it does as `row` one by one; may be null
  int64_t most;
  int together;
};

constexpr int64_t SHORT_ROW = 12;  // below it, gathering columns beats a horizontal sum for each row

// Runs a body over the outputs of a plan whose first element is at these offsets.
static __attribute__((noinline)) void drive_part(const Record& r, const ReducePlan& p, const BodyTable& body, bool columns,
                                                 int64_t in, int64_t out0, int64_t out1) {
  const int64_t width = item_size(p.dtype);
  const char* data = r.arg[r.nout].data + in * width;
  const int inner = p.kept - 1;
  const int last = p.kept + p.reduced - 1;
  if (!columns && body.rows && p.kept > 0 && p.reduced == 1 && p.in[last] == 1 && p.count <= body.most) {
    const int64_t n = p.size[inner], step = p.in[inner] * width, s0 = p.out0[inner], s1 = p.out1[inner];
    each_index(inner, p.size, p.in, p.out0, p.out1, [&](int64_t i, int64_t o0, int64_t o1) {
      const char* from = data + i * width;
      int64_t c = 0;
      for (; c + body.together <= n; c += body.together)
        body.rows(r, p, from + c * step, out0 + o0 + c * s0, out1 + o1 + c * s1, body.together);
      for (; c < n; c++) body.row(r, p, from + c * step, out0 + o0 + c * s0, out1 + o1 + c * s1, 1);
    });
    return;
  }
  if (!columns) {
    each_index(p.kept, p.size, p.in, p.out0, p.out1,
               [&](int64_t i, int64_t o0, int64_t o1) { body.row(r, p, data + i * width, out0 + o0, out1 + o1, 1); });
    return;
  }
  const int64_t W = body.lanes, n = p.size[inner], step = p.in[inner] * width, s0 = p.out0[inner], s1 = p.out1[inner];
  each_index(inner, p.size, p.in, p.out0, p.out1, [&](int64_t i, int64_t o0, int64_t o1) {
    for (int64_t c = 0; c < n;) {
      if (n - c < W && n >= W) c = n - W;  // some columns twice rather than a part of a vector
      const int64_t left = n - c, m = left >= 4 * W && body.strip4 != body.strip1 ? 4 * W : left < W ? left : W;
      (m == 4 * W ? body.strip4 : body.strip1)(r, p, data + i * width + c * step, out0 + o0 + c * s0, out1 + o1 + c * s1, (int)m);
      c += m;
    }
  });
}

// Runs a body over every output. Threads share the longest kept dimension; neighbouring columns in whole strips.
static __attribute__((noinline)) void drive(const Record& r, const ReducePlan& p, const BodyTable& body) {
  const int last = p.kept + p.reduced - 1, inner = p.kept - 1;
  const bool columns = body.strip4 && p.kept > 0 && p.size[inner] > 1 &&
                       (p.in[last] == 1 ? p.count < SHORT_ROW && p.size[inner] >= body.lanes : p.in[inner] == 1);
  double elements = double(p.count);
  int d = 0;
  for (int e = 0; e < p.kept; e++) {
    elements *= double(p.size[e]);
    if (p.size[e] > p.size[d]) d = e;
  }
  const int team = p.kept == 0 ? 1 : team_for(elements / 4);
  if (team == 1) return drive_part(r, p, body, columns, 0, 0, 0);
  const int64_t unit = columns && d == inner ? 4 * body.lanes : 1;
  parallel(team, (p.size[d] + unit - 1) / unit, 1, [&](int, int64_t begin, int64_t end) {
    ReducePlan part = p;
    begin *= unit;
    end = end * unit < p.size[d] ? end * unit : p.size[d];
    part.size[d] = end - begin;
    drive_part(r, part, body, columns, begin * p.in[d], begin * p.out0[d], begin * p.out1[d]);
    return int(OK);
  });
}
template <class Body> TENSOTRON_INLINE BodyTable table_of() {
  // Bytes and int32 fill a register with columns enough; strips of four would be code that is seldom run.
  typedef typename Body::Type T;
  constexpr int U = std::is_integral<T>::value && sizeof(T) < 8 ? 1 : 4;
  return {&Body::row, &Body::template strip<U>, &Body::template strip<1>, Lanes<T>::size, nullptr, 0, 0};
}
template <class Body, class Load> TENSOTRON_INLINE BodyTable table_with_rows(const ReducePlan& p) {
  typedef typename Body::Type T;
  BodyTable table = table_of<Body>();
  if constexpr (!Load::converts)
    if (Load::template direct<T>(p.dtype, 1))
      table.rows = &Body::rows, table.most = span_length<T>(), table.together = Lanes<T>::size;
  return table;
}
TENSOTRON_INLINE int64_t column_stride(const int64_t* out, const ReducePlan& p) { return out[p.kept - 1]; }

// ---- folds ----------------------------------------------------------------------------------

// The fold of one output's elements, rows mode.
template <class Op, class Load, class T> static T fold_all(const Op& op, const ReducePlan& p, const char* in) {
  const int last = p.kept + p.reduced - 1;
  const int64_t n = p.size[last], step = p.in[last];
  if (p.reduced == 1 && n <= span_length<T>() && Load::template direct<T>(p.dtype, step))
    return across<Op, T>(fold_span(op, (const T*)in, n));
  Cascade<Op, Lanes<T>> cascade;
  const int64_t width = item_size(p.dtype);
  const int64_t* s = p.in + p.kept;
  each_index(p.reduced - 1, p.size + p.kept, s, s, s, [&](int64_t off, int64_t, int64_t) {
    fold_run<Op, Load, T>(cascade, op, in + off * width, p.dtype, step, n);
  });
  return across<Op, T>(cascade.result());
}

template <class Op, class Load, class T> struct FoldBody {
  typedef T Type;
  static void row(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t, int) {
    typedef typename Op::Core Core;
    T v = Op::finish(Single<T>(fold_all<Core, Load, T>(Core(), p, in)), Single<T>((T)p.count));
    put(r.arg[0], o0, 1, &v, 1);
  }
  static void rows(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t, int) {
    typedef Lanes<T> V;
    typedef typename Op::Core Core;
    alignas(64) T v[V::size];
    Op::finish(fold_rows<Core, T>((const T*)in, p.in[p.kept - 1], p.count), V((T)p.count)).store(v);
    put(r.arg[0], o0, column_stride(p.out0, p), v, V::size);
  }
  template <int U>
  static void strip(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t, int n) {
    constexpr int W = Lanes<T>::size;
    typedef typename Op::Core Core;
    Core ops[U];
    Block<T, U> b = fold_columns<Core, Load, T, U>(ops, p, in, n);
    alignas(64) T v[U * W];
    for (int u = 0; u < U; u++) Op::finish(b.v[u], Lanes<T>((T)p.count)).store(v + u * W);
    put(r.arg[0], o0, column_stride(p.out0, p), v, n);
  }
};

// A short contiguous run, folded to one value or (the dimensions reduced all of size 1) element by element; false if
// it is none. What the plan below would come to, without the plan.
template <class Op, class Load, class T> static TENSOTRON_MEMBER bool fold_short(const Record& r) {
  typedef typename Op::Core Core;
  typedef Lanes<T> V;
  const Arg &out = r.arg[0], &in = r.arg[1];
  const int64_t n = r.size[0];
  if (r.ndim != 1 || n < 1 || n > span_length<T>() || !Load::template direct<T>(in.dtype, in.stride[0])) return false;
  const T* from = (const T*)in.data;
  if (r.ints[0]) {
    T v = Op::finish(Single<T>(across<Core, T>(fold_span(Core(), from, n))), Single<T>((T)n));
    put(out, 0, 1, &v, 1);
    return true;
  }
  if (out.dtype != DTypeOf<T>::value || out.stride[0] != 1) return false;
  T* to = (T*)out.data;
  const V one((T)1);
  int64_t i = 0;
  for (; i + V::size <= n; i += V::size)
    Op::finish(Core::join(Core().map(V::load(from + i)), Core::template identity<V>()), one).store(to + i);
  if (i < n) {
    const int rest = (int)(n - i);
    Op::finish(Core::join(Core().map(V::load(from + i, rest)), Core::template identity<V>()), one).store(to + i, rest);
  }
  return true;
}

template <class Op, class Load, class T> static int run_fold(const Record& r) {
  ReducePlan p;
  if (fold_short<Op, Load, T>(r)) return OK;
  if (!plan_reduce(r, false, &p)) return OK;
  if (p.count == 0) {
    put_everywhere(r, 0, (T)Op::finish(Op::template identity<Single<T>>(), Single<T>((T)0)));
    return OK;
  }
  drive(r, p, table_with_rows<FoldBody<Op, Load, T>, Load>(p));
  return OK;
}

// ---- logsumexp ------------------------------------------------------------------------------

template <class T> struct LogSumExpBody {
  typedef T Type;
  // torch shifts by the maximum unless that is infinite.
  template <class V> static TENSOTRON_MEMBER V shift_of(V largest) { return select(isinf(largest), V(0), largest); }
  static void row(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t, int) {
    T shift = shift_of(fold_all<Fold_amax, AsIs, T>(Fold_amax(), p, in));
    Fold_sum_exp<Lanes<T>> op;
    op.shift = Lanes<T>(shift);
    T v = log(fold_all<Fold_sum_exp<Lanes<T>>, AsIs, T>(op, p, in)) + shift;
    put(r.arg[0], o0, 1, &v, 1);
  }
  static void rows(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t, int) {
    typedef Lanes<T> V;
    const int64_t step = p.in[p.kept - 1];
    V x[V::size];
    alignas(64) T v[V::size];
    const V shift = shift_of(fold_rows<Fold_amax, T>((const T*)in, step, p.count));
    shift.store(v);
    for (int i = 0; i < V::size; i++) {
      Fold_sum_exp<V> op;
      op.shift = V(v[i]);
      x[i] = fold_span(op, (const T*)in + i * step, p.count);
    }
    (log(across_each<Fold_sum_exp<V>, T>(x)) + shift).store(v);
    put(r.arg[0], o0, column_stride(p.out0, p), v, V::size);
  }
  template <int U>
  static void strip(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t, int n) {
    typedef Lanes<T> V;
    constexpr int W = V::size;
    Fold_amax largest[U];
    Block<T, U> m = fold_columns<Fold_amax, AsIs, T, U>(largest, p, in, n);
    Fold_sum_exp<V> op[U];
    for (int u = 0; u < U; u++) op[u].shift = shift_of(m.v[u]);
    Block<T, U> s = fold_columns<Fold_sum_exp<V>, AsIs, T, U>(op, p, in, n);
    alignas(64) T v[U * W];
    for (int u = 0; u < U; u++) (log(s.v[u]) + op[u].shift).store(v + u * W);
    put(r.arg[0], o0, column_stride(p.out0, p), v, n);
  }
};

template <class T> static int run_logsumexp(const Record& r) {
  ReducePlan p;
  if (!plan_reduce(r, false, &p)) return OK;
  if (p.count == 0) put_everywhere(r, 0, -(T)__builtin_inff());
  else drive(r, p, table_with_rows<LogSumExpBody<T>, AsIs>(p));
  return OK;
}

// ---- positions of extrema -------------------------------------------------------------------

struct Larger {
  typedef Fold_amax Fold;
  template <class V> static TENSOTRON_MEMBER typename Of<V>::Mask better(V a, V b) { return gt(a, b); }
};
struct Smaller {
  typedef Fold_amin Fold;
  template <class V> static TENSOTRON_MEMBER typename Of<V>::Mask better(V a, V b) { return lt(a, b); }
};
// Whether x replaces the best so far: NaN beats everything else.
template <class Best, class V> TENSOTRON_INLINE typename Of<V>::Mask beats(V x, V best) {
  if constexpr (std::is_integral<V>::value) return Best::better(int64_t(x), int64_t(best));
  else if constexpr (std::is_integral<typename Of<V>::Scalar>::value) return Best::better(x, best);
  else return Best::better(x, best) | (isnan(x) & !isnan(best));
}

// The first element of t[0..n) that equals v (or is NaN, if v is); there is one.
template <class T> static inline int64_t find_first(const T* t, int64_t n, T v) {
  int64_t i = 0;
  constexpr int W = Lanes<T>::size;
  if constexpr (std::is_integral<T>::value) {
#if defined(__SSE2__)
    const Lanes<T> x(v);
    for (; i < n; i += W) {
      const int m = int(n - i < W ? n - i : W);
      const Lanes<T> y = m == W ? Lanes<T>::load(t + i) : Lanes<T>::load(t + i, m);
      const uint64_t found = equal_bits(y, x) & (~uint64_t(0) >> (64 - m));
      if (found) return i + __builtin_ctzll(found);
    }
#else
    for (; i < n; i++)
      if (t[i] == v) break;
#endif
    return i;
  } else {
    const Vec<T> x(v);
    for (; i + W <= n; i += W) {
      const Vec<T> y = Vec<T>::load(t + i);
      if (any(isnan(v) ? isnan(y) : eq(x, y))) break;
    }
    for (; i < n; i++)
      if (t[i] == v || (isnan(v) && isnan(t[i]))) break;
    return i;
  }
}

// Outputs (value, index), or the index alone.
template <class Best, class T> struct ScanBody {
  typedef T Type;
  static void row(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t o1, int) {
    const int last = p.kept + p.reduced - 1;
    const int64_t n = p.size[last], step = p.in[last], width = item_size(p.dtype);
    const int64_t* s = p.in + p.kept;
    T best = 0;
    int64_t at = -1, base = 0;
    alignas(64) T buf[TILE];
    each_index(p.reduced - 1, p.size + p.kept, s, s, s, [&](int64_t off, int64_t, int64_t) {
      const char* run = in + off * width;
      for (int64_t i = 0; i < n; i += TILE) {
        const int64_t m = n - i < TILE ? n - i : TILE;
        const T* t = AsIs::tile<T>(run + i * step * width, p.dtype, step, m, buf);
        const T v = across<typename Best::Fold, T>(fold_span(typename Best::Fold(), t, m));
        if (at >= 0 && !beats<Best>(v, best)) continue;
        const int64_t j = find_first(t, m, v);
        best = t[j];
        at = base + i + j;
      }
      base += n;
    });
    if (r.nout == 2) put(r.arg[0], o0, 1, &best, 1);
    put(r.arg[r.nout - 1], o1, 1, &at, 1);
  }
  static void rows(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t o1, int) {
    typedef Lanes<T> V;
    typedef typename Best::Fold Fold;
    const int64_t step = p.in[p.kept - 1];
    alignas(64) T value[V::size];
    int64_t index[V::size];
    fold_rows<Fold, T>((const T*)in, step, p.count).store(value);
    for (int i = 0; i < V::size; i++) {
      const T* const row = (const T*)in + i * step;
      index[i] = find_first(row, p.count, value[i]);
      value[i] = row[index[i]];  // of zeros, the sign of the first
    }
    if (r.nout == 2) put(r.arg[0], o0, column_stride(p.out0, p), value, V::size);
    put(r.arg[r.nout - 1], o1, column_stride(p.out1, p), index, V::size);
  }
  template <int U>
  static void strip(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t o1, int n) {
    typedef Lanes<T> V;
    constexpr int W = V::size;
    // Positions within a block, and one that is none, are exact in T.
    constexpr int64_t ROWS = sizeof(T) == 1 ? 255 : 1 << 20;
    constexpr T NONE = T(-1);
    const int64_t rows = p.size[p.kept], step = p.in[p.kept] * item_size(p.dtype);
    Strip<AsIs, T, U> strip(p, n);
    V best[U], at[U];
    alignas(64) T value[U * W], within[U * W];
    int64_t index[U * W];
    strip.load(in, best);
    for (int64_t i = 0; i < rows; i += ROWS) {
      for (int u = 0; u < U; u++) at[u] = V(i == 0 ? T(0) : NONE);
      const int64_t end = i + ROWS < rows ? i + ROWS : rows;
      for (int64_t k = i > 1 ? i : 1; k < end; k++) {
        V x[U];
        strip.load(in + k * step, x);
        const V here((T)(k - i));
        for (int u = 0; u < U; u++) {
          const auto m = beats<Best>(x[u], best[u]);
          best[u] = select(m, x[u], best[u]);
          at[u] = select(m, here, at[u]);
        }
      }
      for (int u = 0; u < U; u++) at[u].store(within + u * W);
      for (int j = 0; j < n; j++)
        if (within[j] != NONE) index[j] = i + (int64_t)within[j];
    }
    for (int u = 0; u < U; u++) best[u].store(value + u * W);
    if (r.nout == 2) put(r.arg[0], o0, column_stride(p.out0, p), value, n);
    put(r.arg[r.nout - 1], o1, column_stride(p.out1, p), index, n);
  }
};

template <class Best, class T> static int run_scan(const Record& r) {
  ReducePlan p;
  if (!plan_reduce(r, true, &p)) return OK;
  if (p.count == 0) return UNSUPPORTED;
  BodyTable body = table_with_rows<ScanBody<Best, T>, AsIs>(p);
  if (p.reduced > 1) body.strip4 = nullptr;
  drive(r, p, body);
  return OK;
}

// ---- variance -------------------------------------------------------------------------------

// In double throughout, as torch does for float: deviations whose squares overflow float are finite.
struct Moments {
  double n, mean, m2;  // m2 = sum of squared deviations
};

// One tile: two passes, the second corrected for the rounding of the mean.
static inline Moments tile_moments(const double* t, int64_t n) {
  typedef Vec<double> V;
  const double mean = across<Fold_sum, double>(fold_span(Fold_sum(), t, n)) / (double)n;
  Fold_sum_difference<V> difference;
  Fold_sum_squared_difference<V> squared;
  difference.shift = squared.shift = V(mean);
  const double d = across<Fold_sum, double>(fold_span(difference, t, n));
  const double q = across<Fold_sum, double>(fold_span(squared, t, n));
  return {(double)n, mean + d / (double)n, q - d * d / (double)n};
}
static inline Moments merge(const Moments& a, const Moments& b) {
  const double n = a.n + b.n, delta = b.mean - a.mean;
  return {n, a.mean + delta * (b.n / n), a.m2 + b.m2 + delta * delta * (a.n * b.n / n)};
}

struct MomentBody {
  typedef double Type;
  static void finish(const Record& r, double* m2, double* mean, double n, int64_t o0, int64_t o1, int64_t s0, int64_t s1, int count) {
    const double divisor = n > r.reals[0] ? n - r.reals[0] : 0;
    const bool root = r.op == REDUCE_std || r.op == REDUCE_std_mean;
    for (int i = 0; i < count; i++) m2[i] = root ? sqrt(m2[i] / divisor) : m2[i] / divisor;
    put(r.arg[0], o0, s0, m2, count);
    if (r.nout > 1) put(r.arg[1], o1, s1, mean, count);
  }
  static void row(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t o1, int) {
    const int last = p.kept + p.reduced - 1;
    const int64_t n = p.size[last], step = p.in[last], width = item_size(p.dtype);
    const int64_t* s = p.in + p.kept;
    alignas(64) double buf[TILE];
    Moments all = {0, 0, 0};
    auto each_tile = [&](auto f) {
      each_index(p.reduced - 1, p.size + p.kept, s, s, s, [&](int64_t off, int64_t, int64_t) {
        for (int64_t i = 0; i < n; i += TILE) {
          const int64_t m = n - i < TILE ? n - i : TILE;
          f(AsIs::tile<double>(in + (off + i * step) * width, p.dtype, step, m, buf), m);
        }
      });
    };
    each_tile([&](const double* t, int64_t m) {
      Moments here = tile_moments(t, m);
      all = all.n == 0 ? here : merge(all, here);
    });
    if (isnan(all.m2)) {
      // Not finite somewhere. The mean then follows torch's running update: an infinity survives in the
      // last place only.
      double mean = 0, k = 0;
      each_tile([&](const double* t, int64_t m) {
        for (int64_t i = 0; i < m; i++) mean += (t[i] - mean) / ++k;
      });
      all.mean = mean;
    }
    finish(r, &all.m2, &all.mean, all.n, o0, o1, 1, 1, 1);
  }
  // Running mean and deviations of each column.
  template <int U>
  static void strip(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t o1, int n) {
    typedef Vec<double> V;
    constexpr int W = V::size;
    Strip<AsIs, double, U> strip(p, n);
    V mean[U], m2[U];
    for (int u = 0; u < U; u++) mean[u] = m2[u] = V(0);
    double k = 0;
    const int64_t* s = p.in + p.kept;
    each_index(p.reduced, p.size + p.kept, s, s, s, [&](int64_t off, int64_t, int64_t) {
      V x[U];
      strip.load(in + off * item_size(p.dtype), x);
      const V share(1 / ++k);
      for (int u = 0; u < U; u++) {
        const V d = x[u] - mean[u];
        mean[u] = mean[u] + d * share;
        m2[u] = m2[u] + d * (x[u] - mean[u]);
      }
    });
    alignas(64) double q[U * W], m[U * W];
    for (int u = 0; u < U; u++) m2[u].store(q + u * W), mean[u].store(m + u * W);
    finish(r, q, m, k, o0, o1, column_stride(p.out0, p), column_stride(p.out1, p), n);
  }
};

static int run_moments(const Record& r) {
  ReducePlan p;
  if (!plan_reduce(r, false, &p)) return OK;
  if (p.count == 0)
    for (int i = 0; i < r.nout; i++) put_everywhere(r, i, __builtin_nan(""));
  else drive(r, p, table_of<MomentBody>());
  return OK;
}

// ---- dispatch -------------------------------------------------------------------------------

}  // namespace TENSOTRON_ISA
}  // namespace tensotron

#include "reduce_narrow.h"

namespace tensotron { namespace TENSOTRON_ISA {

int k_reduce(const Record& r) {
  if (r.compute == I64) {
    const int status = run_narrow_reduction(r);
    if (status >= 0) return status;
  }
#define BY_TYPE(f32, f64, i64)                                        \
  switch (r.compute) {                                                \
    case F32: return f32;                                             \
    case F64: return f64;                                             \
    default: return i64;                                              \
  }
  switch (r.op) {
#define FOLD(name, identity, map, join)                                                            \
  case REDUCE_##name:                                                                              \
    BY_TYPE((run_fold<Fold_##name, AsIs, float>(r)), (run_fold<Fold_##name, AsIs, double>(r)),     \
            (run_fold<Fold_##name, AsIs, int64_t>(r)))
#define FLOAT_FOLD(name, identity, map, join)                                                      \
  case REDUCE_##name:                                                                              \
    BY_TYPE((run_fold<Fold_##name, AsIs, float>(r)), (run_fold<Fold_##name, AsIs, double>(r)), UNSUPPORTED)
#define FINISHED(name, fold, finish) FLOAT_FOLD(name, , , )
#define TRUTH(name, identity, map, join) \
  case REDUCE_##name: return run_fold<Fold_##name, AsTruth, int64_t>(r);
#define SCAN(name, best) \
  case REDUCE_##name: BY_TYPE((run_scan<best, float>(r)), (run_scan<best, double>(r)), (run_scan<best, int64_t>(r)))
#define MOMENT(name) \
  case REDUCE_##name: return run_moments(r);
#define LOGSUMEXP(name) \
  case REDUCE_##name: BY_TYPE(run_logsumexp<float>(r), run_logsumexp<double>(r), UNSUPPORTED)
#include "../_ops/reduce.def"
  }
#undef BY_TYPE
  return UNSUPPORTED;
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
