// Dense runs of int32, uint8 and bool in their own width, without the detour by int64 of the rest: rows whose result the
// width does not change, and divisions, exact in double (float for bytes).
#pragma once
#include <type_traits>

#include "../_ops/elementwise.h"
#include "record.h"

namespace tensotron {
namespace TENSOTRON_ISA {

// out[i] = f(a[i], b[i]) of elements T, either of which may be one number. A row of one operand has b = a.
template <class T, class O, class F> __attribute__((noinline)) static bool narrow_run(const Record& r, F f) {
  T number[2] = {};
  const T* p[2];
  bool one[2];
  for (int k = 0; k < 2; ++k) {
    const Arg& a = r.arg[k && r.nin == 2 ? 2 : 1];
    one[k] = a.stride[0] == 0;
    p[k] = reinterpret_cast<const T*>(a.data);
    if (one[k]) number[k] = a.dtype == I64 ? T(*reinterpret_cast<const int64_t*>(a.data)) : *p[k];
  }
  O* const o = reinterpret_cast<O*>(r.arg[0].data);
  const int64_t n = r.size[0];
  const T *const x = p[0], *const y = p[1], u = number[0], v = number[1];
  // An output is one of the operands, element by element, or shares nothing with it.
  if (one[1]) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = O(f(x[i], v));
  } else if (one[0]) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = O(f(u, y[i]));
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = O(f(x[i], y[i]));
  }
  return true;
}

// a / b truncated; b is not zero. A quotient that is no integer lies further from one than its rounding error.
template <class T> TENSOTRON_INLINE T narrow_quotient(T a, T b) {
  typedef typename std::conditional<sizeof(T) == 4, double, float>::type Real;
  if (std::is_unsigned<T>::value) return T(int32_t(Real(a) / Real(b)));
  const T d = b == T(-1) ? T(1) : b, q = T(Real(a) / Real(d));  // the quotient of the least integer and -1 wraps
  return b == T(-1) ? T(0u - uint32_t(a)) : q;
}
template <class T> TENSOTRON_INLINE T narrow_modulo(T a, T b) { return T(uint32_t(a) - uint32_t(narrow_quotient(a, b)) * uint32_t(b)); }

// Whether a quotient that leaves `rest` is one less when it is rounded down.
template <class T> TENSOTRON_INLINE bool lies_below(T rest, T b) { return rest != 0 && (rest ^ b) < 0; }

template <class T> static bool narrow_row(const Record& r) {
  typedef typename std::conditional<sizeof(T) == 4, uint32_t, uint8_t>::type U;
  typedef uint8_t B;
  const U alpha = U(r.ints[0]);
  const T low = T(r.ints[0]), high = T(r.ints[1]);
  switch (r.op / NUM_EXPRESSIONS) {
#define ROW(name, O, value) \
  case ROW_##name: return narrow_run<T, O>(r, [=](T a, T b) __attribute__((always_inline)) { (void)b; return value; });
    ROW(add, T, U(a) + U(b))
    ROW(sub, T, U(a) - U(b))
    ROW(mul, T, U(a) * U(b))
    ROW(add_alpha, T, U(a) + alpha * U(b))
    ROW(sub_alpha, T, U(a) - alpha * U(b))
    ROW(rsub_alpha, T, U(b) - alpha * U(a))
    ROW(neg, T, U(0) - U(a))
    ROW(abs, T, a < 0 ? U(0) - U(a) : U(a))
    ROW(square, T, U(a) * U(a))
    ROW(relu, T, a < 0 ? T(0) : a)
    ROW(maximum, T, a < b ? b : a)
    ROW(minimum, T, b < a ? b : a)
    ROW(clamp_min, T, a < low ? low : a)
    ROW(clamp_max, T, low < a ? low : a)
    ROW(clamp, T, (a < low ? low : a) < high ? (a < low ? low : a) : high)
    ROW(bitwise_and, T, a & b)
    ROW(bitwise_or, T, a | b)
    ROW(bitwise_xor, T, a ^ b)
    ROW(bitwise_not, T, ~a)
    ROW(eq, B, a == b)
    ROW(ne, B, a != b)
    ROW(lt, B, a < b)
    ROW(le, B, a <= b)
    ROW(gt, B, a > b)
    ROW(ge, B, a >= b)
    ROW(div_trunc, T, narrow_quotient(a, b))
    ROW(fmod, T, narrow_modulo(a, b))
    ROW(div_floor, T, narrow_quotient(a, b) - lies_below(narrow_modulo(a, b), b))
    ROW(remainder, T, U(narrow_modulo(a, b)) + (lies_below(narrow_modulo(a, b), b) ? U(b) : U(0)))
#undef ROW
  }
  return false;
}

// Logic and bits of bools, whose bytes are 0 or 1.
static bool bool_row(const Record& r) {
  switch (r.op / NUM_EXPRESSIONS) {
#define ROW(name, value) \
  case ROW_##name: return narrow_run<uint8_t, uint8_t>(r, [](uint8_t a, uint8_t b) { (void)b; return uint8_t(value); });
    ROW(bitwise_and, a & b)
    ROW(logical_and, a & b)
    ROW(bitwise_or, a | b)
    ROW(logical_or, a | b)
    ROW(bitwise_xor, a ^ b)
    ROW(logical_xor, a ^ b)
    ROW(logical_not, a ^ 1)
    ROW(eq, a == b)
    ROW(ne, a != b)
#undef ROW
  }
  return false;
}

// The launch, if it is one of these; else false.
__attribute__((noinline)) static bool run_narrow(const Record& r) {
  if (r.op % NUM_EXPRESSIONS != FORWARD || r.ndim != 1 || r.nin > 2 || (r.arg[0].stride[0] != 1 && r.size[0] != 1)) return false;
  const uint8_t dtype = r.arg[1].is_const ? r.arg[r.nin].dtype : r.arg[1].dtype;
  if (dtype != I32 && dtype != U8 && dtype != BOOL) return false;
  int runs = 0;  // operands that are no number; a bool's number may be any integer
  for (int k = 1; k <= r.nin; ++k) {
    const Arg& a = r.arg[k];
    const bool number = a.stride[0] == 0 && ((a.dtype == I64 && dtype != BOOL) || a.dtype == dtype);
    if (!number && (a.dtype != dtype || a.stride[0] != 1)) return false;
    runs += !number;
  }
  if (runs == 0) return false;
  const int row = r.op / NUM_EXPRESSIONS;
  const uint8_t out = (row >= ROW_eq && row <= ROW_ge) ? uint8_t(BOOL) : dtype;
  if (r.arg[0].dtype != out) return false;
  return dtype == I32 ? narrow_row<int32_t>(r) : dtype == U8 ? narrow_row<uint8_t>(r) : bool_row(r);
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
