// Elementary functions on Vec<float>.
#pragma once
#include "math_lanes.h"

namespace tensotron { namespace TENSOTRON_ISA {

typedef Vec<float> F32;

// Horner's rule, coefficients from the highest degree down.
TENSOTRON_INLINE F32 poly(F32, F32 c) { return c; }
template <class... C> TENSOTRON_INLINE F32 poly(F32 x, F32 c0, F32 c1, C... rest) {
  return poly(x, fma(c0, x, c1), rest...);
}

// Adding 1.5 * 2^23 rounds to an integer and leaves that integer in the low bits.
static constexpr float ROUND32 = 0x1.8p23f;

// 2^n for an integer n in [-126, 127] held in the low bits of t = n + ROUND32.
TENSOTRON_INLINE F32 pow2_rounded(F32 t) { return as_float((as_int(t) << 23) + 0x3f800000); }

// y * 2^n, rounded once, for y near 1 and integers n in [-160, 130].
TENSOTRON_INLINE F32 scale(F32 y, F32 n) {
#if defined(__AVX512F__)
  return F32((F32::Raw)_mm512_maskz_scalef_ps(0xffff, (__m512)y.v, (__m512)n.v));
#else
  // In two factors, each a normal number; only the second product can round.
  F32::Int k = as_int(n + F32(ROUND32)) - 0x4b400000, half = k >> 1;
  return y * as_float((half + 127) << 23) * as_float((k - half + 127) << 23);
#endif
}

// exp(x) = 2^n (1 + p), |p| < 0.42: returns p; x must be within the clamped range.
TENSOTRON_INLINE F32 exp_reduced(F32 x, F32& t, F32& n) {
  t = fma(x, F32(0x1.715476p+0f), F32(ROUND32));
  n = t - F32(ROUND32);
  F32 r = fma(n, F32(-0x1.62e4p-1f), x);  // ln 2 in two parts, the first short enough for an exact product
  r = fma(n, F32(-0x1.7f7d1cp-20f), r);
  F32 q = poly(r, 0x1.6bebdp-10f, 0x1.122796p-7f, 0x1.555674p-5f, 0x1.5554bp-3f, 0x1.fffffep-2f);
  return fma(r * r, q, r);
}

TENSOTRON_INLINE F32 exp(F32 x) {
  F32 t, n;
  x = max(F32(-104.0f), min(F32(89.0f), x));  // NaN passes: it is the second operand
  F32 p = exp_reduced(x, t, n);
  return scale(p + F32(1), n);
}

TENSOTRON_INLINE F32 exp2(F32 x) {
  x = max(F32(-151.0f), min(F32(129.0f), x));
  F32 t = x + F32(ROUND32), n = t - F32(ROUND32), r = x - n;
  F32 q = poly(r, 0x1.42e3p-13f, 0x1.5eec48p-10f, 0x1.3b2bcp-7f, 0x1.c6afb2p-5f, 0x1.ebfbdep-3f);
  F32 p = fma(r, F32(0x1.62e430p-1f), fma(r * r, q, r * F32(-0x1.05c610p-29f)));
  return scale(p + F32(1), n);
}

TENSOTRON_INLINE F32 expm1(F32 x) {
  F32 t, n;
  F32 y = max(F32(-18.0f), min(F32(89.0f), x));
  F32 p = exp_reduced(y, t, n);
  // Halved, so that 2^128 stays in range.
  F32 s = as_float((as_int(t) << 23) + 0x3f000000);
  F32 r = fma(p, s, s - F32(0.5f));
  return select(eq(x, F32(0)), x, r + r);
}

TENSOTRON_INLINE F32 tanh(F32 x) {
  F32 t, n;
  F32 y = min(F32(10.0f), abs(x));
  F32 p = exp_reduced(y + y, t, n), s = pow2_rounded(t);
  F32 e = fma(p, s, s - F32(1));  // expm1(2|x|), accurate near 0
  return copysign(e / (e + F32(2)), x);
}

TENSOTRON_INLINE F32 sigmoid(F32 x) {
  F32 e = exp(-abs(x));
  return select(lt(x, F32(0)), e, F32(1)) / (e + F32(1));
}

// x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)): for positive finite x, denormals included.
TENSOTRON_INLINE F32 log_reduced(F32 x, F32& e) {
  Mask<float> tiny = lt(x, F32(0x1p-126f));
  F32 y = select(tiny, x * F32(0x1p23f), x);
  F32::Int b = as_int(y) - 0x3f3504f3;  // sqrt(1/2)
  e = F32(__builtin_convertvector(b >> 23, F32::Raw)) - select(tiny, F32(23.0f), F32(0));
  return as_float((b & 0x007fffff) + 0x3f3504f3) - F32(1);
}
// log at zero, negative numbers, infinity and NaN.
TENSOTRON_INLINE F32 log_special(F32 x, F32 y) {
  y = select(lt(x, F32(0)), F32(__builtin_nanf("")), y);
  y = select(eq(x, F32(0)), F32(-__builtin_inff()), y);
  return select(lt(x, F32(__builtin_inff())), y, x);
}
// log(1 + f) = f + log_tail(f)
TENSOTRON_INLINE F32 log_tail(F32 f) {
  F32 p = poly(f, -0x1.38b91ap-4f, 0x1.055c72p-3f, -0x1.0d8508p-3f, 0x1.22d9fp-3f, -0x1.547246p-3f,
               0x1.99a00ap-3f, -0x1.000226p-2f, 0x1.555554p-2f);
  F32 f2 = f * f;
  return fma(f2 * f, p, f2 * F32(-0.5f));
}
TENSOTRON_INLINE F32 log(F32 x) {
  F32 e, f = log_reduced(x, e);
  F32 y = fma(e, F32(0x1.62e4p-1f), f + fma(e, F32(0x1.7f7d1cp-20f), log_tail(f)));
  return log_special(x, y);
}

TENSOTRON_INLINE F32 log2(F32 x) { return lanes_log2(x); }
TENSOTRON_INLINE F32 log10(F32 x) { return lanes_log10(x); }
TENSOTRON_INLINE F32 log1p(F32 x) { return lanes_log1p(x); }
TENSOTRON_INLINE F32 sin(F32 x) { return lanes_sin(x); }
TENSOTRON_INLINE F32 cos(F32 x) { return lanes_cos(x); }
TENSOTRON_INLINE F32 tan(F32 x) { return lanes_tan(x); }
TENSOTRON_INLINE F32 sinh(F32 x) { return lanes_sinh(x); }
TENSOTRON_INLINE F32 cosh(F32 x) { return lanes_cosh(x); }
TENSOTRON_INLINE F32 asin(F32 x) { return lanes_asin(x); }
TENSOTRON_INLINE F32 acos(F32 x) { return lanes_acos(x); }
TENSOTRON_INLINE F32 atan(F32 x) { return lanes_atan(x); }
TENSOTRON_INLINE F32 asinh(F32 x) { return lanes_asinh(x); }
TENSOTRON_INLINE F32 acosh(F32 x) { return lanes_acosh(x); }
TENSOTRON_INLINE F32 atanh(F32 x) { return lanes_atanh(x); }
TENSOTRON_INLINE F32 erf(F32 x) { return lanes_erf(x); }
TENSOTRON_INLINE F32 erfc(F32 x) { return lanes_erfc(x); }
TENSOTRON_INLINE F32 lgamma(F32 x) { return lanes_lgamma(x); }
TENSOTRON_INLINE F32 pow(F32 x, F32 y) { return lanes_pow(x, y); }
TENSOTRON_INLINE F32 atan2(F32 y, F32 x) { return lanes_atan2(y, x); }
TENSOTRON_INLINE F32 hypot(F32 x, F32 y) { return lanes_hypot(x, y); }
TENSOTRON_INLINE F32 fmod(F32 x, F32 y) { return lanes_fmod(x, y); }
TENSOTRON_INLINE F32 remainder(F32 x, F32 y) { return lanes_remainder(x, y); }

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
