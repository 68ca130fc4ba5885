// Elementary functions on Vec<float>, Vec<double>, float and double, under one set of names.
//
// Max error over float32 (every 997th bit pattern and dense ranges, against double), in ulp:
//
//            fma  baseline            fma  baseline            fma  baseline
//   exp      0.84     1.14   tanh    2.33     2.33   asin     1.98     1.98
//   exp2     0.84     1.01   sigmoid 2.25     2.25   acos     1.04     1.04
//   expm1    1.53     1.68   sinh    2.12     2.18   atan     1.33     1.53
//   log      1.09     1.15   cosh    1.28     1.48   atan2    1.84     1.85
//   log2     1.31     2.34   sin     1.54     2.22   erf      1.09     1.26
//   log1p    1.04     1.15   cos     1.54     2.12   erfinv   2.27     2.30
//   log10    1.19     1.19   tan     1.13     1.39   erfc     1.95     2.47
//   asinh, acosh, atanh, pow, hypot: 0.51   tan by libm beyond 65536: 1.21
//
// float64, against long double:
//
//            fma  baseline            fma  baseline            fma  baseline
//   exp      0.63     0.63   tanh    2.37     2.33   asin     1.11     1.11
//   exp2     0.63     0.63   sigmoid 2.25     2.25   acos     1.05     1.05
//   expm1    1.70     1.70   sinh    0.78     0.78   atan     1.51     1.51
//   log      0.63     0.63   cosh    0.88     0.88   atan2    1.46     1.46
//   log2     0.68     1.42   sin     1.47     1.45   erf      1.82     2.10
//   log1p    0.66     0.66   cos     1.44     1.45   asinh    1.00   C lib.
//   log10    0.61     1.39   tan     1.23   C lib.   acosh    0.57   C lib.
//   pow      1.22   C lib.   erfc    2.18   C lib.   atanh    0.55   C lib.
//
// sin, cos and tan beyond 10^6, erfinv, lgamma and hypot are the C library's. A result below 2^-1022 may be rounded twice. fmod
// and remainder are exact. "fma" is AVX2, AVX-512 and NEON, which agree bit for bit.
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
