// Functions applied lane by lane through the C library: the fallback of the vector versions.
// The compiler's builtins are used, not <math.h>: that name would find our own math.h if this
// directory were ever on the include path.
#pragma once
#include "vec.h"

namespace tensotron { namespace TENSOTRON_ISA {

// Horner's rule, coefficients from the highest degree down.
template <class V> TENSOTRON_INLINE V horner(V, V sum) { return sum; }
template <class V, class... C> TENSOTRON_INLINE V horner(V x, V sum, typename V::Scalar c, C... rest) {
  return horner(x, fma(sum, x, V(c)), rest...);
}
template <class V, class... C> TENSOTRON_INLINE V poly(V x, typename V::Scalar c, C... rest) {
  return horner(x, V(c), rest...);
}

// The same in two interleaved chains, even and odd powers, given z = x^2: half the latency.
template <class V> TENSOTRON_INLINE V horner2(V x, V, V odd, V even) { return fma(odd, x, even); }
template <class V, class... C>
TENSOTRON_INLINE V horner2(V x, V z, V a, V b, typename V::Scalar c, C... rest) {
  return horner2(x, z, b, fma(a, z, V(c)), rest...);
}
template <class V, class... C>
TENSOTRON_INLINE V poly2(V x, V z, typename V::Scalar a, typename V::Scalar b, C... rest) {
  return horner2(x, z, V(a), V(b), rest...);
}

// In four chains for the highest powers, then by Horner's rule for the last `LAST` coefficients, whose rounding counts.
template <int LAST, class V> TENSOTRON_INLINE V horner4(V x, V z, V, V a, V b, V c, V d) {
  return fma(fma(a, x, b), z, fma(c, x, d));
}
template <int LAST, class V, class... C>
TENSOTRON_INLINE V horner4(V x, V z, V w, V a, V b, V c, V d, typename V::Scalar next, C... rest) {
  if constexpr (sizeof...(rest) < LAST) return horner(x, fma(fma(fma(a, x, b), z, fma(c, x, d)), x, V(next)), rest...);
  else return horner4<LAST>(x, z, w, b, c, d, fma(a, w, V(next)), rest...);
}
template <int LAST, class V, class... C>
TENSOTRON_INLINE V poly4(V x, V z, typename V::Scalar a, typename V::Scalar b, typename V::Scalar c, typename V::Scalar d, C... rest) {
  return horner4<LAST>(x, z, z * z, V(a), V(b), V(c), V(d), rest...);
}

// fma(a, b, c) without hardware too, for float: rounded once where the sum fits a double.
TENSOTRON_INLINE Vec<double> fma_once(Vec<double> a, Vec<double> b, Vec<double> c) { return fma(a, b, c); }
TENSOTRON_INLINE Vec<float> fma_once(Vec<float> a, Vec<float> b, Vec<float> c) {
#if TENSOTRON_HAS_FMA
  return fma(a, b, c);
#else
  return narrow(widen_low(a) * widen_low(b) + widen_low(c), widen_high(a) * widen_high(b) + widen_high(c));
#endif
}

// Out of line: sixteen calls inlined into every kernel would be most of its code.
#define TENSOTRON_LANES1(name)                                                                     \
  static __attribute__((noinline, unused)) void call_##name(float* x) {                            \
    for (int i = 0; i < Vec<float>::size; i++) x[i] = __builtin_##name##f(x[i]);                   \
  }                                                                                                \
  static __attribute__((noinline, unused)) void call_##name(double* x) {                           \
    for (int i = 0; i < Vec<double>::size; i++) x[i] = __builtin_##name(x[i]);                     \
  }                                                                                                \
  template <class T> TENSOTRON_INLINE Vec<T> lanes_##name(Vec<T> a) {                              \
    alignas(TENSOTRON_VEC_BYTES) T x[Vec<T>::size];                                                \
    a.store(x);                                                                                    \
    call_##name(x);                                                                                \
    return Vec<T>::load(x);                                                                        \
  }
#define TENSOTRON_LANES2(name)                                                                     \
  static __attribute__((noinline, unused)) void call_##name(float* x, const float* y) {            \
    for (int i = 0; i < Vec<float>::size; i++) x[i] = __builtin_##name##f(x[i], y[i]);             \
  }                                                                                                \
  static __attribute__((noinline, unused)) void call_##name(double* x, const double* y) {          \
    for (int i = 0; i < Vec<double>::size; i++) x[i] = __builtin_##name(x[i], y[i]);               \
  }                                                                                                \
  template <class T> TENSOTRON_INLINE Vec<T> lanes_##name(Vec<T> a, Vec<T> b) {                    \
    alignas(TENSOTRON_VEC_BYTES) T x[Vec<T>::size], y[Vec<T>::size];                               \
    a.store(x);                                                                                    \
    b.store(y);                                                                                    \
    call_##name(x, y);                                                                             \
    return Vec<T>::load(x);                                                                        \
  }

TENSOTRON_LANES1(exp)
TENSOTRON_LANES1(exp2)
TENSOTRON_LANES1(expm1)
TENSOTRON_LANES1(log)
TENSOTRON_LANES1(log2)
TENSOTRON_LANES1(log10)
TENSOTRON_LANES1(log1p)
TENSOTRON_LANES1(sin)
TENSOTRON_LANES1(cos)
TENSOTRON_LANES1(tan)
TENSOTRON_LANES1(sinh)
TENSOTRON_LANES1(cosh)
TENSOTRON_LANES1(tanh)
TENSOTRON_LANES1(asin)
TENSOTRON_LANES1(acos)
TENSOTRON_LANES1(atan)
TENSOTRON_LANES1(asinh)
TENSOTRON_LANES1(acosh)
TENSOTRON_LANES1(atanh)
TENSOTRON_LANES1(erf)
TENSOTRON_LANES1(erfc)
TENSOTRON_LANES1(lgamma)
TENSOTRON_LANES2(pow)
TENSOTRON_LANES2(atan2)
TENSOTRON_LANES2(hypot)
TENSOTRON_LANES2(fmod)
#undef TENSOTRON_LANES1
#undef TENSOTRON_LANES2

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
