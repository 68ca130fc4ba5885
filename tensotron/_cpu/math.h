// Elementary functions on Vec<float>, Vec<double>, float and double, under one set of names.
//
// Do not put this directory on the include path (it would hide <math.h>): include it by a quoted
// relative path.
#pragma once
#include "math_f32.h"
#include "math_f64.h"

namespace tensotron { namespace TENSOTRON_ISA {

// erfinv: a closed-form start, then Halley steps in double on erf, or on erfc in the tails.
static __attribute__((noinline, unused)) double erfinv_one(double y) {
  double a = __builtin_fabs(y);
  if (y == 0) return y;
  if (!(a < 1)) return a == 1 ? y * __builtin_inf() : __builtin_nan("");
  double w = __builtin_log((1 - a) * (1 + a)), c = 2 / (3.14159265358979323846 * 0.147) + w / 2;
  double x = __builtin_sqrt(__builtin_sqrt(c * c - w / 0.147) - c);
  for (int i = 0; i < 3; i++) {
    double d = a < 0.5 ? __builtin_erf(x) - a : (1 - a) - __builtin_erfc(x);
    double step = d * 0.88622692545275801365 * __builtin_exp(x * x);
    x -= step / (1 + x * step);
  }
  return __builtin_copysign(x, y);
}
template <class T> TENSOTRON_INLINE Vec<T> erfinv(Vec<T> a) {
  T x[Vec<T>::size];
  a.store(x);
  for (int i = 0; i < Vec<T>::size; i++) x[i] = (T)erfinv_one(x[i]);
  return Vec<T>::load(x);
}

// Scalars take lane 0 of the vector function, so that an element's value does not depend on
// whether it was reached by a vector or by the scalar loop.
#define TENSOTRON_SCALAR1(name)                                                                    \
  TENSOTRON_INLINE float name(float x) { return name(Vec<float>(x))[0]; }                          \
  TENSOTRON_INLINE double name(double x) { return name(Vec<double>(x))[0]; }
#define TENSOTRON_SCALAR2(name)                                                                    \
  TENSOTRON_INLINE float name(float x, float y) { return name(Vec<float>(x), Vec<float>(y))[0]; }  \
  TENSOTRON_INLINE double name(double x, double y) { return name(Vec<double>(x), Vec<double>(y))[0]; }
TENSOTRON_SCALAR1(exp)
TENSOTRON_SCALAR1(exp2)
TENSOTRON_SCALAR1(expm1)
TENSOTRON_SCALAR1(log)
TENSOTRON_SCALAR1(log2)
TENSOTRON_SCALAR1(log10)
TENSOTRON_SCALAR1(log1p)
TENSOTRON_SCALAR1(sin)
TENSOTRON_SCALAR1(cos)
TENSOTRON_SCALAR1(tan)
TENSOTRON_SCALAR1(sinh)
TENSOTRON_SCALAR1(cosh)
TENSOTRON_SCALAR1(tanh)
TENSOTRON_SCALAR1(sigmoid)
TENSOTRON_SCALAR1(asin)
TENSOTRON_SCALAR1(acos)
TENSOTRON_SCALAR1(atan)
TENSOTRON_SCALAR1(asinh)
TENSOTRON_SCALAR1(acosh)
TENSOTRON_SCALAR1(atanh)
TENSOTRON_SCALAR1(erf)
TENSOTRON_SCALAR1(erfc)
TENSOTRON_SCALAR1(erfinv)
TENSOTRON_SCALAR1(lgamma)
TENSOTRON_SCALAR2(pow)
TENSOTRON_SCALAR2(atan2)
TENSOTRON_SCALAR2(hypot)
TENSOTRON_SCALAR2(fmod)
TENSOTRON_SCALAR2(remainder)
#undef TENSOTRON_SCALAR1
#undef TENSOTRON_SCALAR2

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
