// Named functions of the elementwise table that are not in math.h: integer versions, logic, and
// functions composed of others.
#pragma once
#include <cstdint>

#include "math.h"
#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

template <class V>
TENSOTRON_INLINE V square(V x) { return x * x; }

template <class M>
TENSOTRON_INLINE M land(M a, M b) { return a & b; }
template <class M>
TENSOTRON_INLINE M lor(M a, M b) { return a | b; }
TENSOTRON_INLINE bool land(bool a, bool b) { return a && b; }
TENSOTRON_INLINE bool lor(bool a, bool b) { return a || b; }

// 0 for NaN
template <class V>
TENSOTRON_INLINE V sign(V x) {
  return select(gt(x, V(0)), V(1), V(0)) - select(lt(x, V(0)), V(1), V(0));
}

// Inputs are often all positive: where no lane needs the exponential it is not computed.
template <class V>
TENSOTRON_INLINE V elu(V x, V negative, V positive, V inner) {
  const auto below = lt(x, V(0));
  if (!any(below)) return x * positive;
  return select(below, expm1(x * inner) * negative, x * positive);
}

// a * b + c, rounded once where the machine can; integers wrap.
template <class V>
TENSOTRON_INLINE V muladd(V a, V b, V c) { return fma(a, b, c); }

template <class V>
TENSOTRON_INLINE V trunc_div(V a, V b) { return trunc(a / b); }

// m = fmod(a, b) or remainder(a, b): NaN by torch's vector code where the quotient overflows, exact by its scalar code.
template <class V>
TENSOTRON_INLINE V unless_overflow(V m, V a, V b, V scalar) {
  return select(land(isinf(abs(a) / abs(b)), eq(scalar, V(0))), V(NAN32), m);
}

// Python's float //: exact where a / b rounds across an integer.
template <class V>
TENSOTRON_INLINE V floor_div(V a, V b) {
  const V m = fmod(a, b);
  const V other = select(lt(b, V(0)), V(1), V(0)) - select(lt(m, V(0)), V(1), V(0));
  V q = (a - m) / b;
  q = select(land(ne(m, V(0)), ne(other, V(0))), q - V(1), q);
  V f = floor(q);
  f = select(gt(q - f, V(0.5)), f + V(1), f);
  const V quotient = a / b;
  f = select(eq(q, V(0)), copysign(V(0), quotient), f);
  return select(eq(b, V(0)), quotient, f);
}

// ---- int64 ---------------------------------------------------------------------------------
typedef int64_t Int;
TENSOTRON_INLINE Int wrap(uint64_t v) { return static_cast<Int>(v); }
TENSOTRON_INLINE Int muladd(Int a, Int b, Int c) { return wrap(uint64_t(a) * uint64_t(b) + uint64_t(c)); }
TENSOTRON_INLINE Int sign(Int a) { return (a > 0) - (a < 0); }
TENSOTRON_INLINE Int floor(Int a) { return a; }
TENSOTRON_INLINE Int ceil(Int a) { return a; }
TENSOTRON_INLINE Int trunc(Int a) { return a; }
TENSOTRON_INLINE Int rint(Int a) { return a; }
TENSOTRON_INLINE Int bnot(Int a) { return ~a; }
TENSOTRON_INLINE Int band(Int a, Int b) { return a & b; }
TENSOTRON_INLINE Int bor(Int a, Int b) { return a | b; }
TENSOTRON_INLINE Int bxor(Int a, Int b) { return a ^ b; }
// The divisor is not zero: the launch has looked. -1 apart, for INT64_MIN / -1 traps on x86.
TENSOTRON_INLINE Int trunc_div(Int a, Int b) { return b == -1 ? wrap(0 - uint64_t(a)) : a / b; }
TENSOTRON_INLINE Int fmod(Int a, Int b) { return b == -1 ? 0 : a % b; }
TENSOTRON_INLINE Int unless_overflow(Int m, Int, Int, Int) { return m; }
TENSOTRON_INLINE Int remainder(Int a, Int b) {
  const Int m = fmod(a, b);
  return m != 0 && ((m < 0) != (b < 0)) ? m + b : m;
}
TENSOTRON_INLINE Int floor_div(Int a, Int b) {
  const Int q = trunc_div(a, b);
  return fmod(a, b) != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}
// Negative exponents: the reciprocal truncated to an integer.
TENSOTRON_INLINE Int ipow(Int a, Int e) {
  if (e < 0) return a == 1 ? 1 : a == -1 ? (e & 1 ? -1 : 1) : 0;
  uint64_t r = 1, b = uint64_t(a);
  for (; e; e >>= 1, b *= b)
    if (e & 1) r *= b;
  return wrap(r);
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
