// Elementary functions on Vec<double>.
#pragma once
#include "math_lanes.h"

namespace tensotron { namespace TENSOTRON_ISA {

typedef Vec<double> F64;

TENSOTRON_INLINE F64 exp(F64 x) { return lanes_exp(x); }
TENSOTRON_INLINE F64 exp2(F64 x) { return lanes_exp2(x); }
TENSOTRON_INLINE F64 expm1(F64 x) { return lanes_expm1(x); }
TENSOTRON_INLINE F64 log(F64 x) { return lanes_log(x); }
TENSOTRON_INLINE F64 log2(F64 x) { return lanes_log2(x); }
TENSOTRON_INLINE F64 log10(F64 x) { return lanes_log10(x); }
TENSOTRON_INLINE F64 log1p(F64 x) { return lanes_log1p(x); }
TENSOTRON_INLINE F64 sin(F64 x) { return lanes_sin(x); }
TENSOTRON_INLINE F64 cos(F64 x) { return lanes_cos(x); }
TENSOTRON_INLINE F64 tan(F64 x) { return lanes_tan(x); }
TENSOTRON_INLINE F64 sinh(F64 x) { return lanes_sinh(x); }
TENSOTRON_INLINE F64 cosh(F64 x) { return lanes_cosh(x); }
TENSOTRON_INLINE F64 tanh(F64 x) { return lanes_tanh(x); }
TENSOTRON_INLINE F64 sigmoid(F64 x) {
  F64 e = exp(-abs(x));
  return select(lt(x, F64(0)), e, F64(1)) / (e + F64(1));
}
TENSOTRON_INLINE F64 asin(F64 x) { return lanes_asin(x); }
TENSOTRON_INLINE F64 acos(F64 x) { return lanes_acos(x); }
TENSOTRON_INLINE F64 atan(F64 x) { return lanes_atan(x); }
TENSOTRON_INLINE F64 asinh(F64 x) { return lanes_asinh(x); }
TENSOTRON_INLINE F64 acosh(F64 x) { return lanes_acosh(x); }
TENSOTRON_INLINE F64 atanh(F64 x) { return lanes_atanh(x); }
TENSOTRON_INLINE F64 erf(F64 x) { return lanes_erf(x); }
TENSOTRON_INLINE F64 erfc(F64 x) { return lanes_erfc(x); }
TENSOTRON_INLINE F64 lgamma(F64 x) { return lanes_lgamma(x); }
TENSOTRON_INLINE F64 pow(F64 x, F64 y) { return lanes_pow(x, y); }
TENSOTRON_INLINE F64 atan2(F64 y, F64 x) { return lanes_atan2(y, x); }
TENSOTRON_INLINE F64 hypot(F64 x, F64 y) { return lanes_hypot(x, y); }
TENSOTRON_INLINE F64 fmod(F64 x, F64 y) { return lanes_fmod(x, y); }
TENSOTRON_INLINE F64 remainder(F64 x, F64 y) { return lanes_remainder(x, y); }

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
