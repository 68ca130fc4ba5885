// Conversions between dtypes: strided runs of any dtype to and from a dense tile of a compute type.
#pragma once
#include <cstring>

#include "record.h"

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
    for (int64_t i = 0; i < n; ++i) d[i * ds] = v;
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

// arg[0] = out, arg[1] = in. The operands do not overlap, unless they are the same elements.
int k_copy(const Record& r) {
  if (is_empty(r)) return OK;
  const Arg &o = r.arg[0], &i = r.arg[1];
  const int64_t osz = item_size(o.dtype), isz = item_size(i.dtype);
  const int last = r.ndim - 1;
  const int64_t n = r.ndim ? r.size[last] : 1;
  const int64_t os = r.ndim ? o.stride[last] : 1, is = r.ndim ? i.stride[last] : 1;
  const bool dense = o.dtype == i.dtype && (n == 1 || (os == 1 && is == 1));
  const ConvertFn fn = convert_fn(o.dtype, i.dtype);
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

// arg[0] = out; the value is reals[0] for floating-point outputs, ints[0] for the others.
int k_fill(const Record& r) {
  if (is_empty(r)) return OK;
  const Arg& o = r.arg[0];
  const bool real = o.dtype == F32 || o.dtype == F64;
  const char* v = real ? reinterpret_cast<const char*>(r.reals) : reinterpret_cast<const char*>(r.ints);
  const ConvertFn fn = convert_fn(o.dtype, real ? F64 : I64);
  const int last = r.ndim - 1;
  const int64_t n = r.ndim ? r.size[last] : 1, os = r.ndim ? o.stride[last] : 1;
  const int64_t osz = item_size(o.dtype);
  Outer it(r);
  do fn(o.data + it.offset[0] * osz, os, v, 0, n);
  while (it.next());
  return OK;
}

template <class T>
static inline void arange_run(const Record& r, int64_t n) {
  T* out = reinterpret_cast<T*>(r.arg[0].data);
  if (r.arg[0].dtype == F32 || r.arg[0].dtype == F64) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(r.reals[0] + double(i) * r.reals[1]);
  } else {
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(uint64_t(r.ints[0]) + uint64_t(i) * uint64_t(r.ints[1]));
  }
}

// arg[0] = out, contiguous; start and step in reals (floating point) or ints.
int k_arange(const Record& r) {
  const int64_t n = r.size[0];
  switch (r.arg[0].dtype) {
    case F32: arange_run<float>(r, n); break;
    case F64: arange_run<double>(r, n); break;
    case I64: arange_run<int64_t>(r, n); break;
    case I32: arange_run<int32_t>(r, n); break;
    case U8: arange_run<uint8_t>(r, n); break;
    default: return UNSUPPORTED;
  }
  return OK;
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
