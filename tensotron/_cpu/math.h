// Elementary functions on Vec<float>, Vec<double>, float and double, under one set of names.
//
// Do not put this directory on the include path (it would hide <math.h>): include it by a quoted
// relative path.
#pragma once
#include "math_f32.h"

namespace tensotron { namespace TENSOTRON_ISA {

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
