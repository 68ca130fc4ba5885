// Elementary functions on Vec<double>.
#pragma once
#include "math_lanes.h"

namespace tensotron { namespace TENSOTRON_ISA {

typedef Vec<double> VecD;

TENSOTRON_INLINE VecD exp(VecD x) { return lanes_exp(x); }
TENSOTRON_INLINE VecD exp2(VecD x) { return lanes_exp2(x); }
TENSOTRON_INLINE VecD expm1(VecD x) { return lanes_expm1(x); }
TENSOTRON_INLINE VecD log(VecD x) { return lanes_log(x); }
TENSOTRON_INLINE VecD log2(VecD x) { return lanes_log2(x); }
TENSOTRON_INLINE VecD log10(VecD x) { return lanes_log10(x); }
TENSOTRON_INLINE VecD log1p(VecD x) { return lanes_log1p(x); }
TENSOTRON_INLINE VecD sin(VecD x) { return lanes_sin(x); }
TENSOTRON_INLINE VecD cos(VecD x) { return lanes_cos(x); }
TENSOTRON_INLINE VecD tan(VecD x) { return lanes_tan(x); }
TENSOTRON_INLINE VecD sinh(VecD x) { return lanes_sinh(x); }
TENSOTRON_INLINE VecD cosh(VecD x) { return lanes_cosh(x); }
TENSOTRON_INLINE VecD tanh(VecD x) { return lanes_tanh(x); }
TENSOTRON_INLINE VecD sigmoid(VecD x) {
  VecD e = exp(-abs(x));
  return select(lt(x, VecD(0)), e, VecD(1)) / (e + VecD(1));
}
TENSOTRON_INLINE VecD asin(VecD x) { return lanes_asin(x); }
TENSOTRON_INLINE VecD acos(VecD x) { return lanes_acos(x); }
TENSOTRON_INLINE VecD atan(VecD x) { return lanes_atan(x); }
TENSOTRON_INLINE VecD asinh(VecD x) { return lanes_asinh(x); }
TENSOTRON_INLINE VecD acosh(VecD x) { return lanes_acosh(x); }
TENSOTRON_INLINE VecD atanh(VecD x) { return lanes_atanh(x); }
TENSOTRON_INLINE VecD erf(VecD x) { return lanes_erf(x); }
TENSOTRON_INLINE VecD erfc(VecD x) { return lanes_erfc(x); }
TENSOTRON_INLINE VecD lgamma(VecD x) { return lanes_lgamma(x); }
TENSOTRON_INLINE VecD pow(VecD x, VecD y) { return lanes_pow(x, y); }
TENSOTRON_INLINE VecD atan2(VecD y, VecD x) { return lanes_atan2(y, x); }
TENSOTRON_INLINE VecD hypot(VecD x, VecD y) { return lanes_hypot(x, y); }
TENSOTRON_INLINE VecD fmod(VecD x, VecD y) { return lanes_fmod(x, y); }
TENSOTRON_INLINE VecD remainder(VecD x, VecD y) { return lanes_remainder(x, y); }

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
