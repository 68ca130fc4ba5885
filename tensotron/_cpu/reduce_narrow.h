// Reductions of integers and bools in their own width: extrema and their positions by the bodies of reduce-inl.h with
// narrow lanes, sums, truth and counts (of floats too) by loops that widen as late as they can.
#pragma once
#include "reduce-inl.h"

namespace tensotron { namespace TENSOTRON_ISA {

// ---- extrema of bytes -----------------------------------------------------------------------

constexpr int64_t WIDE_ROW = 64;  // rows of bytes that are folded as int32, as many at a time as that has lanes

// Calls Body<int32_t>'s rows on a converted copy.
template <class Body>
static void widened_rows(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t o1, int n) {
  alignas(64) int32_t buf[WIDE_ROW * Lanes<int32_t>::size];
  const int64_t step = p.in[p.kept - 1], count = p.count;
  if (step == count) cast_strided<uint8_t>(in, 1, n * count, buf);
  else
    for (int i = 0; i < n; i++) cast_strided<uint8_t>(in + i * step, 1, count, buf + i * count);
  ReducePlan wide = p;
  wide.in[p.kept - 1] = count;
  Body::rows(r, wide, (const char*)buf, o0, o1, n);
}

template <template <class> class Body> static int run_extremum(const Record& r, bool ordered) {
  ReducePlan p;
  if (!plan_reduce(r, ordered, &p)) return OK;
  if (p.count == 0) return -1;
  BodyTable body;
  if (p.dtype == I32) {
    body = table_with_rows<Body<int32_t>, AsIs>(p);
  } else {
    body = table_of<Body<uint8_t>>();
    body.rows = &widened_rows<Body<int32_t>>, body.most = WIDE_ROW, body.together = Lanes<int32_t>::size;
  }
  if ((ordered && p.reduced > 1) || p.in[p.kept + p.reduced - 1] == 1) body.strip4 = nullptr;  // short rows too fold together
  drive(r, p, body);
  return OK;
}
template <class T> using LargestBody = FoldBody<Fold_amax, AsIs, T>;
template <class T> using SmallestBody = FoldBody<Fold_amin, AsIs, T>;
template <class T> using LargestScan = ScanBody<Larger, T>;
template <class T> using SmallestScan = ScanBody<Smaller, T>;

// ---- sums, truth, counts --------------------------------------------------------------------

TENSOTRON_INLINE bool is_true(float x) { return x != 0; }
TENSOTRON_INLINE bool is_true(double x) { return x != 0; }
TENSOTRON_INLINE bool is_true(int64_t x) { return x != 0; }
TENSOTRON_INLINE bool is_true(int32_t x) { return x != 0; }
TENSOTRON_INLINE bool is_true(uint8_t x) { return x != 0; }

template <class S> struct BitsOf { typedef typename std::make_unsigned<S>::type type; };
template <> struct BitsOf<float> { typedef uint32_t type; };
template <> struct BitsOf<double> { typedef uint64_t type; };

// Of bytes, eight at a time. ONES: each counts as 0 or 1.
template <bool ONES> static inline int64_t sum_bytes(const uint8_t* p, int64_t n) {
  int64_t i = 0, total = 0;
#if defined(__SSE2__)
  constexpr int W = TENSOTRON_VEC_BYTES;
  typedef IntLanes<uint8_t> V;
  const auto sums = [](V x) __attribute__((always_inline)) {
    if (ONES) x = smaller(x, V(uint8_t(1)));
#if defined(__AVX512BW__)
    return IntLanes<int64_t>((IntLanes<int64_t>::Raw)_mm512_sad_epu8((__m512i)x.v, _mm512_setzero_si512()));
#elif defined(__AVX2__)
    return IntLanes<int64_t>((IntLanes<int64_t>::Raw)_mm256_sad_epu8((__m256i)x.v, _mm256_setzero_si256()));
#else
    return IntLanes<int64_t>((IntLanes<int64_t>::Raw)_mm_sad_epu8((__m128i)x.v, _mm_setzero_si128()));
#endif
  };
  IntLanes<int64_t> a(int64_t(0)), b(int64_t(0));
  for (; i + 2 * W <= n; i += 2 * W) a = a + sums(V::load(p + i)), b = b + sums(V::load(p + i + W));
  if (i + W <= n) a = a + sums(V::load(p + i)), i += W;
  if (i < n) b = b + sums(V::load(p + i, int(n - i)));
  total = across<Fold_sum, int64_t>(a + b);
#else
  for (; i < n; i++) total += ONES ? p[i] != 0 : p[i];
#endif
  return total;
}

// What a row comes to, and how those of several rows are joined.
template <class S> struct OwnSum {
  static constexpr int64_t start = 0;
  static TENSOTRON_MEMBER int64_t join(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
  static __attribute__((noinline)) int64_t row(const S* p, int64_t n) {
    if constexpr (sizeof(S) == 1) return sum_bytes<false>(p, n);
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) total = join(total, int64_t(p[i]));
    return total;
  }
};
struct OwnCount {  // of bytes
  static constexpr int64_t start = 0;
  static TENSOTRON_MEMBER int64_t join(int64_t a, int64_t b) { return a + b; }
  static int64_t row(const uint8_t* p, int64_t n) { return sum_bytes<true>(p, n); }
};
template <class S, bool ALL> struct OwnTruth {
  typedef typename BitsOf<S>::type A;
  static constexpr int64_t start = ALL;
  static TENSOTRON_MEMBER int64_t join(int64_t a, int64_t b) { return ALL ? a & b : a | b; }
  static __attribute__((noinline)) int64_t row(const S* p, int64_t n) {
    constexpr int64_t BLOCK = 4096;  // after which it may be decided
    for (int64_t i = 0; i < n; i += BLOCK) {
      const int64_t end = n - i < BLOCK ? n : i + BLOCK;
      A seen = 0;
      for (int64_t k = i; k < end; k++) seen |= A(ALL != is_true(p[k]) ? -1 : 0);
      if (seen) return !ALL;
    }
    return ALL;
  }
};
template <class S> using OwnAny = OwnTruth<S, false>;
template <class S> using OwnAll = OwnTruth<S, true>;

template <class Op, class S> struct WideBody {
  static constexpr int LANES = 16;
  static void row(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t, int) {
    const int64_t n = p.size[p.kept + p.reduced - 1], *s = p.in + p.kept;
    int64_t total = Op::start;
    each_index(p.reduced - 1, p.size + p.kept, s, s, s, [&](int64_t off, int64_t, int64_t) {
      total = Op::join(total, Op::row((const S*)in + off, n));
    });
    put(r.arg[0], o0, 1, &total, 1);
  }
  static void rows(const Record& r, const ReducePlan& p, const char* in, int64_t o0, int64_t, int) {
    const int64_t step = p.in[p.kept - 1];
    int64_t total[LANES];
    for (int i = 0; i < LANES; i++) total[i] = Op::row((const S*)in + i * step, p.count);
    put(r.arg[0], o0, column_stride(p.out0, p), total, LANES);
  }
};

template <class Op, class S> static int run_wide(const Record& r, const ReducePlan& p) {
  typedef WideBody<Op, S> Body;
  drive(r, p, {&Body::row, nullptr, nullptr, Body::LANES, &Body::rows, INT64_MAX, Body::LANES});
  return OK;
}
// -1: not of this kind, which has dense rows.
template <template <class> class Op> static int run_wide_of(const Record& r) {
  ReducePlan p;
  if (!plan_reduce(r, false, &p)) return OK;
  if (p.count == 0 || p.in[p.kept + p.reduced - 1] != 1) return -1;
  if constexpr (std::is_same<Op<uint8_t>, OwnSum<uint8_t>>::value) {
    return p.dtype == I32 ? run_wide<Op<int32_t>, int32_t>(r, p) : run_wide<Op<uint8_t>, uint8_t>(r, p);
  } else {
    switch (p.dtype) {
      case F32: return run_wide<Op<float>, float>(r, p);
      case F64: return run_wide<Op<double>, double>(r, p);
      case I64: return run_wide<Op<int64_t>, int64_t>(r, p);
      case I32: return run_wide<Op<int32_t>, int32_t>(r, p);
    }
    return run_wide<Op<uint8_t>, uint8_t>(r, p);
  }
}
static int run_count(const Record& r) {
  ReducePlan p;
  if (!plan_reduce(r, false, &p)) return OK;
  return p.count == 0 || p.in[p.kept + p.reduced - 1] != 1 ? -1 : run_wide<OwnCount, uint8_t>(r, p);
}

// A reduction in int64 whose input is narrower, or of truth; -1 if it is none of those here.
static __attribute__((noinline)) int run_narrow_reduction(const Record& r) {
  const int dtype = r.arg[r.nout].dtype;
  const bool narrow = dtype == I32 || dtype == U8 || dtype == BOOL;
  switch (r.op) {
    case REDUCE_any: return run_wide_of<OwnAny>(r);
    case REDUCE_all: return run_wide_of<OwnAll>(r);
    case REDUCE_count_nonzero: return dtype == U8 || dtype == BOOL ? run_count(r) : -1;
    case REDUCE_sum: return narrow ? run_wide_of<OwnSum>(r) : -1;
    case REDUCE_amax: return narrow ? run_extremum<LargestBody>(r, false) : -1;
    case REDUCE_amin: return narrow ? run_extremum<SmallestBody>(r, false) : -1;
    case REDUCE_argmax: case REDUCE_max: return narrow ? run_extremum<LargestScan>(r, true) : -1;
    case REDUCE_argmin: case REDUCE_min: return narrow ? run_extremum<SmallestScan>(r, true) : -1;
  }
  return -1;
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
