// Conversions between dtypes: strided runs of any dtype to and from a dense tile of a compute type.
#pragma once
#include <cstring>
#include <type_traits>

#include "copy_short.h"
#include "parallel.h"
#include "record.h"
#include "transpose.h"

namespace tensotron {
namespace TENSOTRON_ISA {

template <class D, class S>
struct Convert {
  static inline D of(S s) { return static_cast<D>(s); }
};
// a negative or large float wraps modulo 256 as an integer would
template <>
struct Convert<uint8_t, float> {
  static inline uint8_t of(float s) { return static_cast<uint8_t>(static_cast<int64_t>(s)); }
};
template <>
struct Convert<uint8_t, double> {
  static inline uint8_t of(double s) { return static_cast<uint8_t>(static_cast<int64_t>(s)); }
};

struct Bool {  // storage type of BOOL: one byte, 0 or 1
  uint8_t v;
};
template <class S>
struct Convert<Bool, S> {
  static inline Bool of(S s) { return Bool{static_cast<uint8_t>(s != S(0))}; }
};
template <class D>
struct Convert<D, Bool> {
  static inline D of(Bool s) { return static_cast<D>(s.v != 0); }
};
template <>
struct Convert<Bool, Bool> {
  static inline Bool of(Bool s) { return s; }
};

template <class D, class S>
static inline void convert_run(char* dst, int64_t ds, const char* src, int64_t ss, int64_t n) {
  D* __restrict d = reinterpret_cast<D*>(dst);
  const S* __restrict s = reinterpret_cast<const S*>(src);
  if (ds == 1 && ss == 1) {
    for (int64_t i = 0; i < n; ++i) d[i] = Convert<D, S>::of(s[i]);
  } else if (ss == 0) {
    const D v = Convert<D, S>::of(s[0]);
    if (ds == 1 && sizeof(D) == 1) {
      unsigned char byte;
      memcpy(&byte, &v, 1);
      memset(d, byte, size_t(n));
    } else if (ds == 1) {
      for (int64_t i = 0; i < n; ++i) d[i] = v;
    } else {
      for (int64_t i = 0; i < n; ++i) d[i * ds] = v;
    }
  } else if (std::is_same<D, S>::value && ds == 1 && ss == 2) {  // by vectors
    for (int64_t i = 0; i < n; ++i) d[i] = Convert<D, S>::of(s[2 * i]);
  } else {
    for (int64_t i = 0; i < n; ++i) d[i * ds] = Convert<D, S>::of(s[i * ss]);
  }
}

typedef void (*ConvertFn)(char*, int64_t, const char*, int64_t, int64_t);

template <class D>
static inline ConvertFn convert_to(int src) {
  switch (src) {
    case F32: return convert_run<D, float>;
    case F64: return convert_run<D, double>;
    case I64: return convert_run<D, int64_t>;
    case I32: return convert_run<D, int32_t>;
    case U8: return convert_run<D, uint8_t>;
    default: return convert_run<D, Bool>;
  }
}

// The run function for a pair of dtypes: fn(dst, dst stride, src, src stride, n).
static inline ConvertFn convert_fn(int dst, int src) {
  switch (dst) {
    case F32: return convert_to<float>(src);
    case F64: return convert_to<double>(src);
    case I64: return convert_to<int64_t>(src);
    case I32: return convert_to<int32_t>(src);
    case U8: return convert_to<uint8_t>(src);
    default: return convert_to<Bool>(src);
  }
}

// Counter over the outer dimensions of a record (all but the last).
struct Outer {
  int64_t at[MAX_DIMS];
  int64_t offset[MAX_ARGS];  // elements, per argument
  const Record& r;
  int nargs;
  explicit Outer(const Record& rec) : r(rec), nargs(rec.nout + rec.nin) {
    for (int d = 0; d < MAX_DIMS; ++d) at[d] = 0;
    for (int k = 0; k < nargs; ++k) offset[k] = 0;
  }
  // Advances by one inner run; false at the end.
  bool next() {
    for (int d = r.ndim - 2; d >= 0; --d) {
      for (int k = 0; k < nargs; ++k) offset[k] += r.arg[k].stride[d];
      if (++at[d] < r.size[d]) return true;
      for (int k = 0; k < nargs; ++k) offset[k] -= r.arg[k].stride[d] * r.size[d];
      at[d] = 0;
    }
    return false;
  }
};

static inline bool is_empty(const Record& r) {
  for (int d = 0; d < r.ndim; ++d)
    if (r.size[d] == 0) return true;
  return false;
}

// A copy whose input is adjacent along the dimension before the last: matrices to be transposed. T: of the same size.
template <class T> static int copy_transposed(const Record& r) {
  const Arg &o = r.arg[0], &i = r.arg[1];
  const int last = r.ndim - 1;
  Record matrices = r;
  matrices.ndim = last;
  Outer it(matrices);
  do {
    const T* s = reinterpret_cast<const T*>(i.data) + it.offset[1];
    T* d = reinterpret_cast<T*>(o.data) + it.offset[0];
    lanes_transpose<T>(s, i.stride[last], r.size[last], r.size[last - 1], d, o.stride[last - 1], false);
  } while (it.next());
  return OK;
}

// to[0..n) = the number at `from`.
template <class U> static inline void spread_as(char* to, const char* from, int64_t n) {
  U v;
  __builtin_memcpy(&v, from, sizeof v);
  for (int64_t j = 0; j < n; ++j) reinterpret_cast<U*>(to)[j] = v;
}
static inline void spread_number(char* to, const char* from, int64_t n, int64_t item) {
  if (item == 4) spread_as<uint32_t>(to, from, n);
  else if (item == 8) spread_as<uint64_t>(to, from, n);
  else spread_as<uint8_t>(to, from, n);
}

// f(output, input) for every row of a copy, U a type of its elements' size.
template <class U, class F> TENSOTRON_INLINE int each_row(const Record& r, F f) {
  const int last = r.ndim - 1;
  const int64_t rows = last > 0 ? r.size[last - 1] : 1;
  const int64_t down = last > 0 ? r.arg[0].stride[last - 1] : 0, along = last > 0 ? r.arg[1].stride[last - 1] : 0;
  Record planes = r;
  planes.ndim = uint8_t(last > 0 ? last : 1);
  Outer it(planes);
  do {
    U* d = reinterpret_cast<U*>(r.arg[0].data) + it.offset[0];
    const U* s = reinterpret_cast<const U*>(r.arg[1].data) + it.offset[1];
    for (int64_t i = 0; i < rows; ++i, d += down, s += along) f(d, s);
  } while (it.next());
  return OK;
}
// Copies of rows that repeat one element each (STEP 0), or go backwards (STEP -1).
template <class U, int STEP> static int copy_rows(const Record& r) {
  const int64_t n = r.size[r.ndim - 1];
  return each_row<U>(r, [n](U* d, const U* s) __attribute__((always_inline)) {
    const U v = *s;
    if (STEP == 0)
      for (int64_t k = 0; k < n; ++k) d[k] = v;
    else
#pragma GCC ivdep
      for (int64_t k = 0; k < n; ++k) d[k] = s[-k];
  });
}
template <class U> static int copy_short_rows(const Record& r) {
  const size_t bytes = size_t(r.size[r.ndim - 1]) * sizeof(U);
  return each_row<U>(r, [bytes](U* d, const U* s) __attribute__((always_inline)) { copy_short((char*)d, (const char*)s, bytes); });
}
template <int STEP> static int copy_rows_of(const Record& r, int64_t item) {
  return item == 1 ? copy_rows<uint8_t, STEP>(r) : item == 4 ? copy_rows<uint32_t, STEP>(r) : copy_rows<uint64_t, STEP>(r);
}

static int copy_part(const Record& r) {
  const Arg &o = r.arg[0], &i = r.arg[1];
  const int64_t osz = item_size(o.dtype), isz = item_size(i.dtype);
  const int last = r.ndim - 1;
  const int64_t n = r.ndim ? r.size[last] : 1;
  const int64_t os = r.ndim ? o.stride[last] : 1, is = r.ndim ? i.stride[last] : 1;
  const bool dense = o.dtype == i.dtype && (n == 1 || (os == 1 && is == 1));
  if (r.ndim > 1 && o.dtype == i.dtype && osz >= 4 && os == 1 && is != 1 && i.stride[last - 1] == 1 && n >= 8 && r.size[last - 1] >= 8)
    return osz == 4 ? copy_transposed<float>(r) : copy_transposed<double>(r);
  if (r.ndim >= 1 && o.dtype == i.dtype && os == 1 && n > 1 && (is == -1 || (is == 0 && r.ndim > 1)))
    return is == 0 ? copy_rows_of<0>(r, osz) : copy_rows_of<-1>(r, osz);
  const ConvertFn fn = convert_fn(o.dtype, i.dtype);
  if (dense && n > 1 && n * osz <= 64 && r.ndim > 1)
    return osz == 1 ? copy_short_rows<uint8_t>(r) : osz == 4 ? copy_short_rows<uint32_t>(r) : copy_short_rows<uint64_t>(r);
  if (r.ndim <= 1 && !dense) return fn(o.data, os, i.data, is, n), OK;
  Outer it(r);
  do {
    char* d = o.data + it.offset[0] * osz;
    const char* s = i.data + it.offset[1] * isz;
    if (dense)
      memmove(d, s, size_t(n * osz));
    else
      fn(d, os, s, is, n);
  } while (it.next());
  return OK;
}

// arg[0] = out, arg[1] = in. The operands do not overlap, unless they are the same elements.
int k_copy(const Record& r) {
  if (is_empty(r)) return OK;
  return in_parts(r, elements_of(r) / 4, copy_part);
}

static int fill_part(const Record& r) {
  const Arg& o = r.arg[0];
  const bool real = o.dtype == F32 || o.dtype == F64;
  const char* v = real ? reinterpret_cast<const char*>(r.reals) : reinterpret_cast<const char*>(r.ints);
  const ConvertFn fn = convert_fn(o.dtype, real ? F64 : I64);
  const int last = r.ndim - 1;
  const int64_t n = r.ndim ? r.size[last] : 1, os = r.ndim ? o.stride[last] : 1;
  if (r.ndim <= 1) return fn(o.data, os, v, 0, n), OK;
  const int64_t osz = item_size(o.dtype);
  Outer it(r);
  do fn(o.data + it.offset[0] * osz, os, v, 0, n);
  while (it.next());
  return OK;
}

// arg[0] = out; the value is reals[0] for floating-point outputs, ints[0] for the others.
int k_fill(const Record& r) {
  if (is_empty(r)) return OK;
  return in_parts(r, elements_of(r) / 8, fill_part);
}

// torch fills vectors of 32 bytes, two at a time, from a rounded first element each, and what remains one by
// one, with fused multiplications: the last bits depend on it.
template <class T>
static inline void arange_floats(T* out, int64_t n, double start, double step) {
  constexpr int64_t LANES = 32 / sizeof(T);
  int64_t i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES)
    for (int64_t v = i; v < i + 2 * LANES; v += LANES) {
      const double base = static_cast<T>(__builtin_fma(step, double(v), start));
      for (int64_t k = 0; k < LANES; ++k) out[v + k] = static_cast<T>(__builtin_fma(step, double(k), base));
    }
  for (; i < n; ++i) out[i] = static_cast<T>(__builtin_fma(step, double(i), start));
}

template <class T>
static inline void arange_ints(T* out, int64_t n, int64_t start, int64_t step) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(uint64_t(start) + uint64_t(i) * uint64_t(step));
}

static inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

// Counted from both ends, so that the last element is exact.
template <class T>
static inline void linspace_floats(T* out, int64_t n, T start, T end) {
  const T step = n > 1 ? (end - start) / static_cast<T>(n - 1) : T(0);
  const int64_t half = n > 1 ? n / 2 : n;
  for (int64_t i = 0; i < half; ++i) out[i] = fused(step, static_cast<T>(i), start);
  for (int64_t i = half; i < n; ++i) out[i] = fused(-step, static_cast<T>(n - i - 1), end);
}

// arg[0] = out, contiguous. op 0: start and step in reals (floating point) or ints; op 1: linspace, start and end
// in reals, floating point only.
int k_arange(const Record& r) {
  const int64_t n = r.size[0];
  char* out = r.arg[0].data;
  if (r.op == 1) {
    if (r.arg[0].dtype == F32)
      linspace_floats(reinterpret_cast<float*>(out), n, static_cast<float>(r.reals[0]), static_cast<float>(r.reals[1]));
    else if (r.arg[0].dtype == F64)
      linspace_floats(reinterpret_cast<double*>(out), n, r.reals[0], r.reals[1]);
    else
      return UNSUPPORTED;
    return OK;
  }
  switch (r.arg[0].dtype) {
    case F32: arange_floats(reinterpret_cast<float*>(out), n, r.reals[0], r.reals[1]); break;
    case F64: arange_floats(reinterpret_cast<double*>(out), n, r.reals[0], r.reals[1]); break;
    case I64: arange_ints(reinterpret_cast<int64_t*>(out), n, r.ints[0], r.ints[1]); break;
    case I32: arange_ints(reinterpret_cast<int32_t*>(out), n, r.ints[0], r.ints[1]); break;
    case U8: arange_ints(reinterpret_cast<uint8_t*>(out), n, r.ints[0], r.ints[1]); break;
    default: return UNSUPPORTED;
  }
  return OK;
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
