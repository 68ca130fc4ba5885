// fmod and remainder, exact as the C library's.
//
// A rounded quotient of |x| / |y| below 2^24 (2^53) truncates to the right integer q or to the next
// one, and in both cases x - qy has few enough digits to be exact: one step and a correction. A larger
// quotient is an integer already, and x - qy is exact again and smaller by that many bits.
#pragma once
#include "math_lanes.h"

namespace tensotron { namespace TENSOTRON_ISA {

// Any operands: lanes whose quotient is not finite go to the C library.
template <class T> static __attribute__((noinline)) void fmod_any(T* p, const T* d) {
  Vec<T> x = Vec<T>::load(p), y = Vec<T>::load(d), inf((T)__builtin_inf());
  Mask<T> regular = lt(abs(x) / abs(y), inf) & lt(abs(y), inf);
  Vec<T> m = select(regular, abs(x), Vec<T>(0)), n = select(regular, abs(y), Vec<T>(1));
  do m = fma_once(-trunc(m / n), n, m);
  while (any(ge(abs(m), n)));
  m = copysign(select(lt(m, Vec<T>(0)), m + n, m), x);
  if (!all(regular)) m = select(regular, m, lanes_fmod(x, y));
  m.store(p);
}

template <class T> TENSOTRON_INLINE Vec<T> fmod(Vec<T> x, Vec<T> y) {
  if constexpr (sizeof(T) == 8 && !TENSOTRON_HAS_FMA) return lanes_fmod(x, y);
  Vec<T> d = abs(y), q = abs(x) / d;
  if (__builtin_expect(all(le(q, Vec<T>(sizeof(T) == 4 ? (T)0x1p24 : (T)0x1p53)) & lt(d, Vec<T>((T)__builtin_inf()))), 1)) {
    Vec<T> m = fma_once(-trunc(q), d, abs(x));
    return copysign(select(lt(m, Vec<T>(0)), m + d, m), x);
  }
  alignas(TENSOTRON_VEC_BYTES) T lanes[Vec<T>::size], divisor[Vec<T>::size];
  x.store(lanes);
  y.store(divisor);
  fmod_any(lanes, divisor);
  return Vec<T>::load(lanes);
}

// Python's: fmod moved to the sign of the divisor.
template <class T> TENSOTRON_INLINE Vec<T> remainder(Vec<T> x, Vec<T> y) {
  Vec<T> m = fmod(x, y), zero(0);
  return select(ne(m, zero) & (lt(y, zero) ^ lt(m, zero)), m + y, m);
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
